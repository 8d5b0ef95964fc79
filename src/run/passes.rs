//! Runs expressions with reductions inside their formulas. Earlier passes compute these reductions, of all elements, as
//! scalars of the later passes. Outputs that are one value, computed from scalars alone, have a pass of one element.

use super::bindings::OUTPUT_NAMES;
use super::evaluate::{Given, Strided, all_reduced, evaluate_part, gpuvec_array};
use super::last_run;
use crate::call::{MAX_INPUTS, MAX_OUTPUTS, TaskKind};
use crate::error::Error;
use crate::objects::expression::Expression;
use crate::objects::stream::gpuvec_stream;
use arrayvec::ArrayVec;
use gpuvec_expr::Form;
use std::cell::Cell;
use std::ptr::{null, null_mut};

/// A call of an expression in passes. Reductions reduce all axes.
struct Passes<'a> {
    strided: &'a Strided<'a>,
    stream: *mut gpuvec_stream,
}

/// The outputs of a pass.
enum Outputs<'a> {
    /// Results of reductions that are scalars of later passes, each of at most 8 bytes.
    Results(&'a [Cell<u64>]),
    /// The call's outputs of these numbers.
    OfCall(&'a [usize]),
}

/// Evaluates all passes of an expression.
///
/// # Safety
/// As [`super::evaluate_strided`].
#[inline(never)]
pub(super) unsafe fn evaluate_passes(
    expression: &Expression, strided: &Strided<'_>, stream: *mut gpuvec_stream,
) -> Result<(), Error> {
    let (call, values) = (Passes { strided, stream }, [const { Cell::new(0) }; MAX_INPUTS]);
    let inputs = call.inputs(expression, &values)?;
    call.check(expression, &inputs)?;
    let mut results = &values[expression.formula.program().declared().len()..];
    for pass in &expression.before {
        let (of_pass, of_later) = results.split_at(pass.formula.outputs().count());
        call.evaluate(pass, &inputs, &Outputs::Results(of_pass))?;
        results = of_later;
    }
    let [(others, of_others), (single, of_single)] = &expression.last[..] else {
        let all: ArrayVec<usize, MAX_OUTPUTS> = (0..expression.formula.outputs().count()).collect();
        return call.evaluate(expression, &inputs, &Outputs::OfCall(&all));
    };
    call.evaluate(others, &inputs, &Outputs::OfCall(of_others))?;
    last_run::keep(|| call.evaluate(single, &inputs, &Outputs::OfCall(of_single)))
}

/// Only [`evaluate_passes`] makes the call: its promise holds here.
impl Passes<'_> {
    /// The inputs of all passes: the caller's, then the results of reductions in earlier passes. Scalars are copied to
    /// `values`, since a pass may read them after another has written an output.
    fn inputs(
        &self, expression: &Expression, values: &[Cell<u64>; MAX_INPUTS],
    ) -> Result<ArrayVec<gpuvec_array, MAX_INPUTS>, Error> {
        let (program, given) = (expression.formula.program(), self.strided.inputs);
        let declared = program.declared().len();
        let has_elements = !self.strided.shape.contains(&0);
        let reads = |pass: &Expression| {
            has_elements || pass.has_single_values() && (0..declared).any(|input| pass.uses(input))
        };
        let is_read = expression.passes().any(reads);
        let input = |(number, input): (usize, gpuvec_expr::Input<'_>)| {
            let value = gpuvec_array { data: values[number].as_ptr().cast(), strides: null() };
            if number >= declared {
                return Ok(value);
            }
            if !is_read {
                return Ok(gpuvec_array { data: null_mut(), strides: null() });
            }
            if given.is_null() {
                return Err(Error::Null { argument: "inputs", n: declared });
            }
            // SAFETY: the promise of `evaluate_passes`.
            let given = unsafe { given.add(number).read_unaligned() };
            let is_scalar = input.form != Form::Array && expression.any_pass_uses(number);
            if !is_scalar || given.data.is_null() {
                return Ok(given);
            }
            let bytes = input.element.bytes();
            // SAFETY: the promise of `evaluate_passes`: a used scalar is a value in host memory. No element is larger
            // than a word.
            unsafe { given.data.cast::<u8>().copy_to(value.data.cast(), bytes) };
            Ok(value)
        };
        program.inputs().enumerate().map(input).collect()
    }

    /// The axes that a pass reduces, as bits: all, or none.
    fn reduced_axes(&self, pass: &Expression) -> u64 {
        all_reduced(pass, self.strided.shape.len())
    }

    /// Fails if an argument of the last passes is wrong.
    fn check(&self, expression: &Expression, inputs: &[gpuvec_array]) -> Result<(), Error> {
        let reduced_axes = self.strided.reduced_axes;
        if reduced_axes != self.reduced_axes(expression) {
            let expected = match expression.formula.kind {
                TaskKind::Reduced | TaskKind::Mixed => {
                    "reductions inside formulas are of all elements: reduce all axes, or evaluate these reductions \
                     first, and pass their results as arrays"
                }
                TaskKind::Copy | TaskKind::Elementwise => {
                    "the expression is not a reduction: pass 0"
                }
            };
            let value = reduced_axes.cast_signed();
            return Err(Error::Value { argument: "reduced_axes", value, expected });
        }
        if self.strided.outputs.is_null() {
            return Err(Error::NullResult { argument: "outputs" });
        }
        if expression.last.is_empty() {
            return Ok(());
        }
        let strided = Strided { inputs: inputs.as_ptr(), ..*self.strided };
        let mut given = Given::new(strided.shape);
        // SAFETY: the promise of `evaluate_passes`.
        unsafe { given.read(expression, &strided)? };
        given.check(expression, &strided)
    }

    /// Evaluates a pass: of all elements, or of one if its outputs are single values.
    fn evaluate(
        &self, pass: &Expression, inputs: &[gpuvec_array], outputs: &Outputs<'_>,
    ) -> Result<(), Error> {
        let (mut places, mut names) =
            (ArrayVec::<_, MAX_OUTPUTS>::new(), ArrayVec::<_, MAX_OUTPUTS>::new());
        match outputs {
            Outputs::Results(results) => {
                let place = |result: &Cell<u64>| result.as_ptr().cast();
                let results = results.iter().map(place);
                places.extend(results.map(|data| gpuvec_array { data, strides: null() }));
                names.extend(OUTPUT_NAMES);
            }
            Outputs::OfCall(numbers) => {
                // SAFETY: the promise of `evaluate_passes`.
                let output = |number| unsafe { self.strided.outputs.add(number).read_unaligned() };
                places.extend(numbers.iter().copied().map(output));
                names.extend(numbers.iter().map(|number| self.strided.output_names[*number]));
            }
        }
        let (shape, reduced_axes) = match pass.has_single_values() {
            true => (&[][..], 0),
            false => (self.strided.shape, self.reduced_axes(pass)),
        };
        let (inputs, outputs) = (inputs.as_ptr(), places.as_ptr());
        let strided = Strided { shape, inputs, outputs, output_names: &names, reduced_axes };
        // SAFETY: the promise of `evaluate_passes`; scalars and results have the bytes of their elements.
        unsafe { evaluate_part(pass, &strided, self.stream) }
    }
}
