//! The functions of f64: one fixed sequence each, with an error below the last bit.
//!
//! They are not correctly rounded, which would cost several times as much; that they have the same
//! bits on every processor and in every version is for the tests to see. The errors were measured
//! against MPFR (tools/function_errors.py).

mod error_function;
mod exponential;
mod logarithm;
mod pair;

pub use error_function::erf;
pub use exponential::{cosh, exp, exp2, expm1, sinh, tanh};
pub use logarithm::{log, log1p, log2, log10, pow};
