//! The sizes of calls on GPUs that follow from the bus, the driver and the host's memory, for PCIe 5 x16 with an H200.
//! Other buses are not measured.

use std::time::Duration;

/// The time to open the driver and a device. Measured in fresh processes, in a run that was not recorded.
pub(crate) const OPENING_NS: f32 = 250e6;

/// The driver's time to compile a formula, in nanoseconds: its time for any formula, its time for each picosecond that
/// an element takes a core, and its longest time; and its time for an exact reduction. One operation 18 ms, an
/// exponential 38, Black-Scholes 99, 4,090 divisions 3 s; a dot product 130 ms.
pub(crate) const COMPILER_NS: [f32; 3] = [15e6, 7e3, 3e9];
pub(crate) const EXACT_COMPILER_NS: f32 = 130e6;

/// The most bytes of an array that counts as ordinary memory if the driver does not know its address. Add of 10, 100
/// and 1,000 from `malloc`: if both ends are always examined, the call takes 4.5, 4.5 and 4.0 times as long.
pub(crate) const SMALL_ARRAY_BYTES: usize = 256 << 10;

/// The most bytes of each array for which kernels access pinned memory across the bus, without a copy: in an
/// elementwise operation, which uses both directions of the bus, and in a reduction. Pinned add of 2 million: 4 MiB (by
/// DMA) 385 µs, 16 and 48 MiB 341; of 4 million 697, 672, 672; of 10 million 1.64, 1.64, 1.65 ms. Pinned dot of 1
/// million: 4 MiB 172 µs, 8 MiB 171.
pub(crate) const MAPPED_BYTES: [usize; 2] = [16 << 20, 8 << 20];

/// The most blocks of an elementwise kernel that reads and writes across the bus, if no other kernel does: more blocks
/// are slower. Pinned add of 1 million: 32 178 µs, 64 179, 128 181, a thread for each 16 bytes 231; of 100,000 31.6,
/// 31.2, 33.6.
pub(crate) const BLOCKS_ACROSS_BUS: u32 = 64;

/// The most warps of a kernel that signals completion by flags: `BLOCKS_ACROSS_BUS` blocks. Pinned add of 1,000: by
/// flags 9.9 µs, by the stream 11.4; dot 11.0 and 13.6.
pub(crate) const FLAGGED_WARPS: u32 = 8 * BLOCKS_ACROSS_BUS;

/// The time that the host polls the flags before it synchronizes with the stream. Polling occupies a core, and the 2 µs
/// that flags save are a small part of a longer call.
pub(crate) const FLAG_POLLING: Duration = Duration::from_micros(50);

/// The fewest chunks of a call for each GPU, so that copies and kernels overlap. Not measured alone.
pub(crate) const PIPELINE_DEPTH: usize = 8;

/// The smallest chunk, in bytes of each array.
pub(crate) const SMALLEST_CHUNK_BYTES: usize = 256 << 10;

/// The largest chunk of staged arrays, in bytes of each array; and a slot's pinned memory for such a chunk.
pub(crate) const STAGED_CHUNK_BYTES: usize = 1 << 20;
pub(crate) const STAGED_SLOT_BYTES: usize = 3 * STAGED_CHUNK_BYTES;

/// A slot's device memory for a chunk of arrays that are copied by DMA: five arrays of 4 MiB. Pinned `a * b + c * d` of
/// 100 million, MiB x slots: 14 x 3 31.8 ms, 16 x 2 31.6, 20 x 3 30.6, 32 x 2 30.5.
pub(crate) const DMA_SLOT_BYTES: usize = 20 << 20;

/// A device's slots of each kind (in place, DMA, staged): the chunks that may be in flight at once. They hold at most
/// 86 MiB of device memory and 25 MiB of pinned memory. Pinned `exp(a)` of 100 million, MiB x slots for DMA: 20 x 2
/// 8.54 ms, 20 x 3 8.27, 32 x 2 8.45.
pub(crate) const SLOTS: [usize; 3] = [8, 3, 8];

/// The threads that copy between pageable memory and the pinned buffers. Staged copies reach 33 to 34 GB/s
/// (docs/benchmarks/more.md).
pub(crate) const STAGING_THREADS: usize = 4;

/// Cores and GPUs can share a call on host arrays with more than this number of bytes each. Not measured alone.
pub(crate) const SHARED_BYTES: usize = 2 << 20;

/// Placement `gpu` uses all GPUs for host arrays with more than this number of bytes each, and placement `all` uses the
/// cores, too.
pub(crate) const SEVERAL_GPUS_BYTES: usize = 16 << 20;

/// A GPU's largest chunk of a call that cores share, in bytes of each array.
pub(crate) const SHARED_CHUNK_BYTES: usize = 1 << 20;

/// The blocks of an elementwise kernel that keep any device busy: several times as many as it runs at once.
pub(crate) const LARGE_GRID: usize = 4096;

/// The fewest elements of a reduction for each block. Device dot of 100,000: 4,096 16.9 µs, 16,384 20.4, 32,768 24.7;
/// of 1 million 18.8, 21.5, 27.3.
pub(crate) const REDUCTION_BLOCK: usize = 1 << 12;

/// The same for a reduction that reads across the bus. Pageable dot of 10 million: 4,096 2.82 ms, 16,384 1.80, 32,768
/// 1.78; of 100 million 21.5, 19.6, 19.9.
pub(crate) const REDUCTION_BLOCK_ACROSS_BUS: usize = 4 << 12;

/// The device memory of each slot and stream in which the blocks of a reduction merge their states and count the
/// portions that warps have taken (kernels/reduce.cuh). It holds the words of one exact state, and the counters.
pub(crate) const REDUCTION_SCRATCH_BYTES: usize = 64 << 10;

/// The same for reductions along axes. Sums of 16,384 columns of f32: 0.94 of a copy's rate; 0.80 with less, when
/// blocks cannot share rows.
pub(crate) const AXES_SCRATCH_BYTES: usize = 2 << 20;

/// The most bytes of the tables of a call by key on a device. Not measured.
pub(crate) const TABLES_BYTES: usize = 4 << 30;

/// The most words of a table by key with all windows. Larger ones have three, and a call whose terms have bits in other
/// windows runs again with all. Not measured.
pub(crate) const WIDE_TABLE_WORDS: usize = 1 << 17;

/// The shared memory of a block that every device has, and the part of it that reductions by key leave to the tables of
/// functions.
pub(crate) const LEAST_SHARED_BYTES: usize = 48 << 10;
pub(crate) const STATIC_SHARED_BYTES: usize = 16 << 10;

/// The most launches of a reduction by key if shared memory lacks room for all groups. Each launch reads all elements, and
/// adds those of a range of keys in shared memory. H200, f32, 65,536 keys, as shares of memory's rate: three launches 0.21,
/// however frequent each key is; one launch without shared memory 0.15 for uniform keys, 0.02 for skewed ones.
pub(crate) const MOST_RANGES_OF_KEYS: usize = 4;

/// The fewest elements of a block of a reduction by key for each state that it has in shared memory. Not measured.
pub(crate) const BY_KEY_ELEMENTS: usize = 4;

/// The fewest adjacent results of a tile of host arrays if the elements of a result are further apart than the results,
/// so that whole cache lines are gathered. Not measured.
pub(crate) const GATHERED_COLUMNS: usize = 256;

/// There is a kernel for each number of axes up to this one, and one kernel for all greater numbers. Not measured: few
/// calls have more axes.
pub(crate) const FEW_AXES: usize = 4;

/// The shortest axis of a tile: as long as a warp, since tiles of shorter axes are mostly empty.
pub(crate) const LEAST_TILED: usize = 32;

/// The fewest bytes of a freed block of device memory that is kept for reuse, and the most bytes and blocks that are
/// kept of a device. The driver allocates smaller blocks from memory that it has mapped. The limits are not measured.
pub(crate) const LEAST_KEPT_BYTES: usize = 64 << 10;
pub(crate) const KEPT_BYTES: usize = 512 << 20;
pub(crate) const KEPT_BLOCKS: usize = 64;
