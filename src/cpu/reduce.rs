//! Reductions on one core, in the order of [`crate::sum`].

use crate::op::{Reduction, SumOf};
use crate::sum::{LANES, Sum, TILE, tree};
use std::is_x86_feature_detected;

/// Lanes whose running sums are held in registers at once.
const GROUP: usize = 32;

/// Tiles whose sums are collected before they are added up; a power of two.
const TILES: usize = crate::tuning::CORE_CHUNK / TILE;

/// The sum of `op.term(a[i], b[i])` over a chunk of at most [`crate::tuning::CORE_CHUNK`]
/// elements that begins with a tile.
///
/// # Safety
/// `a` and `b` must be readable for `n` elements.
pub(crate) unsafe fn reduce<O: Reduction>(
    op: O,
    a: *const O::Element,
    b: *const O::Element,
    n: usize,
) -> SumOf<O> {
    let mut sums = [SumOf::<O>::ZERO; TILES];
    let tiles = n.div_ceil(TILE);
    for (tile, sum) in sums[..tiles].iter_mut().enumerate() {
        let start = tile * TILE;
        let len = TILE.min(n - start);
        // SAFETY: `start + len <= n`, and the caller promises `n` elements.
        *sum = unsafe { tile_sum(op, a.add(start), b.add(start), len) };
    }
    tree(&mut sums[..tiles])
}

/// # Safety
/// `a` and `b` must be readable for `len` elements.
unsafe fn tile_sum<O: Reduction>(
    op: O,
    a: *const O::Element,
    b: *const O::Element,
    len: usize,
) -> SumOf<O> {
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2; the rest is this function's promise.
        unsafe { avx2(op, a, b, len) }
    } else {
        // SAFETY: this function's promise.
        unsafe { baseline(op, a, b, len) }
    }
}

/// # Safety
/// As [`tile_sum`], on a processor with AVX2.
#[target_feature(enable = "avx2")]
unsafe fn avx2<O: Reduction>(
    op: O,
    a: *const O::Element,
    b: *const O::Element,
    len: usize,
) -> SumOf<O> {
    // SAFETY: the caller's promise.
    unsafe { body(op, a, b, len) }
}

/// # Safety
/// As [`tile_sum`].
unsafe fn baseline<O: Reduction>(
    op: O,
    a: *const O::Element,
    b: *const O::Element,
    len: usize,
) -> SumOf<O> {
    // SAFETY: the caller's promise.
    unsafe { body(op, a, b, len) }
}

/// # Safety
/// As [`tile_sum`].
#[inline(always)]
unsafe fn body<O: Reduction>(
    op: O,
    a: *const O::Element,
    b: *const O::Element,
    len: usize,
) -> SumOf<O> {
    let rows = len / LANES;
    let mut lanes = [SumOf::<O>::ZERO; LANES];
    for group in (0..LANES).step_by(GROUP) {
        let mut sums = [SumOf::<O>::ZERO; GROUP];
        for row in 0..rows {
            let start = row * LANES + group;
            // SAFETY: `start + GROUP <= rows * LANES <= len`.
            let (x, y) = unsafe {
                let x = a.add(start).cast::<[O::Element; GROUP]>().read();
                (x, b.add(start).cast::<[O::Element; GROUP]>().read())
            };
            for lane in 0..GROUP {
                sums[lane] = sums[lane].plus(op.term(x[lane], y[lane]));
            }
        }
        lanes[group..group + GROUP].copy_from_slice(&sums);
    }
    for i in rows * LANES..len {
        let lane = &mut lanes[i - rows * LANES];
        // SAFETY: `i < len`.
        *lane = lane.plus(unsafe { op.term(a.add(i).read(), b.add(i).read()) });
    }
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] = lanes[lane].plus(lanes[lane + half]);
        }
        half /= 2;
    }
    lanes[0]
}
