//! Every size that was chosen by measurement, in one place.
//!
//! The measurements are of one H200 with 16 cores on PCIe 5 x16, by tools/variants.py and
//! benches/variants.py, which compare other values with these (docs/tuning.md); docs/benchmark.md
//! shows what comes of them.

use std::time::Duration;

/// Up to this many bytes in each array, cores are not woken: the calling core does the work. (An add
/// of 400 kB arrays: 13.6 µs, 15.5 where the calling core does it all.)
pub(crate) const CALLING_CORE_BYTES: usize = 256 << 10;

/// Bytes of each array that a core is woken for at least. (A dot of 400 kB arrays: 6.7 µs; 7.3 with 96
/// KiB, 8.1 with 128, 9.7 with 192.)
pub(crate) const CORE_SHARE_BYTES: usize = 64 << 10;

/// Elements in a core's chunk at most. Whole tiles, a power of two of them.
pub(crate) const CORE_CHUNK: usize = 1 << 16;

/// Chunks for each core that a call is cut into at least, so that one that comes late takes fewer.
/// (An add of 1.2 MB arrays: 10.3 µs; 11.5 with 4, 12.3 with 1.)
pub(crate) const CHUNKS_PER_CORE: usize = 8;

/// How long the library's threads stay awake after a call. (400 kB arrays, call after call: 12.3 µs,
/// 25.1 if they go to sleep at once.)
pub(crate) const LINGER: Duration = Duration::from_micros(100);

/// Helpers that a calling thread rouses from sleep before it works: these rouse the others. (With 1,
/// 4 or 16 calls after a pause took as long, but for the longest: 4 MB arrays 122 µs, 108 with 16.)
pub(crate) const ROUSED_BY_CALLER: usize = 2;

/// Where there is a GPU, automatic placement keeps arrays up to this many bytes on the calling core
/// all the same, since it would be done sooner: if all of them are page-locked, and if one has to
/// be staged.
pub(crate) const AUTO_CORE_BYTES_ELEMENTWISE: [usize; 2] = [768 << 10, 7 << 19];

/// The same for a reduction.
pub(crate) const AUTO_CORE_BYTES_REDUCTION: [usize; 2] = [896 << 10, 7 << 19];

/// Up to this many bytes in each array, kernels reach pinned memory across the bus without a copy:
/// for an elementwise operation, which uses both directions of the bus, and for a reduction. A copy
/// by DMA would cost more to start than it saves. (An add of 8 MB arrays: 341 µs, 385 by DMA; of 16
/// MB, 672 and 697; of 40 MB, the same.)
pub(crate) const MAPPED_BYTES: [usize; 2] = [16 << 20, 8 << 20];

/// Blocks of an elementwise kernel that is alone in reading and writing across the bus, at most. More
/// get in one another's way: 179 µs for an add of 10^6 f32, 231 with a thread for each 16 bytes.
pub(crate) const BLOCKS_ACROSS_BUS: u32 = 64;

/// Warps that a kernel has at most whose end the host sees by completion flags: those of a kernel that
/// is alone in going across the bus. (An add of 1,000 pinned f32: 10.0 µs, 11.4 by the stream.)
pub(crate) const FLAGGED_WARPS: u32 = 8 * BLOCKS_ACROSS_BUS;

/// How long it looks at them before it waits for the stream, as the driver does that: to wait like
/// this costs a core, and of a longer call 2 µs are little.
pub(crate) const FLAGS_LOOKED_AT: Duration = Duration::from_micros(50);

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

/// The largest chunk of a call that cores and GPUs share, in bytes of each array.
pub(crate) const SHARED_CHUNK_BYTES: usize = 1 << 20;

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
