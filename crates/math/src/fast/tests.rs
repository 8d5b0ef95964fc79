//! The errors of the two parts of results, beside the sequences of f64 before these are rounded.

use super::machine::Measuring;
use crate::{Scalar, double, exponential, logarithm, trigonometric};
use std::thread;

/// The greatest error of a function, as a share of its bound, and its input; the share of inputs
/// that are left to f64, of those from 2^-10 to 2^5.
#[derive(Debug)]
struct Errors {
    worst: (f64, f32),
    left: (u32, u32),
}

/// The greatest power of two that is not above a positive number.
fn power_below(x: f64) -> f64 {
    f64::from_bits(x.to_bits() & (0x7ff << 52))
}

fn errors(
    fast: impl Fn(&Measuring, f32) -> (f32, bool), exact: impl Fn(f64) -> f64,
    inputs: impl Iterator<Item = u32>,
) -> Errors {
    let machine = Measuring::default();
    let mut errors = Errors { worst: (0.0, 0.0), left: (0, 0) };
    for x in inputs.map(f32::from_bits) {
        let (_, is_right) = fast(&machine, x);
        let [low, high] = machine.0.get();
        let exact = exact(x.into()).abs();
        if (9.8e-4..32.0).contains(&x) {
            errors.left.1 += 1;
            errors.left.0 += u32::from(!is_right);
        }
        let (middle, radius) = ((low + high) / 2.0, ((high - low) / 2.0).abs());
        // Where the bound is subnormal, the function is about x, and only its rounding is tested.
        if radius < f32::MIN_POSITIVE.into() || !exact.is_normal() {
            continue;
        }
        // The exponent is scaled apart.
        let scale = power_below(exact / middle.abs() * 1.5);
        let error = (middle.abs() - exact / scale).abs() / radius;
        if is_right && error > errors.worst.0 {
            errors.worst = (error, x);
        }
    }
    errors
}

fn check(
    name: &str, fast: impl Fn(&Measuring, f32) -> (f32, bool) + Sync,
    exact: impl Fn(f64) -> f64 + Sync, step: usize,
) {
    let half = |start: u32| errors(&fast, &exact, (start..u32::MAX).step_by(step * 2));
    let halves = thread::scope(|scope| {
        let other = scope.spawn(|| half(step as u32));
        [half(0), other.join().expect("the other thread does not panic")]
    });
    for errors in halves {
        println!(
            "{name}: {errors:?}, left 1 of {:.0}",
            f64::from(errors.left.1) / f64::from(errors.left.0)
        );
        assert!(errors.worst.0 < 1.0, "{name}: {errors:?}");
    }
}

macro_rules! functions {
    ($($name:ident: $exact:expr;)*) => {
        $(mod $name {
            use super::*;

            #[test]
            fn errs_less_than_its_bound_on_a_sample() {
                check(stringify!($name), crate::fast::$name, $exact, 9973);
            }

            #[test]
            #[ignore = "takes a minute on two cores (make every-float)"]
            fn errs_less_than_its_bound_on_a_large_sample() {
                check(stringify!($name), crate::fast::$name, $exact, 31);
            }
        })*
    };
}

functions! {
    exp: |x| exponential::exponential(&Scalar, x);
    exp2: |x| exponential::exponential(&Scalar, x * std::f64::consts::LN_2);
    log2: |x| logarithm::natural(&Scalar, x) / std::f64::consts::LN_2;
    log10: |x| logarithm::natural(&Scalar, x) / std::f64::consts::LN_10;
    expm1: f64::exp_m1;
    log1p: f64::ln_1p;
    log: |x| logarithm::natural(&Scalar, x);
    sin: |x| trigonometric::sine(&Scalar, x, 0);
    cos: |x| trigonometric::sine(&Scalar, x, 1);
    atan: f64::atan;
    asin: f64::asin;
    acos: f64::acos;
    // From 4 on, both round to 1.
    erf: |x| double::erf(&Scalar, x.clamp(-4.0, 4.0));
    // Greater numbers have the same result: 1.
    tanh: |x| x.clamp(-9.125, 9.125).tanh();
    sinh: f64::sinh;
    cosh: f64::cosh;
    asinh: |x| double::asinh(&Scalar, x);
    acosh: |x| double::acosh(&Scalar, x);
    atanh: |x| double::atanh(&Scalar, x);
    tan: f64::tan;
    cbrt: f64::cbrt;
}
