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

/// The names of the sets, as GPUVEC_VECTORS has them, in the order of [`Version::up_to`].
pub(crate) const VECTORS: [&str; 1] = ["portable"];
/// The same for an error.
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

    /// All sets that the processor has.
    #[cfg(test)]
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        std::iter::once(Self::BASELINE)
    }

    /// The best that the processor has, up to the one with an index.
    #[inline]
    pub(crate) fn up_to(_most: usize) -> Self {
        Self::BASELINE
    }

    /// Says whether it multiplies and adds with one rounding.
    pub(crate) const fn has_fma(self) -> bool {
        true
    }

    /// Runs work in the version for the set.
    #[inline(always)]
    pub(crate) fn run<W: Vectorized>(self, work: W) -> W::Result {
        self.0.run(work)
    }

    /// Runs work of few instructions an element, in the version for the set that is best for that.
    #[inline(always)]
    pub(crate) fn run_as_short<W: Vectorized>(self, work: W) -> W::Result {
        self.0.run(work)
    }

    /// Runs work of few instructions an element, in the best set for that.
    #[inline(always)]
    pub(crate) fn run_short<W: Vectorized>(work: W) -> W::Result {
        Self::BASELINE.run(work)
    }

    /// The loop of the set.
    pub(crate) fn bind<A>(self, loops: Loops<A>) -> Bound<A> {
        Bound(self.0, loops.0)
    }
}

/// A loop for each set.
pub(crate) struct Loops<A>(pub(crate) fn(Neon, &A));

/// The loop of a set.
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

/// The loops that `$of::<Set, $K>()` makes, a constant function.
macro_rules! loops {
    ($of:ident, $K:ty) => {
        $crate::arch::Loops(const { $of::<$crate::arch::aarch64::Neon, $K>() })
    };
}

/// The same, of `$fused` for sets that have FMA.
macro_rules! fused_loops {
    ($of:ident, $fused:ident, $K:ty) => {
        $crate::arch::loops!($fused, $K)
    };
}
pub(crate) use {fused_loops, loops};

/// Executes an instruction that prefetches the cache line of an address.
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

/// Begins to fetch a cache line for reading, past the first cache. Any address is valid.
#[inline(always)]
pub(crate) fn prefetch<T>(address: *const T) {
    prefetch!("prfm pldl2keep, [{}]", address);
}

/// Begins to fetch a cache line for writing. Any address is valid.
#[inline(always)]
pub(crate) fn prefetch_for_writing<T>(address: *const T) {
    prefetch!("prfm pstl1keep, [{}]", address);
}
