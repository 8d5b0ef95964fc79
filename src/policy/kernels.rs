//! The sizes of kernels' launches, by the GPU's compute capability.

/// The sizes of kernels' launches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelPolicy {
    /// The fewest elements of a block of an exact sum of f64 that is launched in several waves, and the most waves.
    pub(crate) block_in_waves: usize,
    pub(crate) most_waves: usize,
    /// Sums of f32 avoid f64 arithmetic on devices where it is slower than f32 arithmetic by more than this factor.
    pub(crate) f64_ratio: i32,
    /// The vectors of a thread that mostly writes. With one, its block ends before the next one has begun.
    pub(crate) vectors_of_writers: usize,
    pub(crate) axes: AxisReductions,
}

/// The sizes of reductions along axes (kernels/axes.cu).
#[derive(Clone, Copy, Debug)]
pub(crate) struct AxisReductions {
    /// The batches of a thread that outweigh the work on the one state of a result.
    pub(crate) least_batches: usize,
    /// The batches of a thread that outweigh the merge of the states of several blocks.
    pub(crate) least_merged: usize,
    /// The most blocks that share the elements of a result.
    pub(crate) most_splits: usize,
    /// The percentage of the device that several blocks for each result must fill.
    pub(crate) filled_by_splits: usize,
    /// The percentage of the device that blocks of warps with results of their own must fill.
    pub(crate) filled_by_warps: usize,
    /// The percentage of the device beyond which narrower columns are not worth a fuller device.
    pub(crate) filled_by_columns: usize,
    /// The most elements of a result that a warp computes alone. More might overflow the integers of its lanes.
    pub(crate) most_of_warp: usize,
    /// The most products of f64 that a warp computes alone. They exceed its window more often.
    pub(crate) most_products_of_warp: usize,
    /// The most tiles of a warp.
    pub(crate) most_tiles: usize,
    /// The number of times that blocks must fill the device before a block has several results, which it stores at
    /// once.
    pub(crate) times_filled: usize,
}

/// Compute capability 9.0.
const SM_90: KernelPolicy = KernelPolicy {
    // Dots of f64, 2^29 elements with exponents far apart, 1 to 16 waves: 0.67, 0.69, 0.71, 0.72, 0.70 of a plain
    // loop's rate; 2^27 0.65, 0.67, 0.67, 0.65, 0.62; normal numbers, 2^27, 0.93, 0.93, 0.92, 0.91, 0.88.
    block_in_waves: 3 << 16,
    most_waves: 4,
    // Between the ratios of GPUs for computing (2) and of others (32 and 64).
    f64_ratio: 8,
    // Outer sums: 1 0.90 of a copy's rate, 2 1.00, 8 1.01.
    vectors_of_writers: 2,
    axes: AxisReductions {
        // H100, rows of 512: 0.71 before this and `filled_by_splits`, 0.93 with both.
        least_batches: 4,
        // Not measured alone. The same holds for the limits below that have no comment.
        least_merged: 16,
        most_splits: 1024,
        // H100, columns of 16,384: 0.81 before this and `least_batches`, 0.93 with both.
        filled_by_splits: 90,
        filled_by_warps: 75,
        // Columns of 16,384 with 16 and 8 columns in a warp in place of 32: 0.72 and 0.60.
        filled_by_columns: 85,
        // The width of the counts in kernels/exact.cuh.
        most_of_warp: 1 << 15,
        // Norms of f64, rows of 512: 0.31 by warps, 0.21 by blocks; of 16,384: 0.35 and 0.66.
        most_products_of_warp: 1 << 11,
        // Rows of 16 and 4: 1 tile 0.69 and 0.59, 4 0.91 and 0.79, 8 0.88 and 0.67.
        most_tiles: 4,
        times_filled: 4,
    },
};

/// The policies, with the least compute capability of each. Only 9.0 was measured.
const BY_CAPABILITY: [([i32; 2], KernelPolicy); 1] = [([0, 0], SM_90)];

impl KernelPolicy {
    /// The policy of a device with this compute capability.
    pub(crate) fn of(capability: [i32; 2]) -> &'static Self {
        let newest = BY_CAPABILITY.iter().rev().find(|(from, _)| capability >= *from);
        &newest.unwrap_or(&BY_CAPABILITY[0]).1
    }
}
