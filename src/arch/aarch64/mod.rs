//! AArch64: NEON (Advanced SIMD), which every processor has, with FMA.

pub(crate) mod float_modes;
mod jump;
mod vector;
mod vector32;

pub(crate) use jump::jump;

use super::{ChunkLengths, FusedSet, Pair, Set, Vectorized};
use std::arch::asm;
use vector::F64x2;
use vector32::Machine4;

/// The values of GPUVEC_VECTORS, in the order of [`Version::up_to`].
pub(crate) const VECTORS: [&str; 1] = ["portable"];
/// The values of GPUVEC_VECTORS, as an error lists them.
pub(crate) const VECTORS_IN_WORDS: &str = "portable";

/// NEON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Neon(());

impl Set for Neon {
    type F64 = F64x2;
    type Short = Neon;
    const HAS_FMA: bool = true;
    const REGISTERS: usize = 32;
    const CHUNKS: ChunkLengths =
        ChunkLengths { short: [32, 16], newest: 16, long: 8, canonical: 32 };
    const FOLD_LANES: usize = 32;

    fn short(self) -> Neon {
        self
    }

    #[inline(always)]
    fn run<W: Vectorized>(self, work: W) -> W::Result {
        work.run(self)
    }
}

impl FusedSet for Neon {
    type Machine = Pair<Machine4>;

    fn machine(self) -> Pair<Machine4> {
        Pair(Machine4::new(self))
    }
}

/// The set that every processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version(Neon);

impl Version {
    /// The set that every processor has.
    pub(crate) const BASELINE: Version = Version(Neon(()));

    /// All instruction sets of the processor.
    #[cfg(test)]
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        std::iter::once(Self::BASELINE)
    }

    /// The newest instruction set of the processor.
    #[inline]
    pub(crate) fn up_to(_most: usize) -> Self {
        Self::BASELINE
    }

    /// True if the set has fused multiply-add.
    pub(crate) const fn has_fma(self) -> bool {
        true
    }

    /// Runs work, compiled for the instruction set.
    #[inline(always)]
    pub(crate) fn run<W: Vectorized>(self, work: W) -> W::Result {
        self.0.run(work)
    }

    /// Runs work of few instructions per element, compiled for the set's [`Set::Short`].
    #[inline(always)]
    pub(crate) fn run_as_short<W: Vectorized>(self, work: W) -> W::Result {
        self.0.run(work)
    }

    /// Runs work of few instructions per element, compiled for the processor's best set for such work.
    #[inline(always)]
    pub(crate) fn run_short<W: Vectorized>(work: W) -> W::Result {
        Self::BASELINE.run(work)
    }

    /// Selects the loop for the instruction set.
    pub(crate) fn bind<A>(self, loops: Loops<A>) -> Bound<A> {
        Bound(self.0, loops.0)
    }
}

/// One loop, compiled for each instruction set.
pub(crate) struct Loops<A>(pub(crate) fn(Neon, &A));

/// A loop with its instruction set.
pub(crate) struct Bound<A>(Neon, fn(Neon, &A));

impl<A> Bound<A> {
    #[inline(always)]
    pub(crate) fn call(&self, arguments: &A) {
        self.1(self.0, arguments);
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
        $crate::arch::Loops(const { $of::<$crate::arch::aarch64::Neon, $K>() })
    };
}

/// The same, with `$fused` in place of `$of` for sets with FMA.
macro_rules! fused_loops {
    ($of:ident, $fused:ident, $K:ty) => {
        $crate::arch::loops!($fused, $K)
    };
}
pub(crate) use {fused_loops, loops};

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
