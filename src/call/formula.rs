//! Expressions, as far as checks, plans and kernels need to know them.

use crate::expr::{Program, Reduction};
use crate::ops::Shape;

/// What a compiled expression computes, and what that costs.
#[derive(Debug)]
pub(crate) struct Formula {
    /// Tells the formulas of a process apart.
    pub(crate) id: u64,
    pub(crate) program: Program,
    pub(crate) shape: Shape,
    /// The size of an element of the output.
    pub(crate) output_bytes: usize,
    /// The size of a reduction's state as its kernel writes it.
    pub(crate) state_bytes: usize,
    /// The number of elements that a thread of the kernel works on at once.
    pub(crate) pack: usize,
    /// Says whether the formula is defined for no elements.
    pub(crate) has_empty_result: bool,
    /// The time of a core for an element, in picoseconds.
    pub(crate) cost: usize,
}

impl Formula {
    pub(crate) fn new(id: u64, program: Program) -> Self {
        use Reduction::{ArgMax, ArgMin, Max, Min};
        let reduction = program.reduction();
        Formula {
            id,
            shape: reduction.map_or(Shape::Elementwise, |_| Shape::Reduction),
            output_bytes: program.output().bytes(),
            state_bytes: 0,
            pack: 4,
            has_empty_result: !matches!(reduction, Some(Min | Max | ArgMin | ArgMax)),
            cost: 0,
            program,
        }
    }
}

/// A declared input, as a call has it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operand {
    /// The next of the call's input arrays.
    Array,
    /// The bits of a scalar, in its own type.
    Scalar(u64),
    /// Nothing: the formula does not use the input.
    Unused,
}

/// A formula with the inputs that a call gives it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evaluation<'a> {
    pub(crate) formula: &'a Formula,
    /// In the order of the declaration.
    pub(crate) operands: &'a [Operand],
}
