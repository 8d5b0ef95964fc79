//! The functions of f64 against CORE-MATH's, which round correctly, and the exact results of hard
//! arguments. (tools/function_errors.py measures the errors.)

mod hard;
mod samples;

use gpuvec_math::{Scalar, Usual, double};
use hard::hard;
use samples::{Random, SPECIAL, special_pairs};

/// Arguments with hard reductions: near multiples of π/2, and near the bounds of results.
const HARD: [f64; 12] = [
    6_381_956_970_095_103.0 * 2.0e233,
    f64::from_bits(0x7506_ac5b_262c_a1ff),
    1.0e22,
    f64::MAX,
    std::f64::consts::FRAC_PI_2,
    std::f64::consts::PI,
    709.782_712_893_384,
    710.475_860_073_943_9,
    -745.133_219_101_941_1,
    -708.4,
    -1074.5,
    1.0 - f64::EPSILON / 2.0,
];

/// Returns the error of a result in units in the last place of the exact one, which is `rest` units above
/// the double nearest to it.
fn error(result: f64, nearest: f64, rest: f64) -> f64 {
    // The exact result is between the nearest double and the next one.
    let is_smaller = rest.is_sign_negative() != nearest.is_sign_negative();
    let below = nearest.to_bits() - u64::from(is_smaller);
    let exponent = (below >> 52 & 0x7ff).max(1);
    let unit = f64::from_bits(exponent << 52) * f64::EPSILON;
    ((result - nearest) / unit - rest).abs()
}

/// Returns a function's proved bound (make function-bounds).
fn bound(name: &str) -> f64 {
    let mut rows = include_str!("hard/bounds.txt").lines().filter_map(|row| row.split_once(' '));
    let (_, bound) =
        rows.find(|(function, _)| *function == name).expect("each function has a bound");
    bound.parse().expect("a bound is a decimal number")
}

/// Panics where the error is not below the function's bound.
fn check_hard<const N: usize>(
    name: &str, text: &str, ours: impl Fn([f64; N]) -> f64, oracle: impl Fn([f64; N]) -> f64,
) {
    let bound = bound(name);
    for (x, rest) in hard::cases(text) {
        let error = error(ours(x), oracle(x), rest);
        assert!(error < bound, "{x:?}: {error} units");
    }
}

/// True if a result is the right one or a neighbour, as an error below one unit allows. Zeros have neighbours of one
/// sign.
fn is_close(result: f64, right: f64) -> bool {
    let apart = result.to_bits().abs_diff(right.to_bits());
    apart <= u64::from(right != 0.0) || (result.is_nan() && right.is_nan())
}

/// Panics where a function is not close to its oracle.
fn check<A: Copy + std::fmt::Debug>(
    arguments: impl Iterator<Item = A>, ours: impl Fn(A) -> f64, oracle: impl Fn(A) -> f64,
) {
    for x in arguments {
        let (result, right) = (ours(x), oracle(x));
        assert!(is_close(result, right), "{x:?}: {result:e}, not {right:e}");
    }
}

fn numbers() -> impl Iterator<Item = f64> {
    let mut random = Random(2);
    let special = SPECIAL.into_iter().chain(HARD).chain([f64::NAN]);
    special.chain((0..1 << 17).map(move |_| random.f64()))
}

fn pairs() -> impl Iterator<Item = (f64, f64)> {
    let mut random = Random(3);
    special_pairs().chain((0..1 << 17).map(move |i| {
        let (x, y) = (random.f64(), random.f64());
        // Half of them are powers between the least and the greatest number.
        if i % 2 == 0 { (x, y) } else { (x.abs(), y % 1000.0 / x.abs().log2()) }
    }))
}

macro_rules! functions {
    ($($op:ident $name:ident $arguments:tt $loops:ident $cost:tt $oracle:ident;)*) => {
        $(#[test]
        fn $name() {
            functions!(@check $name $arguments);
        })*
    };
    (@check $name:ident (x)) => {
        check(numbers(), |x| double::$name(&Scalar, x), core_math::$name);
        check_hard(
            stringify!($name), hard!($name), |[x]| double::$name(&Scalar, x),
            |[x]| core_math::$name(x),
        );
    };
    (@check $name:ident (x y)) => {
        check(pairs(), |(x, y)| double::$name(&Scalar, x, y), |(x, y)| core_math::$name(x, y));
        check_hard(
            stringify!($name), hard!($name), |[x, y]| double::$name(&Scalar, x, y),
            |[x, y]| core_math::$name(x, y),
        );
    };
}

gpuvec_math::functions!(functions!);

#[test]
fn usual_numbers_say_what_they_miss() {
    let mut missed = 0;
    for x in numbers() {
        let usual = Usual::default();
        let result = double::tan(&usual, x);
        let right = double::tan(&Scalar, x);
        assert!(usual.missed() || result.to_bits() == right.to_bits() || x.is_nan(), "{x:e}");
        missed += u32::from(usual.missed());
    }
    assert!(missed > 0 && f64::from(missed) < numbers().count() as f64 / 2.0);
}
