//! The work of each kind of call, chunk by chunk.

use crate::call::chunk::Chunk;
use crate::call::{Call, Work};
use crate::cpu;
use crate::error::Error;
use crate::ops::{Accumulator, Elementwise, Exact};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A copy of bytes.
pub(super) struct Copying<'a>(pub(super) &'a Call);

impl Work for Copying<'_> {
    fn compute(&self, chunks: &mut dyn Iterator<Item = Chunk>) {
        chunks.for_each(|chunk| cpu::copy(self.0, &chunk));
    }
}

/// An elementwise operation.
pub(super) struct Mapping<'a, O>(pub(super) O, pub(super) &'a Call);

impl<O: Elementwise> Work for Mapping<'_, O> {
    fn compute(&self, chunks: &mut dyn Iterator<Item = Chunk>) {
        chunks.for_each(|chunk| cpu::elementwise(self.0, self.1, &chunk));
    }
}

/// A reduction, to one state, into which each worker merges its own.
pub(super) struct Reducing<A: Accumulator, F> {
    /// Adds the elements of a chunk to a state.
    accumulate: F,
    chunks: usize,
    merged: Mutex<Merged<A>>,
}

/// The state of the chunks that were merged, and their number.
struct Merged<A: Accumulator> {
    state: A::State,
    chunks: usize,
}

impl<A: Accumulator> Merged<A> {
    const NOTHING: Self = Merged { state: A::IDENTITY, chunks: 0 };
}

impl<A: Accumulator, F: Fn(&Chunk, &mut A::State)> Reducing<A, F> {
    pub(super) fn new(accumulate: F) -> Self {
        Reducing { accumulate, chunks: 0, merged: Mutex::new(Merged::NOTHING) }
    }

    /// The state of all chunks.
    pub(super) fn state(&mut self) -> Result<&A::State, Error> {
        let merged = self.merged.get_mut().unwrap_or_else(PoisonError::into_inner);
        if merged.chunks == self.chunks { Ok(&merged.state) } else { Err(MISSING) }
    }

    fn add(&self, state: &A::State, chunks: usize) {
        let mut merged = self.lock();
        A::merge(&mut merged.state, state);
        merged.chunks += chunks;
    }

    /// Workers end at the same time, and merge in less time than one needs to go to sleep.
    fn lock(&self) -> MutexGuard<'_, Merged<A>> {
        for _ in 0..SPINS {
            if let Ok(merged) = self.merged.try_lock() {
                return merged;
            }
            std::hint::spin_loop();
        }
        self.merged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tries before a worker goes to sleep: some microseconds.
const SPINS: usize = 1000;

const MISSING: Error = Error::Internal { text: "a chunk was not reduced" };

impl<A: Accumulator, F: Fn(&Chunk, &mut A::State) + Sync> Work for Reducing<A, F> {
    fn begin(&mut self, chunks: usize) {
        self.chunks = chunks;
        self.merged = Mutex::new(Merged::NOTHING);
    }

    fn compute(&self, chunks: &mut dyn Iterator<Item = Chunk>) {
        let (mut state, mut count) = (A::IDENTITY, 0);
        for chunk in chunks {
            (self.accumulate)(&chunk, &mut state);
            count += 1;
        }
        if count > 0 {
            self.add(&state, count);
        }
    }

    fn take_state(&self, words: &[u8]) {
        self.add(&A::from_words(bytemuck::pod_read_unaligned(words)), 1);
    }
}

/// An exact sum of one chunk, of which the calling core does all: no state is needed.
pub(super) struct Whole<'a, O: Exact> {
    call: &'a Call,
    value: Mutex<Option<O::Element>>,
}

impl<'a, O: Exact> Whole<'a, O> {
    pub(super) fn new(call: &'a Call) -> Self {
        Whole { call, value: Mutex::new(None) }
    }

    pub(super) fn value(self) -> Result<O::Element, Error> {
        self.value.into_inner().unwrap_or_else(PoisonError::into_inner).ok_or(MISSING)
    }
}

impl<O: Exact> Work for Whole<'_, O> {
    fn compute(&self, chunks: &mut dyn Iterator<Item = Chunk>) {
        let mut value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        *value = chunks.next().map(|chunk| cpu::value::<O>(self.call, &chunk));
    }
}
