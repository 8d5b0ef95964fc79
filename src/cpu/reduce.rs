//! Reductions on one core, in the order of [`crate::ops`].

use super::Inputs;
use crate::call::Call;
use crate::call::chunk::Chunk;
use crate::ops::{Accumulator, LANES, Reduction, StateOf, TILE, merge_in_order};
use std::is_x86_feature_detected;

/// Accumulates the elements of a chunk, which begins with a tile.
pub(crate) fn reduce<O: Reduction>(op: O, call: &Call, chunk: &Chunk) -> StateOf<O> {
    let inputs = Inputs::new::<O>(call, chunk);
    merge_in_order::<O::Accumulator>(chunk.len.div_ceil(TILE), &mut |number| {
        accumulate_tile(op, &inputs.tile(number))
    })
}

impl<T> Inputs<T> {
    fn tile(&self, number: usize) -> Self {
        let start = number * TILE;
        // In bounds: a chunk has an element of each of its tiles.
        let [a, b] = [self.a, self.b].map(|pointer| pointer.wrapping_add(start));
        Inputs { a, b, len: TILE.min(self.len - start) }
    }
}

#[inline(always)]
fn accumulate_tile<O: Reduction>(op: O, tile: &Inputs<O::Element>) -> StateOf<O> {
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq") {
        // SAFETY: the processor has both.
        unsafe { avx512(op, tile) }
    } else if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has it.
        unsafe { avx2(op, tile) }
    } else {
        baseline(op, tile)
    }
}

#[target_feature(enable = "avx512f,avx512dq")]
fn avx512<O: Reduction>(op: O, tile: &Inputs<O::Element>) -> StateOf<O> {
    body::<O, LANES, true>(op, tile)
}

#[target_feature(enable = "avx2")]
fn avx2<O: Reduction>(op: O, tile: &Inputs<O::Element>) -> StateOf<O> {
    body::<O, 32, false>(op, tile)
}

fn baseline<O: Reduction>(op: O, tile: &Inputs<O::Element>) -> StateOf<O> {
    body::<O, 32, false>(op, tile)
}

/// Aligned so that no wide register of states is split between two cache lines.
#[repr(align(64))]
struct Lanes<S>([S; LANES]);

/// Accumulates a tile, with the states of `GROUP` lanes in registers at once. `FUSED` says that the
/// processor has a fused multiply-add.
#[inline(always)]
fn body<O: Reduction, const GROUP: usize, const FUSED: bool>(
    op: O, tile: &Inputs<O::Element>,
) -> StateOf<O> {
    let Inputs { a, b, len } = *tile;
    let rows = len / LANES;
    let Lanes(lanes) = &mut Lanes([O::Accumulator::IDENTITY; LANES]);
    for group in (0..LANES).step_by(GROUP) {
        let mut states = [O::Accumulator::IDENTITY; GROUP];
        for row in 0..rows {
            let start = row * LANES + group;
            for (lane, state) in states.iter_mut().enumerate() {
                // SAFETY: the call promises `len` elements from each pointer, and
                // `start + lane < rows * LANES <= len`.
                let (x, y) = unsafe { (a.add(start + lane).read(), b.add(start + lane).read()) };
                *state = op.accumulate::<FUSED>(*state, x, y);
            }
        }
        lanes[group..group + GROUP].copy_from_slice(&states);
    }
    for i in rows * LANES..len {
        let state = &mut lanes[i - rows * LANES];
        // SAFETY: the call promises `len` elements from each pointer, and `i < len`.
        let (x, y) = unsafe { (a.add(i).read(), b.add(i).read()) };
        *state = op.accumulate::<FUSED>(*state, x, y);
    }
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] = O::Accumulator::merge(lanes[lane], lanes[lane + half]);
        }
        half /= 2;
    }
    lanes[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{DotF32, DotF64, DotI32, DotI64, Element, MaxF64, MinF32, SumF32, SumI32};
    use proptest::prelude::*;

    /// Every version that this processor can run gives the same bits.
    fn versions_agree<O: Reduction>(op: O, a: &[O::Element], b: &[O::Element]) {
        let tile = &Inputs { a: a.as_ptr(), b: b.as_ptr(), len: a.len().min(b.len()) };
        let bits = |state| op.finish(state).canonical().bits();
        let expected = bits(baseline(op, tile));
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            assert_eq!(bits(unsafe { avx2(op, tile) }), expected);
        }
        assert_eq!(bits(accumulate_tile(op, tile)), expected);
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
            versions_agree(MinF32, &a, &a);
            versions_agree(DotF64, &x, &y);
            versions_agree(MaxF64, &x, &x);
        }

        #[test]
        fn of_integers([a, b] in arrays::<i32>(), [x, y] in arrays::<i64>()) {
            versions_agree(DotI32, &a, &b);
            versions_agree(SumI32, &a, &a);
            versions_agree(DotI64, &x, &y);
        }
    }
}
