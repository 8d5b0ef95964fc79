//! Folds elements into a state of one value, in vectors.

use super::exact::{Inputs, Version};
use gpuvec_ops::{Accumulator, Fold};

/// The state of some elements, in a version that the processor has.
///
/// # Safety
/// The inputs have their elements, and the processor has the version's instructions.
// Once in the library, for all its callers.
#[inline(never)]
pub(crate) unsafe fn fold<O: Fold>(
    version: Version, op: O, inputs: &Inputs<O::Element>,
) -> O::Output {
    // SAFETY: the same contract.
    unsafe {
        match version {
            Version::Avx512 => avx512(op, inputs),
            Version::Avx2 => avx2(op, inputs),
            Version::Baseline => baseline(op, inputs),
        }
    }
}

#[target_feature(enable = "avx512f,avx512dq")]
fn avx512<O: Fold>(op: O, inputs: &Inputs<O::Element>) -> O::Output {
    body::<O, 128>(op, inputs)
}

#[target_feature(enable = "avx2")]
fn avx2<O: Fold>(op: O, inputs: &Inputs<O::Element>) -> O::Output {
    body::<O, 32>(op, inputs)
}

fn baseline<O: Fold>(op: O, inputs: &Inputs<O::Element>) -> O::Output {
    body::<O, 8>(op, inputs)
}

/// Aligned so that no wide register of states is split between two cache lines.
#[repr(align(64))]
struct Lanes<S, const LANES: usize>([S; LANES]);

/// Folds elements into the states of `LANES` lanes, which registers hold, and merges them.
#[inline(always)]
fn body<O: Fold, const LANES: usize>(op: O, inputs: &Inputs<O::Element>) -> O::Output {
    let Inputs { a, b, len } = *inputs;
    let whole = len - len % LANES;
    let mut states = [O::Accumulator::IDENTITY; LANES];
    for row in (0..whole).step_by(LANES) {
        for (lane, state) in states.iter_mut().enumerate() {
            // SAFETY: the call promises `len` elements from each pointer, and `row + lane < whole`.
            let (x, y) = unsafe { (a.add(row + lane).read(), b.add(row + lane).read()) };
            op.fold(state, x, y);
        }
    }
    let Lanes(lanes) = &mut Lanes(states);
    for (i, state) in (whole..len).zip(&mut *lanes) {
        // SAFETY: the call promises `len` elements from each pointer, and `i < len`.
        let (x, y) = unsafe { (a.add(i).read(), b.add(i).read()) };
        op.fold(state, x, y);
    }
    let mut half = LANES / 2;
    while half > 0 {
        let (low, high) = lanes.split_at_mut(half);
        low.iter_mut().zip(high).for_each(|(x, y)| O::Accumulator::merge(x, y));
        half /= 2;
    }
    lanes[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuvec_ops::{DotI32, DotI64, Element, MaxF64, MinF32, SumI32};
    use proptest::prelude::*;

    /// Every version that this processor can run gives the bits of one lane.
    fn versions_agree<O: Fold>(op: O, a: &[O::Element], b: &[O::Element]) {
        let inputs = &Inputs { a: a.as_ptr(), b: b.as_ptr(), len: a.len().min(b.len()) };
        let bits = |state| O::Accumulator::finish(&state).bits();
        let expected = bits(body::<O, 1>(op, inputs));
        assert_eq!(bits(baseline(op, inputs)), expected);
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            assert_eq!(bits(unsafe { avx2(op, inputs) }), expected);
        }
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq") {
            // SAFETY: the processor has both.
            assert_eq!(bits(unsafe { avx512(op, inputs) }), expected);
        }
    }

    fn arrays<T: Arbitrary>() -> impl Strategy<Value = [Vec<T>; 2]> {
        (0..=1000usize).prop_flat_map(|len| {
            let array = || prop::collection::vec(any::<T>(), len);
            [array(), array()]
        })
    }

    proptest! {
        #[test]
        fn of_floats([a, _] in arrays::<f32>(), [x, _] in arrays::<f64>()) {
            versions_agree(MinF32, &a, &a);
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
