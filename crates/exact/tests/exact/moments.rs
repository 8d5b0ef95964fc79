//! Means, norms, variances and standard deviations against rationals.

use gpuvec_exact::{Dot, Float, Kind, State, Sum, mean, root, standard_deviation, variance};
use num_bigint::BigInt;
use num_rational::{BigRational, Ratio};
use proptest::prelude::*;

/// A float whose squares are terms of an exact sum.
trait Element: Float + std::fmt::Debug {
    fn of(x: f64) -> Self;
    fn variance(elements: &[Self], ddof: i64) -> [Self; 2];
    fn mean_and_norm(elements: &[Self]) -> [Self; 2];
}

macro_rules! elements {
    ($($ty:ident)+) => {
        $(impl Element for $ty {
            fn of(x: f64) -> $ty {
                x as $ty
            }

            fn variance(elements: &[$ty], ddof: i64) -> [$ty; 2] {
                let (sum, squares) = (sum::<Sum<$ty>>(elements), sum::<Dot<$ty>>(elements));
                [variance(&sum, &squares, ddof), standard_deviation(&sum, &squares, ddof)]
            }

            fn mean_and_norm(elements: &[$ty]) -> [$ty; 2] {
                [mean(&sum::<Sum<$ty>>(elements)), root(&sum::<Dot<$ty>>(elements))]
            }
        })+
    };
}

elements! { f32 f64 }

/// The exact sum of elements, or of their squares.
fn sum<K: Kind>(elements: &[K::Element]) -> State<K> {
    let mut state = State::ZERO;
    elements.iter().for_each(|&x| state.deposit(K::term_of(x, x)));
    state
}

fn power_of_two(exponent: i32) -> BigRational {
    let power = Ratio::from_integer(BigInt::from(1) << exponent.unsigned_abs());
    if exponent < 0 { power.recip() } else { power }
}

/// The value of an encoding; Inf has the first value of the next binade.
fn value<T: Float>(encoding: u64) -> BigRational {
    let implicit = 1 << (T::PRECISION - 1);
    let (biased, fraction) = ((encoding / implicit) as i32, encoding % implicit);
    let significand = if biased == 0 { fraction } else { fraction | implicit };
    Ratio::from_integer(BigInt::from(significand)) * power_of_two(T::LEAST + biased.max(1) - 1)
}

/// Checks that no float is nearer to the result than an encoding. `compared` maps a float to the number that it stands
/// for in the comparison with `exact`: itself, or for a square root its square.
fn check_nearest<T: Float>(
    encoding: u64, exact: &BigRational, compared: impl Fn(BigRational) -> BigRational,
) {
    let half = power_of_two(-1);
    let middle = |below: u64| compared((value::<T>(below) + value::<T>(below + 1)) * &half);
    let is_even = encoding.is_multiple_of(2);
    if encoding > 0 {
        let below = middle(encoding - 1);
        assert!(below < *exact || (below == *exact && is_even), "{encoding:#x} is too large");
    }
    if encoding < T::INFINITY {
        let above = middle(encoding);
        assert!(*exact < above || (*exact == above && is_even), "{encoding:#x} is too small");
    }
    assert!(encoding <= T::INFINITY);
}

fn check<T: Element>(elements: &[f64], ddof: i64) {
    let elements: Vec<T> = elements.iter().map(|&x| T::of(x)).collect();
    let [of_elements, root] = T::variance(&elements, ddof).map(Float::encoding);
    let [of_sum, of_squares] = T::mean_and_norm(&elements).map(Float::encoding);
    let integer = |x: i64| Ratio::from_integer(BigInt::from(x));
    let n = elements.len() as i64;
    let exact: Vec<BigRational> =
        elements.iter().map(|&x| Ratio::from_float(x.into()).unwrap()).collect();
    let mean = exact.iter().sum::<BigRational>() / integer(n);
    let magnitude = of_sum & !(1 << (T::BITS - 1));
    assert_eq!(magnitude != of_sum, mean < integer(0), "the mean's sign");
    check_nearest::<T>(
        magnitude,
        &if mean < integer(0) { -&mean } else { mean.clone() },
        |middle| middle,
    );
    let norm = exact.iter().map(|x| x * x).sum::<BigRational>();
    check_nearest::<T>(of_squares, &norm, |middle| &middle * &middle);
    let squares = exact.iter().map(|x| (x - &mean) * (x - &mean));
    let exact = squares.sum::<BigRational>() / integer(n - ddof);
    check_nearest::<T>(of_elements, &exact, |middle| middle);
    check_nearest::<T>(root, &exact, |middle| &middle * &middle);
}

/// Elements of any sizes, or close to each other.
fn elements() -> impl Strategy<Value = Vec<f64>> {
    let any_sizes = prop::collection::vec(-1.0..1.0_f64, 1..20)
        .prop_flat_map(|values| {
            let exponents = prop::collection::vec(-1074..1023_i32, values.len());
            (Just(values), exponents, 1..1074_i32)
        })
        .prop_map(|(values, exponents, range)| {
            let scaled = |(x, e): (&f64, &i32)| x * 2_f64.powi((e % range).max(-1022));
            values.iter().zip(&exponents).map(scaled).collect()
        });
    let near = (-150..127_i32, 0..60_i32, prop::collection::vec(-4..5_i32, 1..20)).prop_map(
        |(exponent, bits, units)| {
            let one = 2_f64.powi(exponent);
            units.iter().map(|unit| one + f64::from(*unit) * 2_f64.powi(exponent - bits)).collect()
        },
    );
    prop_oneof![any_sizes, near]
}

proptest! {
    #[test]
    fn results_are_rounded_once(elements in elements(), ddof in -3..3_i64) {
        let ddof = ddof.min(elements.len() as i64 - 1);
        check::<f64>(&elements, ddof);
        let single: Vec<f64> = elements.iter().map(|&x| f64::from(x as f32)).collect();
        if single.iter().all(|x| x.is_finite()) {
            check::<f32>(&single, ddof);
        }
    }
}

#[test]
fn results_have_the_whole_range() {
    let largest = [f64::MAX, -f64::MAX];
    assert_eq!(f64::variance(&largest, 0), [f64::INFINITY, f64::MAX]);
    assert_eq!(f64::variance(&largest, 1), [f64::INFINITY; 2]);
    assert_eq!(f32::variance(&[f32::MAX, -f32::MAX], 0), [f32::INFINITY, f32::MAX]);
    let least = f64::from_bits(1);
    assert_eq!(f64::variance(&[least, -least], 0), [0.0, least]);
    // The root of a half rounds up; the root of a quarter is halfway between 0 and the least number.
    assert_eq!(f64::variance(&[least, 0.0], 1), [0.0, least]);
    assert_eq!(f64::variance(&[least, 0.0], 0), [0.0, 0.0]);
    check::<f64>(&[1e-160, 3e-162, -1e-161], 1);
    check::<f32>(&[1e-22, 3e-23, -1e-22], 1);
    assert_eq!(f64::variance(&[5.0; 7], 0), [0.0, 0.0]);
}

#[test]
fn means_and_norms_are_in_range_if_they_can_be() {
    assert_eq!(f64::mean_and_norm(&[f64::MAX; 4]), [f64::MAX, f64::INFINITY]);
    assert_eq!(f64::mean_and_norm(&[f64::MAX, -f64::INFINITY]), [f64::NEG_INFINITY, f64::INFINITY]);
    assert_eq!(f64::mean_and_norm(&[f64::MAX; 2])[1], f64::INFINITY);
    assert_eq!(f64::mean_and_norm(&[0.1; 3])[0], 0.1);
    assert_eq!(f64::mean_and_norm(&[5e-324])[1], 5e-324);
    assert_eq!(f64::mean_and_norm(&[-5e-324, 0.0]).map(f64::to_bits), [1 << 63, 1]);
    assert_eq!(f32::mean_and_norm(&[3, 4].map(f32::from_bits))[1], f32::from_bits(5));
    let [of_none, zero] = f64::mean_and_norm(&[]).map(f64::to_bits);
    assert_eq!([of_none, zero], [0x7FF8 << 48, 0]);
    let of_nan = f64::mean_and_norm(&[1.0, f64::NAN]).map(f64::to_bits);
    assert_eq!(of_nan, [0x7FF8 << 48; 2]);
    for exponent in [-600, 0, 600] {
        let unit = 2_f64.powi(exponent);
        assert_eq!(f64::mean_and_norm(&[3.0 * unit, -4.0 * unit])[1], 5.0 * unit);
    }
}

#[test]
fn results_that_numbers_lack_are_nan_or_infinite() {
    let is_nan = |elements: &[f64], ddof| {
        let results = f64::variance(elements, ddof);
        results.iter().all(|result| result.to_bits() == 0x7FF8 << 48)
    };
    assert!(is_nan(&[], 0) && is_nan(&[], 1) && is_nan(&[], -1));
    assert!(is_nan(&[1.0], 1) && is_nan(&[1.0, 1.0], 5));
    assert!(is_nan(&[1.0, f64::NAN], 0) && is_nan(&[f64::INFINITY; 2], 0));
    assert!(is_nan(&[f64::NEG_INFINITY, 1.0, 2.0], 1) && is_nan(&[f64::NAN], 1));
    for ddof in [2, 3, i64::MAX] {
        assert_eq!(f64::variance(&[1.0, 2.0], ddof), [f64::INFINITY; 2]);
    }
    assert_eq!(f64::variance(&[1.0, 2.0], -2), [0.125, 0.125_f64.sqrt()]);
}

#[test]
fn states_that_were_merged_many_times_have_their_variance() {
    let (mut sum, mut squares) = (State::<Sum<f64>>::ZERO, State::<Dot<f64>>::ZERO);
    for x in [f64::MAX, -f64::MAX] {
        sum.deposit(x);
        squares.deposit((x, x));
    }
    for _ in 0..61 {
        let halves = (sum, squares);
        sum.merge(&halves.0);
        squares.merge(&halves.1);
    }
    assert_eq!(sum.elements(), 1 << 62);
    assert_eq!(standard_deviation(&sum, &squares, 0), f64::MAX);
}
