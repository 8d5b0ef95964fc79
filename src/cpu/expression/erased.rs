//! States of reductions with their types erased, so that one pass over the arrays can compute reductions of several
//! types.

use super::reduce::{
    BlockReduction, ReductionVisitor, StateOf, States, ValueColumns, Values, visit,
};
use super::slab::Slab;
use crate::arch::Isa;
use gpuvec_expr::{Reduction, Type};
use gpuvec_ops::{Accumulator, Element};
use std::any::Any;
use std::collections::TryReserveError;

/// States of a reduction, numbered from 0, with their type erased.
pub(crate) trait ErasedStates: Any + Send + Sync {
    /// Makes `count` states of the same reduction without elements.
    fn identities(&self, count: usize) -> Result<Box<dyn ErasedStates>, TryReserveError>;

    /// Resets all states to no elements.
    fn clear(&mut self);

    /// Adds values to a state. `first` is the index of the first value in the whole array.
    fn add(&mut self, state: usize, isa: Isa, values: Values<'_>, first: usize);

    /// Adds columns to the states from number `state` on. `first` is the index of the first row.
    fn add_columns(&mut self, state: usize, isa: Isa, columns: ValueColumns<'_>, first: usize);

    /// The bits of the result of one row, which has all its elements in `values`.
    fn row(&self, isa: Isa, values: Values<'_>) -> u64;

    /// Moves all terms of lanes to the states, so that these can be merged into others.
    fn complete(&mut self);

    /// Merges the first `count` of other states, which are complete, into the states from number `first` on.
    ///
    /// # Panics
    /// If the others have another type.
    fn merge(&mut self, first: usize, others: &dyn ErasedStates, count: usize);

    /// Merges states that a kernel wrote, one every `stride` bytes, into the states from number `first` on. Returns the
    /// bytes of a kernel's state.
    fn merge_words(&mut self, first: usize, words: &[u8], stride: usize) -> usize;

    /// The bits of the result of a state.
    fn result(&mut self, state: usize) -> u64;

    /// The bits of the results of the first states.
    fn results(&mut self, results: &mut [u64]);

    /// A state with the terms of its lane.
    fn whole(&mut self, state: usize) -> &dyn Any;

    /// The bytes of a state.
    fn state_bytes(&self) -> usize;
}

impl dyn ErasedStates {
    /// A prototype without states, for a reduction of values of a type. `conversion` converts the bits of a result to
    /// the type of the output array, if that is another one.
    pub(super) fn of(reduction: Reduction, ty: Type, conversion: Option<Conversion>) -> Box<Self> {
        visit(reduction, ty, Erase(conversion))
    }
}

/// Converts the bits of a result.
type Conversion = fn(u64) -> u64;

/// The states that have elements, with their numbers. `states` must be complete.
///
/// # Panics
/// If the states have another type.
pub(crate) fn begun_states<R: BlockReduction>(
    states: &dyn ErasedStates,
) -> impl Iterator<Item = (usize, &StateOf<R>)> + Clone {
    StatesOf::<R>::of(states).slab.begun()
}

struct Erase(Option<Conversion>);

impl ReductionVisitor for Erase {
    type Result = Box<dyn ErasedStates>;

    fn visit<R: BlockReduction>(self) -> Self::Result {
        let slab = Slab::new(|| R::Accumulator::IDENTITY);
        Box::new(StatesOf::<R> { slab, conversion: self.0 })
    }
}

/// States of a reduction.
pub(super) struct StatesOf<R: BlockReduction> {
    slab: Slab<StateOf<R>>,
    conversion: Option<Conversion>,
}

impl<R: BlockReduction> StatesOf<R> {
    /// States with their type.
    ///
    /// # Panics
    /// If the states have another type.
    fn of(states: &dyn ErasedStates) -> &Self {
        let states: &dyn Any = states;
        states.downcast_ref().expect("states of the same type")
    }

    /// The bits of a result in the output array.
    fn converted(&self, bits: u64) -> u64 {
        self.conversion.map_or(bits, |conversion| conversion(bits))
    }
}

impl<R: BlockReduction> ErasedStates for StatesOf<R> {
    fn identities(&self, count: usize) -> Result<Box<dyn ErasedStates>, TryReserveError> {
        let slab = self.slab.identities(count)?;
        Ok(Box::new(StatesOf::<R> { slab, ..*self }))
    }

    fn clear(&mut self) {
        self.slab.clear();
    }

    fn add(&mut self, state: usize, isa: Isa, values: Values<'_>, first: usize) {
        R::add(isa, self.slab.state(state), values, first);
    }

    fn add_columns(&mut self, state: usize, isa: Isa, columns: ValueColumns<'_>, first: usize) {
        R::add_columns(isa, &mut self.slab, state, columns, first);
    }

    fn row(&self, isa: Isa, values: Values<'_>) -> u64 {
        self.converted(R::row(isa, values).bits())
    }

    fn complete(&mut self) {
        self.slab.empty_lanes();
    }

    fn merge(&mut self, first: usize, others: &dyn ErasedStates, count: usize) {
        for (number, other) in Self::of(others).slab.begun().take_while(|(at, _)| *at < count) {
            R::Accumulator::merge(self.slab.state(first + number), other);
        }
    }

    fn merge_words(&mut self, first: usize, words: &[u8], stride: usize) -> usize {
        let States { from_words, merge, .. } = States::of::<R::Accumulator>();
        let word_bytes = size_of::<<R::Accumulator as Accumulator>::Words>();
        for (state, words) in (first..).zip(words.chunks(stride)) {
            merge(self.slab.state(state), &from_words(&words[..word_bytes]));
        }
        word_bytes
    }

    fn result(&mut self, state: usize) -> u64 {
        let result = R::Accumulator::finish(self.slab.whole(state));
        self.converted(result.bits())
    }

    fn results(&mut self, results: &mut [u64]) {
        let in_lanes = self.slab.in_lanes(results.len());
        let has_lanes = in_lanes.is_some();
        if let Some((parts, terms)) = in_lanes {
            for (result, (high, low)) in results.iter_mut().zip(parts[0].iter().zip(parts[1])) {
                *result = self.converted(R::of_parts([*high, *low], terms as usize).bits());
            }
        }
        for (state, result) in results.iter_mut().enumerate() {
            if !has_lanes || self.slab.is_begun(state) {
                *result = self.result(state);
            }
        }
    }

    fn whole(&mut self, state: usize) -> &dyn Any {
        self.slab.whole(state)
    }

    fn state_bytes(&self) -> usize {
        size_of::<StateOf<R>>()
    }
}
