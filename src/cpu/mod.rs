//! The CPU's backend: computes all operations on one core, with the same bits as a GPU.

mod elementwise;
mod exact;
pub(crate) mod expression;
mod fold;
mod gather;

pub(crate) use elementwise::{Elements, elementwise};
pub(crate) use gather::{Grid, gather, low_ends, scatter};

use crate::arch::Isa;
use crate::call::Call;
use crate::call::chunk::Chunk;
use crate::process::settings;

/// The newest instruction set that the processor has and the settings allow.
pub(crate) fn isa() -> Isa {
    Isa::up_to(settings::vectors())
}

pub(crate) fn copy(call: &Call<'_>, chunk: &Chunk) {
    let from = call.inputs()[0].host_elements(chunk).cast::<u8>();
    let to = call.outputs()[0].host_elements(chunk).cast::<u8>();
    // SAFETY: the call promises both arrays, which do not overlap, for all elements; no other thread has this chunk.
    unsafe { std::ptr::copy_nonoverlapping(from, to, chunk.len()) };
}
