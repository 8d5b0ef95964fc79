//! The CPU's backend: the same operations, with the same bits, on one core.

mod elementwise;
mod exact;
pub(crate) mod expression;
mod fold;
mod reduce;

pub(crate) use elementwise::elementwise;
#[allow(unused_imports, reason = "the exported functions will use it")]
pub(crate) use reduce::version;
pub(crate) use reduce::{fold, sum, value};

use crate::call::Call;
use crate::call::chunk::Chunk;
use exact::Inputs;
use gpuvec_ops::Operation;

/// The inputs' elements of a chunk, which the [`Call`] promises to be readable.
fn inputs<O: Operation>(call: &Call<'_>, chunk: &Chunk) -> Inputs<O::Element> {
    let pointer =
        |input: usize| call.inputs()[input].host_pointer::<O::Element>(chunk.start).cast_const();
    let a = pointer(0);
    let b = if O::OP.inputs() == 2 { pointer(1) } else { a };
    Inputs { a, b, len: chunk.len }
}

/// Copies the bytes of a chunk.
pub(crate) fn copy(call: &Call<'_>, chunk: &Chunk) {
    let from: *const u8 = call.inputs()[0].host_pointer(chunk.start);
    let to: *mut u8 = call.output().host_pointer(chunk.start);
    // SAFETY: the call promises both arrays, which do not overlap, for all elements; no other thread
    // has this chunk.
    unsafe { std::ptr::copy_nonoverlapping(from, to, chunk.len) };
}
