//! Every size that was chosen by measurement, in one place.
//!
//! The measurements are of one H200 with 16 cores on PCIe 5 x16; README.md shows them.

/// Up to this many bytes in each array, cores are not woken: the calling core does the work.
pub(crate) const CALLING_CORE_BYTES: usize = 256 << 10;

/// Elements in a core's chunk. Whole tiles, a power of two of them.
pub(crate) const CORE_CHUNK: usize = 1 << 16;

/// Where there is a GPU, automatic placement keeps arrays up to this many bytes on the calling core
/// all the same, if all of them are page-locked: it would be done sooner.
pub(crate) const AUTO_CORE_BYTES_PINNED: usize = 512 << 10;

/// The same, if one of them is pageable and would have to be staged.
pub(crate) const AUTO_CORE_BYTES_PAGEABLE: usize = 16 << 20;

/// Up to this many bytes in each array, kernels reach host memory across the bus without a copy:
/// a copy by DMA would cost more to start than it saves.
pub(crate) const MAPPED_BYTES: usize = 1 << 20;

/// The smallest and the largest chunk that crosses the bus by DMA, in bytes of each array. A call
/// is cut into at least [`PIPELINE_DEPTH`] chunks where the smallest allows it.
pub(crate) const DMA_CHUNK_BYTES: (usize, usize) = (512 << 10, 4 << 20);

/// Chunks that a call is cut into at least, so that copies and kernels overlap.
pub(crate) const PIPELINE_DEPTH: usize = 8;

/// Lanes of a device: chunks that may be under way at once. Each keeps three pinned and three
/// device buffers of the largest chunk: 48 MiB of each in all.
pub(crate) const LANES: usize = 4;

/// Threads that copy between pageable memory and the pinned buffers.
pub(crate) const STAGING_THREADS: usize = 4;

/// Bytes that one thread copies at a time while staging.
pub(crate) const STAGING_BLOCK_BYTES: usize = 256 << 10;
