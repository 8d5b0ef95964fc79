//! Events of a device, recorded in its streams.

use super::device::Device;
use super::driver::{
    CUevent, cuEventElapsedTime, cuEventQuery, cuEventRecord, cuEventSynchronize, cuStreamWaitEvent,
};
use super::modules::in_relaxed_mode;
use super::owned::{Owned, OwnedEvent};
use super::stream::Stream;
use crate::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};

/// An event of one device.
pub(crate) struct Event {
    device: &'static Device,
    /// Present until the event is dropped.
    owned: Option<OwnedEvent>,
    /// True if a stream capture was recording the event last. A query of such an event would invalidate the capture.
    is_captured: AtomicBool,
}

impl Event {
    /// Makes an event of the stream's device.
    pub(crate) fn new(stream: &Stream) -> Result<Self, Error> {
        const FLAGS: u32 = 0;
        let device = stream.device;
        // Retries to destroy what the driver refused before.
        device.destroy([]);
        let owned = device.within(|| OwnedEvent::new(FLAGS, device.ordinal()))?;
        Ok(Event { device, owned: Some(owned), is_captured: AtomicBool::new(false) })
    }

    fn raw(&self) -> CUevent {
        self.owned.as_ref().map_or(std::ptr::null_mut(), OwnedEvent::raw)
    }

    /// True if the stream can record the event: both are of one device.
    pub(crate) fn fits(&self, stream: &Stream) -> bool {
        self.device.ordinal() == stream.device.ordinal()
    }

    /// Records the event behind the stream's present work.
    pub(crate) fn record(&self, stream: &Stream) -> Result<(), Error> {
        stream.enqueue(|| {
            self.is_captured.store(stream.is_captured()?, Ordering::Relaxed);
            // SAFETY: both exist, and are of one device.
            unsafe { cuEventRecord(self.raw(), stream.raw) }
                .of("cuEventRecord", self.device.ordinal())
        })
    }

    /// True if the work before the event is done.
    pub(crate) fn is_done(&self) -> Result<bool, Error> {
        self.refuse_captured()?;
        self.device.within(|| {
            // SAFETY: the event exists.
            in_relaxed_mode(|| unsafe { cuEventQuery(self.raw()) })
                .is_done("cuEventQuery", self.device.ordinal())
        })
    }

    /// Waits until the work before the event is done.
    pub(crate) fn synchronize(&self) -> Result<(), Error> {
        self.refuse_captured()?;
        self.device.within(|| {
            // SAFETY: the event exists.
            in_relaxed_mode(|| unsafe { cuEventSynchronize(self.raw()) })
                .of("cuEventSynchronize", self.device.ordinal())
        })
    }

    /// Makes the later work of a stream, of any device, wait for the event. Refuses an event of a lost device itself:
    /// the driver's error would look as if the stream's device were lost.
    pub(crate) fn hold_back(&self, stream: &Stream) -> Result<(), Error> {
        self.device.refuse_lost()?;
        stream.enqueue(|| {
            // SAFETY: both exist.
            unsafe { cuStreamWaitEvent(stream.raw, self.raw(), 0) }
                .of("cuStreamWaitEvent", stream.device.ordinal())
        })
    }

    /// Milliseconds from this event to a later one of the same device. `None` if work before one of them is not done.
    pub(crate) fn until(&self, end: &Event) -> Result<Option<f32>, Error> {
        self.refuse_captured()?;
        end.refuse_captured()?;
        let mut milliseconds = 0.0;
        let is_done = self.device.within(|| {
            // SAFETY: both events exist; the driver writes one float into a local.
            unsafe { cuEventElapsedTime(&raw mut milliseconds, self.raw(), end.raw()) }
                .is_done("cuEventElapsedTime", self.device.ordinal())
        })?;
        Ok(is_done.then_some(milliseconds))
    }

    fn refuse_captured(&self) -> Result<(), Error> {
        if self.is_captured.load(Ordering::Relaxed) { Err(Error::CapturedEvent) } else { Ok(()) }
    }

    /// True if both events belong to one device.
    pub(crate) fn shares_clock(&self, other: &Event) -> bool {
        self.device.ordinal() == other.device.ordinal()
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.device.destroy(self.owned.take().map(Owned::Event));
    }
}
