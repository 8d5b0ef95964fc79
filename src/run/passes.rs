//! Runs expressions with reductions inside their formulas: these are computed in earlier passes, of all elements, and
//! are scalars of the later ones.

use super::bindings::OUTPUT_NAMES;
use super::evaluate_pass;
use super::strided::{Strided, evaluate_part, gpuvec_array};
use crate::call::{MAX_INPUTS, MAX_OUTPUTS, Output};
use crate::error::Error;
use crate::objects::expression::Expression;
use crate::objects::stream::gpuvec_stream;
use arrayvec::ArrayVec;
use gpuvec_axes::MAX_RANK;
use gpuvec_expr::Form;
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::null;

/// The inputs of all passes: the caller's, and then the results of reductions in earlier passes.
struct Inputs<T> {
    all: ArrayVec<T, MAX_INPUTS>,
    results: Box<[Cell<u64>; MAX_INPUTS]>,
    /// The number of results that are known.
    known: usize,
}

impl<T> Inputs<T> {
    /// The caller's inputs, and behind them the places of results, which `of` turns into inputs.
    fn new(
        expression: &Expression, given: impl Fn(usize) -> T, of: impl Fn(*mut c_void) -> T,
    ) -> Self {
        let program = expression.formula.program();
        let (all, declared) = (program.inputs().len(), program.declared().len());
        let results = Box::new([const { Cell::new(0) }; MAX_INPUTS]);
        let places = results.iter().map(|result| of(result.as_ptr().cast()));
        let all = (0..declared).map(given).chain(places.take(all - declared)).collect();
        Inputs { all, results, known: 0 }
    }

    /// The places of the next results.
    fn places(&mut self, count: usize) -> impl Iterator<Item = *mut c_void> {
        let first = self.known;
        self.known += count;
        self.results[first..][..count].iter().map(|result| result.as_ptr().cast())
    }
}

/// Says whether the last pass reads arrays. Without any its results are values, made from one element.
fn reads_arrays(expression: &Expression) -> bool {
    let mut inputs = expression.formula.program().inputs().enumerate();
    inputs.any(|(number, input)| input.form == Form::Array && expression.uses(number))
}

/// Evaluates all passes of an expression, as [`super::evaluate`].
///
/// # Safety
/// As [`super::evaluate`].
#[inline(never)]
pub(super) unsafe fn evaluate_passes(
    expression: &Expression, inputs: *const *const c_void, outputs: &[Output<'_>], n: usize,
    stream: *mut gpuvec_stream,
) -> Result<(), Error> {
    let last_n = if reads_arrays(expression) { n } else { 1 };
    let declared = expression.formula.program().declared().len();
    if last_n > 0 && declared > 0 && inputs.is_null() {
        return Err(Error::Null { argument: "inputs", n: declared });
    }
    let given = |number| match last_n {
        0 => null(),
        // SAFETY: this function's promise.
        _ => unsafe { inputs.add(number).read_unaligned() },
    };
    let mut inputs = Inputs::new(expression, given, <*mut c_void>::cast_const);
    for pass in &expression.before {
        let layouts = pass.formula.outputs();
        let places = inputs.places(pass.formula.outputs().count());
        let results: ArrayVec<_, MAX_OUTPUTS> = OUTPUT_NAMES
            .into_iter()
            .zip(places.zip(layouts))
            .map(|(name, (pointer, layout))| Output { name, pointer, layout })
            .collect();
        // SAFETY: this function's promise; each result is a scalar of at most 8 bytes, which its place holds.
        unsafe { evaluate_pass(pass, inputs.all.as_ptr(), &results, n, stream)? };
    }
    // SAFETY: as above.
    unsafe { evaluate_pass(expression, inputs.all.as_ptr(), outputs, last_n, stream) }
}

/// Evaluates all passes of an expression, as [`super::evaluate_strided`]. Reductions reduce all axes.
///
/// # Safety
/// As [`super::evaluate_strided`].
#[inline(never)]
pub(super) unsafe fn evaluate_strided_passes(
    expression: &Expression, strided: &Strided<'_>, stream: *mut gpuvec_stream,
) -> Result<(), Error> {
    let all_axes = (1u64 << strided.shape.len()) - 1;
    if expression.formula.reduces() && strided.reduced_axes != all_axes {
        return Err(Error::Value {
            argument: "reduced_axes",
            value: strided.reduced_axes.cast_signed(),
            expected: "reductions inside formulas are of all elements: reduce all axes, or evaluate these reductions \
                       first, and pass their results as arrays",
        });
    }
    let one_element = [1; MAX_RANK];
    let last_shape = match reads_arrays(expression) {
        true => strided.shape,
        false => &one_element[..strided.shape.len()],
    };
    let has_elements = !last_shape.contains(&0);
    let declared = expression.formula.program().declared().len();
    if has_elements && declared > 0 && strided.inputs.is_null() {
        return Err(Error::Null { argument: "inputs", n: declared });
    }
    let value = |data| gpuvec_array { data, strides: null() };
    let given = |number| match has_elements {
        // SAFETY: this function's promise.
        true => unsafe { strided.inputs.add(number).read_unaligned() },
        false => value(std::ptr::null_mut()),
    };
    let mut inputs = Inputs::new(expression, given, value);
    for pass in &expression.before {
        let places = inputs.places(pass.formula.outputs().count());
        let results: ArrayVec<_, MAX_OUTPUTS> = places.map(value).collect();
        let (inputs, outputs) = (inputs.all.as_ptr(), results.as_ptr());
        let strided = Strided { shape: strided.shape, inputs, outputs, reduced_axes: all_axes };
        // SAFETY: this function's promise; each result is a scalar of at most 8 bytes, which its place holds.
        unsafe { evaluate_part(pass, &strided, stream)? };
    }
    let strided = Strided { shape: last_shape, inputs: inputs.all.as_ptr(), ..*strided };
    // SAFETY: as above.
    unsafe { evaluate_part(expression, &strided, stream) }
}
