//! A device's work on the parts of a call: transfers, kernels, and the merging of reductions' states.

use super::by_key::Tables;
use super::device::Device;
use super::device_view::{DeviceView, StagingLayout};
use super::driver::CUstream;
use super::enqueue::{self, Addresses, addresses_of_first};
use super::part::Part;
use super::pipeline::{OnDevice, Progress};
use super::placed_part::{PlacedPart, Target};
use super::slot::{Buffers, Slot};
use crate::call::chunk::{Chunk, Queue};
use crate::call::plan::OnGpus;
use crate::call::{
    Array, BUFFER_ALIGNMENT, Call, ChunkWork, Extent, KernelStates, MAX_ARRAYS, Strides, TaskKind,
    Tile, TilePlan, Transfer, state_bytes,
};
use crate::cpu::expression::OutputStates;
use crate::cpu::{Grid, gather, low_ends, scatter};
use crate::error::Error;
use crate::process::memory;
use arrayvec::ArrayVec;
use std::sync::{Mutex, PoisonError};

/// A call that pipelines run in chunks.
pub(crate) struct Job<'a> {
    call: &'a Call<'a>,
    plan: &'a OnGpus,
    /// The tiles of arrays of any strides, each a chunk.
    tiles: Option<(Strides<'a>, &'a TilePlan)>,
    /// The offset of each array, or of an output's states, in a slot's buffer.
    offsets: ArrayVec<usize, MAX_ARRAYS>,
    pub(super) buffers: Buffers<'a>,
    /// Merges the states of contiguous arrays, and the states that accumulators want.
    work: &'a dyn ChunkWork,
    /// The tables of a call by key.
    tables: Option<Tables<'a>>,
    /// The blocks of results that lack the states of some of their tiles.
    merging: Mutex<Vec<Merging>>,
}

/// The merged states of a block of results. One or more tiles have the elements of a block.
struct Merging {
    /// The number of the block.
    number: usize,
    /// The states of all results.
    states: OutputStates,
    /// The number of merged tiles.
    parts: usize,
}

const NO_STATES: Error =
    Error::OutOfHostMemory { bytes: 1 << 20, purpose: "the states of a reduction" };

impl<'a> Job<'a> {
    pub(crate) fn new(call: &'a Call<'a>, plan: &'a OnGpus, work: &'a dyn ChunkWork) -> Self {
        let tiles = call.strides().zip(plan.strided.as_deref());
        let (offsets, buffers) = match tiles {
            Some((_, tiles)) => {
                (tiles.offsets.clone(), Buffers { transfers: &tiles.buffers, state_bytes: 0 })
            }
            None => {
                let (offsets, state_bytes) = offsets_of_chunks(call, plan);
                (offsets, Buffers { transfers: &plan.transfers, state_bytes })
            }
        };
        let (of_keys, merging) = (Tables::new(call), Mutex::default());
        Job { call, plan, tiles, offsets, buffers, work, tables: of_keys, merging }
    }

    /// A queue of the chunks.
    pub(crate) fn queue(&self) -> Queue {
        match self.tiles {
            Some((_, tiles)) => Queue::new(tiles.tiles.count()),
            None => Queue::new(self.call.n()),
        }
    }

    /// Returns the device's addresses of the arrays that it accesses in place. Loads the kernels for contiguous arrays.
    /// The device's context is current.
    pub(super) fn begin(&self, device: &Device) -> Result<Addresses, Error> {
        if let (None, Some(formula)) = (self.tiles, self.call.task().formula()) {
            device.kernels.load_all(formula)?;
        }
        addresses_of_first(device, self.call, &self.plan.transfers)
    }

    /// Stages a chunk's inputs, and queues its copies and kernels on the slot's stream.
    pub(super) fn start(
        &self, on: &OnDevice<'_>, slot: &mut Slot, chunk: &Chunk, progress: &mut Progress,
    ) -> Result<(), Error> {
        let (part, inputs) = (self.part(chunk), self.call.inputs().len());
        let tables = self.tables.as_ref();
        let made = tables.map(|tables| tables.at(on.device, slot, part.first())).transpose()?;
        let tables = tables.zip(made.as_ref()).map(|(tables, made)| tables.placed(made));
        let stream = slot.begin();
        // Collected as a result, the views would be moved.
        let mut arrays = ArrayVec::<_, MAX_ARRAYS>::new();
        for number in 0..inputs + self.call.outputs().len() {
            arrays.push(self.placed(on, slot, stream, &part, number, progress)?);
        }
        let arrays = arrays.split_at(inputs).into();
        let flags = if self.plan.uses_flags { slot.flags() } else { None };
        let target = Target {
            device: on.device,
            stream,
            scratch: slot.scratch(),
            tables: tables.as_deref().unwrap_or(&[]),
            block_limits: self.plan.block_limits,
            flags,
            copies_by_driver: true,
        };
        // SAFETY: the call promises the arrays, and the plan that the device can access them by these transfers. The
        // buffers and the scratch memory are the slot's, which is waited for before the call returns.
        let placed = unsafe { PlacedPart::new(target, &part, arrays, self.merges()) };
        slot.flagged_warps = placed.queue(self.call.task(), &mut progress.wrote)?;
        for (number, array) in self.call.arrays().enumerate().skip(inputs) {
            if self.plan.transfers.of(number) == Transfer::Dma {
                let (bytes, from) = (array.part(chunk).1, slot.device()? + self.offset(number));
                let to = array.address as u64 + part.offset(number) as u64;
                // SAFETY: as above; only outputs that are contiguous are copied by DMA.
                unsafe { enqueue::copy(on.device, stream, from, to, bytes)? };
            }
        }
        Ok(())
    }

    /// Stores the results of a chunk. The slot's work is done.
    pub(super) fn finish(
        &self, on: &OnDevice<'_>, slot: &mut Slot, chunk: &Chunk, progress: &mut Progress,
    ) -> Result<(), Error> {
        let part = self.part(chunk);
        let mut merging = match &part {
            Part::Tile { strides, tile } if self.merges() && !strides.wants_states => {
                Some((tile, self.without_elements(tile)?))
            }
            _ => None,
        };
        for (number, output) in self.reduced().enumerate().filter(|_| self.merges()) {
            let each = state_bytes(self.call, output);
            let place = self.offsets[self.call.inputs().len() + output];
            let bytes = each * part.results().iter().product::<usize>();
            let (words, first) = match &part {
                Part::Chunk { .. } => (slot.states(place, bytes)?, 0),
                Part::Tile { tile, .. } => {
                    let first = self.tiles.map_or(0, |(_, plan)| plan.tiles.first_result(tile));
                    (slot.pinned_bytes(place, bytes)?, first)
                }
            };
            match &mut merging {
                Some((_, merging)) => merging.states.merge_words(number, 0, words, each),
                None => {
                    let elements = chunk.len();
                    let reduction = number;
                    let states = KernelStates { reduction, first, words, bytes: each, elements };
                    self.work.take_states(&states);
                }
            }
        }
        for number in self.call.inputs().len()..self.offsets.len() {
            if self.plan.transfers.of(number) == Transfer::Staged {
                let packed = self.packed(&part, number);
                let buffer = slot.pinned_bytes(self.offsets[number], packed.bytes())?;
                // SAFETY: the call promises the part's elements, which no other thread has.
                unsafe { scatter(packed.grid(), buffer.as_ptr(), self.address(&part, number)) };
                progress.bytes_staged += packed.bytes() as u64;
            }
        }
        if let Some((tile, merging)) = merging
            && let Some(merging) = self.merged(tile, merging)?
        {
            progress.wrote = true;
            return self.store(on, slot, tile, merging);
        }
        Ok(())
    }

    /// Merges the tables of a call by key. All chunks are finished.
    pub(crate) fn merge_tables(&self) -> Result<(), Error> {
        self.tables.as_ref().map_or(Ok(()), |tables| tables.merge(self.work))
    }

    fn part(&self, chunk: &Chunk) -> Part<'a> {
        match self.tiles {
            Some((strides, plan)) => Part::Tile { strides, tile: plan.tiles.at(chunk.start()) },
            None => Part::Chunk { call: self.call, first: chunk.start(), len: chunk.len() },
        }
    }

    /// True if the host merges the states of several chunks.
    fn merges(&self) -> bool {
        self.plan.transfers.outputs().contains(&Transfer::State)
    }

    fn offset(&self, number: usize) -> u64 {
        self.offsets[number] as u64
    }

    /// The address of a part's first element in array `number`, in host memory.
    fn address(&self, part: &Part<'_>, number: usize) -> *mut u8 {
        let first = match self.tiles {
            Some((strides, _)) => strides.views()[number].first,
            None => self.call.array(number).address,
        };
        std::ptr::with_exposed_provenance_mut(first.wrapping_add_signed(part.offset(number)))
    }

    /// The view of array `number` for a part's kernels. Gathers the elements of a staged or copied input.
    fn placed(
        &self, on: &OnDevice<'_>, slot: &Slot, stream: CUstream, part: &Part<'_>, number: usize,
        progress: &mut Progress,
    ) -> Result<DeviceView, Error> {
        let (transfer, offset) = (self.plan.transfers.of(number), self.offset(number));
        let (array, inputs) = (self.call.array(number), self.call.inputs().len());
        let (element_bytes, is_input) = (array.element_bytes(), number < inputs);
        let packed = match transfer {
            Transfer::InPlace | Transfer::Mapped => {
                return Ok(DeviceView::in_place(on.in_place[number], part, number, element_bytes));
            }
            Transfer::State => {
                let states = match part {
                    Part::Chunk { .. } => slot.states_address()?,
                    Part::Tile { .. } => slot.pinned()?.addr().get() as u64,
                };
                let bytes = state_bytes(self.call, number - inputs);
                return Ok(DeviceView::states(states + offset, part.results(), bytes));
            }
            // Kernels find the states of a table by their numbers.
            Transfer::Table => return Ok(DeviceView::states(0, part.results(), 0)),
            Transfer::Staged | Transfer::Dma => self.packed(part, number),
        };
        // DMA copies contiguous arrays without a staging buffer.
        let is_gathered = transfer == Transfer::Staged || self.tiles.is_some();
        let mut from = self.address(part, number).addr() as u64;
        if is_gathered {
            let buffer = slot.pinned()?.as_ptr().wrapping_add(self.offsets[number]);
            from = buffer.addr() as u64;
            if is_input {
                // SAFETY: the call promises the part's elements. They fit into the buffer, which is the slot's alone.
                unsafe { gather(packed.grid(), self.address(part, number), buffer) };
                progress.bytes_staged += packed.bytes() as u64;
            }
        }
        if transfer == Transfer::Staged {
            return Ok(DeviceView::dense(from, &packed, element_bytes));
        }
        let to = slot.device()? + offset;
        if is_input {
            // SAFETY: the call promises the part's elements, and the buffers are the slot's alone. The slot is waited
            // for before the call returns.
            unsafe { enqueue::copy(on.device, stream, from, to, packed.bytes())? };
        }
        Ok(DeviceView::dense(to, &packed, element_bytes))
    }

    /// The layout of a part's elements of an array in a staging buffer.
    fn packed(&self, part: &Part<'_>, number: usize) -> StagingLayout {
        let in_memory_order = match self.call.task().kind() {
            TaskKind::Copy | TaskKind::Elementwise => false,
            TaskKind::Reduced | TaskKind::Grouped | TaskKind::Mixed => true,
        };
        StagingLayout::of(part, number, self.call.array(number).element_bytes(), in_memory_order)
    }

    /// Merges the states of a tile with the states of other tiles of the same results. Returns all states once no tile
    /// is missing.
    fn merged(&self, tile: &Tile, mut merging: Merging) -> Result<Option<Merging>, Error> {
        let parts = self.tiles.map_or(1, |(_, plan)| plan.tiles.parts());
        while merging.parts < parts {
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

    /// The numbers of the outputs that are results of reductions.
    fn reduced(&self) -> impl Iterator<Item = usize> {
        self.call.outputs_of(Extent::Results).map(|(output, _)| output)
    }

    /// The states of a tile's results before any element is added.
    fn without_elements(&self, tile: &Tile) -> Result<Merging, Error> {
        if !memory::is_left() {
            return Err(NO_STATES);
        }
        let (reductions, results) = (self.call.task().reductions(), tile.kept().elements());
        let states = OutputStates::of(reductions).identities(results).map_err(|_| NO_STATES)?;
        Ok(Merging { number: tile.number, states, parts: 1 })
    }

    /// Stores the results of a tile, computed from the states of all elements.
    fn store(
        &self, on: &OnDevice<'_>, slot: &mut Slot, tile: &Tile, mut merging: Merging,
    ) -> Result<(), Error> {
        let Some((strides, _)) = self.tiles else { return Ok(()) };
        let mut results = memory::filled(0, tile.kept().elements()).map_err(|_| NO_STATES)?;
        for (of_states, output) in self.reduced().enumerate() {
            merging.states.results(of_states, &mut results);
            let number = self.call.inputs().len() + output;
            let view = &strides.views()[number];
            let bytes = low_ends(&mut results, view.element_bytes);
            if self.call.array(number).device().is_some() {
                self.copy_out(on, slot, tile, number, bytes)?;
                continue;
            }
            let first = view.first.wrapping_add_signed(tile.offset(view));
            let to = std::ptr::with_exposed_provenance_mut(first);
            // SAFETY: the call promises the tile's results, which no other thread has.
            unsafe { scatter(Grid::of(tile.kept(), view), bytes.as_ptr(), to) };
        }
        slot.wait()
    }

    /// Queues copies of a tile's results, through the slot's buffer, to an array in device memory.
    fn copy_out(
        &self, on: &OnDevice<'_>, slot: &mut Slot, tile: &Tile, number: usize, results: &[u8],
    ) -> Result<(), Error> {
        let Some((strides, _)) = self.tiles else { return Ok(()) };
        let view = &strides.views()[number];
        let buffer = slot.pinned()?.as_ptr().wrapping_add(self.offsets[number]);
        // SAFETY: the buffer is the slot's, with room for states, which are longer than results; no device has it.
        unsafe { buffer.copy_from_nonoverlapping(results.as_ptr(), results.len()) };
        let mut from = buffer.addr() as u64;
        let to = on.in_place[number].wrapping_add_signed(tile.offset(view) as i64);
        let stream = slot.begin();
        let runs = tile.kept().blocks(tile.kept().run(view));
        for run in runs.walk(0..runs.count()) {
            let bytes = run.space().elements() * view.element_bytes;
            let to = to.wrapping_add_signed(run.offset(view) as i64);
            // SAFETY: the call promises the results' memory; the buffer is the slot's, which is waited for before the
            // call returns.
            unsafe { enqueue::copy(on.device, stream, from, to, bytes)? };
            from += bytes as u64;
        }
        Ok(())
    }
}

/// Lays out contiguous arrays in the buffers of their transfers, and the states of outputs in a row. Returns all
/// offsets and the bytes of all states.
fn offsets_of_chunks(call: &Call<'_>, plan: &OnGpus) -> (ArrayVec<usize, MAX_ARRAYS>, usize) {
    let [mut staged, mut copied, mut states] = [0_usize; 3];
    let mut next = |(number, (array, transfer)): (usize, (&Array, Transfer))| {
        let elements = array.element_bytes() * plan.chunk;
        let (end, bytes) = match transfer {
            Transfer::InPlace | Transfer::Mapped | Transfer::Table => return 0,
            Transfer::Staged => (&mut staged, elements),
            Transfer::Dma => (&mut copied, elements),
            Transfer::State => (&mut states, state_bytes(call, number - call.inputs().len())),
        };
        let offset = end.next_multiple_of(BUFFER_ALIGNMENT);
        *end = offset + bytes;
        offset
    };
    let offsets = call.arrays().zip(plan.transfers.all()).enumerate().map(&mut next).collect();
    (offsets, states)
}
