//! How reductions accumulate: the same states, merged in the same order, on every backend.
//!
//! The input is divided into tiles of [`TILE`] elements, whatever the chunks. Inside a tile, lane `l`
//! of [`LANES`] accumulates the elements `l`, `l + LANES`, `l + 2 LANES`, … one after the other, from
//! the identity; then the lanes are halved, lane `l` merging with lane `l + half`, until one state is
//! left. The tiles' states are merged as a binary tree over their numbers: 0 with 1, 2 with 3, and so
//! on, level by level, a state without a partner going up unchanged.
//!
//! The tree over whole chunks of 2^k tiles is the same tree, cut at level k. So the result depends
//! on the data alone: not on chunks, threads, or which processor took which part. Elements that
//! are missing from the last tile leave the identity. `kernels/reduce.cu` follows the same order.

use bytemuck::Pod;
use std::marker::PhantomData;

/// Elements in a tile.
pub const TILE: usize = 4096;

/// Tiles whose states a GPU merges into one; a power of two, so that the tree may be cut there.
pub const GROUP: usize = 2048;

/// States that a tile is accumulated in.
pub const LANES: usize = 128;

/// An accumulator of a reduction.
pub trait Accumulator: 'static {
    /// The name that the accumulator's kernels have.
    const NAME: &'static str;
    /// The state after some elements, of any size, as kernels write it.
    type State: Pod + Send + Sync;
    /// The state of no elements.
    const IDENTITY: Self::State;
    /// Says that the identity is a result: that of no elements.
    const HAS_EMPTY_RESULT: bool;
    /// The state of the elements of both.
    fn merge(x: Self::State, y: Self::State) -> Self::State;
}

/// The sum, rounded after each addition (f64) or wrapping (i64).
pub struct Sum<T>(PhantomData<T>);

/// The smallest value: IEEE 754-2019's minimum (section 9.6), in which NaN wins and -0 < +0.
pub struct Min<T>(PhantomData<T>);

/// The largest value: IEEE 754-2019's maximum (section 9.6), in which NaN wins and -0 < +0.
pub struct Max<T>(PhantomData<T>);

macro_rules! accumulators {
    ($($accumulator:ty: $name:literal, $state:ty, $identity:expr, $is_result:literal, $merge:expr;)+) => {
        $(impl Accumulator for $accumulator {
            const NAME: &'static str = $name;
            type State = $state;
            const IDENTITY: $state = $identity;
            const HAS_EMPTY_RESULT: bool = $is_result;

            #[inline(always)]
            fn merge(x: $state, y: $state) -> $state {
                $merge(x, y)
            }
        })+
    };
}

accumulators! {
    Sum<f64>: "sum_f64", f64, 0.0, true, |x, y| x + y;
    Sum<i64>: "sum_i64", i64, 0, true, i64::wrapping_add;
    Min<f32>: "min_f32", f32, f32::INFINITY, false, |x, y| select(x, y, less(x, y));
    Min<f64>: "min_f64", f64, f64::INFINITY, false, |x, y| select(x, y, less(x, y));
    Min<i32>: "min_i32", i32, i32::MAX, false, i32::min;
    Min<i64>: "min_i64", i64, i64::MAX, false, i64::min;
    Max<f32>: "max_f32", f32, f32::NEG_INFINITY, false, |x, y| select(x, y, less(y, x));
    Max<f64>: "max_f64", f64, f64::NEG_INFINITY, false, |x, y| select(x, y, less(y, x));
    Max<i32>: "max_i32", i32, i32::MIN, false, i32::max;
    Max<i64>: "max_i64", i64, i64::MIN, false, i64::max;
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

/// Merges states in order, as a binary tree, in their own memory. Gives the identity for none.
#[inline(always)]
pub fn merge_in_place<A: Accumulator>(states: &mut [A::State]) -> A::State {
    let mut count = states.len();
    while count > 1 {
        for pair in 0..count / 2 {
            states[pair] = A::merge(states[2 * pair], states[2 * pair + 1]);
        }
        if count % 2 == 1 {
            states[count / 2] = states[count - 1];
        }
        count = count.div_ceil(2);
    }
    states.first().copied().unwrap_or(A::IDENTITY)
}

/// Merges `count` states as [`merge_in_place`]; `state` gives each by its number, in order.
pub fn merge_in_order<A: Accumulator>(
    count: usize, state: &mut impl FnMut(usize) -> A::State,
) -> A::State {
    if count == 1 { state(0) } else { merge_from::<A>(0, count, state) }
}

/// States that are merged in a local array: recursion to single states takes 1.5 µs more for 245 of
/// them.
const FEW: usize = 64;

#[inline(never)]
fn merge_from<A: Accumulator>(
    first: usize, count: usize, state: &mut impl FnMut(usize) -> A::State,
) -> A::State {
    if count <= FEW {
        let states = &mut [A::IDENTITY; FEW][..count];
        for (i, place) in states.iter_mut().enumerate() {
            *place = state(first + i);
        }
        return merge_in_place::<A>(states);
    }
    let left = count.next_power_of_two() / 2;
    let x = merge_from::<A>(first, left, state);
    let y = merge_from::<A>(first + left, count - left, state);
    A::merge(x, y)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(states: &[f64]) -> u64 {
        merge_in_order::<Sum<f64>>(states.len(), &mut |i| states[i]).to_bits()
    }

    /// The tree as the module's documentation defines it.
    fn level_by_level(states: &[f64]) -> u64 {
        let mut states = states.to_vec();
        while states.len() > 1 {
            states = states.chunks(2).map(|pair| pair.iter().copied().sum()).collect();
        }
        states.first().copied().unwrap_or(0.0).to_bits()
    }

    #[test]
    fn states_are_merged_level_by_level() {
        let states: Vec<f64> = (0..300).map(|i| 1.0 / f64::from(i * i + 1)).collect();
        for count in 0..states.len() {
            let (states, expected) = (&states[..count], level_by_level(&states[..count]));
            assert_eq!(tree(states), expected, "{count} states");
            let in_place = merge_in_place::<Sum<f64>>(&mut states.to_vec());
            assert_eq!(in_place.to_bits(), expected, "{count} states, in place");
        }
    }

    #[test]
    fn the_tree_may_be_cut_at_any_power_of_two() {
        let states: Vec<f64> = (0..1000).map(|i| 1.0 / f64::from(i * i + 1)).collect();
        for len in [2, 8, 64, 256, 1024] {
            let parts: Vec<f64> = states.chunks(len).map(tree).map(f64::from_bits).collect();
            assert_eq!(tree(&parts), tree(&states), "cut into chunks of {len}");
        }
    }

    #[test]
    fn no_states_give_the_identity() {
        assert_eq!(tree(&[]), 0);
        assert_eq!(merge_in_order::<Max<i32>>(0, &mut |_| 0), i32::MIN);
    }

    #[test]
    fn minimum_and_maximum_order_zeros_and_let_nan_win() {
        let values = [f64::NEG_INFINITY, -1.0, -0.0, 0.0, 1.0, f64::INFINITY];
        for (i, x) in values.into_iter().enumerate() {
            for (j, y) in values.into_iter().enumerate() {
                let [low, high] = [values[i.min(j)], values[i.max(j)]];
                assert_eq!(Min::<f64>::merge(x, y).to_bits(), low.to_bits());
                assert_eq!(Max::<f64>::merge(x, y).to_bits(), high.to_bits());
            }
            for (x, y) in [(x, f64::NAN), (f64::NAN, x), (f64::NAN, f64::NAN)] {
                assert!(Min::<f64>::merge(x, y).is_nan() && Max::<f64>::merge(x, y).is_nan());
            }
        }
    }
}
