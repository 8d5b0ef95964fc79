//! Loops over blocks: an operation on each element, compiled for each instruction set.

use super::value::{NanMasks, Value};
use crate::arch::{InstructionSet, Isa, Vectorized, stay_a_loop};
use crate::policy::cores;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::slice;

/// Every loop runs over a multiple of this number of elements, so that no loop has a rest.
pub(crate) const GRAIN: usize = 32;

/// An operation on one element. An operand that it does not take has the type `()`.
pub(super) trait PerElement {
    type A: Copy;
    type B: Copy;
    type C: Copy;
    type Out: Value;
    const CHUNKS: Chunks;

    fn apply(a: Self::A, b: Self::B, c: Self::C) -> Self::Out;

    /// The result of a faster formula, and true if that result is wrong, which is rare.
    #[inline(always)]
    fn usual(a: Self::A, b: Self::B, c: Self::C) -> (Self::Out, bool) {
        (Self::apply(a, b, c), false)
    }
}

/// The size of a chunk: the elements that a loop reads before it writes any. The registers hold a chunk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Chunks {
    /// Four vectors: for operations of a few instructions.
    Short,
    /// Four vectors: for a pair of operations, which is one loop only on processors with FMA.
    Fused,
    /// Four vectors: for operations that only the newest instruction sets have.
    Newest,
    /// Two vectors of f64: for functions.
    Long,
    /// One element: for operations without vector instructions.
    Scalar,
}

impl Chunks {
    /// The elements of a chunk, or 0 for a loop that never runs. `is_wide` is true for elements of 8 bytes.
    const fn len<S: InstructionSet>(self, is_wide: bool) -> usize {
        match self {
            Chunks::Fused if !S::HAS_FMA => 0,
            Chunks::Short | Chunks::Fused => S::CHUNKS.short[is_wide as usize],
            Chunks::Newest => S::CHUNKS.newest,
            Chunks::Long => S::CHUNKS.long,
            Chunks::Scalar => 1,
        }
    }
}

/// An operand of a loop.
#[derive(Clone, Copy)]
pub(super) struct Operand {
    /// The address of the first element.
    pub(super) pointer: *const u8,
    /// All ones, or 0 for a uniform operand: its [`GRAIN`] elements stand for all.
    pub(super) mask: usize,
}

impl Operand {
    /// The operand from an element on. Elements have 4 bytes.
    pub(super) fn from(self, element: usize) -> Self {
        Operand { pointer: self.pointer.wrapping_add((element & self.mask) * 4), ..self }
    }
}

/// The arguments of a loop.
#[derive(Clone, Copy)]
pub(super) struct Args {
    pub(super) operands: [Operand; 3],
    pub(super) out: *mut u8,
    pub(super) len: usize,
    pub(super) is_canonical: bool,
}

impl Args {
    /// The arguments of a loop over `len` elements, a multiple of [`GRAIN`]. With `is_canonical`, every NaN of the
    /// output has the one encoding.
    ///
    /// # Safety
    /// Each operand that the loop takes has `len` aligned elements, or [`GRAIN`] if it is uniform. The output has room
    /// for `len` elements. It may begin at the address of an operand with elements that are no smaller; else it
    /// overlaps no operand. No other thread writes to any of them.
    pub(super) unsafe fn new(
        operands: [Operand; 3], out: *mut u8, len: usize, is_canonical: bool,
    ) -> Self {
        Args { operands, out, len, is_canonical }
    }
}

/// A loop over a block.
pub(super) type Loop = fn(Isa, &Args);

/// The loop of an operation.
pub(super) fn loop_of<K: PerElement>(isa: Isa, args: &Args) {
    let body = Body::<K>(args, PhantomData);
    match K::CHUNKS {
        Chunks::Short | Chunks::Fused => isa.run_as_short(body),
        Chunks::Newest | Chunks::Long | Chunks::Scalar => isa.run(body),
    }
}

pub(super) struct Body<'a, K>(pub(super) &'a Args, pub(super) PhantomData<K>);

impl<K: PerElement> Vectorized for Body<'_, K> {
    type Result = ();

    #[inline(always)]
    fn run<S: InstructionSet>(self, set: S) {
        // The length is a constant, so that the compiler leaves out all arms but one.
        match const { K::CHUNKS.len::<S>(size_of::<K::A>() == 8 || size_of::<K::Out>() == 8) } {
            1 => body::<S, K, 1>(set, self.0),
            4 => body::<S, K, 4>(set, self.0),
            8 => body::<S, K, 8>(set, self.0),
            16 => body::<S, K, 16>(set, self.0),
            32 => body::<S, K, 32>(set, self.0),
            _ => unreachable!("the instruction set has no such loop"),
        }
    }
}

/// Writes all results.
#[inline(always)]
fn body<S: InstructionSet, K: PerElement, const CHUNK: usize>(set: S, args: &Args) {
    let Args { operands: [a, b, c], out, len, is_canonical } = *args;
    // A search for NaNs in this loop is faster than one afterwards, but takes registers and code.
    let searches = S::HAS_FMA && !matches!(K::CHUNKS, Chunks::Long | Chunks::Scalar);
    let mut nans = NanMasks::<K::Out, CHUNK>::default();
    for start in (0..len).step_by(CHUNK) {
        // SAFETY: the arguments promise `len` elements, and these are some of them, or of the first chunk; an
        // array of elements is aligned as an element is.
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
    if K::Out::HAS_NANS && is_canonical && (!searches || nans.is_any()) {
        canonical::<S, K::Out>(set, args);
    }
}

/// Replaces every NaN of the output, which is written, by the one encoding. Few blocks have a NaN. So this first
/// searches whole lines of the cache, without a branch for each chunk.
#[inline(never)]
fn canonical<S: InstructionSet, T: Value>(set: S, args: &Args) {
    // SAFETY: the arguments promise `len` results, which are written, and to which nothing refers.
    let results = unsafe { slice::from_raw_parts_mut(args.out.cast::<T>(), args.len) };
    let start = results.as_ptr().align_offset(cores::CACHE_LINE).min(args.len);
    let lines = &results[start..];
    let (has_nan, rest) = set.run(Search(lines));
    let end = if has_nan { start } else { args.len - rest };
    for part in [0..start, end..args.len] {
        make_canonical(set, &mut results[part]);
    }
}

/// Searches whole chunks for a NaN. Returns true if one has a NaN, and the number of elements after the chunks.
struct Search<'a, T>(&'a [T]);

impl<T: Value> Vectorized for Search<'_, T> {
    type Result = (bool, usize);

    #[inline(always)]
    fn run<S: InstructionSet>(self, _: S) -> (bool, usize) {
        match S::CHUNKS.canonical {
            8 => search::<T, 8>(self.0),
            _ => search::<T, GRAIN>(self.0),
        }
    }
}

#[inline(always)]
fn search<T: Value, const CHUNK: usize>(values: &[T]) -> (bool, usize) {
    let (chunks, rest) = values.as_chunks::<CHUNK>();
    let mut nans = NanMasks::<T, CHUNK>::default();
    for chunk in chunks {
        nans.add(chunk);
        stay_a_loop();
    }
    (nans.is_any(), rest.len())
}

/// Gives NaNs the one encoding. Not inlined, to keep the library small.
#[inline(never)]
fn make_canonical<S: InstructionSet, T: Value>(set: S, values: &mut [T]) {
    set.run(MakeCanonical(values));
}

struct MakeCanonical<'a, T>(&'a mut [T]);

impl<T: Value> Vectorized for MakeCanonical<'_, T> {
    type Result = ();

    #[inline(always)]
    fn run<S: InstructionSet>(self, _: S) {
        self.0.iter_mut().for_each(|value| *value = value.canonical());
    }
}

/// Not inlined, to keep the library small.
#[inline(never)]
fn apply<K: PerElement>(a: K::A, b: K::B, c: K::C) -> K::Out {
    K::apply(a, b, c)
}

/// The chunk of an operand that begins at an element.
#[inline(always)]
fn chunk<T, const CHUNK: usize>(operand: Operand, start: usize) -> *const [T; CHUNK] {
    operand.pointer.cast::<T>().wrapping_add(start & operand.mask).cast()
}

/// The loop of a formula. The block after `usually` is [`PerElement::usual`].
macro_rules! element_loop {
    (|$($formula:tt)+) => {
        element_loop!(Short, |$($formula)+)
    };
    ($chunks:ident, |$a:ident: $A:ty| $($formula:tt)+) => {
        element_loop!($chunks, |$a: $A, _b: (), _c: ()| $($formula)+)
    };
    ($chunks:ident, |$a:ident: $A:ty, $b:ident: $B:ty| $($formula:tt)+) => {
        element_loop!($chunks, |$a: $A, $b: $B, _c: ()| $($formula)+)
    };
    (
        $chunks:ident, |$a:ident: $A:ty, $b:ident: $B:ty, $c:ident: $C:ty|
        -> $Out:ty $formula:block $(usually $usual:block)?
    ) => {{
        element_loop!(@define $chunks, |$a: $A, $b: $B, $c: $C| -> $Out $formula $(usually $usual)?);
        super::loops::loop_of::<This>
    }};
    (
        @define $chunks:ident, |$a:ident: $A:ty, $b:ident: $B:ty, $c:ident: $C:ty|
        -> $Out:ty $formula:block $(usually $usual:block)?
    ) => {
        struct This;

        impl super::loops::PerElement for This {
            type A = $A;
            type B = $B;
            type C = $C;
            type Out = $Out;
            const CHUNKS: super::loops::Chunks = super::loops::Chunks::$chunks;

            #[inline(always)]
            fn apply($a: $A, $b: $B, $c: $C) -> $Out $formula

            $(
                #[inline(always)]
                fn usual($a: $A, $b: $B, $c: $C) -> ($Out, bool) $usual
            )?
        }
    };
}

/// The loop of a function of f32 that is fast for nearly all elements, with the formula for the rest.
macro_rules! fast_loop {
    ($Sequence:ident of $function:ident, |$a:ident| $exact:block usually $usual:block) => {{
        element_loop!(@define Long, |$a: f32, _b: (), _c: ()| -> f32 $exact usually $usual);

        impl super::fast::Fast for This {
            const NAME: &str = stringify!($function);
            type Sequence = gpuvec_math::fast::$Sequence;
        }
        super::fast::loop_of::<This>
    }};
}
pub(super) use {element_loop, fast_loop};
