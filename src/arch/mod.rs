//! Everything that depends on the processor's architecture, behind one interface: sets of vector instructions and
//! their vectors, floating-point modes, prefetches, and the jumps by which the driver's functions are called.
//!
//! A processor's folder has all of it for that processor.

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
    Bound, Loops, VECTORS, VECTORS_IN_WORDS, Version, float_modes, fused_loops, jump, loops,
    prefetch, prefetch_for_writing,
};
#[cfg(target_arch = "x86_64")]
use x86_64 as processor;

use gpuvec_exact::Float;
use gpuvec_math::fast::Machine32;
use std::arch::asm;
use std::ops::{Add, Mul, Sub};

/// A set of vector instructions. A value proves that the processor has them.
pub(crate) trait Set: Copy {
    /// Its vectors of f64.
    type F64: Vector<Set = Self>;
    /// The set that loops of few instructions are compiled for: wider vectors would add nothing.
    type Short: Set;

    /// Says whether it multiplies and adds with one rounding.
    const HAS_FMA: bool;
    /// The number of vector registers.
    const REGISTERS: usize;
    /// The lengths of chunks that its registers hold.
    const CHUNKS: ChunkLengths;
    /// The states that a fold keeps in registers: 8, 32 or 128.
    const FOLD_LANES: usize;

    fn short(self) -> Self::Short;

    /// Runs work that is compiled for the set.
    fn run<W: Vectorized>(self, work: W) -> W::Result;
}

/// A set that multiplies and adds with one rounding, on which functions of f32 have fast sequences.
pub(crate) trait FusedSet: Set {
    /// Its vectors of 32 bits.
    type Machine: Vectors;

    fn machine(self) -> Self::Machine;
}

/// The elements that a loop over a block reads at once before it writes any: 1, 4, 8, 16 or 32.
pub(crate) struct ChunkLengths {
    /// Of a few instructions for each element, by the size of elements: at most 4 bytes, and 8.
    pub(crate) short: [usize; 2],
    /// The same, of operations that only the newest sets have.
    pub(crate) newest: usize,
    /// Of functions.
    pub(crate) long: usize,
    /// Of a search for NaNs.
    pub(crate) canonical: usize,
}

/// Work that is compiled for each set.
pub(crate) trait Vectorized {
    type Result;

    /// Does the work. Inlined, since only code that is inlined is compiled for the set.
    fn run<S: Set>(self, set: S) -> Self::Result;
}

/// A vector of f64. A value exists only if the processor has its instructions, so that its arithmetic is safe.
pub(crate) trait Vector:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self>
{
    /// The set of the vector's instructions.
    type Set: Copy;
    /// The number of lanes.
    const LANES: usize;
    /// The lanes' encodings.
    type Bits: AsRef<[u64]>;

    /// The same number in each lane.
    fn splat(set: Self::Set, x: f64) -> Self;

    /// Loads the first `LANES` elements, converted to f64.
    ///
    /// # Panics
    /// If there are fewer.
    fn load<T: Float>(set: Self::Set, from: &[T]) -> Self;

    /// x·y + z and x·y − z, rounded once; without FMA only where x·y is a float.
    fn multiply_add(x: Self, y: Self, z: Self) -> Self;
    fn multiply_subtract(x: Self, y: Self, z: Self) -> Self;

    /// Sets the bits of `flags` in which x and y differ.
    fn flag_changes(flags: Self, x: Self, y: Self) -> Self;

    /// Sets bits of the lanes of `flags` where the product is 0, but no factor is.
    fn flag_vanished(flags: Self, product: Self, x: Self, y: Self) -> Self;

    /// The least and the greatest of the 32-bit halves of two vectors and of the sizes of `2 * LANES` f32. A size is
    /// an encoding without its sign, times two; among the least one less, by which those of zeros are the greatest.
    ///
    /// # Panics
    /// If there are fewer.
    fn extremes(of: [Self; 2], from: &[impl Float]) -> [Self; 2];

    /// The least magnitude of each lane with that of x, unless it is 0, and the largest. Those of NaN are left out.
    fn magnitudes(ends: [Self; 2], x: Self) -> [Self; 2];

    /// The lanes' encodings.
    fn bits(self) -> Self::Bits;
}

/// A machine of vectors of 32 bits.
pub(crate) trait Vectors: Machine32 {
    /// The number of elements of a vector.
    const LANES: usize;
    /// The elements of a vector.
    type Elements;
    /// A bit for each of them.
    type Lanes;

    /// Loads elements.
    fn load(&self, from: &Self::Elements) -> Self::F32;

    /// Stores elements.
    fn store(&self, x: Self::F32, to: &mut Self::Elements);

    /// The elements for which a condition holds.
    fn holding(&self, condition: Self::Bool) -> Self::Lanes;
}

/// Keeps the compiler from making vector code of the loop around it, which would work on several blocks at once, or
/// on the few elements that are left.
#[inline(always)]
pub(crate) fn stay_a_loop() {
    if cfg!(not(miri)) {
        // SAFETY: no instruction at all.
        unsafe { asm!("", options(nomem, nostack, preserves_flags)) };
    }
}
