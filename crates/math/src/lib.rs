//! The functions of expressions, written once for every processor: functions of f32 here, functions of f64 in
//! [`double`].
//!
//! A function is a branch-free sequence of operations of a [`Machine`], so a core and a GPU that run the same sequence
//! return the same bits. Every function of f32 is correctly rounded. A function of one argument is computed in f64 with
//! an error far below an f32's last bit. The few inputs for which that is not enough are known, because all 2^32 inputs
//! have been tried. A function of two arguments detects such inputs by a bound on its error, and has a more exact
//! sequence for them.

#![forbid(unsafe_code)]

pub mod double;
mod error_function;
mod exponential;
pub mod fast;
mod inverse;
mod inverse_hyperbolic;
mod logarithm;
mod machine;
mod precise;
mod recorder;
mod sequence;
mod table;
mod trigonometric;
mod two_arguments;

pub use error_function::*;
pub use exponential::*;
pub use inverse::*;
pub use inverse_hyperbolic::*;
pub use logarithm::*;
pub use machine::{Machine, Scalar, Usual};
pub use recorder::{Recorder, Recordings, Step, Value, steps};
pub use trigonometric::*;
pub use two_arguments::*;
