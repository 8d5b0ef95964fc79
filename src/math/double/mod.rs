//! The functions of f64: one fixed sequence each, with an error below one unit in the last place.
//!
//! Correct rounding would cost several times as much. Their bits never change all the same: hashes in
//! tests/frozen.rs see to it. The greatest errors that tools/function_errors.py found, in units in the
//! last place, against MPFR on a million arguments of all magnitudes and thousands of hard ones:
//!
//! | | | | | | |
//! |---|---|---|---|---|---|
//! | exp 0.75 | exp2 0.75 | expm1 0.81 | sinh 0.69 | cosh 0.62 | tanh 0.63 |
//! | log 0.60 | log2 0.66 | log10 0.64 | log1p 0.60 | pow 0.75 | hypot 0.69 |
//! | sin 0.70 | cos 0.70 | tan 0.81 | asin 0.61 | acos 0.59 | atan 0.60 |
//! | atan2 0.72 | erf 0.71 | cbrt 0.50 | | | |
//!
//! exp, exp2, pow, atan2 and hypot reach theirs where results, or their last bits, are subnormal.

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
