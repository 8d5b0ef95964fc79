//! Lanes: what one chunk needs on its way through a device, kept from call to call.
//!
//! A lane is a stream with a pinned and a device buffer for each array, made when a chunk first
//! needs them. Its stream runs a chunk's copies and kernel in order; several lanes run side by
//! side, so that copies in both directions and kernels overlap. The number of lanes bounds what
//! the library holds of pinned and device memory.

use super::driver::{Driver, OfCall};
use super::memory;
use crate::chunk::Queue;
use crate::error::Error;
use crate::route::{Access, Route};
use crate::{threads, tuning};
use cust::stream::{Stream, StreamFlags};
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

const BUFFER_BYTES: usize = tuning::DMA_CHUNK_BYTES.1;

/// A stream and the buffers that its chunk uses, one of each kind for each of three arrays.
pub(crate) struct Lane {
    /// Ordered with work on the legacy default stream, as a caller expects of a CUDA library.
    pub(crate) stream: ManuallyDrop<Stream>,
    /// The device that the lane belongs to.
    pub(crate) ordinal: usize,
    /// Whether its stream was waited for since its last work.
    pub(crate) is_settled: bool,
    driver: Driver,
    pinned: [Option<NonNull<c_void>>; 3],
    device: [Option<u64>; 3],
}

// SAFETY: the pointers are to memory of the lane's own, which whoever holds the lane may use from
// any thread.
unsafe impl Send for Lane {}

impl Lane {
    fn new(driver: Driver, ordinal: usize) -> Result<Self, Error> {
        let stream = Stream::new(StreamFlags::DEFAULT, None).of("cuStreamCreate", ordinal)?;
        let stream = ManuallyDrop::new(stream);
        Ok(Lane { stream, ordinal, is_settled: true, driver, pinned: [None; 3], device: [None; 3] })
    }

    /// Waits for what an earlier call could not wait for.
    fn settle(&mut self) -> Result<(), Error> {
        if !self.is_settled {
            self.stream.synchronize().of("cuStreamSynchronize", self.ordinal)?;
            self.is_settled = true;
        }
        Ok(())
    }

    /// Makes sure of all buffers that a chunk on this route needs: later ones cannot be missing.
    pub(crate) fn make_whole(&mut self, route: &Route) -> Result<(), Error> {
        for (slot, access) in route.access.iter().enumerate() {
            if access.is_staged() || *access == Access::TileSums {
                self.pinned(slot)?;
            }
            if access.is_dma() {
                self.device(slot)?;
            }
        }
        Ok(())
    }

    /// The pinned buffer of array `slot`; every device sees it at the same address.
    pub(crate) fn pinned(&mut self, slot: usize) -> Result<NonNull<c_void>, Error> {
        if let Some(buffer) = self.pinned[slot] {
            return Ok(buffer);
        }
        let buffer = memory::pinned_alloc(self.driver, self.ordinal, BUFFER_BYTES)?;
        Ok(*self.pinned[slot].insert(buffer))
    }

    /// The device buffer of array `slot`.
    pub(crate) fn device(&mut self, slot: usize) -> Result<u64, Error> {
        if let Some(buffer) = self.device[slot] {
            return Ok(buffer);
        }
        let buffer = memory::device_alloc(self.driver, self.ordinal, BUFFER_BYTES)?;
        Ok(*self.device[slot].insert(buffer))
    }
}

/// A device's lanes, shared by all callers chunk by chunk.
pub(crate) struct Lanes {
    ordinal: usize,
    state: Mutex<State>,
    returned: Condvar,
}

struct State {
    idle: Vec<Lane>,
    made: usize,
}

impl Lanes {
    pub(crate) fn new(ordinal: usize) -> Self {
        let state = Mutex::new(State { idle: Vec::with_capacity(tuning::LANES), made: 0 });
        Lanes { ordinal, state, returned: Condvar::new() }
    }

    /// A lane that is free now, if there is one. The device's context is current.
    pub(crate) fn try_take(&self, driver: Driver) -> Result<Option<Lane>, Error> {
        let mut state = self.lock();
        if let Some(mut lane) = state.idle.pop() {
            drop(state);
            return match lane.settle() {
                Ok(()) => Ok(Some(lane)),
                Err(error) => {
                    self.put_behind(lane);
                    Err(error)
                }
            };
        }
        if state.made == tuning::LANES {
            return Ok(None);
        }
        state.made += 1;
        drop(state);
        Lane::new(driver, self.ordinal).map(Some).inspect_err(|_| self.give_up())
    }

    /// A lane, once one is free. Only for callers that hold none: so somebody gives one back.
    pub(crate) fn take(&self, driver: Driver) -> Result<Lane, Error> {
        loop {
            if let Some(lane) = self.try_take(driver)? {
                return Ok(lane);
            }
            let state = self.lock();
            drop(
                self.returned
                    .wait_while(state, |state| state.idle.is_empty() && state.made == tuning::LANES)
                    .unwrap_or_else(PoisonError::into_inner),
            );
        }
    }

    /// Gives a lane back.
    pub(crate) fn put(&self, lane: Lane) {
        self.lock().idle.push(lane);
        self.returned.notify_one();
    }

    /// Gives back a lane that is of no use now: the others are taken first.
    pub(crate) fn put_behind(&self, lane: Lane) {
        self.lock().idle.insert(0, lane);
        self.returned.notify_one();
    }

    /// Counts a lane out that could not be made.
    fn give_up(&self) {
        self.lock().made -= 1;
        self.returned.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Copies host memory on several threads.
///
/// # Safety
/// `from` must be readable and `to` writable for `bytes`, and they must not overlap.
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize, threads: usize) {
    /// Addresses that threads may share: each copies blocks of its own.
    #[derive(Clone, Copy)]
    struct Shared(*const u8, *mut u8);
    // SAFETY: the blocks that threads take from the queue are disjoint.
    unsafe impl Sync for Shared {}

    let shared = Shared(from, to);
    let blocks = Queue::new(bytes, tuning::STAGING_BLOCK_BYTES);
    threads::on_each(threads.min(blocks.chunks()), &|| {
        let Shared(from, to) = { &shared };
        while let Some(block) = blocks.take() {
            // SAFETY: the block is inside `bytes`, for which the caller promises both.
            unsafe {
                let (from, to) = (from.add(block.start), to.add(block.start));
                std::ptr::copy_nonoverlapping(from, to, block.len);
            }
        }
    });
}
