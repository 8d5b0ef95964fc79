//! Expressions on one core.

use crate::error::Error;
use crate::expr::Program;
use std::ffi::c_void;

/// A program as cores run it.
pub(crate) struct BlockProgram;

/// An input of a range of elements.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operand {
    /// The address of the range's first element.
    Array(*const c_void),
    /// The bits of a scalar.
    Scalar(u64),
}

impl BlockProgram {
    pub(crate) fn new(_: &Program) -> Result<Self, Error> {
        Ok(BlockProgram)
    }

    /// # Safety
    /// The operands and the output have `n` elements.
    pub(crate) unsafe fn map(&self, _: &[Operand], _: *mut c_void, _: usize) {}
}
