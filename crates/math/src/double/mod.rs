//! The functions of f64: one fixed sequence each, with an error below one unit in the last place.
//!
//! Correct rounding would cost several times as much. Their bits never change all the same: hashes in
//! tests/frozen.rs see to it. The greatest errors found, in units in the last place, by MPFR, on hundreds of
//! thousands of arguments of all magnitudes, on hard ones (tools/function_errors.py), and in searches around
//! the worst of them:
//!
//! | | | | | | |
//! |---|---|---|---|---|---|
//! | exp 0.75 | exp2 0.75 | expm1 0.82 | sinh 0.75 | cosh 0.65 | tanh 0.68 |
//! | log 0.62 | log2 0.73 | log10 0.68 | log1p 0.63 | pow 0.75 | hypot 0.69 |
//! | sin 0.77 | cos 0.78 | tan 0.83 | asin 0.62 | acos 0.61 | atan 0.65 |
//! | atan2 0.75 | erf 0.80 | cbrt 0.50 | | | |
//!
//! exp, exp2, pow, atan2 and hypot reach theirs where results, or their last bits, are subnormal.

mod error_function;
mod exponential;
mod inverse;
mod logarithm;
mod pair;
mod roots;
mod trigonometric;

pub use error_function::*;
pub use exponential::*;
pub use inverse::*;
pub use logarithm::*;
pub use roots::*;
pub use trigonometric::*;
