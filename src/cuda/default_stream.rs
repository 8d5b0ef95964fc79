//! Waits for work that other libraries queued on CUDA's legacy default stream, where the library's own
//! streams are not ordered with it.

use super::context;
use super::device::{self, Device};
use super::driver::{self, Code, cuStreamQuery, cuStreamSynchronize};
use crate::error::Error;

/// Waits for a device's default stream, which streams of other devices are not ordered with.
pub(crate) fn synchronize(ordinal: usize) -> Result<(), Error> {
    device::one(ordinal)?.within(|| synchronize_current(ordinal))
}

/// Waits before cores, which no stream is ordered with, touch memory that a device may be about to write: for
/// the default stream of the calling thread's context, if it has one. Errors of that work are left to the
/// code that queued it.
pub(crate) fn synchronize_for_cores() {
    if driver::if_open().is_some() && !context::current().is_null() {
        let _ = synchronize_current(0);
    }
}

/// Waits before these devices touch such memory, whose own streams are ordered with their own default
/// streams alone: for the calling thread's context, if it is another one, and for each of several.
pub(crate) fn synchronize_for(devices: &[&'static Device]) {
    let current = context::current();
    let is_theirs = devices.iter().any(|device| device.has_context(current));
    if !current.is_null() && !is_theirs {
        let _ = synchronize_current(0);
    }
    if devices.len() > 1 {
        for device in devices {
            let _ = device.within(|| synchronize_current(device.ordinal()));
        }
    }
}

/// Waits for the default stream of the current context. Most often nothing is in flight, which the driver
/// says sooner than it waits for nothing (H200: 0.20 µs, and 0.33).
fn synchronize_current(ordinal: usize) -> Result<(), Error> {
    let default = std::ptr::null_mut();
    // SAFETY: 0 is the legacy default stream of the current context.
    if unsafe { cuStreamQuery(default) } == Code::SUCCESS {
        return Ok(());
    }
    // SAFETY: 0 is the legacy default stream of the current context.
    unsafe { cuStreamSynchronize(default) }.of("cuStreamSynchronize", ordinal)
}
