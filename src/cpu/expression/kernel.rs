//! Loops over blocks: an operation on each element, compiled for each set of vector instructions.

use super::Version;
use super::value::{NanMasks, Value};
use crate::cpu::x86_64::vector32::{Avx2, Avx512, Vectors};
use gpuvec_math::fast::Machine32;
use std::arch::asm;
use std::mem::MaybeUninit;

/// Every loop runs over a multiple of this many elements, so that it has no rest.
pub(super) const GRAIN: usize = 32;

/// The most vectors that an exact loop computes before the fast sequence is tried again.
const MOST_EXACT_VECTORS: usize = 32;

/// An operation on one element. Operands that it does not take are of no size.
pub(super) trait Kernel {
    type A: Copy;
    type B: Copy;
    type C: Copy;
    type Out: Value;
    /// The elements that each version reads at once, before it writes any.
    const CHUNKS: Chunks;

    fn apply(a: Self::A, b: Self::B, c: Self::C) -> Self::Out;

    /// The same by a faster formula, and whether its result is wrong, which is rare.
    #[inline(always)]
    fn usual(a: Self::A, b: Self::B, c: Self::C) -> (Self::Out, bool) {
        (Self::apply(a, b, c), false)
    }
}

/// The sizes of chunks, which keep a chunk in the registers of each version.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Chunks {
    /// Four vectors: a few instructions for each element, to which AVX-512 adds nothing.
    Short,
    /// The same for two operations, which are one loop where there is AVX2.
    Fused,
    /// The same for operations that only AVX-512 has.
    Newest,
    /// Two vectors of f64: functions.
    Long,
    /// One element, without vector instructions.
    Scalar,
}

impl Chunks {
    /// Says that a chunk leaves vector registers for masks of NaNs.
    const fn leave_registers(self) -> bool {
        matches!(self, Chunks::Short | Chunks::Fused | Chunks::Newest)
    }
}

/// An operand or output of a loop: the address of the first element, and whether there are more.
#[derive(Clone, Copy)]
pub(super) struct Operand {
    pub(super) pointer: *const u8,
    /// All ones; 0 if the first [`GRAIN`] elements stand for all.
    pub(super) mask: usize,
}

/// What a loop works on.
pub(super) struct Args {
    pub(super) operands: [Operand; 3],
    pub(super) out: *mut u8,
    /// A multiple of [`GRAIN`].
    pub(super) len: usize,
    /// Says that every NaN of the output gets the one encoding.
    pub(super) is_canonical: bool,
}

/// A loop over a block.
///
/// It needs its version's instructions, and for each operand that it takes `len` elements, aligned as
/// elements are; or [`GRAIN`], where the mask is 0. The output may be an operand whose elements
/// are as large or larger, from the same address, and no other part of one.
pub(super) type Loop = unsafe fn(&Args);

/// An operation's loops, in the order of [`Version`].
pub(super) type Loops = [Loop; 3];

pub(super) const fn loops<K: Kernel>() -> Loops {
    let is_wide = size_of::<K::A>() == 8 || size_of::<K::Out>() == 8;
    match K::CHUNKS {
        Chunks::Short if is_wide => [portable::<K, 4>, avx2::<K, 16>, avx2::<K, 16>],
        Chunks::Short => [portable::<K, 4>, avx2::<K, 32>, avx2::<K, 32>],
        Chunks::Fused if is_wide => [missing, avx2::<K, 16>, avx2::<K, 16>],
        Chunks::Fused => [missing, avx2::<K, 32>, avx2::<K, 32>],
        Chunks::Newest => [portable::<K, 4>, avx2::<K, 16>, avx512::<K, 16>],
        Chunks::Long => [portable::<K, 1>, avx2::<K, 8>, avx512::<K, 16>],
        Chunks::Scalar => [portable::<K, 1>; 3],
    }
}

/// A function of f32 that is fast for nearly all elements.
pub(super) trait Fast: Kernel<A = f32, Out = f32> {
    /// The result, and whether it is right.
    fn fast<M: Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool);
}

/// The loops of a function that is fast: without FMA, those of its sequence of f64.
pub(super) const fn fast_loops<K: Fast>() -> Loops {
    [loops::<K>()[0], fast_avx2::<K>, fast_avx512::<K>]
}

#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl")]
unsafe fn fast_avx512<K: Fast>(args: &Args) {
    // SAFETY: the same contract, which promises the instructions.
    unsafe { fast_body::<K, _>(Avx512::new(), args, loops::<K>()[2]) }
}

#[target_feature(enable = "avx2,fma")]
unsafe fn fast_avx2<K: Fast>(args: &Args) {
    // SAFETY: the same contract, which promises the instructions.
    unsafe { fast_body::<K, _>(Avx2::new(), args, loops::<K>()[1]) }
}

/// Writes all results; the `exact` loop those of vectors with an element for which the fast sequence
/// does not suffice, such as a NaN.
///
/// # Safety
/// As for a [`Loop`]; `exact` is one of the same version.
#[inline(always)]
unsafe fn fast_body<K: Fast, M: Vectors>(m: M, args: &Args, exact: Loop) {
    let Args { operands: [a, b, c], out, len, is_canonical } = *args;
    let from = |start: usize| a.pointer.wrapping_add((start & a.mask) * size_of::<f32>());
    let to = |start: usize| out.wrapping_add(start * size_of::<f32>());
    let (mut start, mut vectors) = (0, 1);
    loop {
        let computed = start;
        // A loop without calls, so that constants stay in registers.
        while start < len {
            // SAFETY: the caller promises `len` elements, of which these are some, or those of the
            // first vector.
            let (y, is_right) = unsafe { K::fast(&m, m.load(from(start).cast())) };
            if !m.all(is_right) {
                break;
            }
            // SAFETY: as above.
            unsafe { m.store(y, to(start).cast()) };
            start += M::LANES;
            stay_a_loop();
        }
        if start >= len {
            return;
        }
        // Right behind such vectors more are likely.
        vectors = if start == computed { MOST_EXACT_VECTORS.min(2 * vectors) } else { 1 };
        let count = (vectors * M::LANES).min(len - start);
        let operands = [Operand { pointer: from(start), mask: a.mask }, b, c];
        // SAFETY: as above.
        unsafe { exact(&Args { operands, out: to(start), len: count, is_canonical }) };
        start += count;
    }
}

/// Stands for a loop that the library does without.
unsafe fn missing(_: &Args) {
    unreachable!("only AVX2 has fused loops");
}

/// The loop of a version.
pub(super) fn of_version(loops: Loops, version: Version) -> Loop {
    loops[version.index()]
}

#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl")]
unsafe fn avx512<K: Kernel, const CHUNK: usize>(args: &Args) {
    // SAFETY: the same contract.
    unsafe {
        if body::<K, CHUNK>(args, K::CHUNKS.leave_registers()) {
            canonical_avx2::<K::Out>(args);
        }
    }
}

#[target_feature(enable = "avx2,fma")]
unsafe fn avx2<K: Kernel, const CHUNK: usize>(args: &Args) {
    // SAFETY: the same contract.
    unsafe {
        if body::<K, CHUNK>(args, K::CHUNKS.leave_registers()) {
            canonical_avx2::<K::Out>(args);
        }
    }
}

unsafe fn portable<K: Kernel, const CHUNK: usize>(args: &Args) {
    // SAFETY: the same contract.
    unsafe {
        if body::<K, CHUNK>(args, false) {
            canonical_portable::<K::Out>(args);
        }
    }
}

/// Writes all results, and returns whether [`canonical`] has to follow. `searches` says that the loop
/// itself searches the results for NaNs, which is faster and takes registers and code.
///
/// # Safety
/// As for a [`Loop`].
#[inline(always)]
unsafe fn body<K: Kernel, const CHUNK: usize>(args: &Args, searches: bool) -> bool {
    let Args { operands: [a, b, c], out, len, is_canonical } = *args;
    let mut nans = NanMasks::<K::Out, CHUNK>::default();
    for start in (0..len).step_by(CHUNK) {
        // SAFETY: the caller promises `len` elements, of which these are some, or those of the first
        // chunk; an array of elements is aligned as an element is.
        unsafe {
            let x = chunk::<K::A, CHUNK>(a, start).read();
            let y = chunk::<K::B, CHUNK>(b, start).read();
            let z = chunk::<K::C, CHUNK>(c, start).read();
            let mut results = [const { MaybeUninit::<K::Out>::uninit() }; CHUNK];
            let mut is_wrong = false;
            for i in 0..CHUNK {
                let (result, missed) = K::usual(x[i], y[i], z[i]);
                results[i].write(result);
                is_wrong |= missed;
            }
            if is_wrong {
                for i in 0..CHUNK {
                    results[i].write(apply::<K>(x[i], y[i], z[i]));
                }
            }
            // Initialized: the loop has written every result.
            let results = (&raw const results).cast::<[K::Out; CHUNK]>().read();
            if searches {
                nans.add(&results);
            }
            out.cast::<K::Out>().add(start).cast::<[K::Out; CHUNK]>().write(results);
            stay_a_loop();
        }
    }
    is_canonical && (!searches || nans.is_any())
}

/// [`canonical`], once in the library for each type.
///
/// # Safety
/// As for [`canonical`].
#[inline(never)]
unsafe fn canonical_portable<T: Value>(args: &Args) {
    // SAFETY: the same contract.
    unsafe { canonical::<T, 8>(args) }
}

/// [`canonical`] with AVX2, once in the library for each type.
///
/// # Safety
/// As for [`canonical`].
#[target_feature(enable = "avx2")]
#[inline(never)]
unsafe fn canonical_avx2<T: Value>(args: &Args) {
    // SAFETY: the same contract.
    unsafe { canonical::<T, GRAIN>(args) }
}

/// Gives every NaN of the output the one encoding. Writes only chunks with a NaN, which are few.
///
/// # Safety
/// As for a [`Loop`] that has written the output.
#[inline(always)]
unsafe fn canonical<T: Value, const CHUNK: usize>(args: &Args) {
    for start in (0..args.len).step_by(CHUNK) {
        // SAFETY: the caller promises `len` elements, of which these are some.
        let values = unsafe { &mut *args.out.cast::<T>().add(start).cast::<[T; CHUNK]>() };
        let mut nans = NanMasks::<T, CHUNK>::default();
        nans.add(values);
        if nans.is_any() {
            values.iter_mut().for_each(|value| *value = value.canonical());
        }
        stay_a_loop();
    }
}

/// Once in the library, for all versions.
#[inline(never)]
fn apply<K: Kernel>(a: K::A, b: K::B, c: K::C) -> K::Out {
    K::apply(a, b, c)
}

/// The chunk of an operand that begins at an element.
#[inline(always)]
fn chunk<T, const CHUNK: usize>(operand: Operand, start: usize) -> *const [T; CHUNK] {
    operand.pointer.cast::<T>().wrapping_add(start & operand.mask).cast()
}

/// Keeps the compiler from making vector code of the loop around it, which would work on several
/// chunks at once.
#[inline(always)]
fn stay_a_loop() {
    if cfg!(not(miri)) {
        // SAFETY: no instruction at all.
        unsafe { asm!("", options(nomem, nostack, preserves_flags)) };
    }
}

/// The loops of a formula; `usually` gives a faster one, and whether its result is wrong.
macro_rules! kernel {
    (|$($formula:tt)+) => {
        kernel!(Short, |$($formula)+)
    };
    ($chunks:ident, |$a:ident: $A:ty| $($formula:tt)+) => {
        kernel!($chunks, |$a: $A, _b: (), _c: ()| $($formula)+)
    };
    ($chunks:ident, |$a:ident: $A:ty, $b:ident: $B:ty| $($formula:tt)+) => {
        kernel!($chunks, |$a: $A, $b: $B, _c: ()| $($formula)+)
    };
    (
        $chunks:ident, |$a:ident: $A:ty, $b:ident: $B:ty, $c:ident: $C:ty|
        -> $Out:ty $formula:block $(usually $usual:block)?
    ) => {{
        struct Formula;

        impl super::kernel::Kernel for Formula {
            type A = $A;
            type B = $B;
            type C = $C;
            type Out = $Out;
            const CHUNKS: super::kernel::Chunks = super::kernel::Chunks::$chunks;

            #[inline(always)]
            fn apply($a: $A, $b: $B, $c: $C) -> $Out $formula

            $(
                #[inline(always)]
                fn usual($a: $A, $b: $B, $c: $C) -> ($Out, bool) $usual
            )?
        }
        super::kernel::loops::<Formula>()
    }};
}

/// The loops of a function of f32 that is fast for nearly all elements, with the formula for the others.
macro_rules! fast_kernel {
    ($fast:path, |$a:ident| $exact:block usually $usual:block) => {{
        struct Formula;

        impl super::kernel::Kernel for Formula {
            type A = f32;
            type B = ();
            type C = ();
            type Out = f32;
            const CHUNKS: super::kernel::Chunks = super::kernel::Chunks::Long;

            #[inline(always)]
            fn apply($a: f32, _b: (), _c: ()) -> f32 $exact

            #[inline(always)]
            fn usual($a: f32, _b: (), _c: ()) -> (f32, bool) $usual
        }

        impl super::kernel::Fast for Formula {
            #[inline(always)]
            fn fast<M: gpuvec_math::fast::Machine32>(m: &M, x: M::F32) -> (M::F32, M::Bool) {
                $fast(m, x)
            }
        }
        super::kernel::fast_loops::<Formula>()
    }};
}
pub(super) use {fast_kernel, kernel};
