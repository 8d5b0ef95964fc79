//! The states of a reduction, one for each result. Beside them are lanes, which hold a sum as long as it is exact
//! there.

use super::erased::Groups;
use crate::arch::Isa;
use crate::cpu::exact::{
    self, Cells, Cellular, Columns, Inputs, LaneKind, LaneSums, Lanes, NoLanes, Vectorised, move_to,
};
use crate::policy::cores;
use crate::process::memory;
use gpuvec_exact::{Dot, Float, State};
use gpuvec_ops::{Element, Indexed};
use std::collections::TryReserveError;
use std::mem::MaybeUninit;

/// A state in a [`Slab`], which may have a lane beside it.
pub(crate) trait SlabState: Copy + Send + Sync + 'static {
    /// The lanes of states.
    type Lanes: Lanes<Self>;

    /// Adds the sum of a cell: units, the exponent of a unit, and terms.
    fn add_cell(&mut self, _: (i128, i32, usize)) {
        unreachable!("this state has no cells")
    }
}

impl<K: LaneKind> SlabState for State<K> {
    type Lanes = LaneSums<K>;

    fn add_cell(&mut self, cell: (i128, i32, usize)) {
        move_to(self, cell);
    }
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
    states: Vec<MaybeUninit<S>>,
    /// True for each state with elements. Other states are not initialized.
    is_begun: Vec<bool>,
    lanes: S::Lanes,
    /// Sums of groups.
    cells: Cells,
}

impl<S: SlabState> Slab<S> {
    /// No states.
    pub(super) fn new(identity: fn() -> S) -> Self {
        let (lanes, cells) = (S::Lanes::default(), Cells::default());
        Slab { identity, states: Vec::new(), is_begun: Vec::new(), lanes, cells }
    }

    /// Makes `count` states without elements.
    pub(super) fn identities(&self, count: usize) -> Result<Self, TryReserveError> {
        let mut lanes = S::Lanes::default();
        lanes.reserve(count)?;
        let mut states = Vec::new();
        states.try_reserve_exact(count)?;
        states.resize_with(count, MaybeUninit::uninit);
        let (is_begun, cells) = (memory::filled(false, count)?, Cells::default());
        Ok(Slab { identity: self.identity, states, is_begun, lanes, cells })
    }

    /// Resets all states to no elements.
    pub(super) fn clear(&mut self) {
        self.is_begun.fill(false);
        self.lanes.clear();
        self.cells.clear();
    }

    /// A state, without the terms in its lane.
    pub(super) fn state(&mut self, number: usize) -> &mut S {
        if !std::mem::replace(&mut self.is_begun[number], true) {
            self.states[number].write((self.identity)());
        }
        // SAFETY: a state that is begun is initialized.
        unsafe { self.states[number].assume_init_mut() }
    }

    /// `count` states, without the terms in their lanes.
    pub(super) fn states(&mut self, first: usize, count: usize) -> &mut [S] {
        (first..first + count).for_each(|number| _ = self.state(number));
        // SAFETY: states that are begun are initialized.
        unsafe { self.states[first..][..count].assume_init_mut() }
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
        // SAFETY: as in `state`.
        let state = unsafe { self.states[number].assume_init_mut() };
        self.lanes.empty(number, state);
        if !self.cells.is_empty() {
            state.add_cell(self.cells.take(number));
        }
        state
    }

    /// The sum of a group in two parts, and its number of terms, if its cell has all of it.
    pub(super) fn in_cell(&self, number: usize) -> Option<([f64; 2], usize)> {
        let is_there = !self.cells.is_empty() && !self.is_begun[number] && self.cells.has_parts();
        is_there.then(|| self.cells.parts(number))
    }

    /// Moves all terms of lanes to the states.
    pub(super) fn empty_lanes(&mut self) {
        if self.lanes_or_cells_have_terms() {
            (0..self.states.len()).for_each(|number| _ = self.whole(number));
        }
        self.lanes.clear();
        self.cells.clear();
    }

    fn lanes_or_cells_have_terms(&self) -> bool {
        !self.cells.is_empty() || self.lanes.sums(0).is_none_or(|(_, terms)| terms > 0)
    }

    /// Adds the terms of the first `count` other cells to the sums from number `first` on: to cells, if these have the
    /// same unit. Otherwise moves the terms to the other states.
    pub(super) fn absorb_cells(&mut self, first: usize, others: &mut Self, count: usize) {
        if others.cells.is_empty() {
            return;
        }
        if self.cells.reserve(self.states.len()).is_ok()
            && self.cells.absorb(first, &others.cells, count)
        {
            others.cells.clear();
        }
        others.empty_lanes();
    }

    /// The states that have elements, with their numbers. Lanes are ignored.
    pub(super) fn begun(&self) -> impl Iterator<Item = (usize, &S)> + Clone {
        let begun = self.states.iter().enumerate().filter(|(number, _)| self.is_begun[*number]);
        // SAFETY: as in `state`.
        begun.map(|(number, state)| (number, unsafe { state.assume_init_ref() }))
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

impl<K: Cellular> Slab<State<K>>
where
    State<K>: SlabState,
{
    /// Adds each term to the sum of its key. Returns the place of the first term whose key is outside the groups.
    pub(super) fn add_by_key(
        &mut self, isa: Isa, groups: Groups, inputs: Inputs<'_, K::Element>, keys: &[i64],
    ) -> Option<usize> {
        let mut outside = None;
        let mut rest = Vec::new();
        if K::HAS_TERMS && self.cells.reserve(self.states.len()).is_ok() {
            if !self.cells.has_room(inputs.len()) {
                self.empty_lanes();
            }
            self.cells.add::<K>(isa, inputs, groups, keys, |place| rest.push(place));
        } else {
            rest.extend(0..inputs.len());
        }
        for place in rest {
            match groups.state(place, keys[place]) {
                Some(number) => {
                    self.state(number).deposit(K::term_of(inputs.a()[place], inputs.b()[place]));
                }
                None => _ = outside.get_or_insert(place),
            }
        }
        outside
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
                add_column(isa, slab.whole(number), columns, column);
            }
        }
    }

    fn row(isa: Isa, inputs: Inputs<'_, K::Element>) -> Option<[f64; 2]> {
        exact::row::<K>(isa, inputs)
    }
}
