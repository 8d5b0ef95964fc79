//! The size of a kernel's grid.

use crate::policy::{KernelPolicy, gpu};

pub(super) const BLOCK_THREADS: u32 = gpuvec_ptx::BLOCK_THREADS;
const WARP_THREADS: u32 = 32;

/// The blocks of an elementwise kernel over `n` elements, at most `limit`. A thread computes one pack of elements, or
/// up to `packs_per_thread` packs in a grid of more than `gpu::LARGE_GRID` blocks.
pub(super) fn of_packs(n: usize, pack: usize, packs_per_thread: usize, limit: u32) -> u32 {
    let blocks = n.div_ceil(pack).div_ceil(BLOCK_THREADS as usize);
    at_most(blocks.min(gpu::LARGE_GRID).max(blocks.div_ceil(packs_per_thread)), limit)
}

/// The blocks of a reduction's kernel over `n` elements, at most `limit`: one for `gpu::REDUCTION_BLOCK` elements.
pub(super) fn of_reduction(n: usize, limit: u32) -> u32 {
    at_most(n.div_ceil(gpu::REDUCTION_BLOCK), limit)
}

/// The number of waves in which to launch an exact sum of `n` f64 on a device that runs `held` blocks at once. With
/// several waves, multiprocessors that read memory faster run more of the blocks.
pub(super) fn waves(n: usize, held: u32, policy: &KernelPolicy) -> u32 {
    n.div_ceil(policy.block_in_waves * held.max(1) as usize).clamp(1, policy.most_waves) as u32
}

/// The blocks that a kernel wants, at most `limit`.
pub(super) fn at_most(blocks: usize, limit: u32) -> u32 {
    u32::try_from(blocks).map_or(limit, |blocks| blocks.min(limit))
}

/// The number of warps of a grid.
pub(super) fn warps(blocks: u32) -> u32 {
    blocks.saturating_mul(BLOCK_THREADS / WARP_THREADS)
}
