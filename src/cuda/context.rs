//! Contexts: the primary context of each device, and the calling thread's current one, which each call restores.

use super::driver::{
    CUcontext, CUdevice, CUdevice_attribute, Code, cuCtxGetCurrent, cuCtxPopCurrent_v2,
    cuCtxPushCurrent_v2, cuCtxSetCurrent, cuDeviceGetAttribute, cuDevicePrimaryCtxRelease_v2,
    cuDevicePrimaryCtxRetain,
};
use crate::error::Error;
use std::ffi::c_int;

/// A device's primary context, retained.
pub(super) struct Primary {
    raw: CUcontext,
    device: CUdevice,
}

// SAFETY: the CUDA driver API lets any thread use a context.
unsafe impl Send for Primary {}
// SAFETY: the CUDA driver API lets any number of threads use a context.
unsafe impl Sync for Primary {}

impl Primary {
    /// Retains the context. (cust's own `Context` also makes it current in place of the caller's.)
    pub(super) fn retain(device: CUdevice, ordinal: usize) -> Result<Self, Error> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: the driver writes one handle into a local.
        unsafe { cuDevicePrimaryCtxRetain(&raw mut raw, device) }
            .of("cuDevicePrimaryCtxRetain", ordinal)?;
        Ok(Primary { raw, device })
    }

    pub(super) fn is(&self, context: CUcontext) -> bool {
        self.raw == context
    }

    /// True if page-locked memory, allocated or registered, has the same address on the device as on the host. If not,
    /// or if the driver does not know, the driver is asked for each address.
    pub(super) fn has_host_addresses(&self, ordinal: usize) -> bool {
        [
            CUdevice_attribute::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING,
            CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
        ]
        .into_iter()
        .all(|attribute| self.has(attribute, ordinal))
    }

    /// True if the device has the property; false if the driver does not know it.
    pub(super) fn has(&self, attribute: CUdevice_attribute, ordinal: usize) -> bool {
        self.attribute(attribute, ordinal).is_ok_and(|value| value != 0)
    }

    /// An attribute of the device.
    pub(super) fn attribute(
        &self, attribute: CUdevice_attribute, ordinal: usize,
    ) -> Result<c_int, Error> {
        let mut value = 0;
        // SAFETY: the driver writes one number into a local.
        unsafe { cuDeviceGetAttribute(&raw mut value, attribute, self.device) }
            .of("cuDeviceGetAttribute", ordinal)?;
        Ok(value)
    }

    /// Makes this the calling thread's current context until the result is dropped.
    pub(super) fn enter(&self, ordinal: usize) -> Result<Entered, Error> {
        if current() == self.raw {
            return Ok(Entered { pushed: None });
        }
        // SAFETY: the context is retained.
        unsafe { cuCtxPushCurrent_v2(self.raw) }.of("cuCtxPushCurrent", ordinal)?;
        Ok(Entered::pushed(self.raw))
    }
}

impl Drop for Primary {
    fn drop(&mut self) {
        // SAFETY: `retain` retained the context once.
        let _ = unsafe { cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// Keeps a context current. The caller's own context below it is never used: the caller may have destroyed it.
pub(super) struct Entered {
    /// The context, unless it was current before.
    pushed: Option<CUcontext>,
}

impl Entered {
    /// Takes over a context that was pushed: dropping the result pops it.
    pub(super) fn pushed(context: CUcontext) -> Self {
        Entered { pushed: Some(context) }
    }
}

impl Drop for Entered {
    /// Pops the context, in another way if the driver refuses. The call's results exist by now: there is no error to
    /// return.
    fn drop(&mut self) {
        let Some(pushed) = self.pushed else { return };
        let mut popped = std::ptr::null_mut();
        // SAFETY: the driver writes one handle into a local; the topmost context is the pushed one.
        let code = unsafe { cuCtxPopCurrent_v2(&raw mut popped) };
        let is_left = || known_current().is_some_and(|current| current != pushed);
        if code != Code::SUCCESS && !is_left() {
            // SAFETY: follows no pointer. Setting NULL pops the topmost context, which still is the pushed one (CUDA
            // driver API, cuCtxSetCurrent).
            let _ = unsafe { cuCtxSetCurrent(std::ptr::null_mut()) };
        }
    }
}

/// The calling thread's current context, only for comparisons: it may have been destroyed. NULL if there is none, or if
/// the driver cannot tell.
pub(super) fn current() -> CUcontext {
    known_current().unwrap_or(std::ptr::null_mut())
}

/// As [`current`]; `None` if the driver cannot tell.
fn known_current() -> Option<CUcontext> {
    let mut current = std::ptr::null_mut();
    // SAFETY: the driver writes one handle into a local.
    let code = unsafe { cuCtxGetCurrent(&raw mut current) };
    (code == Code::SUCCESS).then_some(current)
}
