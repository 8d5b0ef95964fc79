//! Reads the arguments of expressions: arrays, and the values of scalars.

use super::evaluate::pointer_to;
use crate::call::{Binding, Input, Layout, MAX_INPUTS, MAX_OUTPUTS};
use crate::error::Error;
use crate::objects::expression::Expression;
use arrayvec::ArrayVec;
use gpuvec_axes::View;
use gpuvec_expr::{Element, Form};
use std::ffi::c_void;

/// The arguments that a call binds to the inputs of an expression.
pub(super) struct Bindings {
    /// In the order of the declaration.
    pub(super) all: ArrayVec<Binding, MAX_INPUTS>,
    /// The arrays among them.
    pub(super) arrays: ArrayVec<Input, MAX_INPUTS>,
}

impl Bindings {
    pub(super) const fn new() -> Self {
        Bindings { all: ArrayVec::new_const(), arrays: ArrayVec::new_const() }
    }

    /// Adds the arguments of a call over `n` elements that the expression uses. Reads scalars, which must fit.
    /// (Written in place: to return a kilobyte would take a short call longer than its elements.)
    ///
    /// # Safety
    /// `inputs` has a pointer for each declared input; pointers of scalars point to values in host memory.
    pub(super) unsafe fn read(
        &mut self, expression: &Expression, inputs: *const *const c_void, n: usize,
    ) -> Result<(), Error> {
        let declared = expression.formula.program().inputs();
        if n > 0 && inputs.is_null() && declared.len() > 0 {
            return Err(Error::Null { argument: "inputs", n: declared.len() });
        }
        for (number, (input, name)) in declared.zip(NAMES).enumerate() {
            self.all.push(if n == 0 || !expression.uses(number) {
                Binding::Unused
            } else {
                // SAFETY: this function's promise.
                let pointer = unsafe { inputs.add(number).read_unaligned() };
                match input.form {
                    Form::Array => {
                        let layout = Layout::contiguous(input.element.bytes());
                        self.arrays.push(Input { name, pointer, layout });
                        Binding::Array
                    }
                    Form::Scalar | Form::Number => {
                        // SAFETY: this function's promise.
                        Binding::Scalar(unsafe { scalar(name, pointer, input.element)? })
                    }
                }
            });
        }
        if n > 0 {
            let bits = |input: usize| match self.all[input] {
                Binding::Scalar(bits) => bits,
                _ => 0,
            };
            expression.check_integers(bits, |input| NAMES[input])?;
        }
        Ok(())
    }

    /// Moves the arrays to the first elements of these views.
    pub(super) fn place_at(&mut self, views: &[View]) {
        let arrays = self.arrays.iter_mut().zip(views);
        arrays.for_each(|(array, view)| array.pointer = pointer_to(view).cast_const());
    }
}

/// The arguments' names in errors.
#[rustfmt::skip]
pub(super) const NAMES: [&str; MAX_INPUTS] = [
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

/// Reads the bits of a scalar.
///
/// # Safety
/// The pointer, unless it is NULL, points to a value of that type, at any address.
unsafe fn scalar(
    name: &'static str, pointer: *const c_void, element: Element,
) -> Result<u64, Error> {
    if pointer.is_null() {
        return Err(Error::NullScalar { argument: name });
    }
    let mut bits = [0; size_of::<u64>()];
    // SAFETY: this function's promise; no element is larger than a word.
    unsafe { pointer.cast::<u8>().copy_to(bits.as_mut_ptr(), element.bytes()) };
    let bits = u64::from_le_bytes(bits);
    Ok(if element == Element::Bool { u64::from(bits != 0) } else { bits })
}
