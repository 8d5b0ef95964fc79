//! Calls on arrays of any strides, tile after tile.

use super::device::Device;
use super::driver::CUstream;
use super::enqueue::{self, Addresses};
use super::pipeline::{Job, OnDevice, Progress};
use super::placed::{Packed, Placed, PlacedArray};
use super::reduce_axes::PlacedTile;
use super::slot::Slot;
use super::strided::{self, addresses_of_first};
use crate::call::chunk::Chunk;
use crate::call::plan::OnGpus;
use crate::call::{
    Call, Extent, MAX_ARRAYS, OnStrides, Strides, TaskKind, Tile, Transfer, Transfers, Work,
    state_bytes,
};
use crate::cpu::expression::OutputStates;
use crate::cpu::{Grid, gather, low_ends, scatter};
use crate::error::Error;
use crate::process::memory;
use arrayvec::ArrayVec;
use gpuvec_axes::View;
use std::sync::{Mutex, PoisonError};

/// A call on arrays of any strides.
pub(crate) struct Tiled<'a> {
    call: &'a Call<'a>,
    strides: Strides<'a>,
    plan: &'a OnGpus,
    on_strides: &'a OnStrides,
    /// Takes states, if they are wanted.
    work: &'a dyn Work,
    /// Blocks of results that still lack some of their tiles.
    merging: Mutex<Vec<Merging>>,
}

/// The results of a block of kept axes. Each tile has a part of their elements.
struct Merging {
    /// The number of the block.
    number: usize,
    /// The states of all results.
    states: OutputStates,
    /// The tiles that are merged.
    parts: usize,
}

const NO_STATES: Error =
    Error::OutOfHostMemory { bytes: 1 << 20, purpose: "the states of a reduction" };

impl<'a> Tiled<'a> {
    pub(crate) fn new(
        call: &'a Call<'a>, strides: Strides<'a>, plan: &'a OnGpus, on_strides: &'a OnStrides,
        work: &'a dyn Work,
    ) -> Self {
        Tiled { call, strides, plan, on_strides, work, merging: Mutex::default() }
    }

    fn inputs(&self) -> usize {
        self.call.inputs().len()
    }

    /// The views of the outputs, with their numbers among all arrays.
    fn outputs(&self) -> impl Iterator<Item = (usize, &'a View)> {
        self.strides.views().iter().enumerate().skip(self.inputs())
    }

    /// Says whether the host merges the states of several tiles.
    fn merges(&self) -> bool {
        self.plan.transfers.outputs().contains(&Transfer::State)
    }

    /// An array of a tile, which is gathered if need be.
    fn placed(
        &self, on: &OnDevice<'_>, slot: &Slot, stream: CUstream, tile: &Tile, number: usize,
        progress: &mut Progress,
    ) -> Result<PlacedArray, Error> {
        let view = &self.strides.views()[number];
        let (transfer, offset) = (self.plan.transfers.of(number), self.on_strides.offsets[number]);
        if let Transfer::InPlace | Transfer::Mapped = transfer {
            return Ok(PlacedArray::in_place(on.in_place[number], tile, view));
        }
        let buffer = slot.pinned()?.as_ptr().wrapping_add(offset);
        let mut at = buffer.addr() as u64;
        if transfer == Transfer::State {
            let bytes = state_bytes(self.call, number - self.inputs());
            return Ok(PlacedArray::states(at, tile, bytes));
        }
        let is_input = number < self.inputs();
        let packed = self.packed(tile, number);
        if is_input {
            // SAFETY: the call promises the tile's elements, and the buffer, which is the slot's alone, has room
            // for them.
            unsafe { gather(packed.grid(), address(tile, view), buffer) };
            progress.bytes_staged += packed.bytes() as u64;
        }
        if transfer == Transfer::Dma {
            let from = std::mem::replace(&mut at, slot.device()? + offset as u64);
            // SAFETY: the buffers are the slot's alone, which is waited for before the call returns.
            unsafe { enqueue::copy(on.device, stream, from, at, packed.bytes())? };
        }
        Ok(PlacedArray::dense(at, &packed, view.element_bytes))
    }

    /// The elements of an array in a tile, as they are in a buffer.
    fn packed(&self, tile: &Tile, number: usize) -> Packed {
        let in_memory_order = match self.call.task().kind() {
            TaskKind::Copy | TaskKind::Elementwise => false,
            TaskKind::Reduced | TaskKind::Mixed => true,
        };
        Packed::of(tile, &self.strides.views()[number], in_memory_order)
    }

    /// Merges the states of a tile with those of others of the same results. Returns them once no tile is missing.
    fn merged(&self, slot: &Slot, tile: &Tile) -> Result<Option<Merging>, Error> {
        let mut merging = self.without_elements(tile)?;
        merging.parts = 1;
        for (number, output) in self.reduced().enumerate() {
            let (words, bytes) = self.states(slot, tile, output)?;
            merging.states.merge_words(number, 0, words, bytes);
        }
        while merging.parts < self.on_strides.tiles.parts() {
            let mut all = self.merging.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(place) = all.iter().position(|other| other.number == tile.number) else {
                all.try_reserve(1).map_err(|_| NO_STATES)?;
                all.push(merging);
                return Ok(None);
            };
            let other = all.swap_remove(place);
            drop(all);
            merging.states.merge(0, &other.states, tile.kept().elements());
            merging.parts += other.parts;
        }
        Ok(Some(merging))
    }

    /// The outputs that are results of reductions.
    fn reduced(&self) -> impl Iterator<Item = usize> {
        self.call.outputs_of(Extent::Results).map(|(output, _)| output)
    }

    /// The states of a tile's results that the kernels of an output wrote, and the bytes of each.
    fn states<'s>(
        &self, slot: &'s Slot, tile: &Tile, output: usize,
    ) -> Result<(&'s [u8], usize), Error> {
        let bytes = state_bytes(self.call, output);
        let place = self.on_strides.offsets[self.inputs() + output];
        Ok((slot.pinned_bytes(place, bytes * tile.kept().elements())?, bytes))
    }

    /// States of a tile's results, for no elements.
    fn without_elements(&self, tile: &Tile) -> Result<Merging, Error> {
        if !memory::is_left() {
            return Err(NO_STATES);
        }
        let (reductions, results) = (self.call.task().reductions(), tile.kept().elements());
        let states = OutputStates::of(reductions).identities(results).map_err(|_| NO_STATES)?;
        Ok(Merging { number: tile.number, states, parts: 0 })
    }

    /// Stores the results of a tile, whose states are those of all elements.
    fn store(
        &self, on: &OnDevice<'_>, slot: &mut Slot, tile: &Tile, mut merging: Merging,
    ) -> Result<(), Error> {
        let (mut results, count) = (Vec::new(), tile.kept().elements());
        results.try_reserve_exact(count).map_err(|_| NO_STATES)?;
        results.resize(count, 0);
        for (of_states, output) in self.reduced().enumerate() {
            merging.states.results(of_states, &mut results);
            let number = self.inputs() + output;
            let view = &self.strides.views()[number];
            let bytes = low_ends(&mut results, view.element_bytes);
            if self.call.array(number).device().is_some() {
                self.copy_out(on, slot, tile, number, bytes)?;
            } else {
                // SAFETY: the call promises the tile's results, which no other thread has.
                unsafe {
                    scatter(Grid::of(tile.kept(), view), bytes.as_ptr(), address(tile, view))
                };
            }
        }
        slot.wait()
    }

    /// Queues copies of a tile's results, through the slot's buffer, to an array in device memory.
    fn copy_out(
        &self, on: &OnDevice<'_>, slot: &mut Slot, tile: &Tile, number: usize, results: &[u8],
    ) -> Result<(), Error> {
        let view = &self.strides.views()[number];
        let buffer = slot.pinned()?.as_ptr().wrapping_add(self.on_strides.offsets[number]);
        // SAFETY: the buffer is the slot's, with room for states, which are longer than results; no device has it.
        unsafe { buffer.copy_from_nonoverlapping(results.as_ptr(), results.len()) };
        let mut from = buffer.addr() as u64;
        let to = on.in_place[number].wrapping_add_signed(tile.offset(view) as i64);
        let stream = slot.begin();
        let runs = tile.kept().blocks(tile.kept().run(view));
        for run in runs.walk(0..runs.count()) {
            let bytes = run.space().elements() * view.element_bytes;
            let to = to.wrapping_add_signed(run.offset(view) as i64);
            // SAFETY: the call promises the results' memory; the buffer is the slot's, which is waited for before
            // the call returns.
            unsafe { enqueue::copy(on.device, stream, from, to, bytes)? };
            from += bytes as u64;
        }
        Ok(())
    }
}

impl Job for Tiled<'_> {
    fn buffers(&self) -> &Transfers {
        &self.on_strides.buffers
    }

    fn begin(&self, device: &Device) -> Result<Addresses, Error> {
        addresses_of_first(device, self.call, self.strides, &self.plan.transfers)
    }

    fn start(
        &self, on: &OnDevice<'_>, slot: &mut Slot, chunk: &Chunk, progress: &mut Progress,
    ) -> Result<(), Error> {
        let (tile, task) = (self.on_strides.tiles.at(chunk.start()), self.call.task());
        let (stream, inputs) = (slot.begin(), self.inputs());
        let arrays = (0..inputs + self.call.outputs().len())
            .map(|number| self.placed(on, slot, stream, &tile, number, progress))
            .collect::<Result<ArrayVec<_, MAX_ARRAYS>, _>>()?;
        match task.kind() {
            TaskKind::Copy | TaskKind::Elementwise => {
                progress.wrote = true;
                let mut placed = Placed::new(tile.kept().lengths());
                arrays.into_iter().for_each(|array| placed.push(array));
                let block_limit = self.plan.block_limits.of(task);
                // SAFETY: the call promises the arrays, and the buffers are the slot's, which is waited for before
                // the call returns; by its transfer the device reaches each of them.
                unsafe { strided::launch(on.device, stream, task, placed, inputs, block_limit) }
            }
            kind @ (TaskKind::Reduced | TaskKind::Mixed) => {
                progress.wrote |= !self.merges() || kind == TaskKind::Mixed;
                let placed = PlacedTile::new(&tile, arrays.into_iter(), inputs, self.merges());
                slot.scratch()?.lend_along_axes(stream, |scratch| {
                    let block_limits = self.plan.block_limits;
                    // SAFETY: as above, of the scratch memory, too.
                    unsafe { placed.queue(on.device, stream, task, scratch, block_limits) }
                })
            }
        }
    }

    fn finish(
        &self, on: &OnDevice<'_>, slot: &mut Slot, chunk: &Chunk, progress: &mut Progress,
    ) -> Result<(), Error> {
        let tile = self.on_strides.tiles.at(chunk.start());
        if self.strides.wants_states {
            let (words, bytes) = self.states(slot, &tile, 0)?;
            self.work.take_states(self.on_strides.tiles.first_result(&tile), words, bytes);
            return Ok(());
        }
        for (number, view) in self.outputs() {
            if self.plan.transfers.of(number) == Transfer::Staged {
                let packed = self.packed(&tile, number);
                let buffer = slot.pinned_bytes(self.on_strides.offsets[number], packed.bytes())?;
                // SAFETY: the call promises the tile's elements, which no other thread has.
                unsafe { scatter(packed.grid(), buffer.as_ptr(), address(&tile, view)) };
                progress.bytes_staged += packed.bytes() as u64;
            }
        }
        if self.merges()
            && let Some(merging) = self.merged(slot, &tile)?
        {
            progress.wrote = true;
            return self.store(on, slot, &tile, merging);
        }
        Ok(())
    }
}

/// The address of a tile's first element in host memory.
fn address(tile: &Tile, view: &View) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(view.first.wrapping_add_signed(tile.offset(view)))
}
