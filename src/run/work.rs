//! The work of each kind of call, chunk by chunk.

use crate::call::chunk::Chunk;
use crate::call::{Call, Work};
use crate::cpu;
use crate::error::Error;
use crate::ops::{
    Accumulator, Element, Elementwise, Reduction, StateOf, merge_in_order, merge_in_place,
};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

/// A copy of bytes.
pub(super) struct Copying<'a>(pub(super) &'a Call);

impl Work for Copying<'_> {
    fn compute(&self, chunk: &Chunk) {
        cpu::copy(self.0, chunk);
    }
}

/// An elementwise operation.
pub(super) struct Mapping<'a, O>(pub(super) O, pub(super) &'a Call);

impl<O: Elementwise> Work for Mapping<'_, O> {
    fn compute(&self, chunk: &Chunk) {
        cpu::elementwise(self.0, self.1, chunk);
    }
}

/// A reduction: a state for each chunk, each in its place, so that the order of the workers does not
/// matter.
pub(super) struct Reducing<'a, O: Reduction> {
    op: O,
    call: &'a Call,
    states: Vec<Place<StateOf<O>>>,
}

/// The state of a chunk. (A `OnceLock` takes two atomic read-modify-writes of a cache line that other
/// workers write to.)
struct Place<S> {
    state: UnsafeCell<S>,
    is_set: AtomicBool,
}

// SAFETY: one thread has a chunk, and sets its place; others read the state once it is set.
unsafe impl<S: Send + Sync> Sync for Place<S> {}

impl<S: Copy> Place<S> {
    /// Sets the state of a chunk that the calling thread has.
    fn set(&self, _: &Chunk, state: S) {
        // SAFETY: no other thread has the chunk, and none reads before it is set.
        unsafe { *self.state.get() = state };
        self.is_set.store(true, Ordering::Release);
    }

    fn get(&self) -> Option<S> {
        // SAFETY: it is set, and never again.
        self.is_set.load(Ordering::Acquire).then(|| unsafe { *self.state.get() })
    }
}

impl<'a, O: Reduction> Reducing<'a, O> {
    pub(super) fn new(op: O, call: &'a Call) -> Self {
        Reducing { op, call, states: Vec::new() }
    }

    /// The result of all chunks.
    pub(super) fn result(&self) -> Result<O::Output, Error> {
        let mut is_whole = true;
        let state = merge_in_order::<O::Accumulator>(self.states.len(), &mut |chunk| {
            self.states[chunk].get().unwrap_or_else(|| {
                is_whole = false;
                O::Accumulator::IDENTITY
            })
        });
        if !is_whole {
            return Err(Error::Internal { text: "a chunk has no state" });
        }
        Ok(self.op.finish(state).canonical())
    }
}

impl<O: Reduction> Work for Reducing<'_, O> {
    fn begin(&mut self, chunks: usize) -> Result<(), Error> {
        let bytes = chunks * size_of::<Place<StateOf<O>>>();
        self.states.clear();
        self.states
            .try_reserve_exact(chunks)
            .map_err(|_| Error::OutOfHostMemory { bytes, purpose: "the chunks' states" })?;
        self.states.resize_with(chunks, || Place {
            state: UnsafeCell::new(O::Accumulator::IDENTITY),
            is_set: AtomicBool::new(false),
        });
        Ok(())
    }

    fn compute(&self, chunk: &Chunk) {
        self.states[chunk.index].set(chunk, cpu::reduce(self.op, self.call, chunk));
    }

    fn take_states(&self, chunk: &Chunk, states: &mut [u8]) {
        let states: &mut [StateOf<O>] = bytemuck::cast_slice_mut(states);
        self.states[chunk.index].set(chunk, merge_in_place::<O::Accumulator>(states));
    }
}
