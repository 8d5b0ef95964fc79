//! The tables of a call by key, and the launches that add elements to them (kernels/by_key.cu).

use super::device::{self, Device};
use super::driver::cuMemsetD8Async;
use super::owned::{Owned, OwnedMemory};
use super::slot::{Buffers, Slot};
use super::{device_cache, enqueue, grid};
use crate::call::{Call, ChunkWork, MOST_KERNELS, SlotKind, Table, TaskKind, Transfers};
use crate::error::Error;
use crate::policy::gpu;
use crate::process::memory;
use arrayvec::ArrayVec;
use bytemuck::cast_slice_mut;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// The tables of a call on all its devices. A device has a table for each kernel, and further ones for elements that
/// would overflow the sums of the first.
pub(super) struct Tables<'a> {
    call: &'a Call<'a>,
    layouts: ArrayVec<Table, MOST_KERNELS>,
    /// The elements of each result that are added to one table.
    most_elements: usize,
    made: Mutex<Vec<Arc<DeviceTables>>>,
}

/// A table for each kernel, one behind the other in the memory of a device.
pub(super) struct DeviceTables {
    /// Present until it is recycled.
    memory: Option<OwnedMemory>,
    ordinal: usize,
    address: u64,
    /// The number of the part of the elements.
    part: usize,
}

/// A kernel's table on a device.
#[derive(Clone, Copy)]
pub(super) struct PlacedTable<'a> {
    address: u64,
    layout: &'a Table,
}

/// The blocks of a launch, and how they use shared memory.
pub(super) struct Launch {
    pub(super) blocks: u32,
    pub(super) shared_bytes: u32,
    /// The parameters that follow those of the inputs and the shape.
    pub(super) parameters: ArrayVec<u64, 15>,
}

impl<'a> Tables<'a> {
    /// No tables yet. `None` unless it is a call by key for GPUs.
    pub(super) fn new(call: &'a Call<'a>) -> Option<Self> {
        let is_by_key = call.task().kind() == TaskKind::Grouped;
        let layouts = is_by_key.then(|| Table::all(call)).flatten()?;
        let most_elements = layouts.iter().map(Table::most_elements).min().unwrap_or(1);
        Some(Tables { call, layouts, most_elements, made: Mutex::default() })
    }

    /// The tables for a part of the elements that begins with number `first`. The first chunk that needs them makes
    /// them, by its slot, and other chunks wait. The device's context is current.
    pub(super) fn at(
        &self, device: &Device, slot: &mut Slot, first: usize,
    ) -> Result<Arc<DeviceTables>, Error> {
        let (ordinal, part) = (device.ordinal(), first / self.most_elements);
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let is_wanted = |of: &&Arc<DeviceTables>| of.ordinal == ordinal && of.part == part;
        if let Some(known) = made.iter().find(is_wanted) {
            return Ok(known.clone());
        }
        made.try_reserve(1).map_err(|_| NO_WORDS)?;
        let new = Arc::new(DeviceTables::new(ordinal, slot, self.bytes(), part)?);
        made.push(new.clone());
        Ok(new)
    }

    /// The table of each kernel.
    pub(super) fn placed(&self, on: &DeviceTables) -> ArrayVec<PlacedTable<'_>, MOST_KERNELS> {
        let mut address = on.address;
        let place = |layout| {
            let placed = PlacedTable { address, layout };
            address += (size_of::<u64>() * layout.words()) as u64;
            placed
        };
        self.layouts.iter().map(place).collect()
    }

    /// Copies all tables to the host, which merges them. All kernels are done.
    pub(super) fn merge(&self, work: &dyn ChunkWork) -> Result<(), Error> {
        let made = std::mem::take(&mut *self.made.lock().unwrap_or_else(PoisonError::into_inner));
        let mut words = memory::filled(0_u64, self.bytes() / size_of::<u64>());
        let words = words.as_mut().map_err(|_| NO_WORDS)?;
        for mut tables in made {
            tables.read(words)?;
            let mut rest = &words[..];
            let kernels = self.call.task().kernels();
            for (number, (layout, (kernel, _))) in self.layouts.iter().zip(kernels).enumerate() {
                let (of_kernel, others) = rest.split_at(layout.words());
                if let Some(formula) = kernel.formula() {
                    formula.terms.learn(layout, of_kernel, self.call.n() / layout.states().max(1));
                }
                work.take_table(number, layout, of_kernel);
                rest = others;
            }
            Arc::get_mut(&mut tables).map(DeviceTables::recycle);
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.layouts.iter().map(|layout| size_of::<u64>() * layout.words()).sum()
    }
}

/// The most copies of the groups in the shared memory of a block: one for each lane of a warp.
const MOST_COPIES: usize = 32;

const NO_WORDS: Error =
    Error::OutOfHostMemory { bytes: 1 << 20, purpose: "the tables of a reduction by key" };

impl DeviceTables {
    /// Allocates tables, and zeroes them by a slot.
    fn new(ordinal: usize, slot: &mut Slot, bytes: usize, part: usize) -> Result<Self, Error> {
        let cached = device_cache::take(ordinal, bytes);
        let memory = cached.map_or_else(|| OwnedMemory::new(bytes, ordinal), Ok)?;
        let address = memory.address();
        let tables = DeviceTables { memory: Some(memory), ordinal, address, part };
        let stream = slot.begin();
        // SAFETY: the memory is these tables', and no kernel uses them yet.
        unsafe { cuMemsetD8Async(address, 0, bytes, stream) }.of("cuMemsetD8Async", ordinal)?;
        slot.wait()?;
        Ok(tables)
    }

    /// Copies the tables to the host, through a slot's pinned memory.
    fn read(&self, words: &mut [u64]) -> Result<(), Error> {
        let device = device::one(self.ordinal)?;
        device.within(|| {
            let buffers = Buffers { transfers: &Transfers::staged(), state_bytes: 0 };
            let taken = device.slots(SlotKind::Staged).take(&buffers, false)?;
            let Some(mut slot) = taken else { return Err(NO_WORDS) };
            let (mut from, to) = (self.address, slot.pinned()?.addr().get() as u64);
            for part in words.chunks_mut(gpu::STAGED_SLOT_BYTES / size_of::<u64>()) {
                let (bytes, stream) = (size_of_val(part), slot.begin());
                // SAFETY: both have these bytes, and the pinned memory is the slot's.
                unsafe { enqueue::copy(device, stream, from, to, bytes)? };
                slot.wait()?;
                cast_slice_mut(part).copy_from_slice(slot.pinned_bytes(0, bytes)?);
                from += bytes as u64;
            }
            Ok(())
        })
    }

    /// Caches the memory, which no kernel uses any more.
    fn recycle(&mut self) {
        if let (Some(memory), Ok(device)) = (self.memory.take(), device::one(self.ordinal)) {
            device.recycle(memory);
        }
    }
}

/// After an error kernels may still use the memory: the driver waits for them before it frees the memory.
impl Drop for DeviceTables {
    fn drop(&mut self) {
        if let (Some(memory), Ok(device)) = (self.memory.take(), device::one(self.ordinal)) {
            device.destroy([Owned::Memory(memory)]);
        }
    }
}

impl PlacedTable<'_> {
    /// The launches that add `n` elements of each result, the first with number `first`, on a device. Each adds the
    /// elements of a range of keys: as many keys as a block has shared memory for, or all.
    pub(super) fn launches(
        &self, device: &Device, first: usize, n: usize, limit: u32,
    ) -> impl Iterator<Item = Launch> {
        let groups = self.layout.groups;
        let ranges = groups.div_ceil(self.room(device).max(1));
        let is_worth_it = n >= gpu::BY_KEY_ELEMENTS * groups && ranges <= gpu::MOST_RANGES_OF_KEYS;
        let held = if is_worth_it { groups.div_ceil(ranges) } else { groups };
        let ranges = (0..groups).step_by(held).map(move |key| key..groups.min(key + held));
        ranges.map(move |keys| self.launch(device, first, n, limit, keys))
    }

    /// The number of groups that the shared memory of a block has room for.
    fn room(&self, device: &Device) -> usize {
        device.kernels.by_key_bytes / (size_of::<u32>() * self.words_of_cell())
    }

    /// The words of shared memory of a group.
    fn words_of_cell(&self) -> usize {
        let windows = self.layout.windows;
        windows.map_or(2, |windows| 2 * windows.words + usize::from(windows.counts))
    }

    /// The launch for a range of keys.
    fn launch(
        &self, device: &Device, first: usize, n: usize, limit: u32, keys: Range<usize>,
    ) -> Launch {
        let Table { results, groups, windows, .. } = *self.layout;
        let held = keys.len();
        let room = self.room(device) / held;
        // A block zeroes its copies of the groups in shared memory, and adds them to the table. More copies would leave
        // multiprocessors without a block.
        let fitting = n / (gpu::BY_KEY_ELEMENTS * held);
        let wanted = (fitting / device.multiprocessors as usize).clamp(1, MOST_COPIES).min(room);
        let copies = if fitting == 0 || room == 0 { 0 } else { 1 << wanted.ilog2() };
        let least = (gpu::BY_KEY_ELEMENTS * held * copies).max(gpu::REDUCTION_BLOCK);
        let blocks = n.div_ceil(least).saturating_mul(results);
        let blocks = grid::at_most(blocks, limit.min(device.multiprocessors));
        let mut parameters = ArrayVec::new();
        let numbers =
            [results, n, first, groups, keys.start, held, copies].map(|number| number as u64);
        parameters.push(self.address);
        parameters.extend(numbers);
        if let Some(windows) = windows {
            let nears = usize::from(copies > 0);
            let numbers = [windows.from, windows.count, windows.main, nears, windows.main];
            parameters.push(i64::from(windows.base).cast_unsigned());
            parameters.extend(numbers.map(|number| number as u64));
            parameters.push(u64::from(windows.counts));
        }
        let shared_bytes = (size_of::<u32>() * self.words_of_cell() * held * copies) as u32;
        Launch { blocks, shared_bytes, parameters }
    }
}
