//! Evaluates expressions over arrays of any shape and strides.

use super::arguments::{BoundArguments, Given, saturated_elements};
use super::log::{self, Subject};
use super::passes::evaluate_passes;
use super::run;
use super::work::CpuProgram;
use crate::error::Error;
use crate::objects::stream::gpuvec_stream;

/// Evaluates an expression over arrays, or reduces them along axes, or queues that on a stream.
pub(crate) fn evaluate(given: &Given<'_>, stream: *mut gpuvec_stream) -> Result<(), Error> {
    let expression = given.expression;
    log::begin(Subject::Expression(Some(&expression.text)), saturated_elements(given.shape));
    match expression.has_passes {
        false => evaluate_pass(given, stream),
        true => evaluate_passes(given, stream),
    }
}

/// Evaluates one pass of an expression, as the whole or a part of a logged call. Not inlined, to keep the library small.
#[inline(never)]
pub(super) fn evaluate_pass(given: &Given<'_>, stream: *mut gpuvec_stream) -> Result<(), Error> {
    let mut bound = BoundArguments::new();
    bound.read(given)?;
    run(&bound.arguments(given), CpuProgram::Blocks(&given.expression.blocks), stream)
}
