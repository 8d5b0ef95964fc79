//! The kernels of elementwise operations, whose formulas are in the table of src/ops.

use crate::{Kernel, elementwise};
use gpuvec_expr::{Element, Input, Shape, compile};
use gpuvec_ops::Op;

impl Kernel {
    /// Writes the kernel of an elementwise operation, with the operation's name; none of a reduction. Its
    /// inputs are the operation's arrays and, where it multiplies by a number, that number.
    #[must_use]
    pub fn of_operation(op: Op) -> Option<Kernel> {
        let element = *Element::ALL.iter().find(|element| element.name() == op.element_name())?;
        let input = |name, shape| Input { name, element, shape };
        let arrays = ["a", "b"].into_iter().take(op.inputs()).map(|name| input(name, Shape::Array));
        let number = op.has_alpha().then(|| input("alpha", Shape::Scalar));
        let inputs: Vec<Input<'_>> = arrays.chain(number).collect();
        let program = compile(op.formula()?, &inputs).ok()?;
        Some(elementwise::kernel(op.kernel(), &program, None))
    }
}
