//! Reductions on one core, in the order of [`crate::sum`].

use crate::op::{Reduction, SumOf};
use crate::sum::{LANES, Sum, TILE, tree};
use std::is_x86_feature_detected;

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
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq") {
        // SAFETY: the processor has both; the rest is this function's promise.
        unsafe { avx512(op, a, b, len) }
    } else if is_x86_feature_detected!("avx2") {
        // SAFETY: as above.
        unsafe { avx2(op, a, b, len) }
    } else {
        // SAFETY: this function's promise.
        unsafe { baseline(op, a, b, len) }
    }
}

/// # Safety
/// As [`tile_sum`], on a processor with these parts of AVX-512.
#[target_feature(enable = "avx512f,avx512dq")]
unsafe fn avx512<O: Reduction>(
    op: O,
    a: *const O::Element,
    b: *const O::Element,
    len: usize,
) -> SumOf<O> {
    // SAFETY: the caller's promise.
    unsafe { body::<O, LANES, true>(op, a, b, len) }
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
    unsafe { body::<O, 32, false>(op, a, b, len) }
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
    unsafe { body::<O, 32, false>(op, a, b, len) }
}

/// Aligned so that no wide register of theirs is split between two cache lines.
#[repr(align(64))]
struct Lanes<S>([S; LANES]);

/// With `GROUP` lanes' running sums held in registers at once. `FUSED` says that the processor has
/// a fused multiply-add.
///
/// # Safety
/// As [`tile_sum`].
#[inline(always)]
unsafe fn body<O: Reduction, const GROUP: usize, const FUSED: bool>(
    op: O,
    a: *const O::Element,
    b: *const O::Element,
    len: usize,
) -> SumOf<O> {
    let rows = len / LANES;
    let Lanes(lanes) = &mut Lanes([SumOf::<O>::ZERO; LANES]);
    for group in (0..LANES).step_by(GROUP) {
        let mut sums = [SumOf::<O>::ZERO; GROUP];
        for row in 0..rows {
            let start = row * LANES + group;
            for (lane, sum) in sums.iter_mut().enumerate() {
                // SAFETY: `start + lane < rows * LANES <= len`.
                let (x, y) = unsafe { (a.add(start + lane).read(), b.add(start + lane).read()) };
                *sum = op.added::<FUSED>(*sum, x, y);
            }
        }
        lanes[group..group + GROUP].copy_from_slice(&sums);
    }
    for i in rows * LANES..len {
        let sum = &mut lanes[i - rows * LANES];
        // SAFETY: `i < len`.
        let (x, y) = unsafe { (a.add(i).read(), b.add(i).read()) };
        *sum = op.added::<FUSED>(*sum, x, y);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{DotF32, DotF64, DotI32, DotI64, SumF32, SumI32};
    use proptest::prelude::*;

    /// Every version that this processor can run gives the same bits.
    fn versions_agree<O: Reduction>(op: O, a: &[O::Element], b: &[O::Element]) {
        let (a, b, len) = (a.as_ptr(), b.as_ptr(), a.len().min(b.len()));
        // SAFETY: both have as many elements.
        let expected = unsafe { baseline(op, a, b, len) }.to_bits();
        if is_x86_feature_detected!("avx2") {
            // SAFETY: as above; the processor has AVX2.
            assert_eq!(unsafe { avx2(op, a, b, len) }.to_bits(), expected);
        }
        // SAFETY: as above.
        assert_eq!(unsafe { tile_sum(op, a, b, len) }.to_bits(), expected);
    }

    fn arrays<T: Arbitrary>() -> impl Strategy<Value = [Vec<T>; 2]> {
        (0..=TILE).prop_flat_map(|len| {
            let array = || prop::collection::vec(any::<T>(), len);
            [array(), array()]
        })
    }

    proptest! {
        #[test]
        fn of_floats([a, b] in arrays::<f32>(), [x, y] in arrays::<f64>()) {
            versions_agree(DotF32, &a, &b);
            versions_agree(SumF32, &a, &a);
            versions_agree(DotF64, &x, &y);
        }

        #[test]
        fn of_integers([a, b] in arrays::<i32>(), [x, y] in arrays::<i64>()) {
            versions_agree(DotI32, &a, &b);
            versions_agree(SumI32, &a, &a);
            versions_agree(DotI64, &x, &y);
        }
    }
}
