//! The size of a kernel's grid.

use crate::policy::{KernelPolicy, gpu};

pub(super) const BLOCK_THREADS: u32 = gpuvec_ptx::BLOCK_THREADS;
const WARP_THREADS: u32 = 32;

/// The blocks of an elementwise kernel over `n` elements, at most `limit`: a thread for each pack of elements,
/// or for as many packs as a thread takes where `gpu::LARGE_GRID` blocks are left.
pub(super) fn of_packs(n: usize, pack: usize, packs_per_thread: usize, limit: u32) -> u32 {
    let blocks = n.div_ceil(pack).div_ceil(BLOCK_THREADS as usize);
    at_most(limit, blocks.min(gpu::LARGE_GRID).max(blocks.div_ceil(packs_per_thread)))
}

/// The blocks of a reduction's kernel over `n` elements, at most `limit`: one for each `gpu::REDUCTION_BLOCK`.
pub(super) fn of_reduction(n: usize, limit: u32) -> u32 {
    at_most(limit, n.div_ceil(gpu::REDUCTION_BLOCK))
}

/// The waves of `held` blocks, which run at once, that an exact sum of `n` f64 is launched in. With several waves
/// multiprocessors that read memory faster than others run more of the blocks.
pub(super) fn waves(n: usize, held: u32, policy: &KernelPolicy) -> u32 {
    n.div_ceil(policy.block_in_waves * held.max(1) as usize).clamp(1, policy.most_waves) as u32
}

/// Returns the number of blocks of a kernel: one for each tile, at most `limit`.
pub(super) fn of_tiles(tiles: usize, limit: u32) -> u32 {
    at_most(limit, tiles)
}

fn at_most(limit: u32, blocks: usize) -> u32 {
    u32::try_from(blocks).map_or(limit, |blocks| blocks.min(limit))
}

/// The number of warps of a grid.
pub(super) fn warps(blocks: u32) -> u32 {
    blocks.saturating_mul(BLOCK_THREADS / WARP_THREADS)
}
