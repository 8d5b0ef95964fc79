//! The functions of expressions, written once for every processor: here those of f32, in [`double`]
//! those of f64.
//!
//! A function is a branch-free sequence of operations of a [`Machine`], so a core and a GPU that run
//! the same sequence have the same bits. Every function of f32 is correctly rounded. One of one number is
//! computed in f64 with an error far below an f32's last bit, and the few inputs for which that is
//! not enough are known, because all 2^32 have been tried. One of two numbers tells such inputs by a bound for
//! its error, and has a more exact sequence for them.

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
