//! The work of each kind of call, chunk by chunk.

use super::strided_iter::StridedIter;
use crate::arch::Isa;
use crate::call::chunk::Chunk;
use crate::call::{Array, Call, ChunkWork, Extent, KernelStates, MAX_INPUTS, MAX_OUTPUTS};
use crate::cpu;
use crate::cpu::Elements;
use crate::cpu::expression::{
    Add, AddValues, BlockProgram, OutputStates, Range, ResultOf, Scratch, States, Values,
};
use crate::error::Error;
use crate::process::memory;
use arrayvec::ArrayVec;
use gpuvec_expr::Output;
use gpuvec_ops::{Element, Op};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A reduction to one state. Each worker merges its state into one of several places, rarely the place of another
/// worker.
pub(super) struct Reducing<'a, S> {
    evaluating: &'a Evaluating<'a>,
    add: Add<S>,
    states: States<S>,
    elements: usize,
    places: [Mutex<Option<Merged<S>>>; PLACES],
    next: AtomicUsize,
}

/// A common number of workers: these end at the same time, and would wait for each other.
const PLACES: usize = 16;

/// The state of merged chunks, and the number of their elements.
struct Merged<S> {
    state: S,
    elements: usize,
}

impl<'a, S: Copy> Reducing<'a, S> {
    pub(super) fn new(evaluating: &'a Evaluating<'a>, add: Add<S>, states: States<S>) -> Self {
        let places = [const { Mutex::new(None) }; PLACES];
        Reducing { evaluating, add, states, elements: 0, places, next: AtomicUsize::new(0) }
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

    /// The places that may have a state.
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

pub(super) fn inner<T>(place: &mut Mutex<T>) -> &mut T {
    place.get_mut().unwrap_or_else(PoisonError::into_inner)
}

pub(super) const MISSING: Error = Error::Internal { text: "a chunk was not reduced" };

impl<S: Copy + Send + Sync> ChunkWork for Reducing<'_, S> {
    fn begin(&mut self, elements: usize) {
        self.evaluating.forget_failure();
        self.elements = elements;
        self.used().iter_mut().for_each(|place| *inner(place) = None);
    }

    fn compute(&self, chunks: &mut dyn Iterator<Item = Chunk>) {
        let (mut state, mut elements) = ((self.states.identity)(), 0);
        let chunks = &mut chunks.inspect(|chunk| elements += chunk.len());
        self.evaluating.accumulate(chunks, usize::MAX, &mut |_, isa, values, first| {
            (self.add)(isa, &mut state, values, first);
        });
        if elements > 0 {
            self.add(&state, elements);
        }
    }

    fn take_states(&self, states: &KernelStates<'_>) {
        self.add(&(self.states.from_words)(states.words), states.elements);
    }
}

/// The reductions of several outputs, with or without elementwise outputs. The chunks' states are merged under one
/// lock.
pub(super) struct ReducingSeveral<'a> {
    evaluating: &'a Evaluating<'a>,
    elements: usize,
    merged: Mutex<MergedOutputs>,
}

/// For each output, the state of merged chunks and the number of their elements.
struct MergedOutputs {
    states: OutputStates,
    elements: ArrayVec<usize, MAX_OUTPUTS>,
}

impl<'a> ReducingSeveral<'a> {
    /// The work with an empty state for each output. Fails without memory for states.
    pub(super) fn new(
        evaluating: &'a Evaluating<'a>, outputs: impl Iterator<Item = &'a Output>,
    ) -> Result<Self, Error> {
        if !memory::is_left() {
            return Err(NO_BUFFERS);
        }
        let states = OutputStates::of(outputs).identities(1).map_err(|_| NO_BUFFERS)?;
        let elements = (0..states.outputs()).map(|_| 0).collect();
        let merged = Mutex::new(MergedOutputs { states, elements });
        Ok(ReducingSeveral { evaluating, elements: 0, merged })
    }

    /// The bits of each reduction's result. The only reduced element stands for `repeats` equal ones, if given.
    pub(super) fn results(
        self, repeats: Option<usize>,
    ) -> Result<ArrayVec<u64, MAX_OUTPUTS>, Error> {
        let mut states = self.into_states()?;
        if let Some(n) = repeats {
            states = states.repeated(n).map_err(|_| NO_BUFFERS)?;
        }
        Ok((0..states.outputs()).map(|output| states.result(output, 0)).collect())
    }

    /// A state of all elements for each output.
    pub(super) fn into_states(self) -> Result<OutputStates, Error> {
        let merged = self.merged.into_inner().unwrap_or_else(PoisonError::into_inner);
        let is_missing = merged.elements.iter().any(|elements| *elements != self.elements);
        if is_missing { Err(MISSING) } else { Ok(merged.states) }
    }

    fn merged(&self) -> MutexGuard<'_, MergedOutputs> {
        self.merged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChunkWork for ReducingSeveral<'_> {
    fn begin(&mut self, elements: usize) {
        self.evaluating.forget_failure();
        self.elements = elements;
        let merged = inner(&mut self.merged);
        merged.states.clear();
        merged.elements.fill(0);
    }

    fn compute(&self, chunks: &mut dyn Iterator<Item = Chunk>) {
        if !memory::is_left() {
            return self.evaluating.note_failure();
        }
        let states = self.merged().states.identities(1);
        let Ok(mut states) = states else { return self.evaluating.note_failure() };
        let mut elements = 0;
        let chunks = &mut chunks.inspect(|chunk| elements += chunk.len());
        let at_once = states.reduced_at_once();
        self.evaluating.accumulate(chunks, at_once, &mut |number, isa, values, first| {
            states.sum_mut(number).add(0, isa, values, first);
        });
        let mut merged = self.merged();
        merged.states.merge(0, &states, 1);
        merged.elements.iter_mut().for_each(|merged| *merged += elements);
    }

    fn take_states(&self, states: &KernelStates<'_>) {
        let mut merged = self.merged();
        merged.states.merge_words(states.reduction, 0, states.words, states.bytes);
        merged.elements[states.reduction] += states.elements;
    }
}

/// A reduction of one chunk on the calling core, which needs no state.
pub(super) struct Whole<'a, T> {
    evaluating: &'a Evaluating<'a>,
    of: ResultOf<T>,
    bits: AtomicU64,
    is_done: AtomicBool,
}

impl<'a, T: Element> Whole<'a, T> {
    pub(super) fn new(evaluating: &'a Evaluating<'a>, of: ResultOf<T>) -> Self {
        Whole { evaluating, of, bits: AtomicU64::new(0), is_done: AtomicBool::new(false) }
    }

    pub(super) fn result(&self) -> Result<T, Error> {
        let is_done = self.is_done.load(Ordering::Relaxed);
        if is_done { Ok(T::from_bits(self.bits.load(Ordering::Relaxed))) } else { Err(MISSING) }
    }
}

impl<T: Element> ChunkWork for Whole<'_, T> {
    fn compute(&self, chunks: &mut dyn Iterator<Item = Chunk>) {
        let Some(chunk) = chunks.next() else { return };
        let result = (self.of)(cpu::isa(), self.evaluating.values(&chunk));
        self.bits.store(result.bits(), Ordering::Relaxed);
        self.is_done.store(true, Ordering::Relaxed);
    }
}

/// The program by which cores run a call.
#[derive(Clone, Copy)]
pub(super) enum CpuProgram<'a> {
    /// A copy.
    Copy,
    /// One loop over the arrays of an operation, with the bits of its factor.
    Operation { op: Op, alpha: u64 },
    /// A block interpreter for an expression.
    Blocks(&'a BlockProgram),
}

/// The evaluation of a call's elements on cores.
pub(super) struct Evaluating<'a> {
    steps: CpuProgram<'a>,
    call: &'a Call<'a>,
    /// True if a worker lacked memory and left its chunks undone.
    lacked_memory: AtomicBool,
}

impl<'a> Evaluating<'a> {
    pub(super) fn new(steps: CpuProgram<'a>, call: &'a Call<'a>) -> Self {
        Evaluating { steps, call, lacked_memory: AtomicBool::new(false) }
    }

    /// True if the reduced values are read from arrays, not computed.
    pub(super) fn reads_arrays_alone(&self) -> bool {
        matches!(self.steps, CpuProgram::Operation { .. }) && self.call.n() > 0
    }

    /// The program of an expression.
    pub(super) fn blocks(&self) -> Result<&'a BlockProgram, Error> {
        match self.steps {
            CpuProgram::Blocks(blocks) => Ok(blocks),
            CpuProgram::Copy | CpuProgram::Operation { .. } => {
                Err(Error::Internal { text: "an operation along axes" })
            }
        }
    }

    /// Fails if a worker lacked memory.
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.lacked_memory.load(Ordering::Relaxed) { Err(NO_BUFFERS) } else { Ok(()) }
    }

    fn forget_failure(&self) {
        self.lacked_memory.store(false, Ordering::Relaxed);
    }

    /// Notes that a worker lacked memory.
    fn note_failure(&self) {
        self.lacked_memory.store(true, Ordering::Relaxed);
    }

    /// Calls `add` with the values that the call's reductions take from chunks, `at_once` at a time for each reduction
    /// in turn, and stores the other outputs.
    fn accumulate(
        &self, chunks: &mut dyn Iterator<Item = Chunk>, at_once: usize, add: &mut AddValues<'_>,
    ) {
        let CpuProgram::Blocks(blocks) = self.steps else {
            let isa = cpu::isa();
            return chunks.for_each(|chunk| {
                add(0, isa, self.values(&chunk), chunk.start());
            });
        };
        let Some(mut scratch) = self.scratch(blocks) else { return };
        let bindings = self.call.task().bindings();
        chunks.for_each(|chunk| {
            let (arrays, outputs) = (&self.addresses(&chunk), &self.outputs(&chunk));
            // SAFETY: the call promises the elements of the chunk, which no other thread has.
            let range = unsafe { Range::new(bindings, arrays, outputs, chunk.len()) };
            let range = range.with_reduced_at_once(at_once);
            blocks.accumulate(&mut scratch, range, chunk.start(), add);
        });
    }

    /// The buffers of a worker.
    #[inline(never)]
    fn scratch(&self, blocks: &BlockProgram) -> Option<Scratch> {
        let scratch = blocks.scratch(self.call.n());
        scratch.map_err(|_| self.note_failure()).ok()
    }

    /// The addresses of a chunk in an operation's two inputs. A single input counts twice.
    #[inline(always)]
    fn arrays(&self, chunk: &Chunk) -> [*const c_void; 2] {
        let inputs = self.call.inputs();
        let [first, last] = [&inputs[0], &inputs[inputs.len() - 1]];
        [first.host_elements(chunk), last.host_elements(chunk)].map(<*mut c_void>::cast_const)
    }

    /// The elements of a chunk that an operation reduces.
    #[inline(always)]
    fn values(&self, chunk: &Chunk) -> Values<'_> {
        let CpuProgram::Operation { op, .. } = self.steps else {
            unreachable!("an operation's values")
        };
        let addresses = self.arrays(chunk).map(<*const c_void>::cast);
        // SAFETY: the call promises the elements of the chunk, of the operation's type.
        unsafe { Values::new(op.element().widened(), addresses, chunk.len()) }
    }

    /// The addresses of a chunk in an expression's inputs.
    #[inline(never)]
    fn addresses(&self, chunk: &Chunk) -> ArrayVec<*const c_void, MAX_INPUTS> {
        let address = |array: &Array| array.host_elements(chunk).cast_const();
        self.call.inputs().iter().map(address).collect()
    }

    /// The addresses of a chunk in the elementwise outputs of an expression.
    fn outputs(&self, chunk: &Chunk) -> ArrayVec<*mut c_void, MAX_OUTPUTS> {
        let elementwise = self.call.outputs_of(Extent::Elements);
        elementwise.map(|(_, array)| array.host_elements(chunk)).collect()
    }
}

pub(super) const NO_BUFFERS: Error =
    Error::OutOfHostMemory { bytes: 512 << 10, purpose: "the values of an expression" };

impl ChunkWork for Evaluating<'_> {
    fn begin(&mut self, _: usize) {
        self.forget_failure();
    }

    fn compute(&self, chunks: &mut dyn Iterator<Item = Chunk>) {
        match self.steps {
            CpuProgram::Copy => chunks.for_each(|chunk| cpu::copy(self.call, &chunk)),
            CpuProgram::Operation { op, alpha } => chunks.for_each(|chunk| {
                let out = self.call.outputs()[0].host_elements(&chunk);
                let (isa, inputs) = (Isa::for_short_work(), self.arrays(&chunk));
                let elements = Elements { isa, inputs, out, len: chunk.len() };
                // SAFETY: the call promises the elements of the chunk, which no other thread has.
                unsafe { cpu::elementwise(op, alpha, elements) };
            }),
            CpuProgram::Blocks(blocks) => {
                if let Some(iter) = StridedIter::new(blocks, self.call) {
                    return iter.compute(chunks).unwrap_or_else(|_| self.note_failure());
                }
                self.accumulate(chunks, usize::MAX, &mut |_, _, _, _| ());
            }
        }
    }
}

/// The work of cores in a call that GPUs do alone.
pub(super) struct NoWork;

impl ChunkWork for NoWork {
    fn compute(&self, _: &mut dyn Iterator<Item = Chunk>) {}
}
