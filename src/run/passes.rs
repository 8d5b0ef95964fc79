//! Evaluates expressions over arrays of any shape and strides, in one pass or several.
//!
//! A reduction inside a formula has a pass of its own, which reduces all elements to a scalar of the later passes.
//! Outputs that are single values, computed only from scalars, have a pass of one element.

use super::arguments::{
    BoundArguments, Given, OUTPUT_NAMES, Pointers, gpuvec_array, saturated_elements,
};
use super::log::{self, Subject};
use super::work::CpuProgram;
use super::{last_run, run};
use crate::call::{MAX_INPUTS, MAX_OUTPUTS, MemoryKind, TaskKind};
use crate::error::Error;
use crate::objects::expression::Expression;
use crate::objects::stream::gpuvec_stream;
use arrayvec::ArrayVec;
use gpuvec_expr::Form;
use std::cell::Cell;
use std::ptr::{null, null_mut};

/// Evaluates an expression over arrays, or reduces them along axes, or queues that on a stream.
pub(crate) fn evaluate(given: &Given<'_>, stream: *mut gpuvec_stream) -> Result<(), Error> {
    let expression = given.expression;
    log::begin(Subject::Expression(Some(&expression.text)), saturated_elements(given.shape));
    if expression.formula.kind == TaskKind::Grouped {
        let expected = "it has keys: call gpuvec_expr_run_by";
        return Err(Error::Value { argument: "expr", value: 0, expected });
    }
    match expression.has_passes {
        false => evaluate_pass(given, stream),
        true => evaluate_passes(given, stream),
    }
}

/// Evaluates a pass of an expression, or an expression of one pass. Not inlined, to keep the library small.
#[inline(never)]
fn evaluate_pass(given: &Given<'_>, stream: *mut gpuvec_stream) -> Result<(), Error> {
    let mut bound = BoundArguments::new();
    bound.read(given)?;
    run(&bound.arguments(given), CpuProgram::Blocks(&given.expression.blocks), stream)
}

/// A call of an expression in passes. Reductions reduce all axes.
struct Passes<'a> {
    given: &'a Given<'a>,
}

/// The outputs of a pass.
enum Outputs<'a> {
    /// Places for results of reductions, which are scalars of later passes.
    Results(&'a [Cell<u64>]),
    /// Outputs of the call, by their numbers.
    OfCall(&'a [usize]),
}

/// Evaluates all passes of an expression. Not inlined, so that short calls of one pass use less stack.
#[inline(never)]
fn evaluate_passes(given: &Given<'_>, stream: *mut gpuvec_stream) -> Result<(), Error> {
    let (call, values) = (Passes { given }, [const { Cell::new(0) }; MAX_INPUTS]);
    let expression = given.expression;
    let inputs = call.inputs(&values)?;
    let all: ArrayVec<usize, MAX_OUTPUTS> = (0..expression.formula.outputs().count()).collect();
    let all = Outputs::OfCall(&all);
    call.check_axes()?;
    if !expression.last.is_empty() {
        // Checks the arguments of the last passes before another pass runs.
        call.with(expression, &inputs, &all, &|given| {
            let mut bound = BoundArguments::new();
            bound.read(given)?;
            bound.arguments(given).check(|_: &_| Ok(MemoryKind::Pageable), |_| Ok(())).map(drop)
        })?;
    }
    let evaluate = |pass: &Expression, outputs: &Outputs<'_>| {
        call.with(pass, &inputs, outputs, &|given| evaluate_pass(given, stream))
    };
    let mut results = &values[expression.formula.program().declared().len()..];
    for pass in &expression.before {
        let (of_pass, of_later) = results.split_at(pass.formula.outputs().count());
        evaluate(pass, &Outputs::Results(of_pass))?;
        results = of_later;
    }
    let [(others, of_others), (single, of_single)] = &expression.last[..] else {
        return evaluate(expression, &all);
    };
    evaluate(others, &Outputs::OfCall(of_others))?;
    last_run::keep(|| evaluate(single, &Outputs::OfCall(of_single)))
}

impl Passes<'_> {
    /// The inputs of all passes: the caller's, then the results of earlier passes. Copies scalars to `values`, since a
    /// pass may read them after another pass has written an output.
    fn inputs(
        &self, values: &[Cell<u64>; MAX_INPUTS],
    ) -> Result<ArrayVec<gpuvec_array, MAX_INPUTS>, Error> {
        let Given { expression, shape, .. } = *self.given;
        let (program, has_elements) = (expression.formula.program(), !shape.contains(&0));
        let declared = program.declared().len();
        let reads = |pass: &Expression| {
            has_elements || pass.has_single_values() && (0..declared).any(|input| pass.uses(input))
        };
        let is_read = expression.passes().any(reads);
        self.given.check_pointers(is_read)?;
        let input = |(number, input): (usize, gpuvec_expr::Input<'_>)| {
            let value = gpuvec_array { data: values[number].as_ptr().cast(), strides: null() };
            if number >= declared {
                return value;
            }
            if !is_read {
                return gpuvec_array { data: null_mut(), strides: null() };
            }
            let given = self.given.input(number);
            let is_scalar = input.form != Form::Array && expression.any_pass_uses(number);
            if !is_scalar || given.data.is_null() {
                return given;
            }
            let bytes = input.element.bytes();
            // SAFETY: by the promise of `Given::new` a used scalar is a value in host memory. No element is larger than
            // a word.
            unsafe { given.data.cast::<u8>().copy_to(value.data.cast(), bytes) };
            value
        };
        Ok(program.inputs().enumerate().map(input).collect())
    }

    /// Fails unless the call reduces all axes, or none if the expression is not a reduction.
    fn check_axes(&self) -> Result<(), Error> {
        let Given { expression, shape, reduced_axes, .. } = *self.given;
        let kind = expression.formula.kind;
        let expected = match kind {
            _ if reduced_axes == kind.reduced_axes(shape.len()) => return Ok(()),
            TaskKind::Reduced | TaskKind::Grouped | TaskKind::Mixed => {
                "reductions inside formulas are of all elements: reduce all axes, or evaluate these reductions first, \
                 and pass their results as arrays"
            }
            TaskKind::Copy | TaskKind::Elementwise => "the expression is not a reduction: pass 0",
        };
        let value = reduced_axes.cast_signed();
        Err(Error::Value { argument: "reduced_axes", value, expected })
    }

    /// Calls `work` with the arguments of a pass. The pass has all elements, or one if its outputs are single values.
    fn with(
        &self, pass: &Expression, inputs: &[gpuvec_array], outputs: &Outputs<'_>,
        work: &dyn Fn(&Given<'_>) -> Result<(), Error>,
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
                places.extend(numbers.iter().map(|number| self.given.output(*number)));
                names.extend(numbers.iter().map(|number| self.given.output_names[*number]));
            }
        }
        let (shape, reduced_axes) = match pass.has_single_values() {
            true => (&[][..], 0),
            false => (self.given.shape, pass.formula.kind.reduced_axes(self.given.shape.len())),
        };
        let [inputs, outputs] =
            [inputs, &places[..]].map(|arrays| Pointers::Strided(arrays.as_ptr()));
        // SAFETY: the promise of the call's arguments; scalars and results have room for their elements.
        work(&unsafe { Given::new(pass, shape, reduced_axes, inputs, outputs, &names) })
    }
}
