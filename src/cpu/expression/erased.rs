//! States of reductions without their types: for programs with several outputs, whose reductions go on together.

use super::reduce::{Add, BlockReduction, ReductionVisitor, States, Values, visit};
use crate::arch::Version;
use gpuvec_expr::{Reduction, Type};
use gpuvec_ops::{Accumulator, Element};
use std::any::Any;

/// The state of a reduction, whose type is erased.
pub(crate) trait ErasedState: Any + Send {
    /// The state of no elements, of the same reduction.
    fn identity(&self) -> Box<dyn ErasedState>;

    /// Adds values. `first` is the index of the first value in the whole array.
    fn add(&mut self, version: Version, values: Values<'_>, first: usize);

    /// Adds the elements of another state.
    ///
    /// # Panics
    /// If its type is another one.
    fn merge(&mut self, other: &dyn ErasedState);

    /// Adds the elements of a state that a kernel wrote.
    fn merge_words(&mut self, words: &[u8]);

    /// The bits of the result.
    fn result(&self) -> u64;
}

impl dyn ErasedState {
    /// The state of `n` elements, which all have this state: merged with itself for each bit of `n`.
    pub(crate) fn repeated(&self, n: usize) -> Box<dyn ErasedState> {
        let mut state = self.copied();
        for bit in (0..n.ilog2()).rev() {
            let half = state.copied();
            state.merge(&*half);
            if n >> bit & 1 == 1 {
                state.merge(self);
            }
        }
        state
    }

    fn copied(&self) -> Box<dyn ErasedState> {
        let mut copy = self.identity();
        copy.merge(self);
        copy
    }
}

/// The state of no elements.
pub(crate) fn erased_state(reduction: Reduction, ty: Type) -> Box<dyn ErasedState> {
    visit(reduction, ty, Erase)
}

struct Erase;

impl ReductionVisitor for Erase {
    type Result = Box<dyn ErasedState>;

    fn visit<R: BlockReduction>(self) -> Self::Result {
        Box::new(StateOf {
            state: R::Accumulator::IDENTITY,
            operations: Operations {
                add: R::add,
                states: States::of::<R::Accumulator>(),
                result: |state| R::Accumulator::finish(state).bits(),
            },
        })
    }
}

/// A state with the operations of its reduction, which are the functions that a reduction alone calls, too.
struct StateOf<S> {
    state: S,
    operations: Operations<S>,
}

#[derive(Clone, Copy)]
struct Operations<S> {
    add: Add<S>,
    states: States<S>,
    result: fn(&S) -> u64,
}

impl<S: Copy + Send + 'static> ErasedState for StateOf<S> {
    fn identity(&self) -> Box<dyn ErasedState> {
        let operations = self.operations;
        Box::new(StateOf { state: (operations.states.identity)(), operations })
    }

    fn add(&mut self, version: Version, values: Values<'_>, first: usize) {
        (self.operations.add)(version, &mut self.state, values, first);
    }

    fn merge(&mut self, other: &dyn ErasedState) {
        let other: &dyn Any = other;
        let other: &Self = other.downcast_ref().expect("a state of the same type");
        (self.operations.states.merge)(&mut self.state, &other.state);
    }

    fn merge_words(&mut self, words: &[u8]) {
        let States { from_words, merge, .. } = self.operations.states;
        merge(&mut self.state, &from_words(words));
    }

    fn result(&self) -> u64 {
        (self.operations.result)(&self.state)
    }
}
