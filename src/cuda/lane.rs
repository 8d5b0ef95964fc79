//! Lanes: what one chunk needs on its way through a device, kept from call to call.
//!
//! A lane is a stream with the pinned and the device memory that the chunks of its kind need, made
//! when one first needs it. Its stream runs a chunk's copies and kernel in order; several lanes run
//! side by side, so that copies in both directions and kernels overlap. The number of lanes bounds
//! what the library holds of pinned and device memory.

use super::completion::Flags;
use super::driver::{CUstream, Driver};
use super::{memory, stream};
use crate::error::Error;
use crate::route::{self, Access, Route};
use crate::sum::{GROUP, TILE};
use crate::tuning;
use std::ffi::c_void;
use std::ops::{Deref, DerefMut};
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
    pub(crate) stream: CUstream,
    /// The device that the lane belongs to.
    pub(crate) ordinal: usize,
    /// Warps of its newest kernel that set their flags when they are done; 0 where its stream is to be
    /// waited for.
    pub(crate) flagged_warps: u32,
    /// Whether it may have work that was not waited for.
    is_in_flight: bool,
    driver: Driver,
    kind: route::Lane,
    pinned: Option<NonNull<c_void>>,
    device: Option<u64>,
    host_sums: Option<NonNull<c_void>>,
    device_sums: Option<u64>,
}

// SAFETY: the pointers are to memory of the lane's own, which the thread that holds the lane may use,
// and streams may be used from any thread.
unsafe impl Send for Lane {}

impl Lane {
    fn new(driver: Driver, ordinal: usize, kind: route::Lane) -> Result<Self, Error> {
        Ok(Lane {
            stream: stream::create(ordinal)?,
            ordinal,
            flagged_warps: 0,
            is_in_flight: false,
            driver,
            kind,
            pinned: None,
            device: None,
            host_sums: None,
            device_sums: None,
        })
    }

    /// Says that work is about to be queued on its stream.
    pub(crate) fn begin(&mut self) {
        self.is_in_flight = true;
        self.flagged_warps = 0;
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

    /// Waits until its newest work is done, and its results are there. After an error the work may
    /// still be in flight.
    pub(crate) fn wait(&mut self) -> Result<(), Error> {
        if !self.is_in_flight {
            return Ok(());
        }
        let warps = std::mem::take(&mut self.flagged_warps);
        if warps == 0 || !self.flags().is_some_and(|flags| flags.are_set(warps)) {
            // SAFETY: the stream is the lane's, and never destroyed; callers have the device's context
            // current.
            unsafe { stream::wait(self.stream, self.ordinal)? };
        }
        self.is_in_flight = false;
        Ok(())
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

    /// A lane that is free now, if there is one. The device's context is current, and stays so until
    /// the lane is given back.
    pub(crate) fn try_take(&self, driver: Driver) -> Result<Option<Taken<'_>>, Error> {
        let mut state = self.lock();
        if let Some(lane) = state.idle.pop() {
            drop(state);
            let mut taken = Taken { lanes: self, lane: Some(lane) };
            // An earlier call may have been unable to wait for it.
            return match taken.wait() {
                Ok(()) => Ok(Some(taken)),
                Err(error) => {
                    taken.put_behind();
                    Err(error)
                }
            };
        }
        if state.made == self.most() {
            return Ok(None);
        }
        state.made += 1;
        drop(state);
        let lane = Lane::new(driver, self.ordinal, self.kind).inspect_err(|_| self.give_up())?;
        Ok(Some(Taken { lanes: self, lane: Some(lane) }))
    }

    /// A lane, once one is free. Only for callers that hold none: so another one gives one back.
    pub(crate) fn take(&self, driver: Driver) -> Result<Taken<'_>, Error> {
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

/// A lane that a call holds. However the call ends, by a panic too, its work is waited for and the
/// lane given back; one that cannot be waited for is asked again before it is used again.
pub(crate) struct Taken<'a> {
    lanes: &'a Lanes,
    /// There until it is given back.
    lane: Option<Lane>,
}

const TAKEN: &str = "a lane that was given back is used by nothing";

impl Deref for Taken<'_> {
    type Target = Lane;

    fn deref(&self) -> &Lane {
        self.lane.as_ref().expect(TAKEN)
    }
}

impl DerefMut for Taken<'_> {
    fn deref_mut(&mut self) -> &mut Lane {
        self.lane.as_mut().expect(TAKEN)
    }
}

impl Taken<'_> {
    /// Gives back a lane that is of no use now: the others are taken first.
    pub(crate) fn put_behind(mut self) {
        if let Some(lane) = self.lane.take() {
            self.lanes.change(|state| state.idle.insert(0, lane));
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some(mut lane) = self.lane.take() {
            let _ = lane.wait();
            self.lanes.change(|state| state.idle.push(lane));
        }
    }
}
