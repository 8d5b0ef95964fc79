//! The work of each kind of call, chunk by chunk.

use crate::call::chunk::Chunk;
use crate::call::{Call, Work};
use crate::cpu;
use crate::error::Error;
use crate::ops::{Accumulator, Element, Elementwise, Reduction, StateOf, merge_in_order};
use std::sync::OnceLock;

/// A copy of bytes.
pub(super) struct Copying<'a>(pub(super) &'a Call);

impl Work for Copying<'_> {
    fn compute(&self, chunk: &Chunk) {
        cpu::copy(self.0, chunk);
    }

    fn take_states(&self, _: &Chunk, _: &[u8]) {}
}

/// An elementwise operation.
pub(super) struct Mapping<'a, O>(pub(super) O, pub(super) &'a Call);

impl<O: Elementwise> Work for Mapping<'_, O> {
    fn compute(&self, chunk: &Chunk) {
        cpu::elementwise(self.0, self.1, chunk);
    }

    fn take_states(&self, _: &Chunk, _: &[u8]) {}
}

/// A reduction: a state for each chunk, each in its place, so that the order of the workers does not
/// matter.
pub(super) struct Reducing<'a, O: Reduction> {
    op: O,
    call: &'a Call,
    states: Vec<OnceLock<StateOf<O>>>,
}

impl<'a, O: Reduction> Reducing<'a, O> {
    pub(super) fn new(op: O, call: &'a Call, chunks: usize) -> Result<Self, Error> {
        let mut states = Vec::new();
        let bytes = chunks * size_of::<OnceLock<StateOf<O>>>();
        states
            .try_reserve_exact(chunks)
            .map_err(|_| Error::OutOfHostMemory { bytes, purpose: "the chunks' states" })?;
        states.resize_with(chunks, OnceLock::new);
        Ok(Reducing { op, call, states })
    }

    /// The result of all chunks.
    pub(super) fn result(&self) -> Result<O::Output, Error> {
        if self.states.iter().any(|state| state.get().is_none()) {
            return Err(Error::Internal { text: "a chunk has no state" });
        }
        let identity = O::Accumulator::IDENTITY;
        let state = merge_in_order::<O::Accumulator>(self.states.len(), &mut |chunk| {
            self.states[chunk].get().copied().unwrap_or(identity)
        });
        Ok(self.op.finish(state).canonical())
    }
}

impl<O: Reduction> Work for Reducing<'_, O> {
    fn compute(&self, chunk: &Chunk) {
        let _ = self.states[chunk.index].set(cpu::reduce(self.op, self.call, chunk));
    }

    fn take_states(&self, chunk: &Chunk, states: &[u8]) {
        let states: &[StateOf<O>] = bytemuck::cast_slice(states);
        let state = merge_in_order::<O::Accumulator>(states.len(), &mut |tile| states[tile]);
        let _ = self.states[chunk.index].set(state);
    }
}
