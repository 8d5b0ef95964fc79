//! States of reductions without their types: for programs with several outputs, whose reductions go on together.

use super::moments::Moments;
use super::reduce::{Add, BlockReduction, ReductionVisitor, States, ValueColumns, Values, visit};
use super::slab::{Laning, Slab};
use crate::arch::Version;
use gpuvec_expr::{Output, Reduction, Type};
use gpuvec_ops::{Accumulator, Element};
use std::any::Any;
use std::collections::TryReserveError;

/// States of a reduction, whose type is erased. They are counted from 0.
pub(crate) trait ErasedStates: Any + Send + Sync {
    /// As many states of no elements, of the same reduction.
    fn identities(&self, count: usize) -> Result<Box<dyn ErasedStates>, TryReserveError>;

    /// Makes all states those of no elements.
    fn clear(&mut self);

    /// Adds values to a state. `first` is the index of the first value in the whole array.
    fn add(&mut self, state: usize, version: Version, values: Values<'_>, first: usize);

    /// Adds columns to the states from number `state` on. `first` is the index of the first row.
    fn add_columns(
        &mut self, state: usize, version: Version, columns: ValueColumns<'_>, first: usize,
    );

    /// The bits of the result of values that are all elements.
    fn row(&self, version: Version, values: Values<'_>) -> u64;

    /// Completes the states, before they are merged into others.
    fn complete(&mut self);

    /// Adds the elements of the first `count` of other states, which are complete, to the states from number `first` on.
    ///
    /// # Panics
    /// If their type is another one.
    fn merge(&mut self, first: usize, others: &dyn ErasedStates, count: usize);

    /// Adds the elements of states that a kernel wrote, of `bytes` bytes each, to those from number `first` on.
    fn merge_words(&mut self, first: usize, words: &[u8], bytes: usize);

    /// The bits of the result of a state.
    fn result(&mut self, state: usize) -> u64;

    /// The bits of the results of the first states.
    fn results(&mut self, results: &mut [u64]);

    /// The bytes of a state.
    fn state_bytes(&self) -> usize;
}

impl dyn ErasedStates {
    /// The state of `n` elements, which all have the first state: merged with itself for each bit of `n`.
    pub(crate) fn repeated(&self, n: usize) -> Result<Box<dyn ErasedStates>, TryReserveError> {
        let mut state = self.copied()?;
        for bit in (0..n.ilog2()).rev() {
            let half = state.copied()?;
            state.merge(0, &*half, 1);
            if n >> bit & 1 == 1 {
                state.merge(0, self, 1);
            }
        }
        Ok(state)
    }

    fn copied(&self) -> Result<Box<dyn ErasedStates>, TryReserveError> {
        let mut copy = self.identities(1)?;
        copy.merge(0, self, 1);
        Ok(copy)
    }
}

/// The states with elements and their numbers, of states of a known type that are complete.
///
/// # Panics
/// If their type is another one.
pub(crate) fn begun_states<S: Laning>(
    states: &dyn ErasedStates,
) -> impl Iterator<Item = (usize, &S)> + Clone {
    StatesOf::<S>::of(states).slab.begun()
}

/// Empty states of an output that is a reduction, a prototype of others.
///
/// # Panics
/// If it is not a reduction.
pub(crate) fn erased_states(output: &Output) -> Box<dyn ErasedStates> {
    match (output.reduction().expect("a reduction"), output.ty) {
        (_, Type::F32) if !output.sums().is_empty() => Box::new(Moments::of::<f32>(output)),
        _ if !output.sums().is_empty() => Box::new(Moments::of::<f64>(output)),
        (reduction, ty) => {
            let states = of_one_state(reduction, ty);
            match output.conversion() {
                Some(conversion) => Box::new(Converted { states, conversion }),
                None => states,
            }
        }
    }
}

/// The same of a reduction with one state.
pub(super) fn of_one_state(reduction: Reduction, ty: Type) -> Box<dyn ErasedStates> {
    visit(reduction, ty, Erase)
}

struct Erase;

impl ReductionVisitor for Erase {
    type Result = Box<dyn ErasedStates>;

    fn visit<R: BlockReduction>(self) -> Self::Result {
        Box::new(StatesOf {
            slab: Slab::new(|| R::Accumulator::IDENTITY),
            operations: Operations {
                add: R::add,
                add_columns: R::add_columns,
                states: States::of::<R::Accumulator>(),
                row: |version, values| R::row(version, values).bits(),
                of_parts: |[high, low], terms, results| {
                    for (result, (high, low)) in results.iter_mut().zip(high.iter().zip(low)) {
                        *result = R::of_parts([*high, *low], terms).bits();
                    }
                },
                result: |state| R::Accumulator::finish(state).bits(),
            },
        })
    }
}

/// States with the operations of their reduction, which are the functions that a reduction alone calls, too.
pub(super) struct StatesOf<S: Laning> {
    slab: Slab<S>,
    operations: Operations<S>,
}

#[derive(Clone, Copy)]
struct Operations<S: Laning> {
    add: Add<S>,
    add_columns: fn(Version, &mut Slab<S>, usize, ValueColumns<'_>, usize),
    states: States<S>,
    row: fn(Version, Values<'_>) -> u64,
    of_parts: fn([&[f64]; 2], usize, &mut [u64]),
    result: fn(&S) -> u64,
}

impl<S: Laning> StatesOf<S> {
    /// A state, with what was in its lane.
    ///
    /// # Panics
    /// If its type is another one.
    pub(super) fn whole(states: &mut dyn ErasedStates, number: usize) -> &S {
        let states: &mut dyn Any = states;
        let states: &mut Self = states.downcast_mut().expect("states of the same type");
        states.slab.whole(number)
    }

    /// States as what they are.
    ///
    /// # Panics
    /// If their type is another one.
    fn of(states: &dyn ErasedStates) -> &Self {
        let states: &dyn Any = states;
        states.downcast_ref().expect("states of the same type")
    }
}

impl<S: Laning> ErasedStates for StatesOf<S> {
    fn identities(&self, count: usize) -> Result<Box<dyn ErasedStates>, TryReserveError> {
        let slab = self.slab.identities(count)?;
        Ok(Box::new(StatesOf { slab, operations: self.operations }))
    }

    fn clear(&mut self) {
        self.slab.clear();
    }

    fn add(&mut self, state: usize, version: Version, values: Values<'_>, first: usize) {
        (self.operations.add)(version, self.slab.state(state), values, first);
    }

    fn add_columns(
        &mut self, state: usize, version: Version, columns: ValueColumns<'_>, first: usize,
    ) {
        (self.operations.add_columns)(version, &mut self.slab, state, columns, first);
    }

    fn row(&self, version: Version, values: Values<'_>) -> u64 {
        (self.operations.row)(version, values)
    }

    fn complete(&mut self) {
        self.slab.empty_lanes();
    }

    fn merge(&mut self, first: usize, others: &dyn ErasedStates, count: usize) {
        let merge = self.operations.states.merge;
        for (number, other) in Self::of(others).slab.begun().take_while(|(at, _)| *at < count) {
            merge(self.slab.state(first + number), other);
        }
    }

    fn merge_words(&mut self, first: usize, words: &[u8], bytes: usize) {
        let States { from_words, merge, .. } = self.operations.states;
        for (state, words) in (first..).zip(words.chunks_exact(bytes)) {
            merge(self.slab.state(state), &from_words(words));
        }
    }

    fn result(&mut self, state: usize) -> u64 {
        (self.operations.result)(self.slab.whole(state))
    }

    fn results(&mut self, results: &mut [u64]) {
        let in_lanes = self.slab.in_lanes(results.len());
        let has_lanes = in_lanes.is_some();
        if let Some((parts, terms)) = in_lanes {
            (self.operations.of_parts)(parts, terms as usize, results);
        }
        for (state, result) in results.iter_mut().enumerate() {
            if !has_lanes || self.slab.is_begun(state) {
                *result = self.result(state);
            }
        }
    }

    fn state_bytes(&self) -> usize {
        size_of::<S>()
    }
}

/// States whose results are converted to another type.
struct Converted {
    states: Box<dyn ErasedStates>,
    conversion: fn(u64) -> u64,
}

impl Converted {
    /// The states of others that are converted likewise.
    ///
    /// # Panics
    /// If they are not converted.
    fn of(states: &dyn ErasedStates) -> &dyn ErasedStates {
        let states: &dyn Any = states;
        let converted: &Self = states.downcast_ref().expect("states of the same type");
        &*converted.states
    }
}

impl ErasedStates for Converted {
    fn identities(&self, count: usize) -> Result<Box<dyn ErasedStates>, TryReserveError> {
        let states = self.states.identities(count)?;
        Ok(Box::new(Converted { states, conversion: self.conversion }))
    }

    fn clear(&mut self) {
        self.states.clear();
    }

    fn add(&mut self, state: usize, version: Version, values: Values<'_>, first: usize) {
        self.states.add(state, version, values, first);
    }

    fn add_columns(
        &mut self, state: usize, version: Version, columns: ValueColumns<'_>, first: usize,
    ) {
        self.states.add_columns(state, version, columns, first);
    }

    fn row(&self, version: Version, values: Values<'_>) -> u64 {
        (self.conversion)(self.states.row(version, values))
    }

    fn complete(&mut self) {
        self.states.complete();
    }

    fn merge(&mut self, first: usize, others: &dyn ErasedStates, count: usize) {
        self.states.merge(first, Self::of(others), count);
    }

    fn merge_words(&mut self, first: usize, words: &[u8], bytes: usize) {
        self.states.merge_words(first, words, bytes);
    }

    fn result(&mut self, state: usize) -> u64 {
        (self.conversion)(self.states.result(state))
    }

    fn results(&mut self, results: &mut [u64]) {
        self.states.results(results);
        results.iter_mut().for_each(|bits| *bits = (self.conversion)(*bits));
    }

    fn state_bytes(&self) -> usize {
        self.states.state_bytes()
    }
}
