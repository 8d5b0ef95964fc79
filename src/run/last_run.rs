//! Where this thread's last call ran, and how.

use std::cell::Cell;

/// cbindgen:rename-all=QualifiedScreamingSnakeCase
/// Which kind of processor did the work.
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
/// An operand was copied through gpuvec's own pinned buffers.
pub const GPUVEC_PATH_STAGED: u32 = 4;
/// An operand crossed the bus by DMA into or out of device memory.
pub const GPUVEC_PATH_DMA: u32 = 8;
/// Kernels read or wrote an operand in host memory, across the bus, without a copy.
pub const GPUVEC_PATH_MAPPED: u32 = 16;
/// An operand was device memory and was used where it is.
pub const GPUVEC_PATH_RESIDENT: u32 = 32;

/// Where the calling thread's last operation ran, and how.
///
/// A later version may append fields, never change or remove one.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// A `gpuvec_backend`.
    pub backend: i32,
    /// The `GPUVEC_PATH_*` bits of every way that an operand took.
    pub path: u32,
    /// Bit d is set if device d took part.
    pub devices: u64,
    /// Host threads that could take part, the calling one included.
    pub threads: u64,
    /// Pieces that the work was cut into.
    pub chunks: u64,
    /// Bytes copied through gpuvec's own pinned buffers; 0 where nothing was staged.
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
