//! The states of a reduction, one for each result. Beside them are lanes, which hold a sum as long as it is exact
//! there.

use crate::arch::Isa;
use crate::cpu::exact::{
    self, Cellular, Columns, Inputs, LaneKind, LaneSums, Lanes, NoLanes, Vectorised,
};
use crate::policy::cores;
use crate::process::memory;
use gpuvec_exact::{Dot, Float, State};
use gpuvec_ops::{Element, Indexed};
use std::collections::TryReserveError;

/// A state in a [`Slab`], which may have a lane beside it.
pub(crate) trait SlabState: Copy + Send + Sync + 'static {
    /// The lanes of states.
    type Lanes: Lanes<Self>;
}

impl<K: LaneKind> SlabState for State<K> {
    type Lanes = LaneSums<K>;
}

impl<T: Element> SlabState for Indexed<T> {
    type Lanes = NoLanes;
}

macro_rules! without_lanes {
    ($($state:ty)+) => {
        $(impl SlabState for $state {
            type Lanes = NoLanes;
        })+
    };
}

without_lanes! { State<Dot<f64>> f32 f64 i32 i64 }

/// States, and lanes beside them. A result is the sum of both.
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

    /// Makes `count` states without elements.
    pub(super) fn identities(&self, count: usize) -> Result<Self, TryReserveError> {
        let mut lanes = S::Lanes::default();
        lanes.reserve(count)?;
        let states = memory::filled((self.identity)(), count)?;
        Ok(Slab { identity: self.identity, states, is_begun: memory::filled(false, count)?, lanes })
    }

    /// Resets all states to no elements.
    pub(super) fn clear(&mut self) {
        self.is_begun.fill(false);
        self.lanes.clear();
    }

    /// A state, without the terms in its lane.
    pub(super) fn state(&mut self, number: usize) -> &mut S {
        if !std::mem::replace(&mut self.is_begun[number], true) {
            self.states[number] = (self.identity)();
        }
        &mut self.states[number]
    }

    /// `count` states, without the terms in their lanes.
    pub(super) fn states(&mut self, first: usize, count: usize) -> &mut [S] {
        (first..first + count).for_each(|number| _ = self.state(number));
        &mut self.states[first..][..count]
    }

    /// The first sums of lanes, in two parts, and their greatest number of terms. `None` if no lane has a term.
    pub(super) fn in_lanes(&self, count: usize) -> Option<([&[f64]; 2], u32)> {
        self.lanes.sums(count).filter(|(_, terms)| *terms > 0)
    }

    /// True if the state has elements.
    pub(super) fn is_begun(&self, number: usize) -> bool {
        self.is_begun[number]
    }

    /// Moves the terms of a lane to its state. Returns the state.
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

    /// The states that have elements, with their numbers. Lanes are ignored.
    pub(super) fn begun(&self) -> impl Iterator<Item = (usize, &S)> + Clone {
        self.states.iter().enumerate().filter(|(number, _)| self.is_begun[*number])
    }
}

/// Adds the terms of one of the columns to a state.
fn add_column<K: Vectorised>(
    isa: Isa, state: &mut State<K>, columns: Columns<'_, K::Element>, column: usize,
) {
    let mut terms = [[K::Element::from_encoding(0); cores::COLUMN_ROWS]; 2];
    for start in (0..columns.rows()).step_by(cores::COLUMN_ROWS) {
        let rows = start..columns.rows().min(start + cores::COLUMN_ROWS);
        let len = rows.len();
        for (place, row) in rows.enumerate() {
            let row = columns.row(row);
            (terms[0][place], terms[1][place]) = (row.a()[column], row.b()[column]);
        }
        let inputs = Inputs::new(&terms[0][..len], &terms[1][..len]);
        exact::accumulate::<K, exact::All>(isa, state, inputs);
    }
}

/// The exact sums of columns and of rows. By default without lanes.
pub(crate) trait SumKind: Cellular {
    /// Adds columns to the sums from number `first` on.
    fn add_columns(
        isa: Isa, slab: &mut Slab<State<Self>>, first: usize, columns: Columns<'_, Self::Element>,
    ) where
        State<Self>: SlabState,
    {
        for column in 0..columns.len() {
            add_column(isa, slab.state(first + column), columns, column);
        }
    }

    /// The sum of a row in two parts; `None` if they are not exact.
    fn row(_: Isa, _: Inputs<'_, Self::Element>) -> Option<[f64; 2]> {
        None
    }
}

impl SumKind for Dot<f64> {}

impl<K: LaneKind> SumKind for K {
    fn add_columns(
        isa: Isa, slab: &mut Slab<State<K>>, first: usize, columns: Columns<'_, K::Element>,
    ) {
        for start in (0..columns.rows()).step_by(cores::COLUMN_ROWS) {
            let columns = columns.part(start..columns.rows().min(start + cores::COLUMN_ROWS));
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

    fn row(isa: Isa, inputs: Inputs<'_, K::Element>) -> Option<[f64; 2]> {
        exact::row::<K>(isa, inputs)
    }
}
