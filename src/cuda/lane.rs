//! Lanes: what one chunk needs on its way through a device, kept from call to call.
//!
//! A lane is a stream with the pinned and the device memory that the chunks of its kind need, made
//! when one first needs it. Its stream runs a chunk's copies and kernel in order; several lanes run
//! side by side, so that copies in both directions and kernels overlap. The number of lanes bounds
//! what the library holds of pinned and device memory.

use super::completion::Flags;
use super::driver::{Driver, OfCall};
use super::memory;
use crate::error::Error;
use crate::route::{self, Access, Route};
use crate::sum::{GROUP, TILE};
use crate::tuning;
use cust::stream::{Stream, StreamFlags};
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Memory for a chunk of each of three arrays that are staged.
const STAGED_BYTES: usize = 3 * tuning::STAGED_CHUNK_BYTES;
/// Of the sums that a chunk leaves the host to add up, and of those that the device does.
const HOST_SUMS_BYTES: usize = GROUP * size_of::<u64>();
const DEVICE_SUMS_BYTES: usize = tuning::TILE_SUMS * size_of::<u64>();

/// A stream and the memory that its chunk uses.
pub(crate) struct Lane {
    /// Ordered with work on the legacy default stream, as a caller expects of a CUDA library.
    pub(crate) stream: ManuallyDrop<Stream>,
    /// The device that the lane belongs to.
    pub(crate) ordinal: usize,
    /// Warps of its newest kernel that set their flags when they are done; 0 where its stream is to be
    /// waited for.
    pub(crate) flagged_warps: u32,
    /// Whether its last work was waited for.
    pub(crate) is_settled: bool,
    driver: Driver,
    kind: route::Lane,
    pinned: Option<NonNull<c_void>>,
    device: Option<u64>,
    host_sums: Option<NonNull<c_void>>,
    device_sums: Option<u64>,
}

// SAFETY: the pointers are to memory of the lane's own, which whoever holds the lane may use from
// any thread.
unsafe impl Send for Lane {}

impl Lane {
    fn new(driver: Driver, ordinal: usize, kind: route::Lane) -> Result<Self, Error> {
        let stream = Stream::new(StreamFlags::DEFAULT, None).of("cuStreamCreate", ordinal)?;
        Ok(Lane {
            stream: ManuallyDrop::new(stream),
            ordinal,
            flagged_warps: 0,
            is_settled: true,
            driver,
            kind,
            pinned: None,
            device: None,
            host_sums: None,
            device_sums: None,
        })
    }

    /// Waits for what an earlier call could not wait for.
    fn settle(&mut self) -> Result<(), Error> {
        if !self.is_settled {
            self.wait()?;
            self.is_settled = true;
        }
        Ok(())
    }

    /// Makes sure of all memory that a chunk on this route needs: later it cannot be missing.
    pub(crate) fn make_whole(&mut self, route: &Route) -> Result<(), Error> {
        for access in route.ways() {
            if access == Access::Staged {
                self.pinned()?;
            }
            if access == Access::Dma {
                self.device()?;
            }
            if access == Access::TileSums {
                self.host_sums()?;
                if route.chunk > GROUP * TILE {
                    self.device_sums()?;
                }
            }
        }
        Ok(())
    }

    /// Pinned memory for a chunk of every array that is staged; every device sees it at the same
    /// address.
    pub(crate) fn pinned(&mut self) -> Result<NonNull<c_void>, Error> {
        made(&mut self.pinned, || memory::pinned_alloc(self.driver, self.ordinal, STAGED_BYTES))
    }

    /// Device memory for a chunk of every array that is copied there.
    pub(crate) fn device(&mut self) -> Result<u64, Error> {
        let bytes = match self.kind {
            route::Lane::Staged => STAGED_BYTES,
            _ => tuning::DIRECT_CHUNKS_BYTES,
        };
        made(&mut self.device, || memory::device_alloc(self.driver, self.ordinal, bytes))
    }

    /// Pinned memory for [`GROUP`] sums.
    pub(crate) fn host_sums(&mut self) -> Result<NonNull<c_void>, Error> {
        let bytes = (HOST_SUMS_BYTES + Flags::BYTES).next_multiple_of(memory::PAGE);
        made(&mut self.host_sums, || memory::pinned_alloc(self.driver, self.ordinal, bytes))
    }

    /// Flags for its kernels' warps, behind those sums, if there is memory for them.
    pub(crate) fn flags(&mut self) -> Option<Flags> {
        let sums = self.host_sums().ok()?;
        // SAFETY: the lane's memory has room for them there, which is never freed.
        Some(unsafe { Flags::at(sums.cast::<u8>().add(HOST_SUMS_BYTES)) })
    }

    /// Waits until its newest work is done, and what it wrote is there.
    pub(crate) fn wait(&mut self) -> Result<(), Error> {
        let warps = std::mem::take(&mut self.flagged_warps);
        if warps > 0 && self.flags().is_some_and(|flags| flags.are_set(warps)) {
            return Ok(());
        }
        self.stream.synchronize().of("cuStreamSynchronize", self.ordinal)
    }

    /// Device memory for the sums of all tiles of a chunk.
    pub(crate) fn device_sums(&mut self) -> Result<u64, Error> {
        made(&mut self.device_sums, || {
            memory::device_alloc(self.driver, self.ordinal, DEVICE_SUMS_BYTES)
        })
    }
}

/// What was made, or is made now.
fn made<T: Copy>(
    place: &mut Option<T>,
    make: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    match place {
        Some(value) => Ok(*value),
        None => make().map(|value| *place.insert(value)),
    }
}

/// A device's lanes of one kind, shared by all callers chunk by chunk.
pub(crate) struct Lanes {
    ordinal: usize,
    kind: route::Lane,
    state: Mutex<State>,
    returned: Condvar,
}

struct State {
    idle: Vec<Lane>,
    made: usize,
    /// Callers that wait for one: to notify nobody is a system call as well.
    waiting: usize,
}

impl Lanes {
    pub(crate) fn new(ordinal: usize, kind: route::Lane) -> Self {
        let state =
            State { idle: Vec::with_capacity(tuning::LANES[kind as usize]), made: 0, waiting: 0 };
        Lanes { ordinal, kind, state: Mutex::new(state), returned: Condvar::new() }
    }

    /// How many there may be.
    fn most(&self) -> usize {
        tuning::LANES[self.kind as usize]
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
        if state.made == self.most() {
            return Ok(None);
        }
        state.made += 1;
        drop(state);
        Lane::new(driver, self.ordinal, self.kind).map(Some).inspect_err(|_| self.give_up())
    }

    /// A lane, once one is free. Only for callers that hold none: so somebody gives one back.
    pub(crate) fn take(&self, driver: Driver) -> Result<Lane, Error> {
        loop {
            if let Some(lane) = self.try_take(driver)? {
                return Ok(lane);
            }
            let mut state = self.lock();
            state.waiting += 1;
            let is_none = |state: &mut State| state.idle.is_empty() && state.made == self.most();
            let waited = self.returned.wait_while(state, is_none);
            waited.unwrap_or_else(PoisonError::into_inner).waiting -= 1;
        }
    }

    /// Gives a lane back.
    pub(crate) fn put(&self, lane: Lane) {
        self.change(|state| state.idle.push(lane));
    }

    /// Gives back a lane that is of no use now: the others are taken first.
    pub(crate) fn put_behind(&self, lane: Lane) {
        self.change(|state| state.idle.insert(0, lane));
    }

    /// Counts a lane out that could not be made.
    fn give_up(&self) {
        self.change(|state| state.made -= 1);
    }

    /// Changes what one who waits may be waiting for.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        let is_awaited = state.waiting > 0;
        drop(state);
        if is_awaited {
            self.returned.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
