//! The sizes of work on cores, measured on x86-64. AArch64 uses the same sizes; they are not measured there.

use std::time::Duration;

/// The work for which another core is woken, as one core's time for it in the cost model's prior. Not measured alone:
/// the cost model's tests pass with it.
pub(crate) const THREAD_SHARE_NS: f32 = 2_000.0;

/// The fewest and the most elements in a core's chunk. Pageable add of 10 million: at most 32,768 374 µs; 65,536 386 to
/// 391 µs.
pub(crate) const CHUNK: [usize; 2] = [1 << 12, 1 << 16];

/// The fewest chunks of a call for each core, so that a core that starts late takes fewer. Pageable add of 300,000: 1
/// 12.3 µs, 4 11.5, 8 10.3; of 1 million: 24.7, 24.4, 22.9.
pub(crate) const CHUNKS_PER_CORE: usize = 8;

/// The most products for which a sum with an error bound is tried first. Larger arrays do not fit into the caches, and
/// from memory an exact sum is as fast. Follows from the size of the caches.
pub(crate) const MOST_BOUNDED: usize = 1 << 22;

/// The time that the library's threads spin after a call before they sleep. Pageable add of 100,000, back to back: 0
/// 25.1 µs, 20 µs 11.7, 100 µs 12.3. The longest leaves the caller time between calls.
pub(crate) const SPIN_TIME: Duration = Duration::from_micros(100);

/// The most time of a core for its chunk of a call that GPUs share, by the prior, before the chunk is rounded up to a
/// power of two. The other processors wait for the last chunk. Not measured alone.
pub(crate) const SHARED_NS: f32 = 50e3;

/// The fewest elements of such a chunk: a block or two of an expression.
pub(crate) const SHARED_CHUNK: usize = 1 << 10;

/// The bytes of a block in each buffer of an expression: for an elementwise expression with at most one buffer, for one
/// with more, and for a reduction. 10^5 f32, one core: three operations 4 KiB 32 µs, 8 27, 16 40; eight operations 8
/// KiB 71, 4 60. Sum of products of f64: 4 KiB 54, 16 43.
pub(crate) const EXPRESSION_BLOCK_BYTES: [usize; 3] = [8 << 10, 4 << 10, 16 << 10];

/// The most bytes of all buffers of an expression. Blocks become shorter, so that the buffers stay in a core's second
/// cache. Follows from the size of that cache.
pub(crate) const EXPRESSION_BYTES: usize = 512 << 10;

/// The elements of a block of an f64 operation that takes at least `SEARCHED_COST` picoseconds. A search for NaNs
/// follows each block. 10^5 exponentials of f64, one core: 52 µs; 55 if the search follows the whole call.
pub(crate) const SEARCHED_BLOCK: usize = 1 << 11;
pub(crate) const SEARCHED_COST: u32 = 900;

/// The cost in picoseconds to find an element of an array of any strides. Not measured alone.
pub(crate) const GATHERED_ELEMENT_PS: usize = 100;

/// The elements of a block of arrays that are not contiguous, in a reduction or a fill. Follows from the size of the
/// first cache, as do `WHOLE_BLOCK` and `STRIDED_BLOCKS`.
pub(crate) const STRIDED_BLOCK: usize = 1 << 10;

/// The bytes that a block of an elementwise expression touches in all such arrays and in their copies, which share a
/// core's first cache; and the fewest and the most elements of the block, which takes some 60 ns to begin. EPYC 9005,
/// one core, `a[::2] + b` of 10^6 f64: 24 KiB 0.56 ms, 40 KiB 0.72.
pub(crate) const STRIDED_BLOCK_BYTES: usize = 24 << 10;
pub(crate) const STRIDED_BLOCKS: [usize; 2] = [1 << 9, 1 << 11];

/// The elements of such a block if no array is copied.
pub(crate) const WHOLE_BLOCK: usize = 1 << 12;

/// The rows of a block of an array with a smaller stride along another axis than along its rows, and the most elements
/// of such a block. More rows that are a power of 2 apart do not fit in a core's first cache together. EPYC 9005, one
/// core, `a + b.T` of 1024 x 1024 f32: 4 rows 3.5 ms, 8 0.47, 16 2.7.
pub(crate) const TRANSPOSED_ROWS: usize = 8;
pub(crate) const TRANSPOSED_BLOCK: usize = 1 << 14;

/// Rows with fewer elements are copied as columns, if there are more of them. Not measured alone.
pub(crate) const COPIED_SHORT_ROW: usize = 8;

/// The bytes of a cache line, a property of the processors.
pub(crate) const CACHE_LINE: usize = 64;

/// The most elements that a reduction along axes takes at a time if the elements of each result are adjacent. The sizes
/// of reductions along axes follow from the sizes of the caches. None was measured alone.
pub(crate) const REDUCED_TILE: usize = 1 << 14;

/// The most columns that such a reduction takes at a time. Their states and rows stay in a core's nearest caches.
pub(crate) const REDUCED_COLUMNS: usize = 1 << 10;

/// The fewest columns that are added as columns, row by row.
pub(crate) const LEAST_COLUMNS: usize = 16;

/// The most elements of a result that are added as columns although they are adjacent.
pub(crate) const REDUCED_SHORT_ROW: usize = 24;

/// The most rows of columns that are read in place.
pub(crate) const REDUCED_ROWS: usize = 256;

/// The most rows that are added to columns at a time. With more, the terms of a column more often differ too much in
/// size.
pub(crate) const COLUMN_ROWS: usize = 256;

/// The most bytes of the states of a block of results. They stay in a core's second cache.
pub(crate) const REDUCED_STATE_BYTES: usize = 512 << 10;

/// The elements of each part of a reduction along axes with too few results for all cores.
pub(crate) const REDUCED_PART: usize = 1 << 15;

/// The elements of a call for each state of a further thread's table of groups. With fewer, a thread would take longer
/// to clear its table and to add it to the results than to add the elements. Not measured alone.
pub(crate) const ELEMENTS_PER_GROUP: usize = 2;

/// The results by key that are computed at a time: they stay in a core's first cache. Not measured alone.
pub(crate) const RESULTS_AT_ONCE: usize = 1 << 11;

/// The elements of a chunk that is copied from device memory, for cores to add to accumulators: at most 8 MiB.
pub(crate) const COPIED_CHUNK: usize = 1 << 20;

/// The elements of a part of a fast function. The first block is one part, as is the block after one with mostly wrong
/// results; before the latter, the exact loop computes `FAST_EXACT_PARTS` parts. Xeon (Sapphire Rapids), 2026-11-26,
/// f32 functions: blocks of 4,096 elements are as fast as 3 x 512.
pub(crate) const FAST_PART: usize = 512;
pub(crate) const FAST_EXACT_PARTS: usize = 3;

/// The most values that one of several reductions, such as the sums of a variance, takes before the next one takes the
/// same values. They stay in a core's first cache. Not measured alone: 16 KiB of f64.
pub(crate) const REDUCED_AT_ONCE: usize = 2048;

/// The values among which `argmin` and `argmax` find the least or greatest value before they search for its index.
pub(crate) const INDEXED_VALUES: usize = 2048;

/// The most terms that are added to an exact state one by one, because bins take time to clear and to empty. Terms of
/// 2^-250 to 2^250, AVX-512 and AVX2: 300 take 0.52 to 0.68 of their time in bins, 512 products of f64 1.2 to 1.4.
pub(crate) const FEW_DEPOSITS: usize = 384;

/// A block that no window holds is added in parts, if it has more than `FEWEST_IN_PARTS` terms: the terms of a part,
/// and the most parts that are added term by term. An outlier in 65,536 elements: sums take 0.52 to 0.8 of the time
/// without parts, dot products the same time.
pub(crate) const UNHELD_PART: usize = 256;
pub(crate) const MOST_UNHELD_PARTS: usize = 2;

/// This value and the next four were not measured alone.
pub(crate) const FEWEST_IN_PARTS: usize = 1 << 10;

/// The most blocks that are added as integers after a window failed, before a window is tried again.
pub(crate) const MOST_SKIPPED: usize = 15;

/// The fewest products for which a bounded sum saves time on average, although an exact sum may have to follow.
pub(crate) const BOUNDED_FROM: usize = 1 << 10;

/// The most terms for which one window that holds all terms is tried before a state is made.
pub(crate) const ONE_WINDOW: usize = 1 << 12;

/// The blocks that are summed with a witness after a block that needs one.
pub(crate) const MOST_WITNESSED: usize = 1 << 3;

/// The elements of the sample for which a window is chosen.
pub(crate) const WINDOW_SAMPLE: usize = 128;

/// The distance in bytes of the exact loop's prefetches in each of two arrays. The distances differ, so that two arrays
/// at the same page offset do not need the same cache sets at once. Bounded sums have no prefetches: they read twice as
/// fast, and prefetches would make them 5 to 30 % slower.
pub(crate) const WINDOW_AHEAD: [usize; 2] = [2 << 10, 3 << 10];

/// The distance in bytes of the prefetches of sums of f32 with uniform exponents.
pub(crate) const UNIFORM_AHEAD: usize = 2 << 10;

/// Lanes of columns use two f64 once more than one lane in this many is inexact.
pub(crate) const FEW_INEXACT: usize = 32;
