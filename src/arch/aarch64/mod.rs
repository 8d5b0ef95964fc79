//! AArch64: NEON (Advanced SIMD), which every processor has. It includes FMA.

pub(crate) mod float_modes;
mod jump;
mod vector;
mod vector32;

pub(crate) use jump::jump;

use super::{ChunkLengths, InstructionSet, Pair, Vectorized, isas};
use std::arch::asm;
use vector::F64x2;
use vector32::Machine4;

/// The values of GPUVEC_VECTORS, from the oldest instruction set.
pub(crate) const VECTORS: [&str; 1] = ["portable"];
/// The same values, as an error text lists them.
pub(crate) const VECTORS_IN_WORDS: &str = "portable";

/// NEON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Neon(());

impl InstructionSet for Neon {
    type F64 = F64x2;
    type Machine = Pair<Machine4>;
    const HAS_FMA: bool = true;
    const REGISTERS: usize = 32;
    const CHUNKS: ChunkLengths =
        ChunkLengths { short: [32, 16], newest: 16, long: 8, canonical: 32 };
    const FOLD_LANES: usize = 32;

    fn machine(self) -> Pair<Machine4> {
        Pair(Machine4(self))
    }

    #[inline(always)]
    fn run<W: Vectorized>(self, work: W) -> W::Result {
        work.run(self)
    }
}

isas! { Baseline(Neon) short |set| set }

impl Isa {
    /// The instruction set of every AArch64 processor.
    pub(crate) const BASELINE: Isa = Isa::Baseline(Neon(()));

    /// The newest instruction set of the processor.
    #[inline]
    pub(crate) fn up_to(_most: usize) -> Self {
        Self::BASELINE
    }
}

/// Executes one prefetch instruction for an address.
macro_rules! prefetch {
    ($instruction:literal, $address:ident) => {
        #[cfg(not(miri))]
        // SAFETY: a prefetch changes nothing, whatever the address.
        unsafe {
            asm!($instruction, in(reg) $address, options(nostack, preserves_flags, readonly));
        }
        #[cfg(miri)]
        let _ = $address;
    };
}

/// Prefetches a cache line for reading, into the second-level cache. Any address is valid.
#[inline(always)]
pub(crate) fn prefetch<T>(address: *const T) {
    prefetch!("prfm pldl2keep, [{}]", address);
}

/// Prefetches a cache line for writing. Any address is valid.
#[inline(always)]
pub(crate) fn prefetch_for_writing<T>(address: *const T) {
    prefetch!("prfm pstl1keep, [{}]", address);
}
