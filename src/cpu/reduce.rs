//! Reductions on one core.

use super::exact::{self, All, Version};
use super::inputs;
use crate::call::Call;
use crate::call::chunk::Chunk;
use crate::process::settings::{self, Vectors};
use gpuvec_exact::State;
use gpuvec_ops::{Accumulator, Exact, Fold};

/// Adds the elements of a chunk to the state of an exact sum.
pub(crate) fn sum<O: Exact>(call: &Call<'_>, chunk: &Chunk, state: &mut State<O::Kind>) {
    // SAFETY: the call promises the inputs' elements; the processor has the version.
    unsafe { exact::accumulate::<_, All>(version(), state, inputs::<O>(call, chunk)) }
}

/// The exact sum of a chunk's elements.
pub(crate) fn value<O: Exact>(call: &Call<'_>, chunk: &Chunk) -> O::Element {
    // SAFETY: as above.
    unsafe { exact::value::<O::Kind, All>(version(), inputs::<O>(call, chunk)) }
}

/// The best version of exact sums that the processor has, and the settings let be used.
pub(crate) fn version() -> Version {
    Version::detect().min(match settings::vectors() {
        Vectors::Portable => Version::Baseline,
        Vectors::Avx2 => Version::Avx2,
        Vectors::Avx512 => Version::Avx512,
    })
}

/// Adds the elements of a chunk to a state of one value.
pub(crate) fn fold<O: Fold>(op: O, call: &Call<'_>, chunk: &Chunk, state: &mut O::Output) {
    // SAFETY: as above.
    let chunk = unsafe { super::fold::fold(version(), op, &inputs::<O>(call, chunk)) };
    O::Accumulator::merge(state, &chunk);
}
