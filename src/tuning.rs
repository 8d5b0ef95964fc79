//! The library's sizes that were chosen by measurement. The rates of the machine from which placement auto
//! predicts times are in crates/cost/src/tuning.rs, and the sizes of kernels and exact sums beside their code.
//!
//! The measurements are of one H200 with 16 cores on PCIe 5 x16, by tools/variants.py and
//! benches/bench.py --against, which compare other values with these (docs/contributing/tuning.md);
//! docs/benchmarks/index.md shows what comes of them.

use std::time::Duration;

/// The work for which another core is woken, as the time of one core by the prior.
pub(crate) const THREAD_SHARE_NS: f32 = 2_000.0;

/// The time to open the driver and a device.
pub(crate) const OPENING_NS: f32 = 250e6;

/// An array of at most this many bytes that the driver does not know is not examined further.
pub(crate) const SMALL_ARRAY_BYTES: usize = 256 << 10;

/// The fewest and the most elements in a core's chunk.
pub(crate) const CORE_CHUNK: [usize; 2] = [1 << 12, 1 << 16];

/// The fewest chunks of a call for each core, so that a core that comes late takes fewer.
/// (An add of 1.2 MB arrays: 10.3 µs; 11.5 with 4, 12.3 with 1.)
pub(crate) const CHUNKS_PER_CORE: usize = 8;

/// The most products that cores sum within a bound first: those of arrays that their caches hold. Reading others
/// takes as long as exact sums do.
pub(crate) const MOST_BOUNDED: usize = 1 << 22;

/// The time that the library's threads spin after a call before they sleep. (400 kB arrays, call after call:
/// 12.3 µs, 25.1 if they go to sleep at once.)
pub(crate) const SPIN_TIME: Duration = Duration::from_micros(100);

/// The time of a driver's compiler for any formula, that for each picosecond which an element costs a core,
/// and the most of it, in nanoseconds. (H200: one operation 18 ms, an exponential 38, Black-Scholes 99; 4,090
/// divisions 3 s.)
pub(crate) const COMPILER_NS: [f32; 3] = [15e6, 7e3, 3e9];

/// The same for an exact reduction. (A dot product: 130 ms.)
pub(crate) const EXACT_COMPILER_NS: f32 = 130e6;

/// Up to this many bytes in each array, kernels reach pinned memory across the bus without a copy:
/// for an elementwise operation, which uses both directions of the bus, and for a reduction. A copy
/// by DMA would cost more to start than it saves. (An add of 8 MB arrays: 341 µs, 385 by DMA; of 16
/// MB, 672 and 697; of 40 MB, the same.)
pub(crate) const MAPPED_BYTES: [usize; 2] = [16 << 20, 8 << 20];

/// The most blocks of an elementwise kernel that alone reads and writes across the bus. More of them
/// are slower: 179 µs for an add of 10^6 f32, 231 with a thread for each 16 bytes.
pub(crate) const BLOCKS_ACROSS_BUS: u32 = 64;

/// Blocks of an elementwise kernel that any device is busy with for a while: several times those that it
/// runs at once.
pub(crate) const LARGE_GRID: usize = 4096;

/// The most warps of a kernel that signals completion by flags: those of a kernel that alone reads and
/// writes across the bus. (An add of 1,000 pinned f32: 10.0 µs, 11.4 by the stream.)
pub(crate) const FLAGGED_WARPS: u32 = 8 * BLOCKS_ACROSS_BUS;

/// The time that the host polls the flags before it synchronizes with the stream: polling costs a core, and 2
/// µs are little of a longer call.
pub(crate) const FLAG_POLLING: Duration = Duration::from_micros(50);

/// The smallest chunk, in bytes of each array. A call has at least [`PIPELINE_DEPTH`] chunks where this
/// allows it.
pub(crate) const SMALLEST_CHUNK_BYTES: usize = 256 << 10;

/// The largest chunk of arrays that are staged, in bytes of each.
pub(crate) const STAGED_CHUNK_BYTES: usize = 1 << 20;

/// Pinned memory of a slot for a chunk of arrays that are staged, all of them together.
pub(crate) const STAGED_SLOT_BYTES: usize = 3 * STAGED_CHUNK_BYTES;

/// Device memory of a slot for a chunk of arrays that are copied there, all of them together: four inputs
/// and an output of 4 MiB each, since longer copies come nearer to what the bus can do. (`a * b + c * d` on
/// 400 MB arrays: 30.8 ms, 32.6 with 16 MiB.)
pub(crate) const DMA_SLOT_BYTES: usize = 20 << 20;

/// The fewest chunks of a call for each GPU, so that copies and kernels overlap.
pub(crate) const PIPELINE_DEPTH: usize = 8;

/// Past this many bytes in each array, cores and GPUs can share a call on host arrays.
pub(crate) const SHARED_BYTES: usize = 2 << 20;

/// Past this many bytes in each array, placement gpu takes all GPUs for host arrays, and placement all takes
/// cores and GPUs.
pub(crate) const SEVERAL_GPUS_BYTES: usize = 16 << 20;

/// The largest chunk of a GPU in a call that cores share, in bytes of each array.
pub(crate) const SHARED_CHUNK_BYTES: usize = 1 << 20;

/// The most time of a core for its chunk of such a call, by the prior, in nanoseconds, before the chunk is
/// rounded up to a power of two; and the fewest elements, a block or two of an expression. At the end of a
/// call other processors wait for the last such chunk.
pub(crate) const SHARED_CORE_NS: f32 = 50e3;
pub(crate) const SHARED_CORE_CHUNK: usize = 1 << 10;

/// Slots of a device, of each kind: chunks that may be in flight at once. Without arrays of other
/// devices they hold 62 MiB of device memory and 25 MiB of pinned memory in all, with them 86 and 25.
/// The third slot for DMA serves operations that write as much as they read. (An exponential of 400 MB:
/// 8.3 ms, 8.6 with two slots.)
pub(crate) const SLOTS: [usize; 3] = [8, 3, 8];

/// Threads that copy between pageable memory and the pinned buffers.
pub(crate) const STAGING_THREADS: usize = 4;

/// The fewest elements of a reduction that a further block is launched for: some batches for each warp.
pub(crate) const REDUCTION_BLOCK: usize = 1 << 12;

/// The same where it reads across the bus. (A dot of 40 MB pageable arrays: 1.80 ms; 2.82 with 1 << 12.)
pub(crate) const REDUCTION_BLOCK_ACROSS_BUS: usize = 4 << 12;

/// The fewest elements of a block of an exact sum of f64 that is launched in several waves, and the most waves. (On an
/// H200, shares of a plain loop's rate with 1, 2, 4, 8 and 16 waves: dots of 2^29 elements whose exponents differ much,
/// which are added as integers, 0.67, 0.69, 0.71, 0.72 and 0.70; of 2^27 0.65, 0.67, 0.67, 0.65 and 0.62. Of normal ones
/// 0.94 with each, and 0.93, 0.93, 0.92, 0.91 and 0.88; their norms, 2^29, 0.69, 0.69, 0.71, 0.71 and 0.69.)
pub(crate) const REDUCTION_BLOCK_IN_WAVES: usize = 3 << 16;
pub(crate) const MOST_WAVES: usize = 4;

/// Sums of f32 do without f64 arithmetic on devices where it is slower than that of f32 by more than this
/// factor.
pub(crate) const F64_RATIO: i32 = 8;

/// The least bytes of freed device memory that are kept for reuse, smaller ones the driver allocates from
/// memory that it has mapped; and the most bytes and blocks that are kept of a device.
pub(crate) const LEAST_KEPT_BYTES: usize = 64 << 10;
pub(crate) const KEPT_BYTES: usize = 512 << 20;
pub(crate) const KEPT_BLOCKS: usize = 64;

/// Device memory of each slot and stream in which the blocks of a reduction merge their states, and count the portions
/// that warps have taken (kernels/reduce.cuh).
pub(crate) const REDUCTION_SCRATCH_BYTES: usize = 64 << 10;

/// The same of reductions along axes: enough for several blocks to share the rows of 16384 columns of f32. (Their
/// sums: 0.94 of a copy's rate, 0.80 with less.)
pub(crate) const AXES_SCRATCH_BYTES: usize = 2 << 20;

/// The bytes of a block of an expression in each buffer: of an elementwise expression with at most one
/// buffer, of one with more, so that the buffers and the arrays stay in a core's first cache, and of a
/// reduction, where longer blocks make exact sums faster. (10^5 f32: three operations 27 µs, 32 with 4 KiB,
/// 40 with 16; eight operations 60 µs, 71 with 8 KiB. A sum of products of f64: 43 µs; 54 with 4 KiB.)
pub(crate) const EXPRESSION_BLOCK_BYTES: [usize; 3] = [8 << 10, 4 << 10, 16 << 10];

/// The elements of a block of an operation of f64 that takes at least these picoseconds, whose results are searched for
/// NaNs afterwards. (10^5 exponentials take 52 µs; 55 if all are written first, and are no longer in the first cache.)
pub(crate) const SEARCHED_BLOCK: usize = 1 << 11;
pub(crate) const SEARCHED_COST: u32 = 900;

/// The elements of a block of arrays that are not contiguous, where they are reduced or filled: those of a few arrays
/// stay in a core's first cache.
pub(crate) const STRIDED_BLOCK: usize = 1 << 10;

/// The bytes that a block of an elementwise expression touches of all such arrays and of their copies, which share
/// a core's first cache, and the fewest and the most elements of the block, since a block takes some 60 ns to begin.
/// (One core of an EPYC 9005, `a[::2] + b` of 10^6 f64: 0.56 ms; 0.72 with 40 KiB.)
pub(crate) const STRIDED_BLOCK_BYTES: usize = 24 << 10;
pub(crate) const STRIDED_BLOCKS: [usize; 2] = [1 << 9, 1 << 11];

/// The elements of such a block where no array is copied.
pub(crate) const WHOLE_BLOCK: usize = 1 << 12;

/// The rows of a block of an array whose elements are nearer to each other along another axis than along rows, and
/// the most elements of such a block, which then contains fewer rows. More rows that are a power of 2 apart would not
/// be in a core's first cache together. (The same core, `a + b.T` of 1024 × 1024 f32: 0.47 ms; 2.7 with 16 rows, 3.5
/// with 4.)
pub(crate) const TRANSPOSED_ROWS: usize = 8;
pub(crate) const TRANSPOSED_BLOCK: usize = 1 << 14;

/// The bytes of a line of a core's caches.
pub(crate) const CACHE_LINE: usize = 64;

/// The most values of an array that one of several reductions takes before the next one takes the same. They are in a
/// core's nearest cache.
pub(crate) const REDUCED_AT_ONCE: usize = 2048;

/// The most elements that reductions along axes take at a time where those of each result follow each other.
pub(crate) const REDUCED_TILE: usize = 1 << 14;

/// The most columns that such reductions take at a time: states and rows of them are in a core's nearest caches.
pub(crate) const REDUCED_COLUMNS: usize = 1 << 10;

/// The least columns that are added as columns, row by row.
pub(crate) const LEAST_COLUMNS: usize = 16;

/// The most elements of a result that are added as columns with those of other results, although they follow each
/// other: a row of them takes longer to add.
pub(crate) const REDUCED_SHORT_ROW: usize = 24;

/// The most rows of columns that are read where they are.
pub(crate) const REDUCED_ROWS: usize = 256;

/// The most bytes of the states of a block of results, which stay in a core's second cache; most sums of columns do
/// not touch them.
pub(crate) const REDUCED_STATE_BYTES: usize = 512 << 10;

/// The elements of a chunk that is copied from device memory, to be added to accumulators by cores: 8 MiB at most.
pub(crate) const COPIED_CHUNK: usize = 1 << 20;

/// The elements of each part of the work, where there are too few results for all cores.
pub(crate) const REDUCED_PART: usize = 1 << 15;

/// The fewest neighbouring results that a tile of arrays in host memory has on its way to a GPU, where the elements
/// of a result are further apart: so that whole cache lines are gathered, and there are few states beside the
/// elements. (Not measured yet.)
pub(crate) const GATHERED_COLUMNS: usize = 256;

/// The bytes of all buffers of an expression, which stay in a core's second cache; blocks become as short
/// as this needs.
pub(crate) const EXPRESSION_BYTES: usize = 512 << 10;
