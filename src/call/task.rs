//! The task of a call, and the interface of the work that does it.

use super::chunk::Chunk;
use crate::ops::{Op, Shape};

/// The task of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// An operation, with the bits of the number that it multiplies by, or 0.
    Compute { op: Op, alpha: u64 },
    /// A copy of bytes.
    Copy,
}

impl Task {
    pub(crate) fn shape(self) -> Shape {
        match self {
            Task::Compute { op, .. } => op.shape(),
            Task::Copy => Shape::Elementwise,
        }
    }

    /// The size of an element of the inputs, in bytes.
    pub(crate) fn element_bytes(self) -> usize {
        match self {
            Task::Compute { op, .. } => op.element_bytes(),
            Task::Copy => 1,
        }
    }

    /// Says whether the task is defined for no elements.
    pub(super) fn has_empty_result(self) -> bool {
        match self {
            Task::Compute { op, .. } => op.has_empty_result(),
            Task::Copy => true,
        }
    }

    pub(super) fn output_bytes(self) -> usize {
        match self {
            Task::Compute { op, .. } => op.output_bytes(),
            Task::Copy => 1,
        }
    }
}

/// Computes the chunks of a call; the types of elements and states are erased.
pub(crate) trait Work: Sync {
    /// Prepares for a run of that number of chunks; forgets an earlier one.
    fn begin(&mut self, _chunks: usize) {}

    /// Computes chunks, one after the other, on the calling core.
    fn compute(&self, chunks: &mut dyn Iterator<Item = Chunk>);

    /// Takes in the state that a kernel wrote for a chunk.
    fn take_state(&self, _words: &[u8]) {}
}
