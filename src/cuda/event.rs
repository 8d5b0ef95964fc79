//! A mark in a stream of a device.

use super::destroy::Object;
use super::device::{Gpu, Opened};
use super::driver::{
    CUevent, cuEventCreate, cuEventElapsedTime, cuEventQuery, cuEventRecord, cuEventSynchronize,
    cuStreamWaitEvent,
};
use super::stream::Stream;
use crate::error::Error;

/// An event of the driver's, of one device.
pub(crate) struct Mark {
    gpu: &'static Gpu,
    opened: &'static Opened,
    raw: CUevent,
}

// SAFETY: events may be used from any thread.
unsafe impl Send for Mark {}
// SAFETY: as above.
unsafe impl Sync for Mark {}

impl Mark {
    /// One for the stream's device, which is nowhere yet.
    pub(crate) fn new(stream: &Stream) -> Result<Self, Error> {
        stream.within(|| {
            // SAFETY: these are none: what was refused before is given back again.
            unsafe { stream.gpu.give_back(stream.opened, []) };
            let mut raw = std::ptr::null_mut();
            // SAFETY: the driver writes one handle into a local.
            unsafe { cuEventCreate(&raw mut raw, 0) }.of("cuEventCreate", stream.gpu.ordinal)?;
            Ok(Mark { gpu: stream.gpu, opened: stream.opened, raw })
        })
    }

    /// Whether streams of this one's device can take it.
    pub(crate) fn fits(&self, stream: &Stream) -> bool {
        self.gpu.ordinal == stream.gpu.ordinal
    }

    /// Sets it behind what is in the stream now.
    pub(crate) fn record(&self, stream: &Stream) -> Result<(), Error> {
        stream.enqueue(|| {
            // SAFETY: both exist, and are of one device.
            unsafe { cuEventRecord(self.raw, stream.raw) }.of("cuEventRecord", self.gpu.ordinal)
        })
    }

    /// Whether the stream has come to it.
    pub(crate) fn is_done(&self) -> Result<bool, Error> {
        self.within(|| {
            // SAFETY: the event exists.
            unsafe { cuEventQuery(self.raw) }.is_done("cuEventQuery", self.gpu.ordinal)
        })
    }

    /// Waits until the stream has come to it.
    pub(crate) fn synchronize(&self) -> Result<(), Error> {
        self.within(|| {
            // SAFETY: the event exists.
            unsafe { cuEventSynchronize(self.raw) }.of("cuEventSynchronize", self.gpu.ordinal)
        })
    }

    /// Lets the stream's later work wait for it, on whatever device. What the driver would say of a
    /// lost device's event is not to be taken for a loss of the stream's.
    pub(crate) fn hold_back(&self, stream: &Stream) -> Result<(), Error> {
        self.gpu.alive()?;
        stream.enqueue(|| {
            // SAFETY: both exist.
            unsafe { cuStreamWaitEvent(stream.raw, self.raw, 0) }
                .of("cuStreamWaitEvent", stream.gpu.ordinal)
        })
    }

    /// Milliseconds from this one to a later one of the same device; `None` if a stream has not
    /// come to one of them, or they are of two devices.
    pub(crate) fn until(&self, end: &Mark) -> Result<Option<f32>, Error> {
        let mut milliseconds = 0.0;
        let is_done = self.within(|| {
            // SAFETY: both events exist; the driver writes one float into a local.
            unsafe { cuEventElapsedTime(&raw mut milliseconds, self.raw, end.raw) }
                .is_done("cuEventElapsedTime", self.gpu.ordinal)
        })?;
        Ok(is_done.then_some(milliseconds))
    }

    /// Whether both are of one device.
    pub(crate) fn is_beside(&self, other: &Mark) -> bool {
        self.gpu.ordinal == other.gpu.ordinal
    }

    fn within<T>(&self, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        self.gpu.within(self.opened, work)
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        // SAFETY: the event is this one's alone; the driver keeps it until streams have passed it.
        unsafe { self.gpu.give_back(self.opened, [Object::Event(self.raw)]) };
    }
}
