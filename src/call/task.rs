//! The task of a call, and the interface of the work that does it.

use super::chunk::Chunk;
use super::formula::Evaluation;
use gpuvec_ops::{Op, Shape};

/// The task of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Task<'a> {
    /// An operation, with the bits of the number that it multiplies by, or 0.
    Compute { op: Op, alpha: u64 },
    /// An expression.
    Evaluate(Evaluation<'a>),
    /// A copy of bytes.
    Copy,
}

impl Task<'_> {
    pub(crate) fn shape(self) -> Shape {
        match self {
            Task::Compute { op, .. } => op.shape(),
            Task::Evaluate(Evaluation { formula, .. }) => formula.shape,
            Task::Copy => Shape::Elementwise,
        }
    }

    pub(crate) fn is_copy(self) -> bool {
        matches!(self, Task::Copy)
    }

    /// The number of elements that a thread of an elementwise kernel works on at once, and how many
    /// such packs a thread of a large grid takes: one of 16 bytes of each array, unless a formula has
    /// it otherwise.
    pub(super) fn packs(self) -> [usize; 2] {
        const BYTES: usize = 16;
        match self {
            Task::Compute { op, .. } => [BYTES / op.element_bytes(), 1],
            Task::Evaluate(Evaluation { formula, .. }) => formula.packs(),
            Task::Copy => [BYTES, 1],
        }
    }

    /// The size of a reduction's state as its kernel writes it, in bytes.
    pub(crate) fn state_bytes(self) -> usize {
        match self {
            Task::Compute { op, .. } => op.state_bytes(),
            Task::Evaluate(Evaluation { formula, .. }) => formula.state_bytes,
            Task::Copy => 0,
        }
    }

    /// Says whether the task is defined for no elements.
    pub(super) fn has_empty_result(self) -> bool {
        match self {
            Task::Compute { op, .. } => op.has_empty_result(),
            Task::Evaluate(Evaluation { formula, .. }) => formula.has_empty_result,
            Task::Copy => true,
        }
    }

    pub(super) fn output_bytes(self) -> usize {
        match self {
            Task::Compute { op, .. } => op.output_bytes(),
            Task::Evaluate(Evaluation { formula, .. }) => formula.output_bytes,
            Task::Copy => 1,
        }
    }
}

/// Computes the chunks of a call; the types of elements and states are erased.
pub(crate) trait Work: Sync {
    /// Prepares for a run over that number of elements; forgets an earlier one.
    fn begin(&mut self, _elements: usize) {}

    /// Computes chunks, one after the other, on the calling core.
    fn compute(&self, chunks: &mut dyn Iterator<Item = Chunk>);

    /// Takes in the state that a kernel wrote for a chunk of that number of elements.
    fn take_state(&self, _words: &[u8], _elements: usize) {}
}
