//! Reads the arguments of calls of expressions: arrays, and the values of scalars.

use crate::call::{
    Argument, Arguments, Binding, Evaluation, Layout, MAX_INPUTS, MAX_OUTPUTS, Task,
};
use crate::error::Error;
use crate::objects::expression::Expression;
use arrayvec::ArrayVec;
use gpuvec_axes::Stride;
use gpuvec_expr::{Element, Form};
use std::ffi::c_void;
use std::ptr::null;
use std::slice::from_raw_parts;

/// An array of any strides, in memory of any kind.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gpuvec_array {
    /// The address of the element with index 0 along every axis.
    pub data: *mut c_void,
    /// The distance from an element to the next along each axis, in bytes; NULL for C order. A stride may be
    /// negative; a stride of 0 repeats an input along the axis.
    pub strides: *const i64,
}

/// The arguments of an expression's call, as the caller passed them.
#[derive(Clone, Copy)]
pub(crate) struct Given<'a> {
    pub(super) expression: &'a Expression,
    /// The lengths of the axes. Contiguous arrays have one.
    pub(super) shape: &'a [i64],
    pub(super) reduced_axes: u64,
    inputs: Pointers,
    outputs: Pointers,
    /// The outputs' names in errors.
    pub(super) output_names: &'a [&'static str],
}

/// The pointer to a call's inputs or outputs.
#[derive(Clone, Copy)]
pub(crate) enum Pointers {
    /// Arrays in C order, by their addresses.
    Contiguous(*const *const c_void),
    /// Arrays with strides.
    Strided(*const gpuvec_array),
}

impl Pointers {
    pub(super) fn is_null(self) -> bool {
        match self {
            Pointers::Contiguous(arrays) => arrays.is_null(),
            Pointers::Strided(arrays) => arrays.is_null(),
        }
    }
}

impl<'a> Given<'a> {
    /// The arguments of a call over the elements of a shape.
    ///
    /// # Safety
    /// Unless they are NULL, `inputs` has an array for each input, and `outputs` an array for each output. If the call
    /// uses an array, its strides have a number for each axis, live as long as this, and lead to elements of the array,
    /// as [`Argument::new`] demands. The `data` of a scalar points to a value in host memory.
    pub(crate) unsafe fn new(
        expression: &'a Expression, shape: &'a [i64], reduced_axes: u64, inputs: Pointers,
        outputs: Pointers, output_names: &'a [&'static str],
    ) -> Self {
        Given { expression, shape, reduced_axes, inputs, outputs, output_names }
    }

    /// Fails if the pointer to the outputs is NULL, or the pointer to the inputs if they are read.
    pub(super) fn check_pointers(&self, reads_inputs: bool) -> Result<(), Error> {
        let n = self.expression.formula.program().declared().len();
        if reads_inputs && n > 0 && self.inputs.is_null() {
            return Err(Error::Null { argument: "inputs", n });
        }
        if self.outputs.is_null() {
            return Err(Error::NullResult { argument: "outputs" });
        }
        Ok(())
    }

    /// Input `number`. The pointer to the inputs is not NULL.
    pub(super) fn input(&self, number: usize) -> gpuvec_array {
        self.read(self.inputs, number)
    }

    /// Output `number`. The pointer to the outputs is not NULL.
    pub(super) fn output(&self, number: usize) -> gpuvec_array {
        self.read(self.outputs, number)
    }

    /// Reads an input or an output, which may be at any address.
    fn read(&self, arrays: Pointers, number: usize) -> gpuvec_array {
        // SAFETY: the promise of `new`.
        unsafe {
            match arrays {
                Pointers::Contiguous(arrays) => {
                    let data = arrays.add(number).read_unaligned().cast_mut();
                    gpuvec_array { data, strides: null() }
                }
                Pointers::Strided(arrays) => arrays.add(number).read_unaligned(),
            }
        }
    }

    /// The argument for `array`, which the call uses.
    fn argument(&self, name: &'static str, array: gpuvec_array, layout: Layout) -> Argument<'a> {
        let strides = self.strides(array, self.shape.len());
        // SAFETY: the promise of `new`.
        unsafe { Argument::new(name, array.data, layout, strides) }
    }

    /// The strides of an array along its axes. `None` if they are NULL, for C order.
    pub(super) fn strides(&self, array: gpuvec_array, axes: usize) -> Option<&'a [Stride]> {
        let first = array.strides.cast::<Stride>();
        // SAFETY: the promise of `new`.
        (!first.is_null()).then(|| unsafe { from_raw_parts(first, axes) })
    }
}

/// The arguments of a call, copied, since the caller may store them unaligned. (The copy is filled in place: returning
/// a kilobyte would take longer than the elements of a short call.)
pub(super) struct BoundArguments<'a> {
    /// The binding of each declared input.
    bindings: ArrayVec<Binding, MAX_INPUTS>,
    inputs: ArrayVec<Argument<'a>, MAX_INPUTS>,
    pub(super) outputs: ArrayVec<Argument<'a>, MAX_OUTPUTS>,
    /// The number of groups of a call by key.
    pub(super) groups: usize,
}

impl<'a> BoundArguments<'a> {
    pub(super) const fn new() -> Self {
        let bindings = ArrayVec::new_const();
        BoundArguments {
            bindings,
            inputs: ArrayVec::new_const(),
            outputs: ArrayVec::new_const(),
            groups: 0,
        }
    }

    /// Reads the arguments that the expression uses. Fails if a number does not fit. Without elements, reads no inputs.
    pub(super) fn read(&mut self, given: &Given<'a>) -> Result<(), Error> {
        self.read_inputs(given)?;
        for (number, layout) in given.expression.formula.outputs().enumerate() {
            let (name, array) = (given.output_names[number], given.output(number));
            self.outputs.push(given.argument(name, array, layout));
        }
        Ok(())
    }

    /// Reads the inputs that the expression uses, as `read`.
    pub(super) fn read_inputs(&mut self, given: &Given<'a>) -> Result<(), Error> {
        let (expression, has_elements) = (given.expression, !given.shape.contains(&0));
        given.check_pointers(has_elements)?;
        for (number, (input, name)) in
            expression.formula.program().inputs().zip(INPUT_NAMES).enumerate()
        {
            if !has_elements || !expression.uses(number) {
                self.bindings.push(Binding::Unused);
                continue;
            }
            let array = given.input(number);
            self.bindings.push(match input.form {
                Form::Array => {
                    let layout = Layout::contiguous(input.element.bytes());
                    self.inputs.push(given.argument(name, array, layout));
                    Binding::Array
                }
                Form::Scalar | Form::Number if array.data.is_null() => {
                    return Err(Error::NullScalar { argument: name });
                }
                Form::Scalar | Form::Number => {
                    let mut bits = [0; size_of::<u64>()];
                    // SAFETY: the promise of `Given::new`; no element is larger than a word.
                    unsafe {
                        array.data.cast::<u8>().copy_to(bits.as_mut_ptr(), input.element.bytes());
                    }
                    let bits = u64::from_le_bytes(bits);
                    let is_bool = input.element == Element::Bool;
                    Binding::Scalar(if is_bool { u64::from(bits != 0) } else { bits })
                }
            });
        }
        if has_elements {
            let bits = |input: usize| match self.bindings[input] {
                Binding::Scalar(bits) => bits,
                Binding::Array | Binding::Unused => 0,
            };
            expression.check_integers(bits, |input| INPUT_NAMES[input])?;
        }
        Ok(())
    }

    /// The arguments of a call, from those that were read.
    pub(super) fn arguments(&'a self, given: &Given<'a>) -> Arguments<'a> {
        let (formula, bindings, groups) = (&given.expression.formula, &self.bindings, self.groups);
        Arguments {
            task: Task::Evaluate(Evaluation { formula, bindings, groups }),
            contiguous: None,
            shape: given.shape,
            reduced_axes: given.reduced_axes,
            inputs: &self.inputs,
            outputs: &self.outputs,
        }
    }
}

/// The number of elements of a shape, at most `i64::MAX`. Meaningless for an invalid shape.
pub(super) fn saturated_elements(shape: &[i64]) -> usize {
    let elements = shape.iter().fold(1i64, |all, length| all.saturating_mul(*length));
    elements.max(0) as usize
}

/// The inputs' names in errors.
#[rustfmt::skip]
pub(crate) const INPUT_NAMES: [&str; MAX_INPUTS] = [
    "inputs[0]", "inputs[1]", "inputs[2]", "inputs[3]", "inputs[4]", "inputs[5]", "inputs[6]",
    "inputs[7]", "inputs[8]", "inputs[9]", "inputs[10]", "inputs[11]", "inputs[12]", "inputs[13]",
    "inputs[14]", "inputs[15]", "inputs[16]", "inputs[17]", "inputs[18]", "inputs[19]", "inputs[20]",
    "inputs[21]", "inputs[22]", "inputs[23]", "inputs[24]", "inputs[25]", "inputs[26]", "inputs[27]",
    "inputs[28]", "inputs[29]", "inputs[30]", "inputs[31]",
];

/// The outputs' names in errors.
#[rustfmt::skip]
pub(crate) const OUTPUT_NAMES: [&str; MAX_OUTPUTS] = [
    "outputs[0]", "outputs[1]", "outputs[2]", "outputs[3]", "outputs[4]", "outputs[5]", "outputs[6]",
    "outputs[7]",
];
