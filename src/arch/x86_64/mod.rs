//! x86-64: SSE2, AVX2 with FMA, and AVX-512.

pub(crate) mod float_modes;
mod jump;
mod vector;
mod vector32;

pub(crate) use jump::jump;

use super::{ChunkLengths, InstructionSet, Vectorized, isas};
use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
use std::is_x86_feature_detected;
use vector::{F64x2, F64x4, F64x8};
use vector32::{Machine8, Machine16};

/// The values of GPUVEC_VECTORS, from the oldest instruction set.
pub(crate) const VECTORS: [&str; 3] = ["portable", "avx2", "avx512"];
/// The same values, as an error text lists them.
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

impl InstructionSet for Sse2 {
    type F64 = F64x2;
    type Machine = Machine8;
    const HAS_FMA: bool = false;
    const REGISTERS: usize = 16;
    const CHUNKS: ChunkLengths = ChunkLengths { short: [4, 4], newest: 4, long: 1, canonical: 8 };
    const FOLD_LANES: usize = 8;

    fn machine(self) -> Machine8 {
        unreachable!("SSE2 has no FMA")
    }

    #[inline(always)]
    fn run<W: Vectorized>(self, work: W) -> W::Result {
        work.run(self)
    }
}

impl InstructionSet for Avx2 {
    type F64 = F64x4;
    type Machine = Machine8;
    const HAS_FMA: bool = true;
    const REGISTERS: usize = 16;
    const CHUNKS: ChunkLengths =
        ChunkLengths { short: [32, 16], newest: 16, long: 8, canonical: 32 };
    const FOLD_LANES: usize = 32;

    fn machine(self) -> Machine8 {
        Machine8(self)
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

impl InstructionSet for Avx512 {
    type F64 = F64x8;
    type Machine = Machine16;
    const HAS_FMA: bool = true;
    const REGISTERS: usize = 32;
    const CHUNKS: ChunkLengths =
        ChunkLengths { short: [32, 16], newest: 16, long: 16, canonical: 32 };
    const FOLD_LANES: usize = 128;

    fn machine(self) -> Machine16 {
        Machine16(self)
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

isas! {
    Baseline(Sse2) short |set| set,
    Avx2(Avx2) short |set| set,
    Avx512(Avx512) short |Avx512(avx2)| avx2
}

impl Isa {
    /// The instruction set of every x86-64 processor.
    pub(crate) const BASELINE: Isa = Isa::Baseline(Sse2(()));

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

    /// The newest instruction set of the processor that is at most number `most` of [`VECTORS`].
    #[inline]
    pub(crate) fn up_to(most: usize) -> Self {
        match most {
            0 => None,
            1 => Self::avx2().map(Isa::Avx2),
            _ => Self::avx512().map(Isa::Avx512).or_else(|| Self::avx2().map(Isa::Avx2)),
        }
        .unwrap_or(Self::BASELINE)
    }
}

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
