//! Runs expressions with reductions inside their formulas: these are computed in earlier passes, of all elements, and
//! are scalars of the later ones. Outputs that are one value of scalars alone are computed in a pass of one element.

use super::bindings::{Bindings, OUTPUT_NAMES};
use super::strided::{Given, Strided, evaluate_part, gpuvec_array};
use super::{evaluate_pass, last_run};
use crate::call::{
    Arguments, Arrays, Call, Evaluation, MAX_ARRAYS, MAX_INPUTS, MAX_OUTPUTS, MemoryKind, Output,
    Task,
};
use crate::error::Error;
use crate::objects::expression::Expression;
use crate::objects::stream::gpuvec_stream;
use arrayvec::ArrayVec;
use gpuvec_axes::View;
use gpuvec_expr::Form;
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::{null, null_mut};

/// A call of an expression in passes.
///
/// # Safety
/// The arguments are as the header demands, until the call returns or, on a stream, until the stream has done the work.
pub(super) unsafe trait Passes {
    /// True if the call has elements.
    fn has_elements(&self) -> bool;

    /// The input of this number, or nothing if the caller passed none.
    fn input(&self, number: usize) -> Option<gpuvec_array>;

    /// Fails if an argument of the last passes is wrong.
    fn check(&self, expression: &Expression, inputs: &[gpuvec_array]) -> Result<(), Error>;

    /// Evaluates a pass: of all elements, or of one if its outputs are single values.
    fn evaluate(
        &self, pass: &Expression, inputs: &[gpuvec_array], outputs: &Outputs<'_>,
    ) -> Result<(), Error>;
}

/// The outputs of a pass.
pub(super) enum Outputs<'a> {
    /// Results of reductions that are scalars of later passes, each of at most 8 bytes.
    Results(&'a [Cell<u64>]),
    /// The call's outputs of these numbers.
    OfCall(&'a [usize]),
}

/// Evaluates all passes of an expression.
#[inline(never)]
pub(super) fn evaluate_passes(expression: &Expression, call: &dyn Passes) -> Result<(), Error> {
    let values = Box::new([const { Cell::new(0) }; MAX_INPUTS]);
    let inputs = inputs(expression, call, &values)?;
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

/// The inputs of all passes: the caller's, and then the results of reductions in earlier passes. Scalars are in
/// `values`, since a pass may read them after another has written an output.
fn inputs(
    expression: &Expression, call: &dyn Passes, values: &[Cell<u64>; MAX_INPUTS],
) -> Result<ArrayVec<gpuvec_array, MAX_INPUTS>, Error> {
    let program = expression.formula.program();
    let declared = program.declared().len();
    let reads = |pass: &Expression| {
        call.has_elements() || pass.is_single() && (0..declared).any(|input| pass.uses(input))
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
        let given = call.input(number).ok_or(Error::Null { argument: "inputs", n: declared })?;
        let is_scalar = input.form != Form::Array && expression.any_pass_uses(number);
        if !is_scalar || given.data.is_null() {
            return Ok(given);
        }
        let bytes = input.element.bytes();
        // SAFETY: the call's promise: a scalar that is used is a value in host memory; no element is larger than a word.
        unsafe { given.data.cast::<u8>().copy_to(value.data.cast(), bytes) };
        Ok(value)
    };
    program.inputs().enumerate().map(input).collect()
}

/// A call on contiguous arrays.
pub(super) struct Contiguous<'a> {
    inputs: *const *const c_void,
    outputs: &'a [Output],
    n: usize,
    stream: *mut gpuvec_stream,
}

impl<'a> Contiguous<'a> {
    /// # Safety
    /// As [`super::evaluate`].
    pub(super) unsafe fn new(
        inputs: *const *const c_void, outputs: &'a [Output], n: usize,
        stream: *mut gpuvec_stream,
    ) -> Self {
        Contiguous { inputs, outputs, n, stream }
    }
}

/// The addresses of inputs.
fn pointers(inputs: &[gpuvec_array]) -> ArrayVec<*const c_void, MAX_INPUTS> {
    inputs.iter().map(|input| input.data.cast_const()).collect()
}

// SAFETY: the promise of `new`.
unsafe impl Passes for Contiguous<'_> {
    fn has_elements(&self) -> bool {
        self.n > 0
    }

    fn input(&self, number: usize) -> Option<gpuvec_array> {
        // SAFETY: the promise of `new`.
        let read = || unsafe { self.inputs.add(number).read_unaligned() };
        (!self.inputs.is_null()).then(|| gpuvec_array { data: read().cast_mut(), strides: null() })
    }

    fn check(&self, expression: &Expression, inputs: &[gpuvec_array]) -> Result<(), Error> {
        if expression.last.is_empty() {
            return Ok(());
        }
        let mut bindings = Bindings::new();
        // SAFETY: the promise of `new`.
        unsafe { bindings.read(expression, pointers(inputs).as_ptr(), self.n)? };
        let evaluation = Evaluation { formula: &expression.formula, bindings: &bindings.all };
        let task = Task::Evaluate(evaluation);
        // SAFETY: the promise of `new`.
        let arguments = unsafe { Arguments::new(task, &bindings.arrays, self.outputs, self.n) };
        Call::new(&mut Arrays::new(), &arguments, |_| Ok(MemoryKind::Pageable)).map(drop)
    }

    fn evaluate(
        &self, pass: &Expression, inputs: &[gpuvec_array], outputs: &Outputs<'_>,
    ) -> Result<(), Error> {
        let output = |number: usize, layout| match outputs {
            Outputs::Results(results) => {
                let pointer = results[number].as_ptr().cast();
                Output { name: OUTPUT_NAMES[number], pointer, layout }
            }
            Outputs::OfCall(numbers) => {
                let Output { name, pointer, .. } = self.outputs[numbers[number]];
                Output { name, pointer, layout }
            }
        };
        let layouts = pass.formula.outputs().enumerate();
        let outputs: ArrayVec<_, MAX_OUTPUTS> =
            layouts.map(|(number, layout)| output(number, layout)).collect();
        let n = if pass.is_single() { 1 } else { self.n };
        // SAFETY: the promise of `new`; scalars and results have the bytes of their elements.
        unsafe { evaluate_pass(pass, pointers(inputs).as_ptr(), &outputs, n, self.stream) }
    }
}

/// A call on arrays of any strides. Reductions reduce all axes.
pub(super) struct AnyStrides<'a> {
    strided: &'a Strided<'a>,
    stream: *mut gpuvec_stream,
}

impl<'a> AnyStrides<'a> {
    /// # Safety
    /// As [`super::evaluate_strided`].
    pub(super) unsafe fn new(strided: &'a Strided<'a>, stream: *mut gpuvec_stream) -> Self {
        AnyStrides { strided, stream }
    }

    /// The axes that a pass reduces, as bits: all, or none.
    fn reduced_axes(&self, pass: &Expression) -> u64 {
        if pass.formula.reduces() { (1 << self.strided.shape.len()) - 1 } else { 0 }
    }
}

// SAFETY: the promise of `new`.
unsafe impl Passes for AnyStrides<'_> {
    fn has_elements(&self) -> bool {
        !self.strided.shape.contains(&0)
    }

    fn input(&self, number: usize) -> Option<gpuvec_array> {
        let inputs = self.strided.inputs;
        // SAFETY: the promise of `new`.
        (!inputs.is_null()).then(|| unsafe { inputs.add(number).read_unaligned() })
    }

    fn check(&self, expression: &Expression, inputs: &[gpuvec_array]) -> Result<(), Error> {
        let reduced_axes = self.strided.reduced_axes;
        if reduced_axes != self.reduced_axes(expression) {
            let expected = match expression.formula.reduces() {
                true => {
                    "reductions inside formulas are of all elements: reduce all axes, or evaluate these reductions \
                     first, and pass their results as arrays"
                }
                false => "the expression is not a reduction: pass 0",
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
        // SAFETY: the promise of `new`.
        unsafe { given.read(expression, &strided)? };
        let mut views: ArrayVec<View, MAX_ARRAYS> =
            given.arrays.iter().map(|_| View::default()).collect();
        given.axes(expression, reduced_axes, &mut views).map(drop)
    }

    fn evaluate(
        &self, pass: &Expression, inputs: &[gpuvec_array], outputs: &Outputs<'_>,
    ) -> Result<(), Error> {
        let outputs: ArrayVec<_, MAX_OUTPUTS> = match outputs {
            Outputs::Results(results) => {
                let place = |result: &Cell<u64>| result.as_ptr().cast();
                let results = results.iter().map(place);
                results.map(|data| gpuvec_array { data, strides: null() }).collect()
            }
            Outputs::OfCall(numbers) => {
                // SAFETY: the promise of `new`.
                let output = |number| unsafe { self.strided.outputs.add(number).read_unaligned() };
                numbers.iter().copied().map(output).collect()
            }
        };
        let (shape, reduced_axes) = match pass.is_single() {
            true => (&[][..], 0),
            false => (self.strided.shape, self.reduced_axes(pass)),
        };
        let (inputs, outputs) = (inputs.as_ptr(), outputs.as_ptr());
        let strided = Strided { shape, inputs, outputs, reduced_axes };
        // SAFETY: the promise of `new`; scalars and results have the bytes of their elements.
        unsafe { evaluate_part(pass, &strided, self.stream) }
    }
}
