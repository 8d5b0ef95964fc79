//! The functions of f64: one fixed sequence each, with an error below one unit in the last place.
//!
//! Correct rounding would cost several times as much. The bits never change nevertheless: tests/frozen.rs compares
//! hashes.
//!
//! The errors are below these bounds, in units in the last place:
//!
//! | | | | | | |
//! |---|---|---|---|---|---|
//! | exp 0.82 | exp2 0.83 | expm1 0.91 | sinh 0.90 | cosh 0.79 | tanh 0.90 |
//! | log 0.75 | log2 0.86 | log10 0.75 | sin 0.84 | cos 0.84 | tan 0.98 |
//! | asin 0.75 | acos 0.75 | atan 0.78 | erf 0.87 | cbrt 0.51 | hypot 0.76 |
//! | log1p 0.80 | atan2 0.78 | pow 0.85 | asinh 0.82 | acosh 0.82 | atanh 0.82 |
//!
//! `make function-bounds` proves them. It runs the recordings of the sequences on pieces of all arguments. A value is
//! its ideal, without any rounding, plus a multiple of each rounding's unknown error, so that errors cancel if low
//! parts of sums and products compensate them. The ideal result's distance from the function is bounded by Taylor
//! series in Arb's ball arithmetic, which also covers polynomials and constants (tools/function_bounds/forms.py and
//! interpreter.py; the other files there have the pieces).
//!
//! A result of two arguments depends mainly on one number, their quotient or y log x, which the sequence has as a pair.
//! Pieces are of that number. The pair may be any one within its error, which is proved first: see atan2 and pow.
//! hypot's bound is derived step by step (roots.py).
//!
//! The greatest errors found with MPFR, on hundreds of thousands of arguments of all magnitudes, on hard arguments
//! (tools/function_errors.py), and in searches around the worst of them:
//!
//! | | | | | | |
//! |---|---|---|---|---|---|
//! | exp 0.75 | exp2 0.75 | expm1 0.82 | sinh 0.77 | cosh 0.65 | tanh 0.68 |
//! | log 0.64 | log2 0.73 | log10 0.68 | log1p 0.63 | pow 0.76 | hypot 0.75 |
//! | sin 0.78 | cos 0.78 | tan 0.85 | asin 0.62 | acos 0.61 | atan 0.65 |
//! | atan2 0.75 | erf 0.80 | cbrt 0.50 | asinh 0.66 | acosh 0.66 | atanh 0.66 |
//!
//! exp, exp2, pow, atan2 and hypot reach them with results that are subnormal, or that have subnormal last bits.

mod error_function;
mod exponential;
mod inverse;
mod inverse_hyperbolic;
mod logarithm;
pub(crate) mod pair;
mod roots;
mod trigonometric;

pub use error_function::*;
pub use exponential::*;
pub use inverse::*;
pub use inverse_hyperbolic::*;
pub use logarithm::*;
pub use roots::*;
pub use trigonometric::*;
