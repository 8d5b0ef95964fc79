//! The code that depends on the processor's architecture: instruction sets and their vectors, floating-point modes,
//! prefetches, and the jumps through which the library calls the driver. Each architecture has a folder, all with the
//! same interface.

#[cfg(target_arch = "aarch64")]
pub(crate) mod aarch64;
mod pair;
mod vector;
mod vector32;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64 as processor;
pub(crate) use pair::Pair;
pub(crate) use processor::{
    Isa, VECTORS, VECTORS_IN_WORDS, float_modes, jump, prefetch, prefetch_for_writing,
};
#[cfg(target_arch = "x86_64")]
use x86_64 as processor;

use gpuvec_exact::Float;
use gpuvec_math::fast::Machine32;
use std::arch::asm;
use std::ops::{Add, Mul, Sub};

/// A set of vector instructions. A value of the type proves that the processor supports them.
pub(crate) trait InstructionSet: Copy {
    /// Vectors of f64.
    type F64: Vector<Set = Self>;
    /// Vectors of 32-bit lanes, for the fast sequences of functions of f32, which need fused multiply-add.
    type Machine: Vectors;

    /// True if the set has fused multiply-add.
    const HAS_FMA: bool;
    /// The number of vector registers.
    const REGISTERS: usize;
    /// The lengths of chunks that fit in the registers.
    const CHUNKS: ChunkLengths;
    /// The number of states that a fold keeps in registers: 8, 32 or 128.
    const FOLD_LANES: usize;

    /// # Panics
    /// Without fused multiply-add.
    fn machine(self) -> Self::Machine;

    /// Runs work, compiled for the instruction set.
    fn run<W: Vectorized>(self, work: W) -> W::Result;
}

/// Defines [`Isa`] from the instruction sets of an architecture, the oldest first. `short` gives the set for which
/// loops of few instructions are compiled: an older one where wider vectors would not speed them up.
macro_rules! isas {
    ($($name:ident($Set:ty) short $short:expr),+) => {
        /// An instruction set that the processor has, chosen at run time.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Isa {
            $($name($Set),)+
        }

        impl Isa {
            /// True if the set has fused multiply-add.
            pub(crate) const fn has_fma(self) -> bool {
                match self {
                    $(Isa::$name(_) => <$Set>::HAS_FMA,)+
                }
            }

            /// Runs work, compiled for the instruction set.
            #[inline(always)]
            pub(crate) fn run<W: Vectorized>(self, work: W) -> W::Result {
                match self {
                    $(Isa::$name(set) => set.run(work),)+
                }
            }

            /// Runs work of few instructions per element.
            #[inline(always)]
            pub(crate) fn run_as_short<W: Vectorized>(self, work: W) -> W::Result {
                match self {
                    $(Isa::$name(set) => $short(set).run(work),)+
                }
            }
        }
    };
}
use isas;

impl Isa {
    /// The newest instruction set of the processor for work of few instructions per element.
    #[inline(always)]
    pub(crate) fn for_short_work() -> Self {
        Self::up_to(1)
    }

    /// All instruction sets of the processor, the newest first.
    #[cfg(test)]
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let mut all: Vec<Isa> = (0..VECTORS.len()).rev().map(Self::up_to).collect();
        all.dedup();
        all.into_iter()
    }
}

/// The number of elements that a loop over a block reads before it writes any: 1, 4, 8, 16 or 32.
pub(crate) struct ChunkLengths {
    /// For loops of a few instructions per element, on elements of at most 4 bytes and of 8 bytes.
    pub(crate) short: [usize; 2],
    /// For short loops of operations that only AVX-512 has as an instruction.
    pub(crate) newest: usize,
    /// For loops that compute functions.
    pub(crate) long: usize,
    /// For the search for NaNs.
    pub(crate) canonical: usize,
}

/// Work that is compiled for each instruction set.
pub(crate) trait Vectorized {
    type Result;

    /// Does the work. Implementations are inlined, because only inlined code is compiled for the set.
    fn run<S: InstructionSet>(self, set: S) -> Self::Result;
}

/// A vector of f64. A value exists only if the processor has the instructions, so that arithmetic is safe.
pub(crate) trait Vector:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self>
{
    /// The instruction set.
    type Set: Copy;
    /// The number of lanes.
    const LANES: usize;
    /// The lanes' encodings.
    type Bits: AsRef<[u64]>;

    /// A vector with `x` in every lane.
    fn splat(set: Self::Set, x: f64) -> Self;

    /// Loads the first `LANES` elements and converts them to f64.
    ///
    /// # Panics
    /// If there are fewer elements.
    fn load<T: Float>(set: Self::Set, from: &[T]) -> Self;

    /// x·y + z, rounded once. Without FMA, x·y must be exact.
    fn multiply_add(x: Self, y: Self, z: Self) -> Self;
    /// x·y − z, under the same condition.
    fn multiply_subtract(x: Self, y: Self, z: Self) -> Self;

    /// Returns `flags`, and sets the bits that differ between x and y.
    fn flag_changes(flags: Self, x: Self, y: Self) -> Self;

    /// Returns `flags`, and sets bits in the lanes with a product of 0 but no factor of 0.
    fn flag_vanished(flags: Self, product: Self, x: Self, y: Self) -> Self;

    /// Updates the smallest and the largest magnitude of f32 with the first `2 * LANES` elements of `from`. The vectors
    /// hold 32-bit halves. A magnitude is an encoding shifted left by one, which drops the sign. The smallest has 1
    /// subtracted, so that zeros wrap to the largest value and never win.
    ///
    /// # Panics
    /// If there are fewer elements.
    fn extremes(of: [Self; 2], from: &[impl Float]) -> [Self; 2];

    /// Updates the smallest nonzero and the largest magnitude of each lane with x. Ignores NaNs.
    fn magnitudes(ends: [Self; 2], x: Self) -> [Self; 2];

    /// The lanes' encodings.
    fn bits(self) -> Self::Bits;
}

/// A machine of vectors with 32-bit lanes.
pub(crate) trait Vectors: Machine32 {
    /// The number of elements of a vector.
    const LANES: usize;
    /// The elements of a vector.
    type Elements;
    /// A bit mask with one bit for each element.
    type Lanes;

    /// Loads a vector.
    fn load(&self, from: &Self::Elements) -> Self::F32;

    /// Stores a vector.
    fn store(&self, x: Self::F32, to: &mut Self::Elements);

    /// The mask of the elements that fulfil a condition.
    fn holding(&self, condition: Self::Bool) -> Self::Lanes;
}

/// Keeps the compiler from vectorising the loop around this call. Vector code across blocks, or for the few elements
/// after the last block, would be slower and larger.
#[inline(always)]
pub(crate) fn stay_a_loop() {
    if cfg!(not(miri)) {
        // SAFETY: it contains no instruction.
        unsafe { asm!("", options(nomem, nostack, preserves_flags)) };
    }
}
