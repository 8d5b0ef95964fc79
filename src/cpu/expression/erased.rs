//! States of reductions without their types: for programs with several outputs, whose reductions go on together.

use super::reduce::{Add, BlockReduction, ReductionVisitor, States, Values, visit};
use crate::arch::Version;
use gpuvec_expr::{Reduction, Type};
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

    /// Adds the elements of other states, each to that of the same number.
    ///
    /// # Panics
    /// If their type is another one.
    fn merge(&mut self, others: &dyn ErasedStates);

    /// Adds the elements of a state that a kernel wrote to the first one.
    fn merge_words(&mut self, words: &[u8]);

    /// The bits of a state's result.
    fn result(&self, state: usize) -> u64;

    /// The bytes of a state.
    fn state_bytes(&self) -> usize;
}

impl dyn ErasedStates {
    /// The state of `n` elements, which all have the first state: merged with itself for each bit of `n`.
    pub(crate) fn repeated(&self, n: usize) -> Result<Box<dyn ErasedStates>, TryReserveError> {
        let mut state = self.copied()?;
        for bit in (0..n.ilog2()).rev() {
            let half = state.copied()?;
            state.merge(&*half);
            if n >> bit & 1 == 1 {
                state.merge(self);
            }
        }
        Ok(state)
    }

    fn copied(&self) -> Result<Box<dyn ErasedStates>, TryReserveError> {
        let mut copy = self.identities(1)?;
        copy.merge(self);
        Ok(copy)
    }
}

/// No states, of which others are made.
pub(crate) fn erased_states(reduction: Reduction, ty: Type) -> Box<dyn ErasedStates> {
    visit(reduction, ty, Erase)
}

struct Erase;

impl ReductionVisitor for Erase {
    type Result = Box<dyn ErasedStates>;

    fn visit<R: BlockReduction>(self) -> Self::Result {
        Box::new(StatesOf {
            states: Vec::new(),
            operations: Operations {
                add: R::add,
                states: States::of::<R::Accumulator>(),
                result: |state| R::Accumulator::finish(state).bits(),
            },
        })
    }
}

/// States with the operations of their reduction, which are the functions that a reduction alone calls, too.
struct StatesOf<S> {
    states: Vec<S>,
    operations: Operations<S>,
}

#[derive(Clone, Copy)]
struct Operations<S> {
    add: Add<S>,
    states: States<S>,
    result: fn(&S) -> u64,
}

impl<S: Copy + Send + Sync + 'static> ErasedStates for StatesOf<S> {
    fn identities(&self, count: usize) -> Result<Box<dyn ErasedStates>, TryReserveError> {
        let (operations, mut states) = (self.operations, Vec::new());
        states.try_reserve_exact(count)?;
        states.resize(count, (operations.states.identity)());
        Ok(Box::new(StatesOf { states, operations }))
    }

    fn clear(&mut self) {
        self.states.fill((self.operations.states.identity)());
    }

    fn add(&mut self, state: usize, version: Version, values: Values<'_>, first: usize) {
        (self.operations.add)(version, &mut self.states[state], values, first);
    }

    fn merge(&mut self, others: &dyn ErasedStates) {
        let others: &dyn Any = others;
        let others: &Self = others.downcast_ref().expect("states of the same type");
        let merge = self.operations.states.merge;
        self.states.iter_mut().zip(&others.states).for_each(|(state, other)| merge(state, other));
    }

    fn merge_words(&mut self, words: &[u8]) {
        let States { from_words, merge, .. } = self.operations.states;
        merge(&mut self.states[0], &from_words(words));
    }

    fn result(&self, state: usize) -> u64 {
        (self.operations.result)(&self.states[state])
    }

    fn state_bytes(&self) -> usize {
        size_of::<S>()
    }
}
