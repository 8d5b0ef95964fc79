//! Gives objects back to the driver. One that the driver refuses to take, for a passing reason, is
//! given back again later: its owner is gone, and could not be told.

use super::driver::{
    CUdeviceptr, CUevent, CUstream, Code, cuEventDestroy_v2, cuMemFree_v2, cuStreamDestroy_v2,
};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// An object of the driver's that nothing uses any more.
pub(super) enum Object {
    Stream(CUstream),
    Event(CUevent),
    Memory(CUdeviceptr),
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Object {}

impl Object {
    /// # Safety
    /// The object must exist, be used by nothing else, and its device's context be current.
    unsafe fn destroy(&self) -> Code {
        // SAFETY: this function's promise. The driver keeps streams and events until their work is
        // done, and waits before it takes memory back.
        unsafe {
            match *self {
                Object::Stream(stream) => cuStreamDestroy_v2(stream),
                Object::Event(event) => cuEventDestroy_v2(event),
                Object::Memory(address) => cuMemFree_v2(address),
            }
        }
    }
}

/// The objects of one device that the driver has not taken back yet.
pub(super) struct Refused(Mutex<VecDeque<Object>>);

impl Refused {
    pub(super) const fn new() -> Self {
        Refused(Mutex::new(VecDeque::new()))
    }

    /// Takes objects, for [`Refused::give_back`].
    ///
    /// # Safety
    /// They must exist, be of one device, and be used by nothing else.
    pub(super) unsafe fn take(&self, objects: impl IntoIterator<Item = Object>) {
        let mut refused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for object in objects {
            // Without memory for one more the object stays with the driver.
            if refused.try_reserve(1).is_ok() {
                refused.push_back(object);
            }
        }
    }

    /// Gives all objects back until one is refused: the next time the others come first. The context
    /// of their device is current.
    pub(super) fn give_back(&self) {
        let mut refused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(object) = refused.pop_back() {
            // SAFETY: the promise of `take`: nothing else uses the object.
            if unsafe { object.destroy() } != Code::SUCCESS {
                refused.push_front(object);
                return;
            }
        }
    }
}
