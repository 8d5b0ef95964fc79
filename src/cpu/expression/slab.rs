//! States of a reduction, one for each result, with the lanes in which sums are kept as long as these hold them.

use crate::arch::Isa;
use crate::cpu::exact::{self, Columns, Inputs, LaneSums, Laned, Vectorised};
use crate::policy::CORES;
use gpuvec_exact::{Dot, Float, State, Sum};
use gpuvec_ops::Indexed;
use std::collections::TryReserveError;

/// The lanes beside states of a type.
pub(crate) trait StateLanes<S>: Default + Send + Sync {
    /// Reserves lanes without terms.
    fn reserve(&mut self, lanes: usize) -> Result<(), TryReserveError>;
    /// Removes all terms from the lanes.
    fn clear(&mut self);
    /// The sums of the first lanes in two parts, and the most terms of one, if sums are in lanes.
    fn sums(&self, lanes: usize) -> Option<([&[f64]; 2], u32)>;
    /// Moves the terms of a lane to a state.
    fn empty(&mut self, lane: usize, state: &mut S);
}

/// A state in a [`Slab`], which may have a lane beside it.
pub(crate) trait SlabState: Copy + Send + Sync + 'static {
    /// The lanes of states.
    type Lanes: StateLanes<Self>;
}

/// No lanes.
#[derive(Default)]
pub(crate) struct NoLanes;

impl<S> StateLanes<S> for NoLanes {
    fn reserve(&mut self, _: usize) -> Result<(), TryReserveError> {
        Ok(())
    }

    fn clear(&mut self) {}

    fn sums(&self, _: usize) -> Option<([&[f64]; 2], u32)> {
        None
    }

    fn empty(&mut self, _: usize, _: &mut S) {}
}

impl<K: Laned> StateLanes<State<K>> for LaneSums<K> {
    fn reserve(&mut self, lanes: usize) -> Result<(), TryReserveError> {
        self.reserve(lanes)
    }

    fn clear(&mut self) {
        self.clear();
    }

    fn sums(&self, lanes: usize) -> Option<([&[f64]; 2], u32)> {
        Some(self.sums(lanes))
    }

    fn empty(&mut self, lane: usize, state: &mut State<K>) {
        self.empty(lane, state);
    }
}

macro_rules! lanes {
    ($($state:ty: $lanes:ty;)+) => {
        $(impl SlabState for $state {
            type Lanes = $lanes;
        })+
    };
}

lanes! {
    State<Sum<f32>>: LaneSums<Sum<f32>>;
    State<Sum<f64>>: LaneSums<Sum<f64>>;
    State<Dot<f32>>: LaneSums<Dot<f32>>;
    State<Dot<f64>>: NoLanes;
    f32: NoLanes;
    f64: NoLanes;
    i32: NoLanes;
    i64: NoLanes;
    Indexed<f32>: NoLanes;
    Indexed<f64>: NoLanes;
    Indexed<i32>: NoLanes;
    Indexed<i64>: NoLanes;
}

/// States, and lanes beside them. A result combines both.
pub(crate) struct Slab<S: SlabState> {
    identity: fn() -> S,
    states: Vec<S>,
    /// True for each state with elements. Other states are not initialized.
    is_begun: Vec<bool>,
    lanes: S::Lanes,
}

impl<S: SlabState> Slab<S> {
    /// No states.
    pub(super) fn new(identity: fn() -> S) -> Self {
        Slab { identity, states: Vec::new(), is_begun: Vec::new(), lanes: S::Lanes::default() }
    }

    /// That number of states without elements.
    pub(super) fn identities(&self, count: usize) -> Result<Self, TryReserveError> {
        let mut slab = Slab::new(self.identity);
        slab.states.try_reserve_exact(count)?;
        slab.states.resize(count, (self.identity)());
        slab.is_begun.try_reserve_exact(count)?;
        slab.is_begun.resize(count, false);
        slab.lanes.reserve(count)?;
        Ok(slab)
    }

    /// Forgets all elements.
    pub(super) fn clear(&mut self) {
        self.is_begun.fill(false);
        self.lanes.clear();
    }

    /// A state, without what is in its lane.
    pub(super) fn state(&mut self, number: usize) -> &mut S {
        if !std::mem::replace(&mut self.is_begun[number], true) {
            self.states[number] = (self.identity)();
        }
        &mut self.states[number]
    }

    /// States, without what is in their lanes.
    pub(super) fn states(&mut self, first: usize, count: usize) -> &mut [S] {
        (first..first + count).for_each(|number| _ = self.state(number));
        &mut self.states[first..][..count]
    }

    /// The first sums in two parts, and the number of terms, if there are some: of those that are not in states.
    pub(super) fn in_lanes(&self, count: usize) -> Option<([&[f64]; 2], u32)> {
        self.lanes.sums(count).filter(|(_, terms)| *terms > 0)
    }

    /// True if a sum, or a part of it, is in the state.
    pub(super) fn is_begun(&self, number: usize) -> bool {
        self.is_begun[number]
    }

    /// A state, with what was in its lane.
    pub(super) fn whole(&mut self, number: usize) -> &mut S {
        self.state(number);
        self.lanes.empty(number, &mut self.states[number]);
        &mut self.states[number]
    }

    /// Moves all terms of lanes to the states.
    pub(super) fn empty_lanes(&mut self) {
        (0..self.states.len()).for_each(|number| _ = self.whole(number));
        self.lanes.clear();
    }

    /// The states with elements and their numbers; their lanes are empty.
    pub(super) fn begun(&self) -> impl Iterator<Item = (usize, &S)> + Clone {
        self.states.iter().enumerate().filter(|(number, _)| self.is_begun[*number])
    }
}

/// Adds columns to exact sums, in lanes.
pub(super) fn add_columns_exactly<K: Laned>(
    isa: Isa, slab: &mut Slab<State<K>>, first: usize, columns: Columns<'_, K::Element>,
) where
    State<K>: SlabState<Lanes = LaneSums<K>>,
{
    for start in (0..columns.rows()).step_by(MOST_ROWS) {
        let columns = columns.part(start..columns.rows().min(start + MOST_ROWS));
        if !slab.lanes.has_room(columns.rows()) {
            slab.empty_lanes();
        }
        if slab.lanes.add(isa, first, columns) == 0 {
            continue;
        }
        for column in 0..columns.len() {
            let number = first + column;
            if slab.lanes.is_exact(number) {
                continue;
            }
            slab.lanes.restore(number..number + 1);
            slab.whole(number);
            add_column(isa, &mut slab.states[number], columns, column);
        }
    }
}

/// The most rows that are added to lanes at a time: with more, terms would be of too different sizes more often.
const MOST_ROWS: usize = CORES.column_rows;

/// Adds the terms of one of the columns to a state.
pub(super) fn add_column<K: Vectorised>(
    isa: Isa, state: &mut State<K>, columns: Columns<'_, K::Element>, column: usize,
) {
    let mut terms = [[K::Element::from_encoding(0); MOST_ROWS]; 2];
    for start in (0..columns.rows()).step_by(MOST_ROWS) {
        let rows = start..columns.rows().min(start + MOST_ROWS);
        let len = rows.len();
        for (place, row) in rows.enumerate() {
            let row = columns.row(row);
            (terms[0][place], terms[1][place]) = (row.a()[column], row.b()[column]);
        }
        let inputs = Inputs::new(&terms[0][..len], &terms[1][..len]);
        exact::accumulate::<K, exact::All>(isa, state, inputs);
    }
}

/// A kind of exact sums of columns and of rows.
pub(crate) trait SumKind: Vectorised {
    /// Adds columns to the sums from number `first` on.
    fn add_columns(
        isa: Isa, slab: &mut Slab<State<Self>>, first: usize, columns: Columns<'_, Self::Element>,
    ) where
        State<Self>: SlabState;

    /// The sum of a row in two parts, if lanes hold it.
    fn row(isa: Isa, inputs: Inputs<'_, Self::Element>) -> Option<[f64; 2]>;
}

macro_rules! in_lanes {
    ($($kind:ty;)+) => {
        $(impl SumKind for $kind {
            fn add_columns(
                isa: Isa, slab: &mut Slab<State<Self>>, first: usize,
                columns: Columns<'_, Self::Element>,
            ) {
                add_columns_exactly(isa, slab, first, columns);
            }

            fn row(isa: Isa, inputs: Inputs<'_, Self::Element>) -> Option<[f64; 2]> {
                exact::row::<Self>(isa, inputs)
            }
        })+
    };
}

in_lanes! {
    Sum<f32>;
    Sum<f64>;
    Dot<f32>;
}

impl SumKind for Dot<f64> {
    fn add_columns(
        isa: Isa, slab: &mut Slab<State<Self>>, first: usize, columns: Columns<'_, f64>,
    ) {
        for column in 0..columns.len() {
            add_column(isa, slab.state(first + column), columns, column);
        }
    }

    fn row(_: Isa, _: Inputs<'_, f64>) -> Option<[f64; 2]> {
        None
    }
}
