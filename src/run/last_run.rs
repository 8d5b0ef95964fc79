//! Where this thread's last operation ran, and how.

use std::cell::Cell;

/// cbindgen:rename-all=QualifiedScreamingSnakeCase
/// The kind of processor that did the work.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// None: there was nothing to do, or the call failed.
    None = 0,
    /// The CPU.
    Cpu = 1,
    /// One GPU or several.
    Gpu = 2,
}

/// The calling core alone did the work.
pub const GPUVEC_PATH_CALLING_CORE: u32 = 1;
/// Several cores did the work.
pub const GPUVEC_PATH_CORES: u32 = 2;
/// An array was staged: copied through gpuvec's own pinned buffers.
pub const GPUVEC_PATH_STAGED: u32 = 4;
/// An array was transferred to or from device memory by DMA.
pub const GPUVEC_PATH_DMA: u32 = 8;
/// Kernels read or wrote an array in host memory across the bus, without a copy (mapped).
pub const GPUVEC_PATH_MAPPED: u32 = 16;
/// An array was in device memory and was used in place.
pub const GPUVEC_PATH_RESIDENT: u32 = 32;

/// The last run: where and how the calling thread's last operation on arrays ran.
///
/// Later versions may append fields; they never change or remove one.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// A `gpuvec_backend`.
    pub backend: i32,
    /// The `GPUVEC_PATH_*` bits of all cores and transfers that took part.
    pub path: u32,
    /// Bit d is set if device d took part.
    pub devices: u64,
    /// The number of host threads that could take part, including the calling one.
    pub threads: u64,
    /// The number of chunks that the work was split into.
    pub chunks: u64,
    /// The number of bytes copied through gpuvec's own pinned buffers; 0 if nothing was staged.
    pub bytes_staged: u64,
}

thread_local! {
    static LAST: Cell<Run> = const {
        Cell::new(Run { backend: 0, path: 0, devices: 0, threads: 0, chunks: 0, bytes_staged: 0 })
    };
}

/// The bit of a device in [`Run::devices`].
pub(super) fn device_bit(ordinal: usize) -> u64 {
    1u64.checked_shl(ordinal as u32).unwrap_or(0)
}

pub(crate) fn set(run: Run) {
    LAST.set(run);
}

pub(crate) fn last() -> Run {
    LAST.get()
}
