//! The job of a call on arrays of any strides: the kernels of each tile, and the merging of reductions' states.

use super::device::Device;
use super::device_view::{DeviceView, DeviceViews, StagingLayout};
use super::driver::CUstream;
use super::elementwise::{self, addresses_of_first};
use super::enqueue::{self, Addresses};
use super::pipeline::{Job, OnDevice, Progress};
use super::reduce_axes::PlacedTile;
use super::slot::Slot;
use crate::call::chunk::Chunk;
use crate::call::plan::OnGpus;
use crate::call::{
    Call, ChunkWork, Extent, MAX_ARRAYS, Strides, TaskKind, Tile, TilePlan, Transfer, Transfers,
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
pub(crate) struct TileJob<'a> {
    call: &'a Call<'a>,
    strides: Strides<'a>,
    plan: &'a OnGpus,
    tile_plan: &'a TilePlan,
    /// Takes the states, if they are wanted.
    work: &'a dyn ChunkWork,
    /// The blocks of results of which some tiles are not merged yet.
    merging: Mutex<Vec<Merging>>,
}

/// The results of a block of kept axes, whose elements are in one or more tiles.
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

impl<'a> TileJob<'a> {
    pub(crate) fn new(
        call: &'a Call<'a>, strides: Strides<'a>, plan: &'a OnGpus, tile_plan: &'a TilePlan,
        work: &'a dyn ChunkWork,
    ) -> Self {
        TileJob { call, strides, plan, tile_plan, work, merging: Mutex::default() }
    }

    fn inputs(&self) -> usize {
        self.call.inputs().len()
    }

    /// The views of the outputs, with their numbers among all arrays.
    fn outputs(&self) -> impl Iterator<Item = (usize, &'a View)> {
        self.strides.views().iter().enumerate().skip(self.inputs())
    }

    /// True if the host merges the states of several tiles.
    fn merges(&self) -> bool {
        self.plan.transfers.outputs().contains(&Transfer::State)
    }

    /// The view of array `number` for a tile's kernels. Gathers the elements of a staged or copied input.
    fn placed(
        &self, on: &OnDevice<'_>, slot: &Slot, stream: CUstream, tile: &Tile, number: usize,
        progress: &mut Progress,
    ) -> Result<DeviceView, Error> {
        let view = &self.strides.views()[number];
        let (transfer, offset) = (self.plan.transfers.of(number), self.tile_plan.offsets[number]);
        if let Transfer::InPlace | Transfer::Mapped = transfer {
            return Ok(DeviceView::in_place(on.in_place[number], tile, view));
        }
        let buffer = slot.pinned()?.as_ptr().wrapping_add(offset);
        let mut at = buffer.addr() as u64;
        if transfer == Transfer::State {
            let bytes = state_bytes(self.call, number - self.inputs());
            return Ok(DeviceView::states(at, tile, bytes));
        }
        let is_input = number < self.inputs();
        let packed = self.packed(tile, number);
        if is_input {
            // SAFETY: the call promises the tile's elements. They fit into the buffer, which is the slot's alone.
            unsafe { gather(packed.grid(), address(tile, view), buffer) };
            progress.bytes_staged += packed.bytes() as u64;
        }
        if transfer == Transfer::Dma {
            let from = std::mem::replace(&mut at, slot.device()? + offset as u64);
            // SAFETY: the buffers are the slot's alone. The slot is waited for before the call returns.
            unsafe { enqueue::copy(on.device, stream, from, at, packed.bytes())? };
        }
        Ok(DeviceView::dense(at, &packed, view.element_bytes))
    }

    /// The elements of an array in a tile, as they are in a buffer.
    fn packed(&self, tile: &Tile, number: usize) -> StagingLayout {
        let in_memory_order = match self.call.task().kind() {
            TaskKind::Copy | TaskKind::Elementwise => false,
            TaskKind::Reduced | TaskKind::Mixed => true,
        };
        StagingLayout::of(tile, &self.strides.views()[number], in_memory_order)
    }

    /// Merges the states of a tile with the states of other tiles of the same results. Returns all states once no tile
    /// is missing.
    fn merged(&self, slot: &Slot, tile: &Tile) -> Result<Option<Merging>, Error> {
        let mut merging = self.without_elements(tile)?;
        merging.parts = 1;
        for (number, output) in self.reduced().enumerate() {
            let (words, bytes) = self.states(slot, tile, output)?;
            merging.states.merge_words(number, 0, words, bytes);
        }
        while merging.parts < self.tile_plan.tiles.parts() {
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

    /// The outputs that are results of reductions, by number.
    fn reduced(&self) -> impl Iterator<Item = usize> {
        self.call.outputs_of(Extent::Results).map(|(output, _)| output)
    }

    /// The states of a tile's results that an output's kernels wrote, and the bytes of each state.
    fn states<'s>(
        &self, slot: &'s Slot, tile: &Tile, output: usize,
    ) -> Result<(&'s [u8], usize), Error> {
        let bytes = state_bytes(self.call, output);
        let place = self.tile_plan.offsets[self.inputs() + output];
        Ok((slot.pinned_bytes(place, bytes * tile.kept().elements())?, bytes))
    }

    /// The states of a tile's results without elements.
    fn without_elements(&self, tile: &Tile) -> Result<Merging, Error> {
        if !memory::is_left() {
            return Err(NO_STATES);
        }
        let (reductions, results) = (self.call.task().reductions(), tile.kept().elements());
        let states = OutputStates::of(reductions).identities(results).map_err(|_| NO_STATES)?;
        Ok(Merging { number: tile.number, states, parts: 0 })
    }

    /// Stores the results of a tile, computed from the states of all elements.
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
        let buffer = slot.pinned()?.as_ptr().wrapping_add(self.tile_plan.offsets[number]);
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

impl Job for TileJob<'_> {
    fn buffers(&self) -> &Transfers {
        &self.tile_plan.buffers
    }

    fn begin(&self, device: &Device) -> Result<Addresses, Error> {
        addresses_of_first(device, self.call, self.strides, &self.plan.transfers)
    }

    fn start(
        &self, on: &OnDevice<'_>, slot: &mut Slot, chunk: &Chunk, progress: &mut Progress,
    ) -> Result<(), Error> {
        let (tile, task) = (self.tile_plan.tiles.at(chunk.start()), self.call.task());
        let (stream, inputs) = (slot.begin(), self.inputs());
        let arrays = (0..inputs + self.call.outputs().len())
            .map(|number| self.placed(on, slot, stream, &tile, number, progress))
            .collect::<Result<ArrayVec<_, MAX_ARRAYS>, _>>()?;
        match task.kind() {
            TaskKind::Copy | TaskKind::Elementwise => {
                progress.wrote = true;
                let mut placed = DeviceViews::new(tile.kept().lengths());
                arrays.into_iter().for_each(|array| placed.push(array));
                let block_limit = self.plan.block_limits.of(task);
                // SAFETY: the call promises the arrays, and the buffers are the slot's, which is waited for before
                // the call returns; by its transfer the device reaches each of them.
                unsafe { elementwise::launch(on.device, stream, task, placed, inputs, block_limit) }
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
        let tile = self.tile_plan.tiles.at(chunk.start());
        if self.strides.wants_states {
            let (words, bytes) = self.states(slot, &tile, 0)?;
            self.work.take_states(self.tile_plan.tiles.first_result(&tile), words, bytes);
            return Ok(());
        }
        for (number, view) in self.outputs() {
            if self.plan.transfers.of(number) == Transfer::Staged {
                let packed = self.packed(&tile, number);
                let buffer = slot.pinned_bytes(self.tile_plan.offsets[number], packed.bytes())?;
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
