//! The functions of f64: one fixed sequence each, with an error below the last bit.
//!
//! They are not correctly rounded, which would cost several times as much; that they have the same
//! bits on every processor and in every version is for the tests to see. The errors were measured
//! against MPFR (tools/function_errors.py).

mod error_function;
mod exponential;
mod inverse;
mod logarithm;
mod pair;
mod roots;
mod trigonometric;

pub use error_function::erf;
pub use exponential::{cosh, exp, exp2, expm1, sinh, tanh};
pub use inverse::{acos, asin, atan, atan2};
pub use logarithm::{log, log1p, log2, log10, pow};
pub use roots::{cbrt, hypot};
pub use trigonometric::{cos, sin, tan};

/// 2^exponent, a normal number.
const fn power_of_two(exponent: i64) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}
