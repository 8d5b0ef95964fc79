//! The sizes of calls on GPUs that follow from the bus, the driver and the host's memory.

use std::time::Duration;

/// The sizes of calls on GPUs.
#[derive(Clone, Copy)]
pub(crate) struct Gpu {
    /// The time to open the driver and a device.
    pub(crate) opening_ns: f32,
    /// The driver's time to compile any formula, its time for each picosecond that an element costs a core, and the
    /// most of it, in nanoseconds; and its time for an exact reduction.
    pub(crate) compiler_ns: [f32; 3],
    pub(crate) exact_compiler_ns: f32,
    /// An array of at most this many bytes that the driver does not know is not examined further.
    pub(crate) small_array_bytes: usize,
    /// Up to this many bytes in each array, kernels access pinned memory across the bus without a copy: for an
    /// elementwise operation, which uses both directions of the bus, and for a reduction.
    pub(crate) mapped_bytes: [usize; 2],
    /// The most blocks of an elementwise kernel that alone reads and writes across the bus: more are slower.
    pub(crate) blocks_across_bus: u32,
    /// The most warps of a kernel that signals completion by flags: `blocks_across_bus` blocks.
    pub(crate) flagged_warps: u32,
    /// The time that the host polls the flags before it synchronizes with the stream. Polling costs a core.
    pub(crate) flag_polling: Duration,
    /// The fewest chunks of a call for each GPU, so that copies and kernels overlap.
    pub(crate) pipeline_depth: usize,
    /// The smallest chunk, in bytes of each array.
    pub(crate) smallest_chunk_bytes: usize,
    /// The largest chunk of arrays that are staged, in bytes of each; and a slot's pinned memory for such a chunk.
    pub(crate) staged_chunk_bytes: usize,
    pub(crate) staged_slot_bytes: usize,
    /// A slot's device memory for a chunk of arrays that are copied by DMA: five arrays of 4 MiB.
    pub(crate) dma_slot_bytes: usize,
    /// A device's slots of each kind (in place, DMA, staged): the chunks that may be in flight at once. They hold at most
    /// 86 MiB of device memory and 25 MiB of pinned memory.
    pub(crate) slots: [usize; 3],
    /// Threads that copy between pageable memory and the pinned buffers.
    pub(crate) staging_threads: usize,
    /// Past this many bytes in each array, cores and GPUs can share a call on host arrays.
    pub(crate) shared_bytes: usize,
    /// Past this many bytes in each array, placement gpu uses all GPUs for host arrays, and placement all cores too.
    pub(crate) several_gpus_bytes: usize,
    /// The largest chunk of a GPU in a call that cores share, in bytes of each array.
    pub(crate) shared_chunk_bytes: usize,
    /// Blocks of an elementwise kernel that keep any device busy: several times those that it runs at once.
    pub(crate) large_grid: usize,
    /// The fewest elements of a reduction for each block; and where it reads across the bus.
    pub(crate) reduction_block: usize,
    pub(crate) reduction_block_across_bus: usize,
    /// Device memory of each slot and stream in which the blocks of a reduction merge their states, and count the
    /// portions that warps have taken (kernels/reduce.cuh); and the memory of reductions along axes.
    pub(crate) reduction_scratch_bytes: usize,
    pub(crate) axes_scratch_bytes: usize,
    /// The fewest adjacent results of a tile of host arrays whose elements of a result are further apart, so that whole
    /// cache lines are gathered.
    pub(crate) gathered_columns: usize,
    /// Calls with at most this many axes have kernels for their number; others have the kernel for the most axes.
    pub(crate) few_axes: usize,
    /// The shortest axes of tiles.
    pub(crate) least_tiled: usize,
    /// The least bytes of freed device memory that are kept for reuse; and the most bytes and blocks that are kept of a
    /// device.
    pub(crate) least_kept_bytes: usize,
    pub(crate) kept_bytes: usize,
    pub(crate) kept_blocks: usize,
}

const BLOCKS_ACROSS_BUS: u32 = 64;
const STAGED_CHUNK_BYTES: usize = 1 << 20;

/// PCIe 5 x16 with an H200. Other buses are not measured.
pub(crate) const GPU: Gpu = Gpu {
    // Of fresh processes; the run is not recorded.
    opening_ns: 250e6,
    // One operation 18 ms, an exponential 38, Black-Scholes 99, 4,090 divisions 3 s; a dot product 130 ms.
    compiler_ns: [15e6, 7e3, 3e9],
    exact_compiler_ns: 130e6,
    // Add of 10, 100 and 1,000 from `malloc`: probing both ends always costs 4.5, 4.5 and 4.0 times as long.
    small_array_bytes: 256 << 10,
    // Pinned add of 2 million: 4 MiB (by DMA) 385 µs, 16 and 48 MiB 341; of 4 million 697, 672, 672; of 10 million
    // 1.64, 1.64, 1.65 ms. Pinned dot of 1 million: 4 MiB 172 µs, 8 MiB 171.
    mapped_bytes: [16 << 20, 8 << 20],
    // Pinned add of 1 million: 32 178 µs, 64 179, 128 181, a thread for each 16 bytes 231; of 100,000 31.6, 31.2, 33.6.
    blocks_across_bus: BLOCKS_ACROSS_BUS,
    // Pinned add of 1,000: by flags 9.9 µs, by the stream 11.4; dot 11.0 and 13.6.
    flagged_warps: 8 * BLOCKS_ACROSS_BUS,
    // The 2 µs that flags save are little of a longer call.
    flag_polling: Duration::from_micros(50),
    // Not measured alone.
    pipeline_depth: 8,
    smallest_chunk_bytes: 256 << 10,
    staged_chunk_bytes: STAGED_CHUNK_BYTES,
    staged_slot_bytes: 3 * STAGED_CHUNK_BYTES,
    // Pinned `a * b + c * d` of 100 million, MiB x slots: 14 x 3 31.8 ms, 16 x 2 31.6, 20 x 3 30.6, 32 x 2 30.5.
    dma_slot_bytes: 20 << 20,
    // Pinned `exp(a)` of 100 million, MiB x slots for DMA: 20 x 2 8.54 ms, 20 x 3 8.27, 32 x 2 8.45.
    slots: [8, 3, 8],
    // Staged copies reach 33 to 34 GB/s (docs/benchmarks/more.md).
    staging_threads: 4,
    // Not measured alone.
    shared_bytes: 2 << 20,
    several_gpus_bytes: 16 << 20,
    shared_chunk_bytes: 1 << 20,
    large_grid: 4096,
    // Device dot of 100,000: 4,096 16.9 µs, 16,384 20.4, 32,768 24.7; of 1 million 18.8, 21.5, 27.3.
    reduction_block: 1 << 12,
    // Pageable dot of 10 million: 4,096 2.82 ms, 16,384 1.80, 32,768 1.78; of 100 million 21.5, 19.6, 19.9.
    reduction_block_across_bus: 4 << 12,
    // The words of one exact state, and the counters.
    reduction_scratch_bytes: 64 << 10,
    // Sums of 16,384 columns of f32: 0.94 of a copy's rate; 0.80 with less, when blocks cannot share rows.
    axes_scratch_bytes: 2 << 20,
    // Not measured.
    gathered_columns: 256,
    // Not measured: most calls have as few.
    few_axes: 4,
    // A warp's elements: tiles of shorter axes are mostly empty.
    least_tiled: 32,
    // The driver allocates smaller blocks from memory that it has mapped. The limits are not measured.
    least_kept_bytes: 64 << 10,
    kept_bytes: 512 << 20,
    kept_blocks: 64,
};
