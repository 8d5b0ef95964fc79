//! The accumulators of reductions: their states merge in any order.
//!
//! A state stands for a set of elements, and the states of two sets merge exactly to the state of both. So the result
//! depends only on the elements, not on chunks, threads, devices or the order of merges.

use crate::Element;
use bytemuck::Pod;
use gpuvec_exact::{Dot, Kind, State, Sum, mean, root};
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
    /// True if there is a result for no elements: the result of the identity.
    const HAS_EMPTY_RESULT: bool;
    /// Adds the elements of another state.
    fn merge(state: &mut Self::State, other: &Self::State);
    /// Converts a state that a kernel wrote.
    fn from_words(words: Self::Words) -> Self::State;
    /// The result for the state's elements, as it is stored.
    fn finish(state: &Self::State) -> Self::Result;
}

/// The sum of integers, wrapping; also the number of bools that are true.
pub struct WrappingSum;

/// The product of integers, wrapping.
pub struct WrappingProduct;

/// The smallest value: IEEE 754-2019's minimum (section 9.6), in which NaN wins and -0 < +0.
pub struct Min<T>(PhantomData<T>);

/// The largest value: IEEE 754-2019's maximum (section 9.6), in which NaN wins and -0 < +0.
pub struct Max<T>(PhantomData<T>);

/// True if any bool is true. The state is the number of true elements.
pub struct Any;

/// True if every bool is true. The state is the number of false elements.
pub struct All;

macro_rules! values {
    ($($accumulator:ty: $value:ty, $identity:expr, $is_result:literal, $merge:expr, $result:ty, $finish:expr;)+) => {
        $(impl Accumulator for $accumulator {
            type State = $value;
            type Words = $value;
            type Result = $result;
            const IDENTITY: $value = $identity;
            const HAS_EMPTY_RESULT: bool = $is_result;

            #[inline(always)]
            fn merge(state: &mut $value, other: &$value) {
                *state = $merge(*state, *other);
            }

            fn from_words(words: $value) -> $value {
                words
            }

            fn finish(state: &$value) -> $result {
                $finish(*state)
            }
        })+
    };
}

values! {
    WrappingSum: i64, 0, true, i64::wrapping_add, i64, |sum| sum;
    WrappingProduct: i64, 1, true, i64::wrapping_mul, i64, |product| product;
    Min<f32>: f32, f32::INFINITY, false, |x, y| select(x, y, less(x, y, f32::is_sign_negative(x))), f32, f32::canonical;
    Min<f64>: f64, f64::INFINITY, false, |x, y| select(x, y, less(x, y, f64::is_sign_negative(x))), f64, f64::canonical;
    Min<i32>: i32, i32::MAX, false, i32::min, i32, |least| least;
    Min<i64>: i64, i64::MAX, false, i64::min, i64, |least| least;
    Max<f32>: f32, f32::NEG_INFINITY, false, |x, y| select(x, y, less(y, x, f32::is_sign_negative(y))), f32, f32::canonical;
    Max<f64>: f64, f64::NEG_INFINITY, false, |x, y| select(x, y, less(y, x, f64::is_sign_negative(y))), f64, f64::canonical;
    Max<i32>: i32, i32::MIN, false, i32::max, i32, |most| most;
    Max<i64>: i64, i64::MIN, false, i64::max, i64, |most| most;
    Any: i64, 0, true, |x, y| x + y, bool, |trues| trues > 0;
    All: i64, 0, true, |x, y| x + y, bool, |falses| falses == 0;
}

/// The mean: the exact sum divided by the number of elements, rounded once.
pub struct Mean<T>(PhantomData<T>);

/// The Euclidean norm: the square root of the exact sum of squares, rounded once.
pub struct Norm<T>(PhantomData<T>);

macro_rules! of_exact_sums {
    ($($accumulator:ty: $value:ty, of $kind:ty, $finish:expr;)+) => {
        $(impl Accumulator for $accumulator {
            type State = State<$kind>;
            type Words = <$kind as Kind>::Words;
            type Result = $value;
            const IDENTITY: Self::State = State::ZERO;
            const HAS_EMPTY_RESULT: bool = true;

            fn merge(state: &mut Self::State, other: &Self::State) {
                state.merge(other);
            }

            fn from_words(words: Self::Words) -> Self::State {
                State::from_words(words)
            }

            fn finish(state: &Self::State) -> $value {
                $finish(state)
            }
        })+
    };
}

of_exact_sums! {
    Sum<f32>: f32, of Sum<f32>, State::value;
    Sum<f64>: f64, of Sum<f64>, State::value;
    Dot<f32>: f32, of Dot<f32>, State::value;
    Dot<f64>: f64, of Dot<f64>, State::value;
    Mean<f32>: f32, of Sum<f32>, mean;
    Mean<f64>: f64, of Sum<f64>, mean;
    Norm<f32>: f32, of Dot<f32>, root;
    Norm<f64>: f64, of Dot<f64>, root;
}

/// The index of the first smallest value. NaN wins over numbers, and zeros are equal.
pub struct ArgMin<T>(PhantomData<T>);

/// The index of the first largest value. NaN wins over numbers, and zeros are equal.
pub struct ArgMax<T>(PhantomData<T>);

/// A value and its index: the state of [`ArgMin`] and [`ArgMax`]. Its words are the value's bits, in the low end, and
/// the index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Indexed<T> {
    /// The value.
    pub value: T,
    /// The index. The identity has the greatest index.
    pub index: i64,
}

impl<T: Element> Indexed<T> {
    /// Replaces the value by the other if that wins, or if that is equal and has the smaller index.
    #[inline(always)]
    fn merge(&mut self, other: &Self, wins: impl Fn(T, T) -> bool) {
        let (loses, is_earlier) = (wins(self.value, other.value), other.index < self.index);
        if wins(other.value, self.value) | (!loses & is_earlier) {
            *self = *other;
        }
    }
}

macro_rules! indexed {
    ($($accumulator:ident<$value:ty>: $identity:expr, $wins:expr;)+) => {
        $(impl Accumulator for $accumulator<$value> {
            type State = Indexed<$value>;
            type Words = [u64; 2];
            type Result = i64;
            const IDENTITY: Self::State = Indexed { value: $identity, index: i64::MAX };
            const HAS_EMPTY_RESULT: bool = false;

            #[inline(always)]
            fn merge(state: &mut Self::State, other: &Self::State) {
                state.merge(other, $wins);
            }

            fn from_words([value, index]: [u64; 2]) -> Self::State {
                Indexed { value: Element::from_bits(value), index: index.cast_signed() }
            }

            fn finish(state: &Self::State) -> i64 {
                state.index
            }
        })+
    };
}

indexed! {
    ArgMin<f32>: f32::INFINITY, |x, y| (x < y) | (x.is_nan() & !y.is_nan());
    ArgMin<f64>: f64::INFINITY, |x, y| (x < y) | (x.is_nan() & !y.is_nan());
    ArgMin<i32>: i32::MAX, |x, y| x < y;
    ArgMin<i64>: i64::MAX, |x, y| x < y;
    ArgMax<f32>: f32::NEG_INFINITY, |x, y| (x > y) | (x.is_nan() & !y.is_nan());
    ArgMax<f64>: f64::NEG_INFINITY, |x, y| (x > y) | (x.is_nan() & !y.is_nan());
    ArgMax<i32>: i32::MIN, |x, y| x > y;
    ArgMax<i64>: i64::MIN, |x, y| x > y;
}

/// True if x < y, or if both are zeros and x is negative. Without branches, for vector code.
#[inline(always)]
fn less<T: PartialOrd>(x: T, y: T, x_is_negative: bool) -> bool {
    (x < y) | ((x == y) & x_is_negative)
}

/// Returns `x` if it is wanted or NaN, else `y`.
#[inline(always)]
#[expect(clippy::eq_op, reason = "true only for NaN")]
fn select<T: PartialEq>(x: T, y: T, wants_x: bool) -> T {
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

    #[test]
    fn the_first_of_equal_values_wins_in_any_order() {
        let indexed = |value, index| Indexed { value, index };
        let index = |states: [Indexed<f64>; 2]| {
            let [x, y] = states;
            let both = [merged::<ArgMin<f64>>(x, y), merged::<ArgMin<f64>>(y, x)];
            assert_eq!(both[0].index, both[1].index);
            ArgMin::<f64>::finish(&both[0])
        };
        assert_eq!(index([indexed(1.0, 7), indexed(1.0, 5)]), 5);
        assert_eq!(index([indexed(0.0, 5), indexed(-0.0, 7)]), 5);
        assert_eq!(index([indexed(1.0, 5), indexed(0.0, 7)]), 7);
        assert_eq!(index([indexed(-1.0, 5), indexed(f64::NAN, 7)]), 7);
        assert_eq!(index([indexed(f64::NAN, 9), indexed(-f64::NAN, 7)]), 7);
        assert_eq!(index([indexed(f64::INFINITY, 3), ArgMin::<f64>::IDENTITY]), 3);
        let words = [(-2.5_f64).to_bits(), 4];
        assert_eq!(ArgMax::<f64>::from_words(words), indexed(-2.5, 4));
    }

    #[test]
    fn any_and_all_of_no_bools_are_pythons() {
        assert!(!Any::finish(&Any::IDENTITY));
        assert!(All::finish(&All::IDENTITY));
        assert!(Any::finish(&merged::<Any>(0, 2)) && !All::finish(&merged::<All>(0, 2)));
    }
}
