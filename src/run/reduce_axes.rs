//! Reductions of arrays of any strides, along any axes.
//!
//! The kept axes are cut into blocks, the reduced ones too. A block of both is a tile: the formula is evaluated over
//! its elements, and the values are added to a state for each result. States are exact and merge in any order, so
//! that neither strides nor tiles nor threads change a bit of the results.

use super::walk::address;
use super::work::{MISSING, NO_BUFFERS, inner};
use crate::call::chunk::Chunk;
use crate::call::{Binding, MAX_INPUTS, MAX_OUTPUTS, Work};
use crate::cpu::expression::{BlockProgram, ErasedStates, Range, Scratch, erased_states};
use crate::cpu::{Grid, gather, scatter};
use crate::error::Error;
use crate::process::memory;
use crate::tuning::{
    REDUCED_PART, REDUCED_STATE_BYTES, REDUCED_TILE, REDUCED_UNITS, STRIDED_BLOCK,
};
use arrayvec::ArrayVec;
use gpuvec_axes::{Access, Axes, Block, Blocks, MAX_AXES, Space, View};
use gpuvec_expr::{Reduction, Type};
use std::collections::TryReserveError;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ops;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// States of each reduction of a program.
type AllStates = ArrayVec<Box<dyn ErasedStates>, MAX_OUTPUTS>;

/// The reductions of a program along the reduced axes of a call. A unit of the work is a block of the results with a
/// part of the elements of each.
pub(super) struct ReduceAxes<'a> {
    program: &'a BlockProgram,
    bindings: &'a [Binding],
    inputs: &'a [View],
    outputs: &'a [View],
    kept: Blocks,
    reduced: Blocks,
    /// The parts of the reduced axes.
    parts: usize,
    /// No states of each reduction, of which others are made.
    reductions: AllStates,
    /// The elements over which the work was partitioned.
    elements: usize,
    /// The states of each block of results, if the reduced axes have several parts.
    merged: Mutex<Vec<AllStates>>,
    units_done: AtomicUsize,
    /// Says that a worker lacked memory: it has left its units undone.
    lacked_memory: AtomicBool,
}

impl<'a> ReduceAxes<'a> {
    /// The reductions of a program, in the order of the outputs. The views are those of the arrays among the
    /// bindings, of which there are some, and those of the outputs. The call has elements.
    ///
    /// # Safety
    /// The promise of a call: the inputs are readable and the outputs writable where the views lead, until the work
    /// ends; no other thread changes them meanwhile. The bindings are as the program declares them.
    pub(super) unsafe fn new(
        program: &'a BlockProgram, bindings: &'a [Binding], axes: &Axes, inputs: &'a [View],
        outputs: &'a [View], reductions: impl Iterator<Item = (Reduction, Type)>,
    ) -> Result<Self, Error> {
        if !memory::is_left() {
            return Err(NO_BUFFERS);
        }
        let reductions: AllStates =
            reductions.map(|(reduction, ty)| erased_states(reduction, ty)).collect();
        let largest = reductions.iter().map(|states| states.state_bytes()).max();
        let most_states = REDUCED_STATE_BYTES / largest.unwrap_or(1);
        let (kept, reduced) = (axes.kept(), axes.reduced());
        let is_direct = |view| reduced.access(view) == Access::Direct;
        let most = if inputs.iter().all(is_direct) { REDUCED_TILE } else { STRIDED_BLOCK };
        let results = (most / reduced.elements()).min(most_states);
        let (kept, reduced) = (kept.blocks(results), reduced.blocks(most));
        let n = axes.kept().elements() * axes.reduced().elements();
        let parts = (n / REDUCED_PART).min(REDUCED_UNITS) / kept.count();
        Ok(ReduceAxes {
            program,
            bindings,
            inputs,
            outputs,
            kept,
            reduced,
            parts: parts.clamp(1, reduced.count()),
            reductions,
            elements: n,
            merged: Mutex::default(),
            units_done: AtomicUsize::new(0),
            lacked_memory: AtomicBool::new(false),
        })
    }

    /// Stores the results of the work that has run.
    pub(super) fn finish(mut self) -> Result<(), Error> {
        if *self.lacked_memory.get_mut() {
            return Err(NO_BUFFERS);
        }
        if *self.units_done.get_mut() != self.units() {
            return Err(MISSING);
        }
        let merged = std::mem::take(inner(&mut self.merged));
        let mut results = self.words(self.kept.elements()).map_err(|_| NO_BUFFERS)?;
        for (block, states) in self.kept.walk(0..self.kept.count()).zip(&merged) {
            self.store(&block, states, &mut results);
        }
        Ok(())
    }

    fn units(&self) -> usize {
        self.kept.count() * self.parts
    }

    /// The units that begin in a chunk of the elements over which the work was partitioned.
    fn units_of(&self, chunk: &Chunk) -> ops::Range<usize> {
        let first = |element: usize| {
            let unit = element as u128 * self.units() as u128;
            unit.div_ceil(self.elements as u128) as usize
        };
        first(chunk.start())..first(chunk.start() + chunk.len())
    }

    /// States of a block of results, for each reduction.
    fn states(&self) -> Result<AllStates, TryReserveError> {
        self.reductions.iter().map(|states| states.identities(self.kept.elements())).collect()
    }

    /// Memory for that number of values.
    fn words(&self, count: usize) -> Result<Vec<MaybeUninit<u64>>, TryReserveError> {
        let mut words = Vec::new();
        words.try_reserve_exact(count)?;
        words.resize(count, MaybeUninit::uninit());
        Ok(words)
    }

    /// Writes the results of a block to the outputs.
    fn store(&self, block: &Block, states: &AllStates, results: &mut [MaybeUninit<u64>]) {
        for (view, states) in self.outputs.iter().zip(states) {
            let (bytes, buffer) = (view.element_bytes, results.as_mut_ptr().cast::<u8>());
            for number in 0..block.space().elements() {
                let result = states.result(number).to_le_bytes();
                // SAFETY: the buffer has a word for each result.
                unsafe { buffer.add(number * bytes).copy_from(result.as_ptr(), bytes) };
            }
            let to = address(view, block.offset(view));
            // SAFETY: the creator of the work promises the elements of the output; no other thread has this block.
            unsafe { scatter(Grid::of(block.space(), view), buffer, to) };
        }
    }
}

impl Work for ReduceAxes<'_> {
    fn begin(&mut self, elements: usize) {
        self.elements = elements;
        *self.units_done.get_mut() = 0;
        *self.lacked_memory.get_mut() = false;
        inner(&mut self.merged).clear();
        if self.parts > 1 {
            let states: Result<_, _> = (0..self.kept.count()).map(|_| self.states()).collect();
            match states {
                Ok(states) => *inner(&mut self.merged) = states,
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
            worker.compute(unit);
        }
    }
}

/// The memory of a thread.
struct Worker<'a> {
    of: &'a ReduceAxes<'a>,
    scratch: Scratch,
    states: AllStates,
    results: Vec<MaybeUninit<u64>>,
    /// The elements of a tile of each input, one after the other, if they are copied.
    copies: Vec<MaybeUninit<u64>>,
}

/// A block of the results and a block of the elements of each.
struct Tile<'a> {
    kept: &'a Block,
    reduced: &'a Block,
    /// The place of the first element among those of a result.
    first: usize,
    lengths: ArrayVec<usize, MAX_AXES>,
}

impl<'a> Worker<'a> {
    fn new(of: &'a ReduceAxes<'a>) -> Result<Self, TryReserveError> {
        let elements = of.kept.elements() * of.reduced.elements();
        let is_copied = |view| !(of.kept.elements() == 1 && is_direct(&of.reduced.full(), view));
        let is_copied = of.inputs.iter().any(is_copied);
        Ok(Worker {
            of,
            scratch: of.program.scratch(elements)?,
            states: of.states()?,
            results: of.words(of.kept.elements())?,
            copies: of.words(if is_copied { of.inputs.len() * elements } else { 0 })?,
        })
    }

    /// Reduces a part of the elements of a block of results.
    fn compute(&mut self, unit: usize) {
        let of = self.of;
        let (number, part) = (unit / of.parts, unit % of.parts);
        let block = of.kept.at(number);
        self.states.iter_mut().for_each(|states| states.clear());
        let [begin, end] = [part, part + 1].map(|part| part * of.reduced.count() / of.parts);
        let mut first = of.reduced.first_element(begin);
        for reduced in of.reduced.walk(begin..end) {
            self.add(&Tile::new(&block, &reduced, first));
            first += reduced.space().elements();
        }
        if of.parts == 1 {
            of.store(&block, &self.states, &mut self.results);
        } else {
            let mut merged = of.merged.lock().unwrap_or_else(PoisonError::into_inner);
            merged[number].iter_mut().zip(&self.states).for_each(|(all, part)| all.merge(&**part));
        }
        of.units_done.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds the values of a tile to the states.
    fn add(&mut self, tile: &Tile<'_>) {
        let arrays: ArrayVec<*const c_void, MAX_INPUTS> =
            (0..self.of.inputs.len()).map(|input| self.gathered(input, tile)).collect();
        // SAFETY: the creator of the work promises the elements of the tile; copies have room for them.
        let range = unsafe { Range::new(self.of.bindings, &arrays, &[], tile.elements()) };
        let (states, row) = (&mut self.states, tile.reduced.space().elements());
        self.of.program.accumulate(
            &mut self.scratch,
            range,
            0,
            &mut |number, version, values, start| {
                for part in parts(start..start + values.len(), row) {
                    let values = values.part(part.start - start, part.len());
                    let first = tile.first + part.start % row;
                    states[number].add(part.start / row, version, values, first);
                }
            },
        );
    }

    /// The address of a tile's elements of an input, which are copied unless they follow each other.
    fn gathered(&mut self, input: usize, tile: &Tile<'_>) -> *const c_void {
        let view = &self.of.inputs[input];
        let from = address(view, tile.kept.offset(view) + tile.reduced.offset(view)).cast_const();
        let strides = tile.strides(view);
        let grid = Grid::new(&tile.lengths, &strides, view.element_bytes);
        if grid.is_contiguous() {
            return from.cast();
        }
        let room = self.of.kept.elements() * self.of.reduced.elements();
        let copy = (&raw mut self.copies[input * room..][..room]).cast();
        // SAFETY: the creator of the work promises the elements; the copy has a word for each.
        unsafe { gather(grid, from, copy) };
        copy.cast_const().cast()
    }
}

impl<'a> Tile<'a> {
    fn new(kept: &'a Block, reduced: &'a Block, first: usize) -> Self {
        let lengths = kept.space().lengths().iter().chain(reduced.space().lengths());
        Tile { kept, reduced, first, lengths: lengths.copied().collect() }
    }

    fn elements(&self) -> usize {
        self.kept.space().elements() * self.reduced.space().elements()
    }

    fn strides(&self, view: &View) -> ArrayVec<isize, MAX_AXES> {
        let [kept, reduced] = [self.kept, self.reduced].map(|block| block.space().strides(view));
        kept.iter().chain(reduced).copied().collect()
    }
}

fn is_direct(space: &Space, view: &View) -> bool {
    space.access(view) == Access::Direct
}

/// A range cut at the multiples of a length.
fn parts(range: ops::Range<usize>, length: usize) -> impl Iterator<Item = ops::Range<usize>> {
    let mut start = range.start;
    std::iter::from_fn(move || {
        let end = range.end.min(start / length * length + length);
        let part = start..end;
        start = end;
        (!part.is_empty()).then_some(part)
    })
}
