//! Takes chunks from the queue and sends each through a lane: in, kernel, out.
//!
//! Chunks are under way on as many lanes as are free; the oldest is finished first. One pipeline
//! serves every mix of operands: each is used where it is, copied by DMA, or staged, as the plan
//! says.

use super::device::{Gpu, Opened};
use super::driver::{self, Driver, OfCall};
use super::piece::Piece;
use super::pointer;
use super::staging::Lane;
use crate::chunk::{Chunk, Queue};
use crate::error::Error;
use crate::operand::{Call, Residence};
use crate::route::{Access, Route};
use crate::sum::{TILE, tree};
use crate::tuning;
use std::collections::VecDeque;

/// What the GPU did of a call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    /// Bytes that went through our pinned buffers.
    pub(crate) bytes_staged: u64,
    /// Whether the output may have been written, in whole or in part.
    pub(crate) wrote: bool,
}

/// Runs chunks from the queue until it is empty. `on_sum` gets each chunk's sum, for a reduction.
/// When it returns, nothing is under way in the operands' memory, unless a stream could not be waited
/// for: then the driver's error says so.
///
/// # Safety
/// The library's caller promises the operands, for as long as the call lasts.
pub(crate) unsafe fn run(
    (gpu, opened): (&Gpu, &Opened),
    call: &Call,
    route: &Route,
    queue: &Queue,
    threads: usize,
    on_sum: &(dyn Fn(Chunk, f64) + Sync),
) -> (Done, Result<(), Error>) {
    let mut done = Done::default();
    let result = driver::get().and_then(|driver| {
        let _restore = opened.enter(gpu.ordinal)?;
        let mut pipeline = Pipeline {
            opened,
            call,
            route,
            in_place: in_place_addresses(driver, gpu.ordinal, call, route)?,
            threads: threads.min(tuning::STAGING_THREADS),
            on_sum,
            under_way: VecDeque::with_capacity(tuning::LANES),
            done: &mut done,
        };
        // SAFETY: this function's promise.
        unsafe { pipeline.run(driver, queue) }.inspect_err(|_| pipeline.abandon())
    });
    if let Err(error) = &result {
        gpu.note(error);
    }
    (done, result)
}

/// Where the device finds the arrays that kernels use where they are.
fn in_place_addresses(
    driver: Driver,
    ordinal: usize,
    call: &Call,
    route: &Route,
) -> Result<[u64; 3], Error> {
    let mut addresses = call.operands().map(|operand| operand.address as u64);
    for (address, operand) in addresses.iter_mut().zip(call.operands()) {
        if operand.residence == Residence::Pinned && route.access.contains(&Access::Mapped) {
            *address = pointer::device_address(driver, ordinal, operand.address)?;
        }
    }
    Ok(addresses)
}

struct Pipeline<'a> {
    opened: &'a Opened,
    call: &'a Call,
    route: &'a Route,
    in_place: [u64; 3],
    threads: usize,
    on_sum: &'a (dyn Fn(Chunk, f64) + Sync),
    under_way: VecDeque<(Lane, Chunk)>,
    done: &'a mut Done,
}

impl Pipeline<'_> {
    /// # Safety
    /// As [`run`].
    unsafe fn run(&mut self, driver: Driver, queue: &Queue) -> Result<(), Error> {
        while let Some(chunk) = queue.take() {
            // SAFETY: this function's promise.
            unsafe {
                let lane = self.free_lane(driver)?;
                self.under_way.push_back((lane, chunk));
                self.start_newest()?;
            }
        }
        while !self.under_way.is_empty() {
            // SAFETY: this function's promise.
            unsafe { self.finish_oldest()? };
        }
        Ok(())
    }

    /// A lane that nobody uses, with the buffers that it needs: if there is none, or no memory for
    /// them, the oldest of ours, or the next that another caller gives back.
    ///
    /// # Safety
    /// As [`run`].
    unsafe fn free_lane(&mut self, driver: Driver) -> Result<Lane, Error> {
        loop {
            let is_last = self.under_way.is_empty();
            let lane = match self.opened.lanes.try_take(driver)? {
                None if is_last => Some(self.opened.lanes.take(driver)?),
                lane => lane,
            };
            if let Some(mut lane) = lane {
                match lane.make_whole(self.route) {
                    Ok(()) => return Ok(lane),
                    Err(error) => {
                        self.opened.lanes.put_behind(lane);
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

    /// Brings the newest chunk's inputs in and queues its kernel and the way out.
    ///
    /// # Safety
    /// As [`run`].
    unsafe fn start_newest(&mut self) -> Result<(), Error> {
        let Some((mut lane, chunk)) = self.under_way.pop_back() else { return Ok(()) };
        // SAFETY: this function's promise.
        let started = unsafe { self.start(&mut lane, chunk) };
        self.under_way.push_back((lane, chunk));
        started
    }

    /// # Safety
    /// As [`run`].
    unsafe fn start(&mut self, lane: &mut Lane, chunk: Chunk) -> Result<(), Error> {
        let [a, b, output] = self.pieces(chunk);
        for input in [a, b] {
            // SAFETY: this function's promise; the lane is synchronised before `run` returns.
            unsafe { input.bring_in(lane, self.threads)? };
            self.done.bytes_staged += input.staged_bytes();
        }
        let addresses = [a.address(lane)?, b.address(lane)?, output.address(lane)?];
        self.done.wrote |= output.access != Access::TileSums;
        self.opened.kernels.launch(self.call.op, &lane.stream, addresses, chunk.len)?;
        // SAFETY: as above.
        unsafe { output.queue_out(lane) }
    }

    /// Waits for the oldest chunk and puts its result where it belongs.
    ///
    /// # Safety
    /// As [`run`].
    unsafe fn finish_oldest(&mut self) -> Result<(), Error> {
        let Some((lane, chunk)) = self.under_way.front_mut() else { return Ok(()) };
        let chunk = *chunk;
        lane.stream.synchronize().of("cuStreamSynchronize", lane.ordinal)?;
        let Some((mut lane, _)) = self.under_way.pop_front() else { return Ok(()) };
        let [.., output] = self.pieces(chunk);
        self.done.bytes_staged += output.staged_bytes();
        let taken = match output.access {
            Access::TileSums => {
                tile_sums(&mut lane, output.slot, chunk).map(|sum| (self.on_sum)(chunk, sum))
            }
            // SAFETY: this function's promise; the stream was synchronised.
            _ => unsafe { output.take_out(&mut lane, self.threads) },
        };
        self.opened.lanes.put(lane);
        taken
    }

    fn pieces(&self, chunk: Chunk) -> [Piece; 3] {
        let element_bytes = self.call.op.element_bytes();
        let offset = chunk.start * element_bytes;
        let operands = self.call.operands();
        std::array::from_fn(|slot| Piece {
            slot,
            access: self.route.access[slot],
            host: std::ptr::with_exposed_provenance_mut(operands[slot].address + offset),
            device: self.in_place[slot] + offset as u64,
            bytes: chunk.len * element_bytes,
        })
    }

    /// After a failure: waits until nothing of ours is under way in the caller's memory. A lane
    /// that cannot be waited for is asked again before it is used again.
    fn abandon(&mut self) {
        for (mut lane, _) in self.under_way.drain(..) {
            lane.is_settled = lane.stream.synchronize().is_ok();
            self.opened.lanes.put(lane);
        }
    }
}

/// Adds up the sums that a reduction's kernel left for the chunk's tiles.
fn tile_sums(lane: &mut Lane, slot: usize, chunk: Chunk) -> Result<f64, Error> {
    let tiles = chunk.len.div_ceil(TILE);
    let sums = lane.pinned(slot)?.cast::<f64>();
    // SAFETY: the buffer belongs to the lane, is aligned to a page, and the kernel, which is done,
    // wrote one f64 for each tile; the plan sees to it that they fit.
    let sums = unsafe { std::slice::from_raw_parts_mut(sums.as_ptr(), tiles) };
    Ok(tree(sums))
}
