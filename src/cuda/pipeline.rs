//! Takes chunks from the queue and sends each through a lane: in, kernel, out.
//!
//! Chunks are under way on as many lanes as are free; the oldest is finished first. One pipeline
//! serves every mix of operands: each is used where it is, copied by DMA, or staged, as the plan
//! says.

use super::device::{Gpu, Opened};
use super::driver::{self, Driver, OfCall, cuMemcpyDtoHAsync_v2, cuMemcpyHtoDAsync_v2};
use super::staging::{self, Lane};
use crate::error::Error;
use crate::operand::{Call, Chunk, Operand};
use crate::plan::{Access, GpuPlan, Queue};
use crate::sum::{TILE, tree};
use crate::tuning;
use std::collections::VecDeque;

const OUTPUT: usize = 2;

/// What the GPU did of a call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    /// Bytes that went through our pinned buffers.
    pub(crate) bytes_staged: u64,
    /// Whether the output may have been written, in whole or in part.
    pub(crate) wrote: bool,
}

/// Runs chunks from the queue until it is empty. `on_sum` gets each chunk's sum, for a reduction.
///
/// # Safety
/// The call's operands must be what they say, and stay so until this returns.
pub(crate) unsafe fn run(
    (gpu, opened): (&Gpu, &Opened),
    call: &Call,
    plan: &GpuPlan,
    queue: &Queue,
    threads: usize,
    on_sum: &(dyn Fn(Chunk, f64) + Sync),
) -> (Done, Result<(), Error>) {
    let threads = threads.min(tuning::STAGING_THREADS);
    let mut pipeline = Pipeline {
        gpu,
        opened,
        call,
        plan,
        threads,
        on_sum,
        under_way: VecDeque::new(),
        done: Done::default(),
    };
    let result = pipeline.run(queue);
    if let Err(error) = &result {
        gpu.note(error);
        pipeline.abandon();
    }
    (pipeline.done, result)
}

struct Pipeline<'a> {
    gpu: &'a Gpu,
    opened: &'a Opened,
    call: &'a Call,
    plan: &'a GpuPlan,
    threads: usize,
    on_sum: &'a (dyn Fn(Chunk, f64) + Sync),
    under_way: VecDeque<(Lane, Chunk)>,
    done: Done,
}

impl Pipeline<'_> {
    fn run(&mut self, queue: &Queue) -> Result<(), Error> {
        let driver = driver::get()?;
        let _restore = self.opened.enter(driver, self.gpu.ordinal)?;
        while let Some(chunk) = queue.take() {
            let lane = self.free_lane(driver)?;
            self.under_way.push_back((lane, chunk));
            self.start_newest(driver)?;
        }
        while !self.under_way.is_empty() {
            self.finish_oldest(driver)?;
        }
        Ok(())
    }

    /// A lane that nobody uses: if there is none, the oldest of ours, or the next that another
    /// caller gives back.
    fn free_lane(&mut self, driver: Driver) -> Result<Lane, Error> {
        loop {
            if let Some(lane) = self.opened.lanes.try_take()? {
                return Ok(lane);
            }
            if self.under_way.is_empty() {
                return self.opened.lanes.take();
            }
            self.finish_oldest(driver)?;
        }
    }

    /// Stages the newest chunk's inputs and queues its copies and kernel.
    fn start_newest(&mut self, driver: Driver) -> Result<(), Error> {
        let Some((lane, chunk)) = self.under_way.back_mut() else { return Ok(()) };
        let chunk = *chunk;
        let mut addresses = [0; 3];
        for (slot, input) in self.call.inputs.iter().enumerate() {
            if let Some(access) = self.plan.access[slot] {
                let piece = Piece::of(input, self.call, chunk);
                self.done.bytes_staged += piece.staged_bytes(access);
                addresses[slot] = piece.bring_in(driver, lane, slot, access, self.threads)?;
            }
        }
        let output = Piece::of(&self.call.output, self.call, chunk);
        addresses[OUTPUT] = match self.plan.access[OUTPUT] {
            Some(access) => output.make_room(driver, lane, access)?,
            None => lane.pinned(driver, OUTPUT)?.addr().get() as u64,
        };
        self.done.wrote |= self.plan.access[OUTPUT].is_some();
        self.opened.kernels.launch(self.call.op, &lane.stream, addresses, chunk.len)?;
        match self.plan.access[OUTPUT] {
            Some(access) => output.queue_copy_out(driver, lane, access),
            None => Ok(()),
        }
    }

    /// Waits for the oldest chunk and puts its result where it belongs.
    fn finish_oldest(&mut self, driver: Driver) -> Result<(), Error> {
        let Some((lane, chunk)) = self.under_way.front_mut() else { return Ok(()) };
        let chunk = *chunk;
        lane.stream.synchronize().of("cuStreamSynchronize", self.gpu.ordinal)?;
        match self.plan.access[OUTPUT] {
            Some(access) => {
                let output = Piece::of(&self.call.output, self.call, chunk);
                self.done.bytes_staged += output.staged_bytes(access);
                output.take_out(driver, lane, access, self.threads)?;
            }
            None => (self.on_sum)(chunk, tile_sums(driver, lane, chunk)?),
        }
        if let Some((lane, _)) = self.under_way.pop_front() {
            self.opened.lanes.put(lane);
        }
        Ok(())
    }

    /// After a failure: waits until nothing of ours is under way in the caller's memory. A lane
    /// whose stream does not answer is not used again.
    fn abandon(&mut self) {
        let lanes = &self.opened.lanes;
        let entered = driver::get().and_then(|driver| self.opened.enter(driver, self.gpu.ordinal));
        for (lane, _) in self.under_way.drain(..) {
            match lane.stream.synchronize() {
                Ok(()) => lanes.put(lane),
                Err(_) => lanes.give_up(),
            }
        }
        drop(entered);
    }
}

/// Adds up the sums that a reduction's kernel left for the chunk's tiles.
fn tile_sums(driver: Driver, lane: &mut Lane, chunk: Chunk) -> Result<f64, Error> {
    let tiles = chunk.len.div_ceil(TILE);
    let sums = lane.pinned(driver, OUTPUT)?.cast::<f64>();
    // SAFETY: the buffer belongs to the lane, is aligned to a page, and the kernel, which is done,
    // wrote one f64 for each tile; the plan sees to it that they fit.
    let sums = unsafe { std::slice::from_raw_parts_mut(sums.as_ptr(), tiles) };
    Ok(crate::cpu::with_ieee(|| tree(sums)))
}

/// The part of one array that belongs to a chunk.
struct Piece {
    address: usize,
    offset: usize,
    bytes: usize,
}

impl Piece {
    fn of(operand: &Operand, call: &Call, chunk: Chunk) -> Self {
        let element_bytes = call.op.element_bytes();
        let offset = chunk.start * element_bytes;
        Piece { address: operand.address + offset, offset, bytes: chunk.len * element_bytes }
    }

    fn staged_bytes(&self, access: Access) -> u64 {
        if access.is_staged() { self.bytes as u64 } else { 0 }
    }

    fn host(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.address)
    }

    /// Makes an input visible to kernels, at the address that is returned.
    fn bring_in(
        &self,
        driver: Driver,
        lane: &mut Lane,
        slot: usize,
        access: Access,
        threads: usize,
    ) -> Result<u64, Error> {
        let from = match access {
            Access::Resident => return Ok(self.address as u64),
            Access::Mapped(base) => return Ok(base + self.offset as u64),
            Access::Dma => self.host(),
            Access::StagedMapped | Access::StagedDma => {
                let buffer = lane.pinned(driver, slot)?.cast::<u8>().as_ptr();
                // SAFETY: the caller promises the input; the buffer is the lane's, and holds a
                // chunk.
                unsafe { staging::copy(self.host(), buffer, self.bytes, threads) };
                buffer
            }
        };
        if access == Access::StagedMapped {
            return Ok(from.addr() as u64);
        }
        let to = lane.device(driver, slot)?;
        let stream = lane.stream.as_inner();
        // SAFETY: `from` is pinned memory that holds the piece, the caller's or the lane's, and
        // stays so until the lane's stream is synchronised; the device buffer holds a chunk.
        unsafe { cuMemcpyHtoDAsync_v2(to, from.cast(), self.bytes, stream) }
            .of("cuMemcpyHtoDAsync", lane.ordinal())?;
        Ok(to)
    }

    /// Where kernels write this piece of the output.
    fn make_room(&self, driver: Driver, lane: &mut Lane, access: Access) -> Result<u64, Error> {
        match access {
            Access::Resident => Ok(self.address as u64),
            Access::Mapped(base) => Ok(base + self.offset as u64),
            Access::StagedMapped => Ok(lane.pinned(driver, OUTPUT)?.addr().get() as u64),
            Access::StagedDma => {
                lane.pinned(driver, OUTPUT)?;
                lane.device(driver, OUTPUT)
            }
            Access::Dma => lane.device(driver, OUTPUT),
        }
    }

    /// Queues the copy of this piece of the output into pinned memory, behind the kernel.
    fn queue_copy_out(&self, driver: Driver, lane: &mut Lane, access: Access) -> Result<(), Error> {
        let to = match access {
            Access::Resident | Access::Mapped(_) | Access::StagedMapped => return Ok(()),
            Access::Dma => self.host(),
            Access::StagedDma => lane.pinned(driver, OUTPUT)?.cast().as_ptr(),
        };
        let from = lane.device(driver, OUTPUT)?;
        let stream = lane.stream.as_inner();
        // SAFETY: as in `bring_in`, the other way round.
        unsafe { cuMemcpyDtoHAsync_v2(to.cast(), from, self.bytes, stream) }
            .of("cuMemcpyDtoHAsync", lane.ordinal())
    }

    /// Copies a staged piece of the output to where the caller wants it.
    fn take_out(
        &self,
        driver: Driver,
        lane: &mut Lane,
        access: Access,
        threads: usize,
    ) -> Result<(), Error> {
        if access.is_staged() {
            let buffer = lane.pinned(driver, OUTPUT)?.cast::<u8>().as_ptr();
            // SAFETY: the caller promises the output; the buffer is the lane's, and its copy is
            // done.
            unsafe { staging::copy(buffer, self.host(), self.bytes, threads) };
        }
        Ok(())
    }
}
