//! The functions of expressions, written once for every processor: here those of f32, in [`double`]
//! those of f64.
//!
//! A function is a branch-free sequence of operations of a [`Machine`], so a core and a GPU that run
//! the same sequence have the same bits. Every function of one f32 is correctly rounded: it is
//! computed in f64 with an error far below an f32's last bit, and the few inputs for which that is
//! not enough are known, because all 2^32 have been tried. Functions of two f32 are computed in the
//! same way, but cannot be tried so: their errors are below 0.51 of the last bit.

#![forbid(unsafe_code)]

pub mod double;
mod error_function;
mod exponential;
pub mod fast;
mod inverse;
mod logarithm;
mod machine;
mod recorder;
mod sequence;
mod table;
mod trigonometric;
mod two_arguments;

pub use error_function::*;
pub use exponential::*;
pub use inverse::*;
pub use logarithm::*;
pub use machine::{Machine, Scalar, Usual};
pub use recorder::{Recorder, Step, Value, steps};
pub use trigonometric::*;
pub use two_arguments::*;
