//! States of means, norms, variances and standard deviations that are computed from several exact sums: of the elements
//! and of their squares, or of the two halves of an integer and of their products.

use super::erased::{ErasedStates, StatesOf, of_one_state};
use super::reduce::{ValueColumns, Values, add_exactly};
use super::slab::Laning;
use crate::arch::Version;
use crate::cpu::exact::Vectorised;
use arrayvec::ArrayVec;
use gpuvec_exact::{Dot, Float, Kind, State, Sum, mean, norm, standard_deviation, variance};
use gpuvec_expr::{Output, OutputKind, Reduction};
use gpuvec_ops::Element;
use std::any::Any;
use std::collections::TryReserveError;

/// The most values that are added to one sum before they are added to the next: a core's cache holds them.
const VALUES_AT_ONCE: usize = 2048;

/// The most sums of a result.
const MOST_SUMS: usize = 5;

/// States of several sums. A device's state has the words of each sum in their order.
pub(super) struct Moments {
    sums: ArrayVec<States, MOST_SUMS>,
    finish: Finish,
    operations: Operations,
}

/// The states of one sum, of some of the values' operands.
struct States {
    term: Term,
    states: Box<dyn ErasedStates>,
}

/// The terms of a sum: the reduction that adds them, and the operands that it takes.
type Term = (Reduction, &'static [usize]);

/// The computation of a result from its sums.
#[derive(Clone, Copy)]
struct Finish {
    reduction: Reduction,
    ddof: i64,
}

/// The operations that depend on the type of the elements.
#[derive(Clone, Copy)]
struct Operations {
    row: fn(Finish, &[States], Version, Values<'_>) -> u64,
    result: fn(Finish, &mut [States], usize) -> u64,
    /// The bytes of a sum in a device's state, by its reduction.
    bytes: fn(Reduction) -> usize,
}

impl Moments {
    /// No states, of an output with elements of a type.
    pub(super) fn of<T>(output: &Output) -> Self
    where
        T: Float + Element,
        Sum<T>: Vectorised<Element = T>,
        Dot<T>: Vectorised<Element = T>,
        State<Sum<T>>: Laning,
        State<Dot<T>>: Laning,
    {
        let states = |term: &Term| States { term: *term, states: of_one_state(term.0, T::TYPE) };
        Moments {
            sums: output.sums().iter().map(states).collect(),
            finish: match output.kind {
                OutputKind::Reduced { reduction, ddof } => Finish { reduction, ddof: ddof.into() },
                OutputKind::Elementwise | OutputKind::Single => unreachable!("it has no sums"),
            },
            operations: Operations {
                row: row::<T>,
                result: result::<T>,
                bytes: |reduction| match reduction {
                    Reduction::Sum => size_of::<<Sum<T> as Kind>::Words>(),
                    _ => size_of::<<Dot<T> as Kind>::Words>(),
                },
            },
        }
    }
}

/// The sum of elements, and the sum of their squares.
struct Total<T>
where
    Sum<T>: Kind<Element = T>,
    Dot<T>: Kind<Element = T>,
{
    sum: State<Sum<T>>,
    squares: State<Dot<T>>,
}

impl<T: Float + Element> Total<T>
where
    Sum<T>: Kind<Element = T>,
    Dot<T>: Kind<Element = T>,
{
    const ZERO: Self = Total { sum: State::ZERO, squares: State::ZERO };

    /// Adds products of operands of all elements. A square has the product of its two halves twice.
    fn add_products(&mut self, operands: &[usize], products: &State<Dot<T>>) {
        let times = if operands == [0, 1] { 2 } else { 1 };
        (0..times).for_each(|_| self.squares.merge_part(products));
    }

    /// The bits of the result.
    #[inline(never)]
    fn finish(&self, Finish { reduction, ddof }: Finish) -> u64 {
        match reduction {
            Reduction::Mean => mean(&self.sum),
            Reduction::Norm => norm(&self.squares),
            Reduction::Std => standard_deviation(&self.sum, &self.squares, ddof),
            _ => variance(&self.sum, &self.squares, ddof),
        }
        .bits()
    }
}

/// The bits of the result of a state.
fn result<T>(finish: Finish, sums: &mut [States], state: usize) -> u64
where
    T: Float + Element,
    Sum<T>: Kind<Element = T>,
    Dot<T>: Kind<Element = T>,
    State<Sum<T>>: Laning,
    State<Dot<T>>: Laning,
{
    let mut total = Total::<T>::ZERO;
    for States { term: (reduction, operands), states } in sums {
        match reduction {
            Reduction::Sum => total.sum.merge_part(StatesOf::whole(&mut **states, state)),
            _ => total.add_products(operands, StatesOf::whole(&mut **states, state)),
        }
    }
    total.finish(finish)
}

/// The bits of the result of values that are all elements.
fn row<T>(finish: Finish, sums: &[States], version: Version, values: Values<'_>) -> u64
where
    T: Float + Element,
    Sum<T>: Vectorised<Element = T>,
    Dot<T>: Vectorised<Element = T>,
{
    let mut total = Total::<T>::ZERO;
    for States { term: (reduction, operands), .. } in sums {
        let values = values.of_operands(operands);
        match reduction {
            Reduction::Sum => total.sum.merge_part(&sum_of(version, values)),
            _ => total.add_products(operands, &sum_of(version, values)),
        }
    }
    total.finish(finish)
}

/// The exact sum of values.
#[inline(never)]
fn sum_of<K: Vectorised<Element: Element>>(version: Version, values: Values<'_>) -> State<K> {
    let mut state = State::ZERO;
    add_exactly(version, &mut state, values, 0);
    state
}

impl ErasedStates for Moments {
    fn identities(&self, count: usize) -> Result<Box<dyn ErasedStates>, TryReserveError> {
        let identities = |States { term, states }: &States| {
            states.identities(count).map(|states| States { term: *term, states })
        };
        let sums = self.sums.iter().map(identities).collect::<Result<_, _>>()?;
        Ok(Box::new(Moments { sums, ..*self }))
    }

    fn clear(&mut self) {
        self.sums.iter_mut().for_each(|sum| sum.states.clear());
    }

    fn add(&mut self, state: usize, version: Version, values: Values<'_>, first: usize) {
        for start in (0..values.len()).step_by(VALUES_AT_ONCE) {
            let part = values.part(start, VALUES_AT_ONCE.min(values.len() - start));
            for States { term: (_, operands), states } in &mut self.sums {
                states.add(state, version, part.of_operands(operands), first + start);
            }
        }
    }

    fn add_columns(
        &mut self, state: usize, version: Version, columns: ValueColumns<'_>, first: usize,
    ) {
        for States { term: (_, operands), states } in &mut self.sums {
            states.add_columns(state, version, columns.of_operands(operands), first);
        }
    }

    fn row(&self, version: Version, values: Values<'_>) -> u64 {
        (self.operations.row)(self.finish, &self.sums, version, values)
    }

    fn complete(&mut self) {
        self.sums.iter_mut().for_each(|sum| sum.states.complete());
    }

    fn merge(&mut self, first: usize, others: &dyn ErasedStates, count: usize) {
        let others: &dyn Any = others;
        let others: &Self = others.downcast_ref().expect("states of the same type");
        for (sum, other) in self.sums.iter_mut().zip(&others.sums) {
            sum.states.merge(first, &*other.states, count);
        }
    }

    fn merge_words(&mut self, first: usize, words: &[u8], bytes: usize) {
        for (state, mut words) in (first..).zip(words.chunks_exact(bytes)) {
            for States { term: (reduction, _), states } in &mut self.sums {
                let (of_sum, rest) = words.split_at((self.operations.bytes)(*reduction));
                states.merge_words(state, of_sum, of_sum.len());
                words = rest;
            }
        }
    }

    fn result(&mut self, state: usize) -> u64 {
        (self.operations.result)(self.finish, &mut self.sums, state)
    }

    fn results(&mut self, results: &mut [u64]) {
        for (state, result) in results.iter_mut().enumerate() {
            *result = self.result(state);
        }
    }

    fn state_bytes(&self) -> usize {
        self.sums.iter().map(|sum| sum.states.state_bytes()).sum()
    }
}
