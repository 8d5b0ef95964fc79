//! Expressions: their types against NumPy, their programs, the limits, and the text of every error.

mod errors;
mod halves;
mod limits;
mod program;
mod promotion;
mod random;
mod written;

use gpuvec_expr::{Error, Program, compile};
use gpuvec_oracle::random::{INPUTS, array};

/// Compiles an expression of the tests' inputs.
fn compiled(text: &str) -> Result<Program, Error> {
    compile(text, &INPUTS)
}

/// Compiles an expression that is right.
#[track_caller]
fn program(text: &str) -> Program {
    compiled(text).unwrap_or_else(|error| panic!("{error}"))
}
