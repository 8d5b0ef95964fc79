//! The task of a call, and the interface of the work that does it.

use super::chunk::Chunk;
use super::formula::{Evaluation, Formula};
use gpuvec_expr::{Reduction, Type};

/// The task of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Task<'a> {
    /// A formula.
    Evaluate(Evaluation<'a>),
    /// A copy of bytes.
    Copy,
}

impl<'a> Task<'a> {
    pub(crate) fn formula(self) -> Option<&'a Formula> {
        match self {
            Task::Evaluate(Evaluation { formula, .. }) => Some(formula),
            Task::Copy => None,
        }
    }

    pub(crate) fn is_copy(self) -> bool {
        matches!(self, Task::Copy)
    }

    /// The reduction, and the type of the values that it takes.
    pub(crate) fn reduction(self) -> Option<(Reduction, Type)> {
        self.formula()?.reduction
    }

    /// Says whether the output is one value.
    pub(crate) fn is_reduction(self) -> bool {
        self.reduction().is_some()
    }

    /// The size of a reduction's state as its kernel writes it, in bytes.
    pub(crate) fn state_bytes(self) -> usize {
        self.formula().map_or(0, |formula| formula.state_bytes)
    }

    /// Says whether the task is defined for no elements.
    pub(super) fn has_empty_result(self) -> bool {
        self.formula().is_none_or(|formula| formula.has_empty_result)
    }
}

/// Computes the chunks of a call; the types of elements and states are erased.
pub(crate) trait Work: Sync {
    /// Prepares for a run over that number of elements; forgets an earlier one.
    fn begin(&mut self, _elements: usize) {}

    /// Computes chunks, one after the other, on the calling core.
    fn compute(&self, chunks: &mut dyn Iterator<Item = Chunk>);

    /// Merges the state that a kernel wrote for a chunk of that number of elements.
    fn take_state(&self, _words: &[u8], _elements: usize) {}
}
