//! Calls on arrays of any strides: their kernels, on a stream at once or block after block through slots.

use super::device::Device;
use super::driver::CUstream;
use super::enqueue::{self, Addresses, Contents, Part, addresses, input_parameters};
use super::grid;
use super::kernels::{Form, MAX_STRIDED_PARAMETERS, packs};
use super::pipeline::Progress;
use super::placed::{Placed, PlacedArray};
use super::slot::{Slot, TakenSlot};
use crate::call::{Call, Evaluation, OnStrides, SlotKind, StridedCall, Task, Transfer, Transfers};
use crate::cpu::{Grid, gather, scatter};
use crate::error::Error;
use arrayvec::ArrayVec;
use gpuvec_axes::{Block, View};
use gpuvec_ptx::Order;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A call that several threads run on a device, by turns block after block.
pub(crate) struct StridedRun<'a> {
    device: &'static Device,
    call: &'a StridedCall<'a>,
    plan: &'a OnStrides,
    /// The blocks that are taken.
    taken: AtomicUsize,
}

impl<'a> StridedRun<'a> {
    pub(crate) fn new(
        device: &'static Device, call: &'a StridedCall<'a>, plan: &'a OnStrides,
    ) -> Self {
        StridedRun { device, call, plan, taken: AtomicUsize::new(0) }
    }

    /// Runs blocks until all are taken, with at most this number of slots at once. When it returns, nothing is in
    /// flight in the call's arrays, unless the driver failed to wait.
    pub(crate) fn run(&self, slots: usize) -> Result<Progress, Error> {
        let result = self.device.within(|| {
            let first = {
                let (call, views) = (self.call.call(), self.call.views());
                addresses_of_first(self.device, call, views, &self.plan.transfers)?
            };
            let mut worker = Worker {
                run: self,
                first,
                in_flight: VecDeque::new(),
                progress: Progress::default(),
            };
            worker.in_flight.try_reserve_exact(slots).map_err(|_| Error::OutOfHostMemory {
                bytes: slots * size_of::<(TakenSlot<'_>, Block)>(),
                purpose: "the blocks in flight",
            })?;
            while worker.turn(slots)? {}
            while worker.finish_oldest()? {}
            Ok(worker.progress)
        });
        // Other threads need not begin what the call does not finish.
        result.inspect_err(|_| self.taken.store(self.plan.blocks.count(), Ordering::Relaxed))
    }

    fn are_all_taken(&self) -> bool {
        self.taken.load(Ordering::Relaxed) >= self.plan.blocks.count()
    }

    fn take(&self) -> Option<Block> {
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        (number < self.plan.blocks.count()).then(|| self.plan.blocks.at(number))
    }
}

/// One thread of a run.
struct Worker<'a> {
    run: &'a StridedRun<'a>,
    /// The addresses of the first elements of the arrays that kernels use where they are.
    first: Addresses,
    in_flight: VecDeque<(TakenSlot<'a>, Block)>,
    progress: Progress,
}

impl Worker<'_> {
    /// Starts one more block, and says whether more may follow.
    fn turn(&mut self, slots: usize) -> Result<bool, Error> {
        if self.run.are_all_taken() {
            return Ok(false);
        }
        if self.in_flight.len() == slots {
            self.finish_oldest()?;
        }
        // A slot first: a thread that gets none leaves the block to others.
        let Some(mut slot) = self.free_slot()? else { return Ok(false) };
        let Some(block) = self.run.take() else { return Ok(false) };
        let stream = slot.begin();
        self.start(&slot, stream, &block)?;
        self.in_flight.push_back((slot, block));
        Ok(true)
    }

    /// A slot with its buffers: where none is free, the oldest of this thread's, or the next that another caller
    /// returns.
    fn free_slot(&mut self) -> Result<Option<TakenSlot<'static>>, Error> {
        let (kind, transfers) = match self.run.plan.transfers.is_any_staged() {
            true => (SlotKind::Staged, Transfers::staged_and_copied()),
            false => (SlotKind::InPlace, self.run.plan.transfers.clone()),
        };
        loop {
            let holds_slots = !self.in_flight.is_empty();
            match self.run.device.slots(kind).take(&transfers, holds_slots) {
                Ok(Some(slot)) => return Ok(Some(slot)),
                Err(error) if !holds_slots => return Err(error),
                Ok(None) if !holds_slots => return Ok(None),
                _ => self.finish_oldest()?,
            };
        }
    }

    /// Gathers the staged inputs of a block, and queues its kernel.
    fn start(&mut self, slot: &Slot, stream: CUstream, block: &Block) -> Result<(), Error> {
        let StridedRun { device, call, plan, .. } = self.run;
        let task = call.call().task();
        let inputs = call.call().inputs().len();
        let mut placed = Placed::new(block.space().lengths());
        for (number, view) in call.views().iter().enumerate() {
            let (transfer, offset) = (plan.transfers.of(number), plan.offsets[number]);
            if !matches!(transfer, Transfer::Staged | Transfer::Dma) {
                placed.push(PlacedArray::in_place(self.first[number], block, view));
                continue;
            }
            let buffer = slot.pinned()?.as_ptr().wrapping_add(offset);
            let distinct = block.space().distinct(view);
            let bytes = distinct.elements() * view.element_bytes;
            if number < inputs {
                // SAFETY: the call promises the block's elements, and the buffer, which is the slot's alone, has room
                // for them.
                unsafe { gather(Grid::of(&distinct, view), address(block, view), buffer) };
                self.progress.bytes_staged += bytes as u64;
            }
            let mut at = buffer.addr() as u64;
            if transfer == Transfer::Dma {
                let from = std::mem::replace(&mut at, slot.device()? + offset as u64);
                // SAFETY: the buffers are the slot's alone, which is waited for before the call returns.
                unsafe { enqueue::copy(device, stream, from, at, bytes)? };
            }
            placed.push(PlacedArray::dense(at, &distinct, view));
        }
        // SAFETY: the call promises the arrays, and the buffers are the slot's, which is waited for before the call
        // returns; by its transfer the device reaches each of them.
        unsafe { launch(device, stream, task, placed, inputs, plan.block_limits.of(task)) }
    }

    /// Waits for the oldest block, and scatters its staged outputs. Says whether there was one.
    fn finish_oldest(&mut self) -> Result<bool, Error> {
        let Some((mut slot, block)) = self.in_flight.pop_front() else { return Ok(false) };
        slot.wait()?;
        let StridedRun { call, plan, .. } = self.run;
        let outputs = call.views().iter().enumerate().skip(call.call().inputs().len());
        for (number, view) in
            outputs.filter(|(number, _)| plan.transfers.of(*number) == Transfer::Staged)
        {
            let buffer = slot.pinned()?.as_ptr().wrapping_add(plan.offsets[number]);
            // SAFETY: the call promises the block's elements, which no other thread has; the kernel, which is done,
            // has written the buffer.
            unsafe { scatter(Grid::of(block.space(), view), buffer, address(&block, view)) };
            self.progress.bytes_staged += (block.space().elements() * view.element_bytes) as u64;
        }
        self.progress.finished += block.space().elements();
        self.progress.chunks += 1;
        Ok(true)
    }
}

/// The address of a block's first element in host memory.
fn address(block: &Block, view: &View) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(view.first.wrapping_add_signed(block.offset(view)))
}

/// The addresses at which a device reaches the first elements of the arrays that it uses in place.
pub(super) fn addresses_of_first(
    device: &Device, call: &Call<'_>, views: &[View], transfers: &Transfers,
) -> Result<Addresses, Error> {
    let lowest = addresses(device, call, transfers)?;
    let first = |(lowest, view): (u64, &View)| lowest + (view.first - view.lowest) as u64;
    Ok(lowest.into_iter().zip(views).map(first).collect())
}

/// Queues a call on a stream of a device, whose context is current and which reaches all arrays in place.
///
/// # Safety
/// The stream must be the device's. The arrays must be there until it has done the work.
pub(super) unsafe fn queue(
    device: &Device, stream: CUstream, call: &StridedCall<'_>, transfers: &Transfers,
    block_limit: u32,
) -> Result<(), Error> {
    let first = addresses_of_first(device, call.call(), call.views(), transfers)?;
    let blocks = call.blocks_in_place();
    for block in blocks.walk(0..blocks.count()) {
        let mut placed = Placed::new(block.space().lengths());
        for (first, view) in first.iter().zip(call.views()) {
            placed.push(PlacedArray::in_place(*first, &block, view));
        }
        let inputs = call.call().inputs().len();
        // SAFETY: this function's promise, and the call's.
        unsafe { launch(device, stream, call.call().task(), placed, inputs, block_limit)? };
    }
    Ok(())
}

/// Queues the kernel of an elementwise task on placed arrays, the first `inputs` as inputs. Contiguous arrays get the
/// kernel for contiguous arrays.
///
/// # Safety
/// As [`enqueue::enqueue`].
unsafe fn launch(
    device: &Device, stream: CUstream, task: Task<'_>, mut placed: Placed, inputs: usize,
    block_limit: u32,
) -> Result<(), Error> {
    placed.merge();
    let (arrays, n) = (placed.addresses(), placed.elements());
    let Task::Evaluate(Evaluation { formula, bindings }) = task else {
        return Err(Error::Internal { text: "a copy with strides" });
    };
    if placed.is_contiguous() {
        let (arrays, contents) = (&arrays[..], Contents::Elements);
        let part = Part { task, arrays, inputs, first: 0, n, contents, block_limit, flags: None };
        // SAFETY: this function's promise.
        return unsafe { enqueue::enqueue(device, stream, part) }.map(|_| ());
    }
    let [pack, packs_per_thread] = packs(task)?;
    let variant = placed.variant(bindings, pack);
    let mut parameters: ArrayVec<u64, MAX_STRIDED_PARAMETERS> =
        input_parameters(task, &arrays[..inputs]).into_iter().collect();
    parameters.extend(arrays[inputs..].iter().copied());
    let number = placed.add_shape(&mut parameters, bindings, variant);
    let blocks = match variant.order {
        Order::Tiles { .. } => grid::of_tiles(number, block_limit),
        _ => grid::of_packs(n, variant.lanes, packs_per_thread, block_limit),
    };
    // SAFETY: this function's promise; the parameters are those of the variant.
    unsafe {
        device.kernels.launch_form(formula, Form::Strided(variant), blocks, stream, &mut parameters)
    }
}
