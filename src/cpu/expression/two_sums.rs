//! States of variances and standard deviations: the exact sums of the elements and of their squares.

use super::erased::{ErasedStates, StatesOf, of_one_state};
use super::reduce::{ValueColumns, Values, add_exactly};
use super::slab::Laning;
use crate::arch::Version;
use crate::cpu::exact::Vectorised;
use gpuvec_exact::{Dot, Float, Kind, State, Sum, standard_deviation, variance};
use gpuvec_expr::{Output, Reduction};
use gpuvec_ops::Element;
use std::any::Any;
use std::collections::TryReserveError;

/// The most values that are added to one sum before they are added to the other: a core's cache holds them.
const VALUES_AT_ONCE: usize = 2048;

/// States of both sums. A device's state has the words of the sum of elements first.
pub(super) struct TwoSums {
    sums: Box<dyn ErasedStates>,
    squares: Box<dyn ErasedStates>,
    finish: Finish,
    operations: Operations,
}

/// The result of two sums.
#[derive(Clone, Copy)]
struct Finish {
    is_root: bool,
    ddof: i64,
}

/// The operations that depend on the type of the elements.
#[derive(Clone, Copy)]
struct Operations {
    row: fn(Finish, Version, Values<'_>) -> u64,
    result: fn(Finish, [&mut dyn ErasedStates; 2], usize) -> u64,
    /// The bytes of a sum of elements in a device's state.
    sum_bytes: usize,
}

impl TwoSums {
    /// No states, of an output with elements of a type.
    pub(super) fn of<T>(output: &Output) -> Self
    where
        T: Float + Element,
        Sum<T>: Vectorised<Element = T>,
        Dot<T>: Vectorised<Element = T>,
        State<Sum<T>>: Laning,
        State<Dot<T>>: Laning,
    {
        TwoSums {
            sums: of_one_state(Reduction::Sum, T::TYPE),
            squares: of_one_state(Reduction::Dot, T::TYPE),
            finish: Finish {
                is_root: output.reduction == Some(Reduction::Std),
                ddof: output.ddof.into(),
            },
            operations: Operations {
                row: row::<T>,
                result: |finish, [sums, squares], state| {
                    let sum = StatesOf::<State<Sum<T>>>::whole(sums, state);
                    finish.of(sum, StatesOf::<State<Dot<T>>>::whole(squares, state))
                },
                sum_bytes: size_of::<<Sum<T> as Kind>::Words>(),
            },
        }
    }
}

impl Finish {
    /// The bits of the result.
    fn of<T: Float + Element>(self, sum: &State<Sum<T>>, squares: &State<Dot<T>>) -> u64
    where
        Sum<T>: Kind,
        Dot<T>: Kind,
    {
        let of = if self.is_root { standard_deviation } else { variance };
        of(sum, squares, self.ddof).bits()
    }
}

/// The bits of the result of values that are all elements.
fn row<T>(finish: Finish, version: Version, values: Values<'_>) -> u64
where
    T: Float + Element,
    Sum<T>: Vectorised<Element = T>,
    Dot<T>: Vectorised<Element = T>,
{
    let (mut sum, mut squares) = (State::<Sum<T>>::ZERO, State::<Dot<T>>::ZERO);
    add_exactly(version, &mut sum, values, 0);
    add_exactly(version, &mut squares, values, 0);
    finish.of(&sum, &squares)
}

impl ErasedStates for TwoSums {
    fn identities(&self, count: usize) -> Result<Box<dyn ErasedStates>, TryReserveError> {
        let (sums, squares) = (self.sums.identities(count)?, self.squares.identities(count)?);
        Ok(Box::new(TwoSums { sums, squares, ..*self }))
    }

    fn clear(&mut self) {
        self.sums.clear();
        self.squares.clear();
    }

    fn add(&mut self, state: usize, version: Version, values: Values<'_>, first: usize) {
        for start in (0..values.len()).step_by(VALUES_AT_ONCE) {
            let part = values.part(start, VALUES_AT_ONCE.min(values.len() - start));
            self.sums.add(state, version, part, first + start);
            self.squares.add(state, version, part, first + start);
        }
    }

    fn add_columns(
        &mut self, state: usize, version: Version, columns: ValueColumns<'_>, first: usize,
    ) {
        self.sums.add_columns(state, version, columns, first);
        self.squares.add_columns(state, version, columns, first);
    }

    fn row(&self, version: Version, values: Values<'_>) -> u64 {
        (self.operations.row)(self.finish, version, values)
    }

    fn complete(&mut self) {
        self.sums.complete();
        self.squares.complete();
    }

    fn merge(&mut self, first: usize, others: &dyn ErasedStates, count: usize) {
        let others: &dyn Any = others;
        let others: &Self = others.downcast_ref().expect("states of the same type");
        self.sums.merge(first, &*others.sums, count);
        self.squares.merge(first, &*others.squares, count);
    }

    fn merge_words(&mut self, first: usize, words: &[u8], bytes: usize) {
        for (state, words) in (first..).zip(words.chunks_exact(bytes)) {
            let (sum, squares) = words.split_at(self.operations.sum_bytes);
            self.sums.merge_words(state, sum, sum.len());
            self.squares.merge_words(state, squares, squares.len());
        }
    }

    fn result(&mut self, state: usize) -> u64 {
        (self.operations.result)(self.finish, [&mut *self.sums, &mut *self.squares], state)
    }

    fn results(&mut self, results: &mut [u64]) {
        for (state, result) in results.iter_mut().enumerate() {
            *result = self.result(state);
        }
    }

    fn state_bytes(&self) -> usize {
        self.sums.state_bytes() + self.squares.state_bytes()
    }
}
