//! Runs one chunk after another through slots of a device: inputs, kernel, outputs.
//!
//! The plan limits the slots of a thread, and so the chunks in flight. The oldest chunk is finished first. A thread
//! that drives several devices has a pipeline for each, and starts chunks in turn.

use super::device::Device;
use super::enqueue::Addresses;
use super::job::Job;
use super::slot::TakenSlot;
use crate::call::SlotKind;
use crate::call::chunk::{Chunk, Queue};
use crate::call::plan::OnGpus;
use crate::error::Error;
use std::collections::VecDeque;

/// A device with its addresses of the arrays that it accesses in place.
pub(crate) struct OnDevice<'a> {
    pub(super) device: &'a Device,
    pub(super) in_place: Addresses,
}

/// The progress of one worker, a device or a core, on a call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// The elements, or tiles, taken from the queue.
    pub(crate) taken: usize,
    /// The elements, or tiles, with stored results.
    pub(crate) finished: usize,
    /// The chunks with stored results.
    pub(crate) chunks: usize,
    /// The bytes that went through pinned buffers of slots.
    pub(crate) bytes_staged: u64,
    /// True if the output may have been written, in whole or in part.
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

/// Runs chunks from the queue through the devices until the queue is empty. Calls `end` with each device's outcome.
/// On return nothing is in flight in the call's arrays, unless the driver failed to wait: then an outcome says so.
pub(crate) fn run(
    devices: &[&'static Device], job: &Job<'_>, plan: &OnGpus, queue: &Queue,
    end: &dyn Fn(&'static Device, Outcome),
) {
    if let [device] = *devices {
        let mut progress = Progress::default();
        let result = device.within(|| {
            let mut pipeline = Pipeline::new(device, job, plan)?;
            let result = pipeline.run(queue);
            progress = pipeline.progress;
            result
        });
        return end(device, (progress, result));
    }
    let mut turns: Vec<Turns<'_>> =
        devices.iter().map(|device| Turns::new(device, job, plan)).collect();
    while turns.iter().any(|turns| turns.has_chunks) {
        for number in 0..turns.len() {
            // A thread that holds slots must not wait for another slot: its holder may be waiting for this thread's.
            let holds_slots = turns.iter().any(Turns::holds_slots);
            if turns[number].has_chunks {
                turns[number].step(|pipeline| pipeline.turn(queue, holds_slots));
            }
        }
    }
    for turns in turns {
        end(turns.device, turns.end());
    }
}

/// The turns of a device that shares its thread with others.
struct Turns<'a> {
    device: &'static Device,
    /// `None` after an error.
    pipeline: Option<Pipeline<'a>>,
    progress: Progress,
    result: Result<(), Error>,
    has_chunks: bool,
}

impl<'a> Turns<'a> {
    fn new(device: &'static Device, job: &'a Job<'a>, plan: &'a OnGpus) -> Self {
        let made = device.within(|| Pipeline::new(device, job, plan));
        let (pipeline, result) = match made {
            Ok(pipeline) => (Some(pipeline), Ok(())),
            Err(error) => (None, Err(error)),
        };
        let has_chunks = pipeline.is_some();
        Turns { device, pipeline, progress: Progress::default(), result, has_chunks }
    }

    fn holds_slots(&self) -> bool {
        self.pipeline.as_ref().is_some_and(|pipeline| !pipeline.in_flight.is_empty())
    }

    /// Finishes the chunks in flight.
    fn end(mut self) -> Outcome {
        self.step(|pipeline| pipeline.drain().map(|()| false));
        (self.progress, self.result)
    }

    /// Runs `work` on the pipeline in the device's context. After an error, waits for the pipeline's slots.
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
    on: OnDevice<'a>,
    job: &'a Job<'a>,
    plan: &'a OnGpus,
    kind: SlotKind,
    in_flight: VecDeque<(TakenSlot<'a>, Chunk)>,
    progress: Progress,
}

impl<'a> Pipeline<'a> {
    /// Makes the pipeline of a device. The device's context must be current.
    fn new(device: &'a Device, job: &'a Job<'a>, plan: &'a OnGpus) -> Result<Self, Error> {
        let mut in_flight = VecDeque::new();
        let bytes = plan.slots * size_of::<(TakenSlot<'_>, Chunk)>();
        in_flight
            .try_reserve_exact(plan.slots)
            .map_err(|_| Error::OutOfHostMemory { bytes, purpose: "the chunks in flight" })?;
        let on = OnDevice { device, in_place: job.begin(device)? };
        let (kind, progress) = (job.buffers.transfers.slot_kind(), Progress::default());
        Ok(Pipeline { on, job, plan, kind, in_flight, progress })
    }

    /// Runs chunks until the queue is empty.
    fn run(&mut self, queue: &Queue) -> Result<(), Error> {
        while self.turn(queue, false)? {}
        self.drain()
    }

    /// Starts one more chunk, and returns true if another may follow. Waits for a slot of another thread only if this
    /// thread holds none. After an error, or a panic, the chunk's slot is waited for.
    fn turn(&mut self, queue: &Queue, holds_slots: bool) -> Result<bool, Error> {
        if queue.left() == 0 {
            return Ok(false);
        }
        // The slot comes first: without one, the chunk is left to other workers.
        let Some(mut slot) = self.free_slot(holds_slots)? else { return Ok(true) };
        let most = self.plan.next_chunk(queue.left());
        let Some(chunk) = queue.take(most) else { return Ok(false) };
        self.progress.taken += chunk.len();
        self.job.start(&self.on, &mut slot, &chunk, &mut self.progress)?;
        self.in_flight.push_back((slot, chunk));
        Ok(true)
    }

    /// Finishes all chunks in flight.
    fn drain(&mut self) -> Result<(), Error> {
        while !self.in_flight.is_empty() {
            self.finish_oldest()?;
        }
        Ok(())
    }

    /// Returns a slot with its buffers. If none is free and none can be made, finishes this pipeline's oldest chunk, or
    /// waits for a slot of another thread. Returns `None` if it must not wait, since the thread holds other slots.
    fn free_slot(&mut self, holds_slots: bool) -> Result<Option<TakenSlot<'a>>, Error> {
        if self.in_flight.len() == self.plan.slots {
            self.finish_oldest()?;
        }
        loop {
            let has_slots = !self.in_flight.is_empty();
            let slots = self.on.device.slots(self.kind);
            match slots.take(&self.job.buffers, has_slots || holds_slots) {
                Ok(Some(slot)) => return Ok(Some(slot)),
                Err(error) if !has_slots => return Err(error),
                Ok(None) if !has_slots => return Ok(None),
                _ => self.finish_oldest()?,
            }
        }
    }

    /// Waits for the oldest chunk and stores its results.
    fn finish_oldest(&mut self) -> Result<(), Error> {
        let Some((mut slot, chunk)) = self.in_flight.pop_front() else { return Ok(()) };
        slot.wait()?;
        self.job.finish(&self.on, &mut slot, &chunk, &mut self.progress)?;
        self.progress.finished += chunk.len();
        self.progress.chunks += 1;
        Ok(())
    }
}
