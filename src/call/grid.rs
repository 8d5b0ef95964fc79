//! The size of a kernel's grid.

use super::task::Task;
use crate::tuning::{LARGE_GRID, REDUCTION_BLOCK};
use gpuvec_ops::Shape;

pub(crate) const BLOCK_THREADS: u32 = 256;
const WARP_THREADS: u32 = 32;
/// The most blocks that CUDA launches; threads go on to further elements from there.
pub(crate) const MAX_BLOCKS: u32 = i32::MAX as u32;

/// The blocks of a task's kernel over `n` elements, at most `limit`: for an elementwise kernel a thread for
/// each pack, or for as many as a thread takes where [`LARGE_GRID`] blocks are left; a block for each
/// [`REDUCTION_BLOCK`] elements of a reduction.
pub(crate) fn blocks(task: Task<'_>, n: usize, limit: u32) -> u32 {
    let blocks = match task.shape() {
        Shape::Elementwise => {
            let [pack, packs_per_thread] = task.packs();
            let blocks = n.div_ceil(pack).div_ceil(BLOCK_THREADS as usize);
            blocks.min(LARGE_GRID).max(blocks.div_ceil(packs_per_thread))
        }
        Shape::Reduction => n.div_ceil(REDUCTION_BLOCK),
    };
    u32::try_from(blocks).map_or(limit, |blocks| blocks.min(limit))
}

/// The number of warps of a grid.
pub(crate) fn warps(blocks: u32) -> u32 {
    blocks.saturating_mul(BLOCK_THREADS / WARP_THREADS)
}
