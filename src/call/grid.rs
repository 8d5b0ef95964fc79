//! The size of a kernel's grid.

use super::task::Task;
use crate::ops::Shape;
use crate::tuning::REDUCTION_BLOCK;

pub(crate) const BLOCK_THREADS: u32 = 256;
const WARP_THREADS: u32 = 32;
/// The most blocks that CUDA launches; threads go on to further elements from there.
pub(crate) const MAX_BLOCKS: u32 = i32::MAX as u32;

/// The blocks of a task's kernel over `n` elements, at most `limit`: a thread for each pack of an
/// elementwise kernel (threads that go over several packs are slower by some per cent on a device's
/// own memory), a block for each [`REDUCTION_BLOCK`] elements of a reduction.
pub(crate) fn blocks(task: Task<'_>, n: usize, limit: u32) -> u32 {
    let blocks = match task.shape() {
        Shape::Elementwise => n.div_ceil(task.pack()).div_ceil(BLOCK_THREADS as usize),
        Shape::Reduction => n.div_ceil(REDUCTION_BLOCK),
    };
    u32::try_from(blocks).map_or(limit, |blocks| blocks.min(limit))
}

/// The number of warps of a grid.
pub(crate) fn warps(blocks: u32) -> u32 {
    blocks.saturating_mul(BLOCK_THREADS / WARP_THREADS)
}
