//! Waits for work that other libraries queued on CUDA's legacy default stream, where the library's own streams are not
//! ordered with that stream.

use super::context;
use super::device::{self, Device};
use super::driver::{self, Code, cuStreamQuery, cuStreamSynchronize};
use crate::error::Error;

/// Waits for a device's default stream.
pub(crate) fn synchronize(ordinal: usize) -> Result<(), Error> {
    device::one(ordinal)?.within(|| synchronize_current(ordinal))
}

/// Waits for the default stream of the calling thread's context, if there is one, before cores access memory that
/// queued work may write: no stream is ordered with cores. The code that queued the work sees its errors.
pub(crate) fn synchronize_for_cores() {
    if driver::if_open().is_some() && !context::current().is_null() {
        let _ = synchronize_current(0);
    }
}

/// Waits before `devices` access such memory. A device's streams are ordered only with the device's own default stream.
/// So this waits for the default stream of the calling thread's context, if that is none of theirs, and, with several
/// devices, for the default stream of each.
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

/// Waits for the default stream of the current context. Usually nothing is in flight, and a query says so sooner than a
/// wait returns (H200: 0.20 and 0.33 µs).
fn synchronize_current(ordinal: usize) -> Result<(), Error> {
    let default = std::ptr::null_mut();
    // SAFETY: 0 is the legacy default stream of the current context.
    if unsafe { cuStreamQuery(default) } == Code::SUCCESS {
        return Ok(());
    }
    // SAFETY: 0 is the legacy default stream of the current context.
    unsafe { cuStreamSynchronize(default) }.of("cuStreamSynchronize", ordinal)
}
