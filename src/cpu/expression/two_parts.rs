//! Results of exact sums, rounded once. A sum is given in two parts, two f64 with exactly that sum.

use super::reduce::ResultOf;
use crate::cpu::exact::{self, Words};
use gpuvec_exact::{Dot, State, Sum, quotient};
use gpuvec_ops::{Accumulator, Mean, Norm};

/// An accumulator with a result that is an exact sum or is computed from one.
pub(crate) trait OfSum: Accumulator {
    /// The words of a group's sum: one for each level of the sum's kind, and one for the number of terms if the result
    /// needs it.
    type Cell: Words;

    /// Computes the result of values without a state, if the result is the sum itself.
    const OF_VALUES: Option<ResultOf<Self::Result>> = None;

    /// The result for a finite sum of `terms` terms. The first part is the nearest f64 to the sum, or a neighbour of
    /// it.
    fn of_parts(parts: [f64; 2], terms: usize) -> Self::Result;
}

macro_rules! of_sum {
    ($($accumulator:ty, $words:literal $(=> $value:ident)?: $of:expr;)+) => {
        $(impl OfSum for $accumulator {
            type Cell = [i64; $words];

            $(const OF_VALUES: Option<ResultOf<Self::Result>> =
                Some(|isa, values| exact::$value::<Self, exact::All>(isa, values.of()));)?

            #[inline(always)]
            fn of_parts(parts: [f64; 2], terms: usize) -> Self::Result {
                $of(parts, terms)
            }
        })+
    };
}

of_sum! {
    Sum<f32>, 1 => value: |parts, _| sum_to_odd(parts) as f32;
    Sum<f64>, 2 => value: |[high, low]: [f64; 2], _| high + low;
    Dot<f32>, 2 => value: |parts, _| sum_to_odd(parts) as f32;
    Dot<f64>, 4 => value: |_, _| unreachable!("products of f64 have no lanes");
    Mean<f32>, 2: mean_f32;
    Mean<f64>, 3: mean_f64;
    Norm<f32>, 2: |parts, _| root_to_odd(sum_to_odd(parts)) as f32;
    Norm<f64>, 4: |_, _| unreachable!("products of f64 have no lanes");
}

/// The sum of two floats, rounded to odd. Rounding it again, to f32, gives the exact sum rounded once (Boldo and
/// Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008, theorem 1).
/// The same holds for its quotient by an integer below [`TERMS`] and for its square root, if they are rounded to odd.
/// For the middle of two f32 has 25 bits, and its product with the integer or with itself has at most 52. So the sum
/// that was rounded to odd is on the same side of this product as the exact sum.
fn sum_to_odd([high, low]: [f64; 2]) -> f64 {
    let sum = high + low;
    let of_low = sum - high;
    to_odd(sum, (high - (sum - of_low)) + (low - of_low))
}

/// The sum of a float and a rest, rounded to odd. The rest is below a unit in the last place. Only its sign counts.
fn to_odd(near: f64, rest: f64) -> f64 {
    if rest == 0.0 || near.to_bits() & 1 == 1 {
        return near;
    }
    let is_away = (rest > 0.0) == (near > 0.0);
    f64::from_bits(if is_away { near.to_bits() + 1 } else { near.to_bits() - 1 })
}

/// Sums of fewer terms are divided in f64: the number of terms has at most 26 bits.
const TERMS: usize = 1 << 26;

#[inline(never)]
fn mean_f32(parts: [f64; 2], terms: usize) -> f32 {
    if !(1..TERMS).contains(&terms) {
        return quotient(&state(parts), terms as u64);
    }
    let (sum, n) = (sum_to_odd(parts), terms as f64);
    let near = sum / n;
    to_odd(near, remainder(sum, near, n)) as f32
}

/// Divides the sum, and then the remainder of that division. If the new remainder does not prove that the quotient is
/// the nearest float, divides integers instead.
#[inline(never)]
fn mean_f64(parts @ [high, low]: [f64; 2], terms: usize) -> f64 {
    if terms < TERMS {
        let n = terms as f64;
        let near = high / n;
        let mean = near + (remainder(high, near, n) + low) / n;
        // Compares twice the distance of n·mean from the sum with n units in the last place. Nothing underflows, since
        // all values are multiples of the least float.
        let twice = 2.0 * remainder(high, mean, n);
        let units = n * (mean.abs() - mean.abs().next_down());
        let (from, to) = (twice + units, twice - units);
        let is_even = mean.to_bits() & 1 == 0;
        let is_inside = from > -2.0 * low && to < -2.0 * low;
        if is_inside || (is_even && from >= -2.0 * low && to <= -2.0 * low) {
            return mean;
        }
    }
    quotient(&state(parts), terms as u64)
}

/// Returns dividend - quotient·n exactly, for a quotient that is about right. Both products are exact: the parts of the
/// quotient have 27 and 26 bits, and n has at most 26. The first difference is exact, since its operands are close
/// (Sterbenz). The second is a small multiple of the quotient's unit in the last place.
fn remainder(dividend: f64, quotient: f64, n: f64) -> f64 {
    let upper = f64::from_bits(quotient.to_bits() & !0x3FF_FFFF);
    (dividend - upper * n) - (quotient - upper) * n
}

/// The square root of a number, rounded to odd. The number is 0 or in the range of products of f32.
fn root_to_odd(square: f64) -> f64 {
    let near = square.sqrt();
    // In parts of 26 bits (Veltkamp; Dekker, "A floating-point technique for extending the available precision", 1971).
    let scaled = near * 134_217_729.0;
    let upper = scaled - (scaled - near);
    let lower = near - upper;
    to_odd(near, ((square - upper * upper) - 2.0 * upper * lower) - lower * lower)
}

/// The state of a sum in two parts.
fn state([high, low]: [f64; 2]) -> State<Sum<f64>> {
    let mut state = State::ZERO;
    state.deposit(high);
    state.deposit(low);
    state
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuvec_exact::root;
    use proptest::prelude::*;

    /// A float, and one that is smaller by some bits.
    fn parts() -> impl Strategy<Value = [f64; 2]> {
        (any::<f32>(), any::<i32>(), -60..30_i32, -1.0..1.0).prop_map(|(x, more, bits, y)| {
            let x = if x.is_finite() { f64::from(x) } else { 1.0 };
            // Halfway between two f32, or near that.
            let high = x + f64::from(more) * x * 2_f64.powi(-55) + 0.0;
            [high, high * y * 2_f64.powi(bits.min(0) - 24)]
        })
    }

    /// The nearest float to a sum and the rest; any of the exponents of f64.
    fn parts_f64() -> impl Strategy<Value = [f64; 2]> {
        let few = (-1_000_000..1_000_000_i64, -1074..900_i32).prop_map(|(units, exponent)| {
            units as f64 * 2_f64.powi(exponent.max(-1022)) * 2_f64.powi(exponent.min(-1022) + 1022)
        });
        let any = any::<f64>().prop_filter("a finite number", |x| x.is_finite());
        (prop_oneof![few.clone(), any], few, -54..-52_i32, -1.0..1.0)
            .prop_map(|(high, few, bits, y)| {
                let low = [high * y * 2_f64.powi(bits), few]
                    [usize::from(few.abs() < high.abs() * 2_f64.powi(-54))];
                [high + low, low - ((high + low) - high)]
            })
            .prop_filter("finite parts", |parts| parts.iter().all(|part| part.is_finite()))
    }

    fn terms() -> impl Strategy<Value = usize> {
        prop_oneof![
            1..40_usize,
            1..TERMS,
            (0..26_u32).prop_map(|bits| 1 << bits),
            TERMS - 1..TERMS + 2
        ]
    }

    /// A sum of floats below 2^64 in two parts of f32, and an integer, such that the quotient is near or at the middle
    /// of two f32.
    fn near_middles() -> impl Strategy<Value = ([f64; 2], usize)> {
        let middle = (1_u32 << 23..1 << 24, terms(), -80..60_i32, -2..3_i32, -120..-53_i32);
        middle.prop_map(|(units, terms, exponent, rest, bits)| {
            let high = (f64::from(units) + 0.5) * terms as f64 * 2_f64.powi(exponent);
            ([high, f64::from(rest) * high * 2_f64.powi(bits)], terms)
        })
    }

    fn check_mean_f32(parts: [f64; 2], terms: usize) {
        let right: f32 = quotient(&state(parts), terms as u64);
        assert_eq!(mean_f32(parts, terms).to_bits(), right.to_bits(), "{parts:?} / {terms}");
    }

    proptest! {
        #[test]
        fn a_sum_in_two_parts_is_rounded_once(parts in parts()) {
            let rounded = sum_to_odd(parts) as f32;
            prop_assert_eq!(rounded.to_bits(), quotient::<_, f32>(&state(parts), 1).to_bits());
        }

        #[test]
        fn a_mean_of_f32_is_rounded_once(parts in parts(), terms in terms(), near in near_middles()) {
            check_mean_f32(parts, terms);
            check_mean_f32(near.0, near.1);
        }

        #[test]
        fn a_mean_of_f64_is_rounded_once(parts in parts_f64(), terms in terms()) {
            let right: f64 = quotient(&state(parts), terms as u64);
            prop_assert_eq!(mean_f64(parts, terms).to_bits(), right.to_bits());
        }

        #[test]
        fn a_root_is_rounded_once([high, low] in parts(), units in 1_u32 << 23..1 << 24, exponent in -100..40_i32) {
            // The squares of middles of two f32 have 50 bits.
            let middle = (f64::from(units) + 0.5) * 2_f64.powi(exponent);
            let square = middle * middle;
            for [high, low] in [[high.abs(), low], [square, 0.0], [square, square * 2_f64.powi(-70)], [square, -square * 2_f64.powi(-70)]] {
                let mut state = State::<Dot<f64>>::ZERO;
                state.deposit((high, 1.0));
                state.deposit((low, 1.0));
                let right = root::<_, f32>(&state);
                prop_assert_eq!((root_to_odd(sum_to_odd([high, low])) as f32).to_bits(), right.to_bits());
            }
        }
    }

    #[test]
    fn ties_are_broken_by_the_low_part() {
        let tie = 1.0 + 2_f64.powi(-24);
        for (low, rounded) in [(0.0, 1.0), (1e-30, 1.0 + f32::EPSILON), (-1e-30, 1.0)] {
            assert_eq!(sum_to_odd([tie, low]) as f32, rounded);
            assert_eq!(sum_to_odd([-tie, -low]) as f32, -rounded);
            assert_eq!(mean_f32([3.0 * tie, low], 3), rounded);
        }
    }
}
