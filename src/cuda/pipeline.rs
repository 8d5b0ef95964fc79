//! Sends chunk after chunk through slots of a device: in, kernel, out.
//!
//! Chunks are in flight in as many slots as the plan gives a thread; the oldest is finished first. One
//! pipeline serves every mix of arrays: each is used where it is, copied by DMA, or staged, as the plan
//! says. A thread that drives several devices has a pipeline for each, and starts a chunk in each by turns.

use super::device::Device;
use super::driver::CUstream;
use super::enqueue::{Addresses, Contents, Part, addresses, enqueue};
use super::slot::{STATE_BYTES, TakenSlot};
use super::transfer::ChunkView;
use crate::call::chunk::{Chunk, Queue};
use crate::call::plan::OnGpus;
use crate::call::{Call, Task, Transfer, Work};
use crate::error::Error;
use std::collections::VecDeque;

/// The progress of one worker, a device or a core, on a call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// Elements that it took from the queue.
    pub(crate) taken: usize,
    /// Elements whose results are where they belong.
    pub(crate) finished: usize,
    /// Chunks that it finished completely.
    pub(crate) chunks: usize,
    /// Bytes that went through pinned buffers of slots.
    pub(crate) bytes_staged: u64,
    /// Says that the output may have been written, in whole or in part.
    pub(crate) wrote: bool,
}

impl Progress {
    /// Adds the progress of another worker on the same call.
    pub(crate) fn add(&mut self, other: Progress) {
        self.taken += other.taken;
        self.finished += other.finished;
        self.chunks += other.chunks;
        self.bytes_staged += other.bytes_staged;
        self.wrote |= other.wrote;
    }
}

/// The result of a device's part in a call.
pub(crate) type Outcome = (Progress, Result<(), Error>);

/// Runs chunks from the queue through the devices until the queue is empty, and hands the states of a
/// reduction to `work`. Calls `end` with each device's outcome. When it returns, nothing is in flight in the
/// call's arrays, unless the driver failed to wait: then its error says so.
pub(crate) fn run(
    devices: &[&'static Device], call: &Call<'_>, plan: &OnGpus, queue: &Queue, work: &dyn Work,
    end: &dyn Fn(&'static Device, Outcome),
) {
    if let [device] = *devices {
        let mut progress = Progress::default();
        let result = device.within(|| {
            let mut pipeline = Pipeline::new(device, call, plan, work)?;
            let result = pipeline.run(queue);
            progress = pipeline.progress;
            result
        });
        return end(device, (progress, result));
    }
    let mut turns: Vec<Turns<'_>> =
        devices.iter().map(|device| Turns::new(device, call, plan, work)).collect();
    while turns.iter().any(Turns::goes_on) {
        for number in 0..turns.len() {
            // A thread that holds slots must not wait for more: their holders may wait for its own.
            let holds_slots = turns.iter().any(Turns::holds_slots);
            turns[number].take(queue, holds_slots);
        }
    }
    for turns in turns {
        end(turns.device, turns.end());
    }
}

/// The turns of one of several devices that a thread drives.
struct Turns<'a> {
    device: &'static Device,
    /// None after an error.
    pipeline: Option<Pipeline<'a>>,
    progress: Progress,
    result: Result<(), Error>,
    has_chunks: bool,
}

impl<'a> Turns<'a> {
    fn new(
        device: &'static Device, call: &'a Call<'_>, plan: &'a OnGpus, work: &'a dyn Work,
    ) -> Self {
        let made = device.within(|| Pipeline::new(device, call, plan, work));
        let (pipeline, result) = match made {
            Ok(pipeline) => (Some(pipeline), Ok(())),
            Err(error) => (None, Err(error)),
        };
        let has_chunks = pipeline.is_some();
        Turns { device, pipeline, progress: Progress::default(), result, has_chunks }
    }

    fn goes_on(&self) -> bool {
        self.has_chunks
    }

    fn holds_slots(&self) -> bool {
        self.pipeline.as_ref().is_some_and(|pipeline| !pipeline.in_flight.is_empty())
    }

    /// Starts one more chunk, if there is one, and a slot.
    fn take(&mut self, queue: &Queue, holds_slots: bool) {
        if self.has_chunks {
            self.step(|pipeline| pipeline.turn(queue, holds_slots));
        }
    }

    /// Finishes the chunks in flight.
    fn end(mut self) -> Outcome {
        self.step(|pipeline| pipeline.drain().map(|()| false));
        (self.progress, self.result)
    }

    /// Lets the pipeline work, in the device's context. After an error it waits for its slots.
    fn step(&mut self, work: impl FnOnce(&mut Pipeline<'a>) -> Result<bool, Error>) {
        let Some(pipeline) = &mut self.pipeline else { return };
        let stepped = self.device.within(|| work(pipeline));
        self.progress = pipeline.progress;
        self.has_chunks = *stepped.as_ref().unwrap_or(&false);
        if let Err(error) = stepped {
            let _entered = self.device.enter();
            self.pipeline = None;
            self.result = Err(error);
        }
    }
}

struct Pipeline<'a> {
    device: &'a Device,
    call: &'a Call<'a>,
    plan: &'a OnGpus,
    /// The addresses at which the device reaches arrays in place, where it does.
    in_place: Addresses,
    work: &'a dyn Work,
    in_flight: VecDeque<(TakenSlot<'a>, Chunk)>,
    progress: Progress,
}

impl<'a> Pipeline<'a> {
    /// Makes the pipeline of a device, whose context is current, with the call's kernels.
    fn new(
        device: &'a Device, call: &'a Call<'_>, plan: &'a OnGpus, work: &'a dyn Work,
    ) -> Result<Self, Error> {
        if let Some(formula) = call.task().formula() {
            device.kernels.load_all(formula)?;
        }
        let mut in_flight = VecDeque::new();
        let bytes = plan.slots * size_of::<(TakenSlot<'_>, Chunk)>();
        in_flight
            .try_reserve_exact(plan.slots)
            .map_err(|_| Error::OutOfHostMemory { bytes, purpose: "the chunks in flight" })?;
        let in_place = addresses(device, call, &plan.transfers)?;
        let progress = Progress::default();
        Ok(Pipeline { device, call, plan, in_place, work, in_flight, progress })
    }

    /// Runs chunks until the queue is empty.
    fn run(&mut self, queue: &Queue) -> Result<(), Error> {
        while self.turn(queue, false)? {}
        self.drain()
    }

    /// Starts one more chunk, and says whether more may follow. Waits for a slot that another caller has only
    /// if the thread holds none.
    fn turn(&mut self, queue: &Queue, holds_slots: bool) -> Result<bool, Error> {
        if queue.left() == 0 {
            return Ok(false);
        }
        // A slot first: a device that has none leaves the chunk to other workers.
        let Some(slot) = self.free_slot(holds_slots)? else { return Ok(true) };
        let most = self.plan.next_chunk(queue.left());
        let Some(chunk) = queue.take(most) else { return Ok(false) };
        self.progress.taken += chunk.len();
        self.start(slot, chunk)?;
        Ok(true)
    }

    /// Finishes all chunks in flight.
    fn drain(&mut self) -> Result<(), Error> {
        while !self.in_flight.is_empty() {
            self.finish_oldest()?;
        }
        Ok(())
    }

    /// A slot with its buffers: where none is free, or none can be made, the oldest of this pipeline's, or
    /// the next that another caller returns. `None` if the pipeline has none, and the thread holds other
    /// slots.
    fn free_slot(&mut self, holds_slots: bool) -> Result<Option<TakenSlot<'a>>, Error> {
        if self.in_flight.len() == self.plan.slots {
            self.finish_oldest()?;
        }
        loop {
            let has_slots = !self.in_flight.is_empty();
            let transfers = &self.plan.transfers;
            let slots = self.device.slots(transfers.slot_kind());
            match slots.take(transfers, has_slots || holds_slots) {
                Ok(Some(slot)) => return Ok(Some(slot)),
                Err(error) if !has_slots => return Err(error),
                Ok(None) if !has_slots => return Ok(None),
                _ => self.finish_oldest()?,
            }
        }
    }

    /// Sends a chunk through a slot. After an error, or a panic, the slot is waited for.
    fn start(&mut self, mut slot: TakenSlot<'a>, chunk: Chunk) -> Result<(), Error> {
        let stream = slot.begin();
        self.enqueue(&mut slot, stream, &chunk)?;
        self.in_flight.push_back((slot, chunk));
        Ok(())
    }

    /// Brings the chunk's inputs in and queues its kernels and the way out.
    fn enqueue(
        &mut self, slot: &mut TakenSlot<'a>, stream: CUstream, chunk: &Chunk,
    ) -> Result<(), Error> {
        let (mut arrays, inputs) = (Addresses::new(), self.call.inputs().len());
        for number in 0..inputs {
            let input = self.view(number, chunk);
            input.bring_in(self.device, slot, stream)?;
            self.progress.bytes_staged += input.staged_bytes();
            arrays.push(input.kernel_address(slot)?);
        }
        for (kernel, outputs) in self.call.task().kernels() {
            for &output in outputs {
                arrays.push(self.view(inputs + output, chunk).kernel_address(slot)?);
            }
            self.enqueue_kernel(slot, stream, chunk, kernel, &arrays)?;
            arrays.truncate(inputs);
        }
        self.outputs(chunk).try_for_each(|output| output.queue_out(self.device, slot, stream))
    }

    /// Queues a kernel, or a copy, on the addresses of the chunk in the inputs and in the kernel's outputs.
    fn enqueue_kernel(
        &mut self, slot: &mut TakenSlot<'a>, stream: CUstream, chunk: &Chunk, task: Task<'_>,
        arrays: &Addresses,
    ) -> Result<(), Error> {
        let flags = if self.plan.uses_flags { slot.flags() } else { None };
        let (inputs, block_limit) = (self.call.inputs().len(), self.plan.block_limits.of(task));
        let enqueue = |contents| {
            let (first, n) = (chunk.start(), chunk.len());
            let part = Part { task, arrays, inputs, first, n, contents, block_limit, flags };
            // SAFETY: the call promises the arrays, and the buffers are the slot's, which is waited for
            // before the call returns; by its transfer the device reaches each of them.
            unsafe { enqueue(self.device, stream, part) }
        };
        let is_reduction = task.is_reduction();
        slot.flagged_warps = match is_reduction {
            true => slot.scratch()?.lend(stream, |scratch| enqueue(Contents::State(scratch)))?,
            false if task.is_copy() => enqueue(Contents::ByDriver)?,
            false => enqueue(Contents::Elements)?,
        };
        self.progress.wrote |= !is_reduction;
        Ok(())
    }

    /// Waits for the oldest chunk and puts its results where they belong.
    fn finish_oldest(&mut self) -> Result<(), Error> {
        let Some((mut slot, chunk)) = self.in_flight.pop_front() else { return Ok(()) };
        slot.wait()?;
        let reductions = self.call.task().kernels().filter(|(kernel, _)| kernel.is_reduction());
        for (number, (reduction, _)) in reductions.enumerate() {
            let state = slot.state(number, reduction.state_bytes())?;
            self.work.take_state(number, state, chunk.len());
        }
        let mut staged = 0;
        for output in self.outputs(&chunk) {
            staged += output.staged_bytes();
            output.take_out(&slot)?;
        }
        self.progress.bytes_staged += staged;
        self.progress.finished += chunk.len();
        self.progress.chunks += 1;
        Ok(())
    }

    /// The views of a chunk in the outputs.
    fn outputs(&self, chunk: &Chunk) -> impl Iterator<Item = ChunkView> {
        let inputs = self.call.inputs().len();
        (inputs..inputs + self.call.outputs().len()).map(|number| self.view(number, chunk))
    }

    /// The view of a chunk in the array of this number.
    fn view(&self, number: usize, chunk: &Chunk) -> ChunkView {
        let (array, transfer) = (self.call.array(number), self.plan.transfers.of(number));
        let earlier = self.call.arrays().zip(self.plan.transfers.all()).take(number);
        let alike = earlier.filter(|(_, other)| *other == transfer);
        let offset = match transfer {
            Transfer::State => alike.count() * STATE_BYTES,
            _ => alike.map(|(array, _)| array.element_bytes()).sum::<usize>() * self.plan.chunk,
        };
        ChunkView::new(array, transfer, self.in_place[number], chunk, offset)
    }
}
