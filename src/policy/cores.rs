//! The sizes of work on cores, by instruction set.

use std::time::Duration;

/// The policy of the target's instruction set.
pub(crate) const CORES: Cores = if cfg!(target_arch = "aarch64") { AARCH64 } else { X86_64 };

/// Not measured: the values of x86-64.
const AARCH64: Cores = X86_64;

/// The sizes of work on cores.
#[derive(Clone, Copy)]
pub(crate) struct Cores {
    /// The work for which another core is woken, as the time of one core by the prior.
    pub(crate) thread_share_ns: f32,
    /// The fewest and the most elements in a core's chunk.
    pub(crate) chunk: [usize; 2],
    /// The fewest chunks of a call for each core, so that a core that starts late takes fewer.
    pub(crate) chunks_per_core: usize,
    /// The most products that are summed within a bound first: arrays that fit into caches. From memory, an exact sum
    /// is as fast.
    pub(crate) most_bounded: usize,
    /// The time that the library's threads spin after a call before they sleep.
    pub(crate) spin_time: Duration,
    /// The most time of a core for its chunk of a call that GPUs share, by the prior, before the chunk is rounded up to
    /// a power of two; the fewest elements of such a chunk. Other processors wait for the last chunk.
    pub(crate) shared_ns: f32,
    pub(crate) shared_chunk: usize,
    /// The bytes of a block of an expression in each buffer: of an elementwise expression with at most one buffer, of
    /// one with more, and of a reduction.
    pub(crate) expression_block_bytes: [usize; 3],
    /// The bytes of all buffers of an expression, which stay in a core's second cache: blocks become shorter.
    pub(crate) expression_bytes: usize,
    /// The elements of a block of an f64 operation that takes at least `searched_cost` picoseconds. Its results are
    /// searched for NaNs afterwards.
    pub(crate) searched_block: usize,
    pub(crate) searched_cost: u32,
    /// The cost in picoseconds to find an element of an array of any strides.
    pub(crate) gathered_element_ps: usize,
    /// The elements of a block of arrays that are not contiguous, where they are reduced or filled.
    pub(crate) strided_block: usize,
    /// The bytes that a block of an elementwise expression touches of all such arrays and of their copies, which share
    /// a core's first cache; the fewest and the most elements of the block, which costs some 60 ns to begin.
    pub(crate) strided_block_bytes: usize,
    pub(crate) strided_blocks: [usize; 2],
    /// The elements of such a block where no array is copied.
    pub(crate) whole_block: usize,
    /// The rows of a block of an array that is closer in memory along another axis than along rows, and the most
    /// elements of such a block. More rows that are a power of 2 apart do not fit in a core's first cache together.
    pub(crate) transposed_rows: usize,
    pub(crate) transposed_block: usize,
    /// Rows with fewer elements are copied as columns, if there are more of them.
    pub(crate) copied_short_row: usize,
    /// The bytes of a cache line.
    pub(crate) cache_line: usize,
    /// The most elements that reductions along axes take at a time where each result's elements are adjacent.
    pub(crate) reduced_tile: usize,
    /// The most columns that such reductions take at a time: their states and rows stay in a core's nearest caches.
    pub(crate) reduced_columns: usize,
    /// The fewest columns that are added as columns, row by row.
    pub(crate) least_columns: usize,
    /// The most elements of a result that are added as columns although they are adjacent.
    pub(crate) reduced_short_row: usize,
    /// The most rows of columns that are read in place.
    pub(crate) reduced_rows: usize,
    /// The most rows that are added to columns at a time: with more, terms more often differ too much in size.
    pub(crate) column_rows: usize,
    /// The most bytes of the states of a block of results, which stay in a core's second cache.
    pub(crate) reduced_state_bytes: usize,
    /// The elements of each part of a reduction along axes with too few results for all cores.
    pub(crate) reduced_part: usize,
    /// The elements of a chunk that is copied from device memory, for cores to add to accumulators: at most 8 MiB.
    pub(crate) copied_chunk: usize,
    /// The elements of the first block of a fast function, and of a block behind one with mostly wrong elements; and
    /// how many times as many elements the exact loop computes before such a block.
    pub(crate) fast_part: usize,
    pub(crate) fast_exact_parts: usize,
    /// The most values that one of several reductions, such as the sums of a variance, takes before the next one takes
    /// its own: values that reductions share stay in a core's first cache.
    pub(crate) reduced_at_once: usize,
    /// The values whose winner is found before its index is searched for.
    pub(crate) indexed_values: usize,
    /// The most terms that are added to an exact state one by one: bins take longer to clear and to empty.
    pub(crate) few_deposits: usize,
    /// The terms of a part of a block that no window holds; the most such parts that are added term by term; and the
    /// terms from which on a block is tried in parts.
    pub(crate) unheld_part: usize,
    pub(crate) most_unheld_parts: usize,
    pub(crate) fewest_in_parts: usize,
    /// The most blocks that are added as integers, without trying a window, after windows failed.
    pub(crate) most_skipped: usize,
    /// The fewest products for which a bounded sum pays on average, although an exact sum may have to follow.
    pub(crate) bounded_from: usize,
    /// The most terms for which one window for all is tried before a state is made.
    pub(crate) one_window: usize,
    /// The blocks that are summed with checks after one that could not be summed without.
    pub(crate) most_witnessed: usize,
    /// The elements whose largest one places a window.
    pub(crate) window_sample: usize,
    /// The distance in bytes of the exact loop's prefetches in each of two arrays. They differ, so that two arrays at
    /// the same page offset do not need the same cache sets at once.
    pub(crate) window_ahead: [usize; 2],
    /// The distance in bytes of the prefetches of sums of f32 with uniform exponents.
    pub(crate) uniform_ahead: usize,
    /// Lanes of columns use two f64 once more than one lane in this many is inexact.
    pub(crate) few_inexact: usize,
}

/// x86-64.
const X86_64: Cores = Cores {
    // Not measured alone: the cost model's tests pass with it.
    thread_share_ns: 2_000.0,
    // Pageable add of 10 million: at most 32,768 374 µs; 65,536 386 to 391 µs.
    chunk: [1 << 12, 1 << 16],
    // Pageable add of 300,000: 1 12.3 µs, 4 11.5, 8 10.3; of 1 million: 24.7, 24.4, 22.9.
    chunks_per_core: 8,
    // Follows from the size of the caches.
    most_bounded: 1 << 22,
    // Pageable add of 100,000, back to back: 0 25.1 µs, 20 µs 11.7, 100 µs 12.3, which leaves the caller time.
    spin_time: Duration::from_micros(100),
    // Not measured alone.
    shared_ns: 50e3,
    // A block or two of an expression.
    shared_chunk: 1 << 10,
    // 10^5 f32, one core: three operations 4 KiB 32 µs, 8 27, 16 40; eight operations 8 KiB 71, 4 60. Sum of
    // products of f64: 4 KiB 54, 16 43.
    expression_block_bytes: [8 << 10, 4 << 10, 16 << 10],
    // Follows from the size of the second cache.
    expression_bytes: 512 << 10,
    // 10^5 exponentials of f64, one core: 52 µs; 55 if all results are written before the search.
    searched_block: 1 << 11,
    searched_cost: 900,
    // Not measured alone.
    gathered_element_ps: 100,
    // Follows from the size of the first cache, as do `whole_block` and `strided_blocks`.
    strided_block: 1 << 10,
    // EPYC 9005, one core, `a[::2] + b` of 10^6 f64: 24 KiB 0.56 ms, 40 KiB 0.72.
    strided_block_bytes: 24 << 10,
    strided_blocks: [1 << 9, 1 << 11],
    whole_block: 1 << 12,
    // EPYC 9005, one core, `a + b.T` of 1024 x 1024 f32: 4 rows 3.5 ms, 8 0.47, 16 2.7.
    transposed_rows: 8,
    transposed_block: 1 << 14,
    // Not measured alone.
    copied_short_row: 8,
    // The processors' property.
    cache_line: 64,
    // The sizes of reductions along axes follow from the sizes of the caches; none was measured alone.
    reduced_tile: 1 << 14,
    reduced_columns: 1 << 10,
    least_columns: 16,
    reduced_short_row: 24,
    reduced_rows: 256,
    column_rows: 256,
    reduced_state_bytes: 512 << 10,
    reduced_part: 1 << 15,
    copied_chunk: 1 << 20,
    // Xeon (Sapphire Rapids), 2026-11-26, f32 functions: blocks of 4,096 elements are as fast as 3 x 512.
    fast_part: 512,
    fast_exact_parts: 3,
    // Not measured alone: 16 KiB of f64.
    reduced_at_once: 2048,
    indexed_values: 2048,
    // Terms of 2^-250 to 2^250, AVX-512 and AVX2: 300 take 0.52 to 0.68 of their time in bins, 512 products of f64 1.2 to 1.4.
    few_deposits: 384,
    // An outlier in 65,536 elements: sums take 0.52 to 0.8 of the time without parts, dot products the same time.
    unheld_part: 256,
    most_unheld_parts: 2,
    // The next five were not measured alone.
    fewest_in_parts: 1 << 10,
    most_skipped: 15,
    bounded_from: 1 << 10,
    one_window: 1 << 12,
    most_witnessed: 1 << 3,
    window_sample: 128,
    // Prefetches cost bounded sums, which read twice as fast, 5 to 30 %: these have none.
    window_ahead: [2 << 10, 3 << 10],
    uniform_ahead: 2 << 10,
    few_inexact: 32,
};
