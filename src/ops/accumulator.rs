//! How reductions accumulate: in states, which merge in any order.
//!
//! A state stands for a set of elements, and the state of two sets is that of both merged: exactly, so
//! that the result depends on the data alone, and not on chunks, threads, devices or the order in which
//! they were done.

use crate::Element;
use bytemuck::Pod;
use gpuvec_exact::{Kind, State};
use std::marker::PhantomData;

/// An accumulator of a reduction.
pub trait Accumulator: 'static {
    /// The state of some elements.
    type State: Copy + Send + Sync;
    /// The state as kernels write it.
    type Words: Pod;
    /// The type of the result.
    type Result: Element;
    /// The state of no elements.
    const IDENTITY: Self::State;
    /// Says that the identity is a result: that of no elements.
    const HAS_EMPTY_RESULT: bool;
    /// Adds the elements of another state.
    fn merge(state: &mut Self::State, other: &Self::State);
    /// The state that a kernel wrote.
    fn from_words(words: Self::Words) -> Self::State;
    /// The result for the state's elements, as it is stored.
    fn finish(state: &Self::State) -> Self::Result;
}

/// The exact sums, rounded once.
impl<K: Kind<Words: Pod, Element: Element>> Accumulator for K {
    type State = State<K>;
    type Words = K::Words;
    type Result = K::Element;
    const IDENTITY: State<K> = State::ZERO;
    const HAS_EMPTY_RESULT: bool = true;

    fn merge(state: &mut State<K>, other: &State<K>) {
        state.merge(other);
    }

    fn from_words(words: K::Words) -> State<K> {
        State::from_words(words)
    }

    fn finish(state: &State<K>) -> K::Element {
        state.value()
    }
}

/// The sum of integers, wrapping.
pub struct WrappingSum;

/// The smallest value: IEEE 754-2019's minimum (section 9.6), in which NaN wins and -0 < +0.
pub struct Min<T>(PhantomData<T>);

/// The largest value: IEEE 754-2019's maximum (section 9.6), in which NaN wins and -0 < +0.
pub struct Max<T>(PhantomData<T>);

macro_rules! values {
    ($($accumulator:ty: $value:ty, $identity:expr, $is_result:literal, $merge:expr;)+) => {
        $(impl Accumulator for $accumulator {
            type State = $value;
            type Words = $value;
            type Result = $value;
            const IDENTITY: $value = $identity;
            const HAS_EMPTY_RESULT: bool = $is_result;

            #[inline(always)]
            fn merge(state: &mut $value, other: &$value) {
                *state = $merge(*state, *other);
            }

            fn from_words(words: $value) -> $value {
                words
            }

            fn finish(state: &$value) -> $value {
                state.canonical()
            }
        })+
    };
}

values! {
    WrappingSum: i64, 0, true, i64::wrapping_add;
    Min<f32>: f32, f32::INFINITY, false, |x, y| select(x, y, less(x, y));
    Min<f64>: f64, f64::INFINITY, false, |x, y| select(x, y, less(x, y));
    Min<i32>: i32, i32::MAX, false, i32::min;
    Min<i64>: i64, i64::MAX, false, i64::min;
    Max<f32>: f32, f32::NEG_INFINITY, false, |x, y| select(x, y, less(y, x));
    Max<f64>: f64, f64::NEG_INFINITY, false, |x, y| select(x, y, less(y, x));
    Max<i32>: i32, i32::MIN, false, i32::max;
    Max<i64>: i64, i64::MIN, false, i64::max;
}

/// A float, as far as its order is concerned.
trait Float: PartialOrd + Copy {
    fn is_negative(self) -> bool;
}

impl Float for f32 {
    #[inline(always)]
    fn is_negative(self) -> bool {
        self.to_bits().cast_signed() < 0
    }
}

impl Float for f64 {
    #[inline(always)]
    fn is_negative(self) -> bool {
        self.to_bits().cast_signed() < 0
    }
}

/// Orders -0 before +0; a NaN is not less than anything. Without branches, for vector code.
#[inline(always)]
fn less<T: Float>(x: T, y: T) -> bool {
    (x < y) | ((x == y) & x.is_negative())
}

/// Gives `x` where it is wanted or NaN, else `y`.
#[inline(always)]
#[expect(clippy::eq_op, reason = "true of NaN alone")]
fn select<T: Float>(x: T, y: T, wants_x: bool) -> T {
    if wants_x | (x != x) { x } else { y }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged<A: Accumulator>(mut x: A::State, y: A::State) -> A::State {
        A::merge(&mut x, &y);
        x
    }

    #[test]
    fn minimum_and_maximum_order_zeros_and_let_nan_win() {
        let values = [f64::NEG_INFINITY, -1.0, -0.0, 0.0, 1.0, f64::INFINITY];
        for (i, x) in values.into_iter().enumerate() {
            for (j, y) in values.into_iter().enumerate() {
                let [low, high] = [values[i.min(j)], values[i.max(j)]];
                assert_eq!(merged::<Min<f64>>(x, y).to_bits(), low.to_bits());
                assert_eq!(merged::<Max<f64>>(x, y).to_bits(), high.to_bits());
            }
            for (x, y) in [(x, f64::NAN), (f64::NAN, x), (f64::NAN, f64::NAN)] {
                let quiet_nan = f64::NAN.to_bits();
                assert_eq!(Min::<f64>::finish(&merged::<Min<f64>>(x, y)).to_bits(), quiet_nan);
                assert_eq!(Max::<f64>::finish(&merged::<Max<f64>>(x, y)).to_bits(), quiet_nan);
            }
        }
    }
}
