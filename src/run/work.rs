//! The work of each kind of call, chunk by chunk.

use crate::call::chunk::Chunk;
use crate::call::{Call, MAX_INPUTS, Operand, Work};
use crate::cpu;
use crate::cpu::expression::{self, Add, Scratch};
use crate::error::Error;
use crate::objects::expression::Expression;
use arrayvec::ArrayVec;
use gpuvec_ops::{Accumulator, Elementwise, Exact};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A copy of bytes.
pub(super) struct Copying<'a>(pub(super) &'a Call<'a>);

impl Work for Copying<'_> {
    fn compute(&self, chunks: &mut dyn Iterator<Item = Chunk>) {
        chunks.for_each(|chunk| cpu::copy(self.0, &chunk));
    }
}

/// An elementwise operation.
pub(super) struct Mapping<'a, O>(pub(super) O, pub(super) &'a Call<'a>);

impl<O: Elementwise> Work for Mapping<'_, O> {
    fn compute(&self, chunks: &mut dyn Iterator<Item = Chunk>) {
        chunks.for_each(|chunk| cpu::elementwise(self.0, self.1, &chunk));
    }
}

/// Adds the elements of chunks to a state. (Types are erased: reductions with states of one type share
/// code.)
pub(super) type Accumulate<'a, S> = dyn Fn(&mut dyn Iterator<Item = Chunk>, &mut S) + Sync + 'a;

/// The operations of an accumulator on its states.
pub(super) struct States<S> {
    identity: fn() -> S,
    merge: fn(&mut S, &S),
    from_words: fn(&[u8]) -> S,
}

impl<S> States<S> {
    pub(super) fn of<A: Accumulator<State = S>>() -> Self {
        States {
            identity: || A::IDENTITY,
            merge: A::merge,
            from_words: |words| A::from_words(bytemuck::pod_read_unaligned(words)),
        }
    }
}

/// A reduction. Each worker leaves its state in a place, where another one rarely is.
pub(super) struct Reducing<'a, S> {
    accumulate: &'a Accumulate<'a, S>,
    states: States<S>,
    elements: usize,
    places: [Mutex<Option<Merged<S>>>; PLACES],
    next: AtomicUsize,
}

/// As many as workers often are: they end at the same time, and would wait for each other.
const PLACES: usize = 16;

/// The state of the chunks that were merged, and the number of their elements.
struct Merged<S> {
    state: S,
    elements: usize,
}

impl<'a, S: Copy> Reducing<'a, S> {
    pub(super) fn new(accumulate: &'a Accumulate<'a, S>, states: States<S>) -> Self {
        let places = [const { Mutex::new(None) }; PLACES];
        Reducing { accumulate, states, elements: 0, places, next: AtomicUsize::new(0) }
    }

    /// The state of all chunks.
    pub(super) fn state(&mut self) -> Result<S, Error> {
        let (mut state, mut elements) = ((self.states.identity)(), 0);
        let merge = self.states.merge;
        for merged in self.used().iter_mut().filter_map(|place| inner(place).as_ref()) {
            merge(&mut state, &merged.state);
            elements += merged.elements;
        }
        if elements == self.elements { Ok(state) } else { Err(MISSING) }
    }

    /// The places that may hold a state.
    fn used(&mut self) -> &mut [Mutex<Option<Merged<S>>>] {
        let used = PLACES.min(*self.next.get_mut());
        &mut self.places[..used]
    }

    fn add(&self, state: &S, elements: usize) {
        let place = self.next.fetch_add(1, Ordering::Relaxed) % PLACES;
        let mut place = self.places[place].lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *place {
            Some(merged) => {
                (self.states.merge)(&mut merged.state, state);
                merged.elements += elements;
            }
            None => *place = Some(Merged { state: *state, elements }),
        }
    }
}

fn inner<T>(place: &mut Mutex<T>) -> &mut T {
    place.get_mut().unwrap_or_else(PoisonError::into_inner)
}

const MISSING: Error = Error::Internal { text: "a chunk was not reduced" };

impl<S: Copy + Send + Sync> Work for Reducing<'_, S> {
    fn begin(&mut self, elements: usize) {
        self.elements = elements;
        self.used().iter_mut().for_each(|place| *inner(place) = None);
    }

    fn compute(&self, chunks: &mut dyn Iterator<Item = Chunk>) {
        let (mut state, mut elements) = ((self.states.identity)(), 0);
        (self.accumulate)(&mut chunks.inspect(|chunk| elements += chunk.len), &mut state);
        if elements > 0 {
            self.add(&state, elements);
        }
    }

    fn take_state(&self, words: &[u8], elements: usize) {
        self.add(&(self.states.from_words)(words), elements);
    }
}

/// An exact sum of one chunk, of which the calling core does all: no state is needed.
pub(super) struct Whole<'a, O: Exact> {
    call: &'a Call<'a>,
    value: Mutex<Option<O::Element>>,
}

impl<'a, O: Exact> Whole<'a, O> {
    pub(super) fn new(call: &'a Call<'a>) -> Self {
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

/// An expression of the elements of a call.
pub(super) struct Evaluating<'a> {
    expression: &'a Expression,
    operands: &'a [Operand],
    call: &'a Call<'a>,
    failure: Mutex<Option<Error>>,
}

impl<'a> Evaluating<'a> {
    pub(super) fn new(
        expression: &'a Expression, operands: &'a [Operand], call: &'a Call<'a>,
    ) -> Self {
        Evaluating { expression, operands, call, failure: Mutex::new(None) }
    }

    /// Fails if a worker lacked memory: it has left its chunks undone.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.failure().map_or(Ok(()), Err)
    }

    fn failure(&self) -> MutexGuard<'_, Option<Error>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The buffers of a worker.
    #[inline(never)]
    fn scratch(&self) -> Option<Scratch> {
        let scratch = self.expression.blocks.scratch(self.call.n());
        scratch.map_err(|_| *self.failure() = Some(NO_BUFFERS)).ok()
    }

    /// Adds the elements of chunks to the state of the expression's reduction, whose function is `add`.
    pub(super) fn accumulate<S>(
        &self, chunks: &mut dyn Iterator<Item = Chunk>, add: Add<S>, state: &mut S,
    ) {
        let Some(mut scratch) = self.scratch() else { return };
        let blocks = &self.expression.blocks;
        for Chunk { start, len } in chunks {
            // SAFETY: the call promises the elements of the chunk, which no other thread has; the
            // scratch memory is for all elements of the call.
            unsafe {
                blocks.accumulate(&mut scratch, &self.inputs(start), start, len, add, state);
            }
        }
    }

    /// The inputs from an element on.
    #[inline(never)]
    fn inputs(&self, start: usize) -> ArrayVec<expression::Operand, MAX_INPUTS> {
        let mut arrays = self.call.inputs().iter();
        let operand = |operand: &Operand| match operand {
            Operand::Array => {
                let address = arrays.next().map(|array| array.host_address(start).cast_const());
                expression::Operand::Array(address.unwrap_or_default())
            }
            Operand::Scalar(bits) => expression::Operand::Scalar(*bits),
            Operand::Unused => expression::Operand::Scalar(0),
        };
        self.operands.iter().map(operand).collect()
    }
}

const NO_BUFFERS: Error =
    Error::OutOfHostMemory { bytes: 512 << 10, purpose: "the values of an expression" };

impl Work for Evaluating<'_> {
    fn begin(&mut self, _: usize) {
        *self.failure() = None;
    }

    fn compute(&self, chunks: &mut dyn Iterator<Item = Chunk>) {
        let Some(mut scratch) = self.scratch() else { return };
        for Chunk { start, len } in chunks {
            let out = self.call.output().host_address(start);
            // SAFETY: as in `accumulate`.
            unsafe { self.expression.blocks.map(&mut scratch, &self.inputs(start), out, len) };
        }
    }
}
