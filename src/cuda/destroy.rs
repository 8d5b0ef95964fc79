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

    /// Gives these objects back, and those that were refused before, until one is refused. The next
    /// time the others come first.
    ///
    /// # Safety
    /// The objects must exist and be used by nothing else; their device's context must be current.
    pub(super) unsafe fn give_back(&self, objects: impl IntoIterator<Item = Object>) {
        let mut refused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for object in objects {
            if refused.try_reserve(1).is_ok() {
                refused.push_back(object);
            } else {
                // SAFETY: this function's promise. There is no memory to remember a refusal in.
                let _: Code = unsafe { object.destroy() };
            }
        }
        while let Some(object) = refused.pop_back() {
            // SAFETY: this function's promise, now or when the object was given: nothing else has had
            // it since.
            if unsafe { object.destroy() } != Code::SUCCESS {
                refused.push_front(object);
                return;
            }
        }
    }
}
