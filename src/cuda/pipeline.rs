//! Takes chunks from the queue and sends each through a lane: in, kernel, out.
//!
//! Chunks are in flight on as many lanes as are free; the oldest is finished first. One pipeline
//! serves every mix of operands: each is used where it is, copied by DMA, or staged, as the plan
//! says.

use super::completion::Flags;
use super::device::{Gpu, Opened};
use super::driver::{self, CUstream, Driver, cuMemcpyAsync};
use super::lane::{Lane, Lanes, Taken};
use super::piece::Piece;
use crate::chunk::{Chunk, Queue};
use crate::error::Error;
use crate::operand::{Call, Residence, Task};
use crate::route::{Access, Route};
use crate::sum::{GROUP, TILE, tree_of_bits};
use crate::tuning;
use std::collections::VecDeque;

/// What the GPU did of a call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    /// Chunks that it took from the queue.
    taken: usize,
    /// Chunks whose results are where they belong.
    pub(crate) finished: usize,
    /// Bytes that went through our pinned buffers.
    pub(crate) bytes_staged: u64,
    /// Whether the output may have been written, in whole or in part.
    pub(crate) wrote: bool,
}

impl Done {
    /// What cores did of a call, beside GPUs.
    pub(crate) fn by_cores(chunks: usize) -> Self {
        Done { taken: chunks, finished: chunks, wrote: chunks > 0, ..Done::default() }
    }

    /// Takes in what another GPU did of the same call.
    pub(crate) fn add(&mut self, other: Done) {
        self.taken += other.taken;
        self.finished += other.finished;
        self.bytes_staged += other.bytes_staged;
        self.wrote |= other.wrote;
    }

    /// Whether a chunk was taken that nobody will finish.
    pub(crate) fn lost_chunks(&self) -> bool {
        self.finished < self.taken
    }
}

/// Runs chunks from the queue until it is empty, on one of `threads` threads that do. `on_sum` gets
/// each chunk's sum, for a reduction. When it returns, nothing is in flight in the operands' memory,
/// unless a stream could not be waited for: then the driver's error says so.
///
/// # Safety
/// The library's caller promises the operands, for as long as the call lasts.
pub(crate) unsafe fn run(
    (gpu, opened): (&Gpu, &Opened),
    call: &Call,
    route: &Route,
    queue: &Queue,
    threads: usize,
    on_sum: &(dyn Fn(Chunk, u64) + Sync),
) -> (Done, Result<(), Error>) {
    let mut done = Done::default();
    let result = driver::get().and_then(|driver| {
        let _restore = opened.enter(gpu.ordinal)?;
        if let Task::Compute(op, _) = call.task {
            opened.kernels.prepare(op)?;
        }
        let chunks = call.n.div_ceil(route.chunk);
        let share = (tuning::LANES[route.lane() as usize] / threads).clamp(1, chunks.max(1));
        let mut pipeline = Pipeline {
            opened,
            lanes: &opened.lanes[route.lane() as usize],
            call,
            route,
            in_place: in_place_addresses(driver, opened, call, route)?,
            on_sum,
            share,
            in_flight: VecDeque::with_capacity(share),
            done: &mut done,
        };
        // SAFETY: this function's promise.
        unsafe { pipeline.run(driver, queue) }
    });
    if let Err(error) = &result {
        gpu.note(error);
    }
    (done, result)
}

/// Where the device finds the arrays that kernels use where they are.
fn in_place_addresses(
    driver: Driver,
    opened: &Opened,
    call: &Call,
    route: &Route,
) -> Result<[u64; 3], Error> {
    let mut addresses = [0; 3];
    for (slot, operand) in call.slots().into_iter().enumerate() {
        let Some(operand) = operand else { continue };
        addresses[slot] = if route.access[slot] == Some(Access::Mapped) {
            opened.address(driver, operand.address)?
        } else {
            operand.address as u64
        };
    }
    Ok(addresses)
}

struct Pipeline<'a> {
    opened: &'a Opened,
    lanes: &'a Lanes,
    call: &'a Call,
    route: &'a Route,
    in_place: [u64; 3],
    on_sum: &'a (dyn Fn(Chunk, u64) + Sync),
    /// Lanes that it holds at most.
    share: usize,
    in_flight: VecDeque<(Taken<'a>, Chunk)>,
    done: &'a mut Done,
}

impl<'a> Pipeline<'a> {
    /// # Safety
    /// As [`run`].
    unsafe fn run(&mut self, driver: Driver, queue: &Queue) -> Result<(), Error> {
        // A lane first: a GPU that has none leaves the chunk to others.
        while !queue.is_empty() {
            // SAFETY: this function's promise.
            let lane = unsafe { self.free_lane(driver)? };
            let Some(chunk) = queue.take() else { break };
            self.done.taken += 1;
            // SAFETY: this function's promise.
            unsafe { self.start(lane, chunk)? };
        }
        while !self.in_flight.is_empty() {
            // SAFETY: this function's promise.
            unsafe { self.finish_oldest()? };
        }
        Ok(())
    }

    /// A lane that nobody uses, with the buffers that it needs: if there is none for us, or none can
    /// be made, the oldest of ours, or the next that another caller gives back.
    ///
    /// # Safety
    /// As [`run`].
    unsafe fn free_lane(&mut self, driver: Driver) -> Result<Taken<'a>, Error> {
        if self.in_flight.len() == self.share {
            // SAFETY: this function's promise.
            unsafe { self.finish_oldest()? };
        }
        loop {
            let is_last = self.in_flight.is_empty();
            let lane = match self.lanes.try_take(driver) {
                Err(error) if is_last => return Err(error),
                Ok(None) if is_last => Some(self.lanes.take(driver)?),
                lane => lane.unwrap_or(None),
            };
            if let Some(mut lane) = lane {
                match lane.make_whole(self.route) {
                    Ok(()) => return Ok(lane),
                    Err(error) => {
                        lane.put_behind();
                        if is_last {
                            return Err(error);
                        }
                    }
                }
            }
            // SAFETY: this function's promise.
            unsafe { self.finish_oldest()? };
        }
    }

    /// Sends a chunk through a lane. After an error, or a panic, the lane is waited for.
    ///
    /// # Safety
    /// As [`run`].
    unsafe fn start(&mut self, mut lane: Taken<'a>, chunk: Chunk) -> Result<(), Error> {
        lane.begin();
        // SAFETY: this function's promise.
        unsafe { self.enqueue(&mut lane, chunk)? };
        self.in_flight.push_back((lane, chunk));
        Ok(())
    }

    /// Brings the chunk's inputs in and queues its kernel and the way out.
    ///
    /// # Safety
    /// As [`run`].
    unsafe fn enqueue(&mut self, lane: &mut Lane, chunk: Chunk) -> Result<(), Error> {
        let [a, b, Some(output)] = self.pieces(chunk) else { return Ok(()) };
        for input in [a, b].into_iter().flatten() {
            // SAFETY: this function's promise; the lane is waited for before `run` returns.
            unsafe { input.bring_in(lane)? };
            self.done.bytes_staged += input.staged_bytes();
        }
        let inputs = [a, b].map(|input| input.map(|input| input.address(lane)).transpose());
        let [Some(a), b] = [inputs[0]?, inputs[1]?] else { return Ok(()) };
        let out = output.address(lane)?;
        let stream = lane.stream;
        let (task, tiles) = (self.call.task, chunk.len.div_ceil(TILE));
        let is_whole_call = chunk.len == self.call.n;
        let owns_bus = self.route.crosses_bus() && is_whole_call;
        if let Task::Compute(op, _) = task
            && output.access == Access::TileSums
            && tiles > GROUP
        {
            let sums = lane.device_sums()?;
            let addresses = [a, b.unwrap_or(a), sums];
            // SAFETY: as above.
            unsafe { queue(self.opened, task, stream, addresses, chunk.len, owns_bus, None)? };
            return self.opened.kernels.fold(op.sum_kind(), stream, sums, out, tiles);
        }
        // SAFETY: as above.
        let addresses = [a, b.unwrap_or(a), out];
        let flags = if is_whole_call && self.may_use_flags(&output) { lane.flags() } else { None };
        lane.flagged_warps =
            // SAFETY: as above.
            unsafe { queue(self.opened, task, stream, addresses, chunk.len, owns_bus, flags)? };
        self.done.wrote |= output.access != Access::TileSums;
        // SAFETY: as above.
        unsafe { output.queue_out(lane) }
    }

    /// Whether a kernel's warps can say that all is done. A copy behind the kernel cannot, and managed
    /// memory may not be the host's before the driver says so.
    fn may_use_flags(&self, output: &Piece) -> bool {
        output.access != Access::Dma
            && self.call.operands().all(|operand| operand.residence != Residence::Managed)
    }

    /// Waits for the oldest chunk and puts its result where it belongs.
    ///
    /// # Safety
    /// As [`run`].
    unsafe fn finish_oldest(&mut self) -> Result<(), Error> {
        let Some((mut lane, chunk)) = self.in_flight.pop_front() else { return Ok(()) };
        lane.wait()?;
        let [.., Some(output)] = self.pieces(chunk) else { return Ok(()) };
        self.done.bytes_staged += output.staged_bytes();
        let taken = match output.access {
            Access::TileSums => {
                self.tile_sums(&mut lane, chunk).map(|sum| (self.on_sum)(chunk, sum))
            }
            // SAFETY: this function's promise; the lane was waited for.
            _ => unsafe { output.take_out(&mut lane) },
        };
        self.done.finished += usize::from(taken.is_ok());
        taken
    }

    /// The chunk's part of each array. (That of a reduction's output is its tiles' sums.)
    fn pieces(&self, chunk: Chunk) -> [Option<Piece>; 3] {
        let element_bytes = self.call.task.element_bytes();
        let offset = chunk.start * element_bytes;
        let slots = self.call.slots();
        std::array::from_fn(|slot| {
            let access = self.route.access[slot]?;
            let buffers = self.route.buffers_before(slot, access);
            Some(Piece {
                offset: buffers * self.route.chunk * element_bytes,
                access,
                host: std::ptr::with_exposed_provenance_mut(slots[slot]?.address + offset),
                device: self.in_place[slot] + offset as u64,
                bytes: chunk.len * element_bytes,
            })
        })
    }

    /// Adds up the sums that a reduction's kernels left for the chunk's tiles, or for groups of
    /// them.
    fn tile_sums(&self, lane: &mut Lane, chunk: Chunk) -> Result<u64, Error> {
        let Task::Compute(op, _) = self.call.task else { return Ok(0) };
        let tiles = chunk.len.div_ceil(TILE);
        let count = if tiles > GROUP { tiles.div_ceil(GROUP) } else { tiles };
        let sums = lane.host_sums()?.cast::<u64>();
        // SAFETY: the buffer belongs to the lane, is aligned to a page, and the kernels, which are
        // done, wrote as many sums of 64 bits there; the plan sees to it that they fit.
        let sums = unsafe { std::slice::from_raw_parts_mut(sums.as_ptr(), count) };
        Ok(tree_of_bits(op.sum_kind(), sums))
    }
}

/// Queues what a task does with arrays that the device reaches at these addresses. The rest as for
/// [`Kernels::launch`](super::kernels::Kernels::launch).
///
/// # Safety
/// The arrays must be there, and unchanged by others, until the stream has done it.
pub(super) unsafe fn queue(
    opened: &Opened,
    task: Task,
    stream: CUstream,
    [a, b, out]: [u64; 3],
    n: usize,
    owns_bus: bool,
    flags: Option<Flags>,
) -> Result<u32, Error> {
    match task {
        Task::Compute(op, alpha) => {
            opened.kernels.launch((op, alpha), stream, [a, b, out], n, owns_bus, flags)
        }
        Task::Copy => {
            // SAFETY: this function's promise.
            unsafe { cuMemcpyAsync(out, a, n, stream) }
                .of("cuMemcpyAsync", opened.kernels.ordinal)
                .map(|()| 0)
        }
    }
}
