//! The CPU's backend: the same operations, with the same bits, on one core.

mod elementwise;
mod exact;
pub(crate) mod expression;
mod fold;
mod x86_64;

pub(crate) use elementwise::{Elements, elementwise};
pub(crate) use x86_64::Version;

use crate::call::Call;
use crate::call::chunk::Chunk;
use crate::process::settings::{self, Vectors};

/// The best version of the loops that the processor has, and the settings let be used.
pub(crate) fn version() -> Version {
    let version = match settings::vectors() {
        Vectors::Portable => None,
        Vectors::Avx2 => Version::avx2(),
        Vectors::Avx512 => Some(Version::detect()),
    };
    version.unwrap_or(Version::BASELINE)
}

/// Copies the bytes of a chunk.
pub(crate) fn copy(call: &Call<'_>, chunk: &Chunk) {
    let from = call.inputs()[0].host_elements(chunk).cast::<u8>();
    let to = call.output().host_elements(chunk).cast::<u8>();
    // SAFETY: the call promises both arrays, which do not overlap, for all elements; no other thread
    // has this chunk.
    unsafe { std::ptr::copy_nonoverlapping(from, to, chunk.len()) };
}
