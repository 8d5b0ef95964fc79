//! Reductions of arrays of any strides along any axes, with or without elementwise outputs.
//!
//! Both the outer and the reduced axes are divided into blocks. A block of each makes a tile. The formula is evaluated
//! over the tile's elements, and its values are added to a state for each result. States are exact and merge in any
//! order, so strides, tiles and threads do not affect the results.
//!
//! A tile is visited in rows if the elements of a result are adjacent in memory, or nearly. It is visited in columns if
//! elements of adjacent results are, or if results have too few elements to fill vectors.
//!
//! By key, each thread has a table with a state for each group, and adds the elements of a block of results to it. The
//! results are computed from all tables of a block at the end.
//!
//! The program loads the values for reductions before it stores the elements of other outputs. An output that is an
//! input has the same elements in each tile, so no tile reads elements that another tile writes.

use super::strided_iter::address;
use super::work::{MISSING, NO_BUFFERS, inner};
use crate::arch::Isa;
use crate::call::chunk::Chunk;
use crate::call::{
    Binding, Call, ChunkWork, Extent, KernelStates, LEFT, MAX_INPUTS, MAX_OUTPUTS, OUTSIDE,
    Table as DeviceTable,
};
use crate::cpu::expression::{
    BlockProgram, GroupStates, Groups, MOST_SUMS, OutputStates, Range, Scratch, ValueColumns,
    Values,
};
use crate::cpu::{Grid, gather, low_ends, scatter};
use crate::error::Error;
use crate::policy::cores;
use crate::process::memory::{self, NoMemory};
use arrayvec::ArrayVec;
use gpuvec_axes::{Access, Axes, Block, Blocks, Inner, MAX_AXES, Space, View, are_columns};
use gpuvec_expr::Type;
use std::collections::TryReserveError;
use std::ffi::c_void;
use std::ops;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The reductions of a program along the reduced axes of a call. A unit of the work is a block of results with part of
/// the elements of each.
pub(super) struct ReduceAxes<'a> {
    program: &'a BlockProgram,
    bindings: &'a [Binding],
    inputs: &'a [View],
    /// The results of the reductions.
    outputs: ArrayVec<&'a View, MAX_OUTPUTS>,
    /// The outputs that are not reductions.
    elementwise: ArrayVec<&'a View, MAX_OUTPUTS>,
    kept: Blocks,
    reduced: Blocks,
    order: Order,
    /// The arrays of each reduction, if all tiles are read in columns and without copies.
    in_place: ArrayVec<(Type, [usize; 2]), MOST_SUMS>,
    /// The number of parts of the reduced axes.
    parts: usize,
    /// A prototype of the reduced outputs' states.
    reductions: OutputStates,
    /// The number of elements over which the work is partitioned.
    elements: usize,
    /// The number of results.
    results: usize,
    /// The states of all results in the order of the outer axes, if the reduced axes have several parts or the caller
    /// wants states.
    merged: Mutex<Option<OutputStates>>,
    /// The number of the first state, if the caller wants states in place of results.
    first_wanted: Option<usize>,
    /// The states of groups, if elements have keys.
    by_key: Option<ByKey>,
    units_done: AtomicUsize,
    /// True if a worker lacked memory and left its units undone.
    lacked_memory: AtomicBool,
}

/// The states of groups.
struct ByKey {
    /// The groups of each result.
    groups: usize,
    /// A prototype of the states.
    states: GroupStates,
    tables: Mutex<Vec<Table>>,
    /// The states of each block that devices computed. Empty if there are none.
    of_devices: Mutex<Vec<GroupStates>>,
    /// The index of the first element whose key is outside the groups, and the key.
    outside: Mutex<Option<(usize, i64)>>,
    /// True if a device found a key outside the groups.
    is_outside: AtomicBool,
    /// True if terms had bits that the tables of a device lack.
    are_left: AtomicBool,
}

/// The states of the groups of a block of results, for part of the elements.
struct Table {
    block: usize,
    states: GroupStates,
}

/// The states of the groups of all results.
pub(super) struct GroupedResults {
    /// A prototype of the states.
    states: GroupStates,
    groups: usize,
    /// The numbers of the results of each block, in the order of the outer axes, and the block's tables.
    blocks: Vec<(ops::Range<usize>, Vec<GroupStates>)>,
}

impl GroupedResults {
    /// Blocks of results without elements. `states` is a prototype.
    pub(super) fn new(
        states: GroupStates, groups: usize, blocks: impl Iterator<Item = ops::Range<usize>>,
    ) -> Self {
        let blocks = blocks.map(|results| (results, Vec::new())).collect();
        GroupedResults { states, groups, blocks }
    }

    /// The bits of results of an output: for the groups from number `start` on, and one index of the outer axes.
    pub(super) fn of_groups(&self, output: usize, result: usize, start: usize, bits: &mut [u64]) {
        let block = self.blocks.partition_point(|(results, _)| results.end <= result);
        let (results, tables) = &self.blocks[block];
        let first = (result - results.start) * self.groups + start;
        self.states.results(&tables.iter().collect::<Vec<_>>(), output, first, bits);
    }

    /// Calls `visit` with the number of the result, the group and the words of each state of the only sum that has
    /// elements.
    pub(super) fn for_each(&self, visit: &mut dyn FnMut(usize, usize, &[i64])) {
        for (results, tables) in &self.blocks {
            let tables: Vec<_> = tables.iter().collect();
            let count = results.len() * self.groups;
            self.states.for_each(&tables, count, &mut |state, words| {
                visit(results.start + state / self.groups, state % self.groups, words);
            });
        }
    }

    /// The number of a group that lacks an element and therefore a result.
    pub(super) fn group_without_result(&self) -> Option<usize> {
        self.blocks.iter().find_map(|(results, tables)| {
            let tables: Vec<_> = tables.iter().collect();
            let count = results.len() * self.groups;
            let state = self.states.first_without_result(&tables, count);
            state.map(|state| state % self.groups)
        })
    }
}

/// The order of the elements of a tile.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Rows,
    Columns,
}

impl Order {
    /// The order for inputs.
    fn of(axes: &Axes, inputs: &[View]) -> Self {
        let (kept, reduced) = (axes.kept(), axes.reduced());
        if kept.elements() < cores::LEAST_COLUMNS {
            return Order::Rows;
        }
        let is_across = |view: &&View| are_columns(kept.strides(view), reduced.strides(view));
        let columns = inputs.iter().filter(is_across).count();
        match 2 * columns > inputs.len() || reduced.elements() <= cores::REDUCED_SHORT_ROW {
            true => Order::Columns,
            false => Order::Rows,
        }
    }
}

impl<'a> ReduceAxes<'a> {
    /// The work of a program for a call with strides. The call has elements, and reads an array or has elementwise
    /// outputs.
    pub(super) fn new(program: &'a BlockProgram, call: &Call<'a>) -> Result<Self, Error> {
        if !memory::is_left() {
            return Err(NO_BUFFERS);
        }
        let (task, strides) = (call.task(), call.strides());
        let (Some(strides), Some(formula)) = (strides, task.formula()) else { return Err(MISSING) };
        let (axes, bindings) = (strides.axes(), task.bindings());
        let (inputs, outputs) = strides.views().split_at(call.inputs().len());
        let (mut results, mut elementwise) = (ArrayVec::new(), ArrayVec::new());
        for (layout, view) in formula.outputs().zip(outputs) {
            match layout.extent {
                Extent::Results | Extent::Groups => results.push(view),
                Extent::Elements => elementwise.push(view),
            }
        }
        let reductions = OutputStates::of(task.reductions());
        let most_states = cores::REDUCED_STATE_BYTES / reductions.largest_bytes().unwrap_or(1);
        let order = Order::of(axes, inputs);
        let in_place = match order {
            Order::Columns => in_place(program, bindings, axes.kept(), inputs),
            Order::Rows => ArrayVec::new(),
        };
        let [most_results, elements] = tile(axes, inputs, order, !in_place.is_empty(), most_states);
        let kept = axes.kept().blocks(most_results);
        let reduced = axes.reduced().blocks(elements);
        Ok(ReduceAxes {
            program,
            bindings,
            inputs,
            outputs: results,
            elementwise,
            kept,
            reduced,
            order,
            in_place,
            parts: 1,
            reductions,
            elements: axes.kept().elements() * axes.reduced().elements(),
            results: axes.kept().elements(),
            merged: Mutex::default(),
            first_wanted: None,
            by_key: None,
            units_done: AtomicUsize::new(0),
            lacked_memory: AtomicBool::new(false),
        })
    }

    /// Makes the work, which has one reduction, add elements to `states` from number `first` on, in the order of the
    /// outer axes. It ends with [`ReduceAxes::into_states`].
    pub(super) fn adding_to(mut self, states: OutputStates, first: usize) -> Self {
        self.first_wanted = Some(first);
        *inner(&mut self.merged) = Some(states);
        self
    }

    /// Makes the work add each element to the state of its key: of each result, a state for each of `groups` keys. It
    /// ends with [`ReduceAxes::into_groups`].
    pub(super) fn by_key(mut self, groups: usize, states: GroupStates) -> Self {
        self.in_place.clear();
        self.by_key = Some(ByKey {
            groups,
            states,
            tables: Mutex::default(),
            of_devices: Mutex::default(),
            outside: Mutex::default(),
            is_outside: AtomicBool::new(false),
            are_left: AtomicBool::new(false),
        });
        self
    }

    /// The index of the first element whose key is outside the groups, and the key.
    pub(super) fn outside(&mut self) -> Option<(usize, i64)> {
        self.by_key.as_mut().and_then(|by_key| *inner(&mut by_key.outside))
    }

    /// True if a device found a key outside the groups. It does not say which.
    pub(super) fn is_outside(&mut self) -> bool {
        self.by_key.as_mut().is_some_and(|by_key| *by_key.is_outside.get_mut())
    }

    /// True if terms had bits that the tables of a device lack: the states are not complete.
    pub(super) fn are_left(&mut self) -> bool {
        self.by_key.as_mut().is_some_and(|by_key| *by_key.are_left.get_mut())
    }

    /// Divides the work among threads. If there are too few results, their elements are divided into parts.
    pub(super) fn divide(&mut self, threads: usize) {
        if threads > 1 {
            let units = (threads * cores::CHUNKS_PER_CORE).min(self.elements / cores::REDUCED_PART);
            let most = self.most_parts(threads).min(self.reduced.count());
            self.parts = units.div_ceil(self.kept.count()).clamp(1, most);
        }
    }

    /// The most parts of the reduced axes. By key, each part may have a table of its own.
    fn most_parts(&self, threads: usize) -> usize {
        let Some(ByKey { groups, .. }) = self.by_key else { return usize::MAX };
        let elements = self.elements / self.results;
        let tables = elements / groups.saturating_mul(cores::ELEMENTS_PER_GROUP).max(1);
        if tables >= threads { usize::MAX } else { tables.max(1) }
    }

    /// Stores the results after the work has run and passed the [check](ReduceAxes::check).
    pub(super) fn finish(mut self) -> Result<(), Error> {
        let Some(mut merged) = inner(&mut self.merged).take() else { return Ok(()) };
        let mut results = memory::filled(0, self.kept.elements()).map_err(|_| NO_BUFFERS)?;
        let mut first = 0;
        for block in self.kept.walk(0..self.kept.count()) {
            let results = &mut results[..block.space().elements()];
            for output in 0..merged.outputs() {
                let of_block = results.iter_mut().zip(first..);
                of_block.for_each(|(result, state)| *result = merged.result(output, state));
                self.store(&block, output, results);
            }
            first += results.len();
        }
        Ok(())
    }

    /// The states that the caller wants, after the work has run and passed the [check](ReduceAxes::check).
    pub(super) fn into_states(mut self) -> Result<OutputStates, Error> {
        inner(&mut self.merged).take().ok_or(MISSING)
    }

    /// The states of the groups, after the work has run and passed the [check](ReduceAxes::check).
    pub(super) fn into_groups(self) -> Result<GroupedResults, Error> {
        if self.lacked_memory.into_inner() {
            return Err(NO_BUFFERS);
        }
        let Some(ByKey { groups, states, tables, of_devices, .. }) = self.by_key else {
            return Err(MISSING);
        };
        let rows = |block| self.kept.first_element(block)..self.kept.first_element(block + 1);
        let mut results = GroupedResults::new(states, groups, (0..self.kept.count()).map(rows));
        for table in tables.into_inner().unwrap_or_else(PoisonError::into_inner) {
            results.blocks[table.block].1.push(table.states);
        }
        let of_devices = of_devices.into_inner().unwrap_or_else(PoisonError::into_inner);
        for ((_, tables), states) in results.blocks.iter_mut().zip(of_devices) {
            tables.push(states);
        }
        Ok(results)
    }

    /// Fails unless all units are done.
    pub(super) fn check(&mut self) -> Result<(), Error> {
        if *self.lacked_memory.get_mut() {
            return Err(NO_BUFFERS);
        }
        if *self.units_done.get_mut() == self.units() { Ok(()) } else { Err(MISSING) }
    }

    /// True if the states of several units are merged.
    fn merges(&self) -> bool {
        self.parts > 1 || self.first_wanted.is_some()
    }

    /// True if each tile has all elements of its results, one result after another.
    fn has_whole_rows(&self) -> bool {
        self.order == Order::Rows && self.reduced.count() == 1 && self.first_wanted.is_none()
    }

    /// Merges a device's table into the states of each block.
    fn merge_table(
        &self, by_key: &ByKey, states: &mut Vec<GroupStates>, number: usize, table: &DeviceTable,
        words: &[u64],
    ) -> Result<(), NoMemory> {
        for block in 0..self.kept.count() {
            let of_block = [block, block + 1].map(|of| self.kept.first_element(of) * by_key.groups);
            if states.len() == block {
                states.push(by_key.states.identities(of_block[1] - of_block[0])?);
            }
            states[block].merge_table(number, table, words, of_block[0]..of_block[1])?;
        }
        Ok(())
    }

    fn units(&self) -> usize {
        self.kept.count() * self.parts
    }

    /// The units that begin in a chunk of the elements over which the work is partitioned.
    fn units_of(&self, chunk: &Chunk) -> ops::Range<usize> {
        let first = |element: usize| {
            let unit = element as u128 * self.units() as u128;
            unit.div_ceil(self.elements as u128) as usize
        };
        first(chunk.start())..first(chunk.start() + chunk.len())
    }

    /// Writes the results of a block to an output. Overwrites `results`.
    fn store(&self, block: &Block, output: usize, results: &mut [u64]) {
        let view = self.outputs[output];
        let results = low_ends(results, view.element_bytes);
        let to = address(view, block.offset(view));
        // SAFETY: the call promises the elements of the output; no other thread has this block.
        unsafe { scatter(Grid::of(block.space(), view), results.as_ptr(), to) };
    }
}

impl ChunkWork for ReduceAxes<'_> {
    fn begin(&mut self, elements: usize) {
        self.elements = elements;
        *self.units_done.get_mut() = 0;
        *self.lacked_memory.get_mut() = false;
        // Work on the caller's states begins once, and keeps the elements that they have.
        if self.first_wanted.is_some() {
            return;
        }
        *inner(&mut self.merged) = None;
        if let Some(by_key) = &mut self.by_key {
            inner(&mut by_key.tables).clear();
            inner(&mut by_key.of_devices).clear();
            *inner(&mut by_key.outside) = None;
            *by_key.is_outside.get_mut() = false;
            *by_key.are_left.get_mut() = false;
        } else if self.parts > 1 {
            match self.reductions.identities(self.results) {
                Ok(states) => *inner(&mut self.merged) = Some(states),
                Err(_) => *self.lacked_memory.get_mut() = true,
            }
        }
    }

    fn compute(&self, chunks: &mut dyn Iterator<Item = Chunk>) {
        if self.lacked_memory.load(Ordering::Relaxed) {
            return;
        }
        let worker = if memory::is_left() { Worker::new(self).ok() } else { None };
        let Some(mut worker) = worker else {
            return self.lacked_memory.store(true, Ordering::Relaxed);
        };
        for unit in chunks.flat_map(|chunk| self.units_of(&chunk)) {
            if worker.compute(unit).is_err() {
                return self.lacked_memory.store(true, Ordering::Relaxed);
            }
        }
        worker.leave_table();
    }

    fn take_states(&self, states: &KernelStates<'_>) {
        let KernelStates { reduction, first, words, bytes, .. } = *states;
        let first = self.first_wanted.unwrap_or(0) + first;
        let mut merged = self.merged.lock().unwrap_or_else(PoisonError::into_inner);
        merged.iter_mut().for_each(|states| states.merge_words(reduction, first, words, bytes));
    }

    fn take_table(&self, number: usize, table: &DeviceTable, words: &[u64]) {
        let Some(by_key) = &self.by_key else { return };
        for (place, flag) in [(OUTSIDE, &by_key.is_outside), (LEFT, &by_key.are_left)] {
            flag.fetch_or(words[place] != 0, Ordering::Relaxed);
        }
        let mut states = by_key.of_devices.lock().unwrap_or_else(PoisonError::into_inner);
        if self.merge_table(by_key, &mut states, number, table, words).is_err() {
            self.lacked_memory.store(true, Ordering::Relaxed);
        }
    }
}

/// A thread with its memory.
struct Worker<'a> {
    of: &'a ReduceAxes<'a>,
    scratch: Scratch,
    states: OutputStates,
    /// The states of groups to which elements were added last.
    table: Option<Table>,
    /// True if memory for the states of groups ran out.
    lacks_memory: bool,
    /// The results of a block, for each reduced output.
    results: ArrayVec<Vec<u64>, MAX_OUTPUTS>,
    /// Room for a copy of a tile of each input and each elementwise output.
    copies: Vec<u64>,
}

/// A block of results and a block of the elements of each.
struct Tile<'a> {
    kept: &'a Block,
    reduced: &'a Block,
    /// The index of the first element among the elements of a result.
    first: usize,
    order: Order,
}

impl<'a> Worker<'a> {
    fn new(of: &'a ReduceAxes<'a>) -> Result<Self, TryReserveError> {
        let elements = of.kept.elements() * of.reduced.elements();
        let arrays = of.inputs.len() + of.elementwise.len();
        let copies = if of.in_place.is_empty() { arrays * elements } else { 0 };
        let kept = if of.by_key.is_some() { 0 } else { of.kept.elements() };
        let results = of.outputs.iter().map(|_| memory::filled(0, kept));
        Ok(Worker {
            of,
            scratch: of.program.scratch(elements)?,
            states: of.reductions.identities(kept)?,
            table: None,
            lacks_memory: false,
            results: results.collect::<Result<_, _>>()?,
            copies: memory::filled(0, copies)?,
        })
    }

    /// Reduces part of the elements of a block of results.
    fn compute(&mut self, unit: usize) -> Result<(), NoMemory> {
        let of = self.of;
        let (number, part) = (unit / of.parts, unit % of.parts);
        let block = of.kept.at(number);
        match &of.by_key {
            None => self.states.clear(),
            Some(by_key) => self.take_table(by_key, number, block.space().elements())?,
        }
        let [begin, end] = [part, part + 1].map(|part| part * of.reduced.count() / of.parts);
        let mut first = of.reduced.first_element(begin);
        for reduced in of.reduced.walk(begin..end) {
            let tile = Tile { kept: &block, reduced: &reduced, first, order: of.order };
            if of.in_place.is_empty() {
                self.add(&tile)
            } else {
                self.add_in_place(&tile)
            }
            first += reduced.space().elements();
        }
        let len = block.space().elements();
        if of.by_key.is_some() {
            if self.lacks_memory {
                return Err(NoMemory);
            }
        } else if !of.merges() {
            for (output, results) in self.results.iter_mut().enumerate() {
                if !of.has_whole_rows() || !self.states.has_one_sum(output) {
                    self.states.results(output, &mut results[..len]);
                }
                of.store(&block, output, &mut results[..len]);
            }
        } else {
            let first = of.first_wanted.unwrap_or(0) + of.kept.first_element(number);
            self.states.complete();
            let mut merged = of.merged.lock().unwrap_or_else(PoisonError::into_inner);
            merged.iter_mut().for_each(|all| all.merge(first, &self.states, len));
        }
        of.units_done.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Makes a table for a block of `len` results, unless the last one is of this block.
    fn take_table(&mut self, by_key: &ByKey, block: usize, len: usize) -> Result<(), NoMemory> {
        if self.table.as_ref().is_none_or(|table| table.block != block) {
            self.leave_table();
            let states = by_key.states.identities(len * by_key.groups)?;
            self.table = Some(Table { block, states });
        }
        Ok(())
    }

    /// Leaves the table for the computation of results.
    fn leave_table(&mut self) {
        if let (Some(by_key), Some(table)) = (&self.of.by_key, self.table.take()) {
            by_key.tables.lock().unwrap_or_else(PoisonError::into_inner).push(table);
        }
    }

    /// Adds the values of a tile to the states, or computes the results of whole rows, and stores the elements of the
    /// other outputs.
    fn add(&mut self, tile: &Tile<'_>) {
        let arrays: ArrayVec<*const c_void, MAX_INPUTS> =
            (0..self.of.inputs.len()).map(|input| self.gathered(input, tile)).collect();
        let inputs = arrays.len();
        let outputs: ArrayVec<*mut c_void, MAX_OUTPUTS> = (0..self.of.elementwise.len())
            .map(|output| self.place(inputs + output, self.of.elementwise[output], tile))
            .collect();
        // SAFETY: the call promises the elements of the tile, which no other thread has; copies have room for them. An
        // output is exactly an input or overlaps none: they are the same memory, or a copy each.
        let range = unsafe { Range::new(self.of.bindings, &arrays, &outputs, tile.elements()) };
        let (len, has_whole_rows) = (tile.row(), self.of.has_whole_rows());
        let range = range.with_reduced_at_once(match tile.order {
            Order::Columns => usize::MAX,
            Order::Rows if has_whole_rows => {
                (self.states.reduced_at_once() / len).max(1).saturating_mul(len)
            }
            Order::Rows => self.states.reduced_at_once(),
        });
        let (all, results) = (&mut self.states, &mut self.results);
        let (table, lacks_memory) = (&mut self.table, &mut self.lacks_memory);
        let mut add = |number: usize, isa, values: Values<'_>, start: usize| {
            // The output with the sums of whole rows as results.
            let of_rows = if has_whole_rows { all.only_output_of(number) } else { None };
            if let (Some(by_key), Some(table)) = (&self.of.by_key, &mut *table) {
                let states = &mut table.states;
                *lacks_memory |= by_key.add(states, number, tile, isa, values, start).is_err();
                return;
            }
            let states = all.sum_mut(number);
            for part in parts(start..start + values.len(), len, tile.order) {
                let (row, place) = (part.start / len, part.start % len);
                let values = values.part(part.start - start, part.len());
                match tile.order {
                    Order::Columns => {
                        let columns = ValueColumns::of(values, len.min(part.len()));
                        states.add_columns(place, isa, columns, tile.first + row);
                    }
                    Order::Rows => match of_rows {
                        Some(output) if part.len() == len => {
                            results[output][row] = states.row(isa, values);
                        }
                        _ => {
                            states.add(row, isa, values, tile.first + place);
                            if let Some(output) = of_rows
                                && place + part.len() == len
                            {
                                results[output][row] = states.result(row);
                            }
                        }
                    },
                }
            }
        };
        self.of.program.accumulate(&mut self.scratch, range, 0, &mut add);
        for (view, place) in self.of.elementwise.iter().zip(outputs) {
            let to = tile.start(view);
            if place != to.cast() {
                // SAFETY: as above; the program has written the copy.
                unsafe { scatter(tile.axes(view).grid(), place.cast(), to) };
            }
        }
    }

    /// Adds the elements of columns of arrays to the states.
    fn add_in_place(&mut self, tile: &Tile<'_>) {
        let (isa, len) = (self.of.program.isa(), tile.kept.space().elements());
        for (number, (ty, places)) in self.of.in_place.iter().enumerate() {
            let views = places.map(|place| &self.of.inputs[place]);
            let starts = views.map(|view| tile.start(view).cast_const());
            let strides =
                views.map(|view| tile.reduced.space().strides(view).last().map_or(0, |s| *s));
            // SAFETY: the call promises the elements of the tile, with this stride between rows.
            let columns = unsafe {
                ValueColumns::new(*ty, starts, strides, tile.reduced.space().elements(), len)
            };
            self.states.sum_mut(number).add_columns(0, isa, columns, tile.first);
        }
    }

    /// The address of a tile's elements of an input, or of their copy if they are not adjacent.
    fn gathered(&mut self, input: usize, tile: &Tile<'_>) -> *const c_void {
        let view = &self.of.inputs[input];
        let place = self.place(input, view, tile);
        if place != tile.start(view).cast() {
            // SAFETY: the call promises the elements; the copy has a word for each.
            unsafe { gather(tile.axes(view).grid(), tile.start(view), place.cast()) };
        }
        place.cast_const()
    }

    /// The address of a tile's elements of an array if they are adjacent, or else the place for their copy.
    fn place(&mut self, array: usize, view: &View, tile: &Tile<'_>) -> *mut c_void {
        if tile.axes(view).grid().is_contiguous() {
            return tile.start(view).cast();
        }
        let room = self.of.kept.elements() * self.of.reduced.elements();
        (&raw mut self.copies[array * room..][..room]).cast()
    }
}

impl ByKey {
    /// Adds values of a tile, from number `start` on, to the states of their keys, for the reduction of a number.
    fn add(
        &self, states: &mut GroupStates, reduction: usize, tile: &Tile<'_>, isa: Isa,
        values: Values<'_>, start: usize,
    ) -> Result<(), NoMemory> {
        let (len, count) = (tile.row(), self.groups);
        for part in parts(start..start + values.len(), len, Order::Rows) {
            let (row, place) = (part.start / len, part.start % len);
            let ([result, index], [step, index_step]) = match tile.order {
                Order::Rows => ([row, place], [0, 1]),
                Order::Columns => ([place, row], [count, 0]),
            };
            let (first, index) = (result * count, tile.first + index);
            let groups = Groups { first, step, count, index, index_step };
            let values = values.part(part.start - start, part.len());
            if let Some(place) = states.add(reduction, groups, isa, values)? {
                let found = (index + place * index_step, values.keys().at(place));
                let mut outside = self.outside.lock().unwrap_or_else(PoisonError::into_inner);
                *outside = Some(outside.map_or(found, |other| other.min(found)));
            }
        }
        Ok(())
    }
}

impl Tile<'_> {
    fn elements(&self) -> usize {
        self.kept.space().elements() * self.reduced.space().elements()
    }

    /// The length of the tile's rows.
    fn row(&self) -> usize {
        match self.order {
            Order::Rows => self.reduced.space().elements(),
            Order::Columns => self.kept.space().elements(),
        }
    }

    /// The address of the tile's first element in an array.
    fn start(&self, view: &View) -> *mut u8 {
        address(view, self.kept.offset(view) + self.reduced.offset(view))
    }

    /// The tile's axes in an array.
    fn axes(&self, view: &View) -> TileAxes {
        let (kept, reduced) = (self.kept.space(), self.reduced.space());
        let [outer, inner] = match self.order {
            Order::Rows => [kept, reduced],
            Order::Columns => [reduced, kept],
        };
        let lengths = outer.lengths().iter().chain(inner.lengths());
        let strides = outer.strides(view).iter().chain(inner.strides(view));
        TileAxes {
            lengths: lengths.copied().collect(),
            strides: strides.copied().collect(),
            element_bytes: view.element_bytes,
        }
    }
}

/// The axes of a tile in an array.
struct TileAxes {
    lengths: ArrayVec<usize, MAX_AXES>,
    strides: ArrayVec<isize, MAX_AXES>,
    element_bytes: usize,
}

impl TileAxes {
    fn grid(&self) -> Grid<'_> {
        Grid::new(&self.lengths, &self.strides, self.element_bytes)
    }
}

/// The most results of a tile, and the most elements of each.
fn tile(
    axes: &Axes, inputs: &[View], order: Order, is_in_place: bool, most_states: usize,
) -> [usize; 2] {
    let (kept, reduced) = (axes.kept(), axes.reduced());
    let most_columns = cores::REDUCED_COLUMNS.min(most_states);
    // Divides a length into blocks of about the same length.
    let balanced = |length: usize, most: usize| length.div_ceil(length.div_ceil(most));
    let innermost = |space: &Space| space.lengths().last().map_or(1, |length| *length);
    match order {
        Order::Columns if is_in_place => {
            [balanced(innermost(kept), most_columns), innermost(reduced).min(cores::REDUCED_ROWS)]
        }
        Order::Columns => {
            let results = balanced(kept.elements(), most_columns);
            [results, (4 * cores::STRIDED_BLOCK / results).max(1)]
        }
        Order::Rows => {
            let is_direct = |view| reduced.access(view) == Access::Direct;
            let most = if inputs.iter().all(is_direct) {
                cores::REDUCED_TILE
            } else {
                cores::STRIDED_BLOCK
            };
            [(most / reduced.elements()).min(most_states), most]
        }
    }
}

/// The arrays of each reduction, if all inputs have adjacent elements along the innermost outer axis and this axis is
/// long enough for columns.
fn in_place(
    program: &BlockProgram, bindings: &[Binding], kept: &Space, inputs: &[View],
) -> ArrayVec<(Type, [usize; 2]), MOST_SUMS> {
    let is_long = kept.lengths().last().is_some_and(|length| *length >= cores::LEAST_COLUMNS);
    if !is_long || !inputs.iter().all(|view| kept.inner(view) == Inner::Unit) {
        return ArrayVec::new();
    }
    let is_array = |binding: &&Binding| matches!(binding, Binding::Array);
    let array = |input: usize| bindings[..input].iter().filter(is_array).count();
    program.reduced_arrays().map(|(ty, inputs)| (ty, inputs.map(array))).collect()
}

/// Divides a range of a tile's elements into parts. A part is in one row of length `row`, or has whole rows of columns.
fn parts(
    range: ops::Range<usize>, row: usize, order: Order,
) -> impl Iterator<Item = ops::Range<usize>> {
    let mut start = range.start;
    std::iter::from_fn(move || {
        let rows = match order {
            Order::Columns if start.is_multiple_of(row) => (range.end - start) / row,
            _ => 1,
        };
        let end = range.end.min((start / row + rows.max(1)) * row);
        let part = start..end;
        start = end;
        (!part.is_empty()).then_some(part)
    })
}
