//! Every size that was chosen by measurement, in one place.
//!
//! The measurements are of one H200 with 16 cores on PCIe 5 x16; docs/benchmark.md shows what comes
//! of them. Those for cores alone (`CALLING_CORE_BYTES`, `CHUNKS_PER_CORE`, `LINGER`) are of two
//! cores of a Xeon, and not yet of more.

use std::time::Duration;

/// Up to this many bytes in each array, cores are not woken: the calling core does the work.
pub(crate) const CALLING_CORE_BYTES: usize = 256 << 10;

/// Elements in a core's chunk at most. Whole tiles, a power of two of them.
pub(crate) const CORE_CHUNK: usize = 1 << 16;

/// Chunks for each core that a call is cut into at least, so that one that comes late takes fewer.
pub(crate) const CHUNKS_PER_CORE: usize = 4;

/// How long the library's threads stay awake after a call.
pub(crate) const LINGER: Duration = Duration::from_micros(100);

/// Where there is a GPU, automatic placement keeps arrays up to this many bytes on the calling core
/// all the same, since it would be done sooner: if all of them are page-locked, and if one has to
/// be staged.
pub(crate) const AUTO_CORE_BYTES_ELEMENTWISE: [usize; 2] = [768 << 10, 6 << 20];

/// The same for a reduction.
pub(crate) const AUTO_CORE_BYTES_REDUCTION: [usize; 2] = [1152 << 10, 7 << 19];

/// Up to this many bytes in each array, kernels reach pinned memory across the bus without a copy:
/// for an elementwise operation, which uses both directions of the bus, and for a reduction. A copy
/// by DMA would cost more to start than it saves.
pub(crate) const MAPPED_BYTES: [usize; 2] = [4 << 20, 8 << 20];

/// The smallest chunk, in bytes of each array. A call is cut into at least [`PIPELINE_DEPTH`] chunks
/// where this allows it.
pub(crate) const SMALLEST_CHUNK_BYTES: usize = 256 << 10;

/// The largest chunk of arrays that are staged, in bytes of each.
pub(crate) const STAGED_CHUNK_BYTES: usize = 1 << 20;

/// Device memory for a chunk of arrays that are copied there, all of them together: a copy of 8 MiB
/// comes nearer to what the bus can do than one of 4.
pub(crate) const DIRECT_CHUNKS_BYTES: usize = 16 << 20;

/// Chunks for each GPU that a call is cut into at least, so that copies and kernels overlap.
pub(crate) const PIPELINE_DEPTH: usize = 8;

/// Past this many bytes in each array, a call on host arrays takes all GPUs that there are.
pub(crate) const SEVERAL_GPUS_BYTES: usize = 16 << 20;

/// Lanes of a device, of each kind: chunks that may be under way at once. Without arrays of other
/// devices they hold 36 MiB of device memory and 25 MiB of pinned memory in all, with them 60 and 25.
pub(crate) const LANES: [usize; 3] = [8, 2, 8];

/// Threads that copy between pageable memory and the pinned buffers.
pub(crate) const STAGING_THREADS: usize = 4;

/// Sums of tiles that a chunk of a reduction leaves at most.
pub(crate) const TILE_SUMS: usize = 1 << 16;

/// Sums of tiles, and of groups of them, that a stream keeps of a reduction that is queued on it:
/// 512 KiB of device memory for each of the two.
pub(crate) const QUEUED_SUMS: usize = 1 << 16;
