//! x86-64: SSE2, AVX2 with FMA, and AVX-512.

pub(crate) mod float_modes;
mod jump;
mod vector;
mod vector32;

pub(crate) use jump::jump;

use super::{ChunkLengths, FusedSet, Set, Vectorized};
use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
use std::is_x86_feature_detected;
use vector::{F64x2, F64x4, F64x8};
use vector32::{Machine8, Machine16};

/// The values of GPUVEC_VECTORS, in the order of [`Version::index`].
pub(crate) const VECTORS: [&str; 3] = ["portable", "avx2", "avx512"];
/// The values of GPUVEC_VECTORS, as an error lists them.
pub(crate) const VECTORS_IN_WORDS: &str = "portable, avx2 or avx512";

/// SSE2, which every x86-64 processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sse2(());

/// AVX2 and FMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Avx2(());

/// AVX-512 F, DQ, BW and VL, and [`Avx2`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Avx512(Avx2);

impl Set for Sse2 {
    type F64 = F64x2;
    type Short = Sse2;
    const HAS_FMA: bool = false;
    const REGISTERS: usize = 16;
    const CHUNKS: ChunkLengths = ChunkLengths { short: [4, 4], newest: 4, long: 1, canonical: 8 };
    const FOLD_LANES: usize = 8;

    fn short(self) -> Sse2 {
        self
    }

    #[inline(always)]
    fn run<W: Vectorized>(self, work: W) -> W::Result {
        work.run(self)
    }
}

impl Set for Avx2 {
    type F64 = F64x4;
    type Short = Avx2;
    const HAS_FMA: bool = true;
    const REGISTERS: usize = 16;
    const CHUNKS: ChunkLengths =
        ChunkLengths { short: [32, 16], newest: 16, long: 8, canonical: 32 };
    const FOLD_LANES: usize = 32;

    fn short(self) -> Avx2 {
        self
    }

    #[inline(always)]
    fn run<W: Vectorized>(self, work: W) -> W::Result {
        #[target_feature(enable = "avx2,fma")]
        fn run<W: Vectorized>(set: Avx2, work: W) -> W::Result {
            work.run(set)
        }
        // SAFETY: the set proves the instructions.
        unsafe { run(self, work) }
    }
}

impl Set for Avx512 {
    type F64 = F64x8;
    type Short = Avx2;
    const HAS_FMA: bool = true;
    const REGISTERS: usize = 32;
    const CHUNKS: ChunkLengths =
        ChunkLengths { short: [32, 16], newest: 16, long: 16, canonical: 32 };
    const FOLD_LANES: usize = 128;

    fn short(self) -> Avx2 {
        self.0
    }

    #[inline(always)]
    fn run<W: Vectorized>(self, work: W) -> W::Result {
        #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
        fn run<W: Vectorized>(set: Avx512, work: W) -> W::Result {
            work.run(set)
        }
        // SAFETY: the set proves the instructions.
        unsafe { run(self, work) }
    }
}

impl FusedSet for Avx2 {
    type Machine = Machine8;

    fn machine(self) -> Machine8 {
        Machine8::new(self)
    }
}

impl FusedSet for Avx512 {
    type Machine = Machine16;

    fn machine(self) -> Machine16 {
        Machine16::new(self)
    }
}

/// An instruction set that the processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Baseline(Sse2),
    Avx2(Avx2),
    Avx512(Avx512),
}

impl Version {
    /// The instruction set of every x86-64 processor.
    pub(crate) const BASELINE: Version = Version::Baseline(Sse2(()));

    fn avx2() -> Option<Avx2> {
        let has = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        has.then_some(Avx2(()))
    }

    fn avx512() -> Option<Avx512> {
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl");
        Self::avx2().filter(|_| has).map(Avx512)
    }

    /// All instruction sets of the processor, the newest first.
    #[cfg(test)]
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let has = |index: &usize| Self::up_to(*index).index() == *index;
        (0..=2).rev().filter(has).map(Self::up_to)
    }

    /// The newest instruction set of the processor whose index is at most `most`.
    #[inline]
    pub(crate) fn up_to(most: usize) -> Self {
        match most {
            0 => None,
            1 => Self::avx2().map(Version::Avx2),
            _ => Self::avx512().map(Version::Avx512).or_else(|| Self::avx2().map(Version::Avx2)),
        }
        .unwrap_or(Self::BASELINE)
    }

    /// The number of the instruction set, from the oldest.
    pub(crate) const fn index(self) -> usize {
        match self {
            Version::Baseline(_) => 0,
            Version::Avx2(_) => 1,
            Version::Avx512(_) => 2,
        }
    }

    /// True if the set has fused multiply-add.
    pub(crate) const fn has_fma(self) -> bool {
        self.index() > 0
    }

    /// Runs work, compiled for the instruction set.
    #[inline(always)]
    pub(crate) fn run<W: Vectorized>(self, work: W) -> W::Result {
        match self {
            Version::Baseline(set) => set.run(work),
            Version::Avx2(set) => set.run(work),
            Version::Avx512(set) => set.run(work),
        }
    }

    /// Runs work of few instructions per element, compiled for the set's [`Set::Short`].
    #[inline(always)]
    pub(crate) fn run_as_short<W: Vectorized>(self, work: W) -> W::Result {
        match self {
            Version::Baseline(set) => set.run(work),
            Version::Avx2(set) => set.run(work),
            Version::Avx512(set) => set.short().run(work),
        }
    }

    /// Runs work of few instructions per element, compiled for the processor's best set for such work.
    #[inline(always)]
    pub(crate) fn run_short<W: Vectorized>(work: W) -> W::Result {
        match Self::avx2() {
            Some(set) => set.run(work),
            None => Sse2(()).run(work),
        }
    }

    /// Selects the loop for the instruction set. The set is the proof that the loop may be called.
    pub(crate) fn bind<A>(self, loops: Loops<A>) -> Bound<A> {
        match self {
            Version::Baseline(set) => Bound::Baseline(set, loops.baseline),
            Version::Avx2(set) => Bound::Avx2(set, loops.avx2),
            Version::Avx512(set) => Bound::Avx512(set, loops.avx512),
        }
    }
}

/// One loop, compiled for each instruction set.
pub(crate) struct Loops<A> {
    pub(crate) baseline: fn(Sse2, &A),
    pub(crate) avx2: fn(Avx2, &A),
    pub(crate) avx512: fn(Avx512, &A),
}

/// A loop with the proof that the processor has its instructions.
pub(crate) enum Bound<A> {
    Baseline(Sse2, fn(Sse2, &A)),
    Avx2(Avx2, fn(Avx2, &A)),
    Avx512(Avx512, fn(Avx512, &A)),
}

impl<A> Bound<A> {
    #[inline(always)]
    pub(crate) fn call(&self, arguments: &A) {
        match self {
            Bound::Baseline(set, call) => call(*set, arguments),
            Bound::Avx2(set, call) => call(*set, arguments),
            Bound::Avx512(set, call) => call(*set, arguments),
        }
    }
}

impl<A> Clone for Bound<A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for Bound<A> {}

/// The [`Loops`] made by the constant function `$of::<Set, $K>()`.
macro_rules! loops {
    ($of:ident, $K:ty) => {
        $crate::arch::fused_loops!($of, $of, $K)
    };
}

/// The same, with `$fused` in place of `$of` for sets with FMA.
macro_rules! fused_loops {
    ($of:ident, $fused:ident, $K:ty) => {{
        use $crate::arch::x86_64::{Avx2, Avx512, Sse2};
        $crate::arch::Loops {
            baseline: const { $of::<Sse2, $K>() },
            avx2: const { $fused::<Avx2, $K>() },
            avx512: const { $fused::<Avx512, $K>() },
        }
    }};
}
pub(crate) use {fused_loops, loops};

/// Prefetches a cache line for reading, into the second-level cache. Any address is valid.
#[inline(always)]
pub(crate) fn prefetch<T>(address: *const T) {
    // SAFETY: a prefetch changes nothing, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(address.cast()) };
}

/// Prefetches a cache line for writing. Any address is valid.
#[inline(always)]
pub(crate) fn prefetch_for_writing<T>(address: *const T) {
    #[cfg(not(miri))]
    // SAFETY: a prefetch changes nothing, whatever the address.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(miri)]
    let _ = address;
}
