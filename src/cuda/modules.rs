//! Modules, each with one kernel: loaded when a device first needs the kernel, and unloaded when no call can use it any
//! more.
//!
//! `cuModuleUnload` waits for the device's work in flight. Dropping an expression must not wait: it happens in
//! unrelated calls, when another compiled text displaces the expression from a cache. So it only retires the modules.
//! The next call that loads a module on the same device, and waits for the driver's compiler anyway, unloads up to
//! [`UNLOADED_AT_ONCE`]. The device never has more modules than were needed at one time. A thread of the library's own
//! would save this wait as well, but could be inside the driver when the process exits.
//!
//! A stream capture in global mode forbids all threads of the process to load and unload modules. The relaxed mode
//! exempts the calling thread (CUDA driver API, `cuThreadExchangeStreamCaptureMode`). No lock is held during a call of
//! the driver.

use super::driver::{
    self, CUfunction, Code, cuModuleGetFunction, cuModuleLoadData,
    cuThreadExchangeStreamCaptureMode,
};
use super::owned::OwnedModule;
use crate::error::{Error, interned};
use crate::process::{log, warmup};
use std::collections::VecDeque;
use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The CUDA version of the oldest driver that accepts the images' PTX ISA 8.0.
const OLDEST_CUDA: i32 = 12_000;

/// The retired modules that a call unloads after it has loaded one: more than one, so that their number decreases.
pub(super) const UNLOADED_AT_ONCE: usize = 2;

/// A loaded kernel with its module.
pub(super) struct Function {
    pub(super) entry: Entry,
    pub(super) module: OwnedModule,
}

// SAFETY: the CUDA driver API lets any thread use a function.
unsafe impl Send for Function {}
// SAFETY: the CUDA driver API lets any number of threads use a function.
unsafe impl Sync for Function {}

/// A kernel to launch.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) raw: CUfunction,
    /// The threads of a block.
    pub(super) threads: u32,
}

/// Loads modules into the context of one device.
pub(super) struct Modules {
    ordinal: usize,
    /// Modules that no call can use any more, the oldest first.
    retired: Mutex<VecDeque<OwnedModule>>,
    /// The number of loaded modules, the retired ones included.
    count: AtomicUsize,
}

impl Modules {
    pub(super) const fn new(ordinal: usize) -> Self {
        Modules { ordinal, retired: Mutex::new(VecDeque::new()), count: AtomicUsize::new(0) }
    }

    /// Loads the PTX of a kernel with blocks of `threads` threads, and finds the kernel. The device's context is current.
    pub(super) fn load(&self, ptx: &CStr, name: &CStr, threads: u32) -> Result<Function, Error> {
        warmup::note();
        let started = log::started();
        let loaded = self.load_now(ptx, name, threads)?;
        let (name, ordinal) = (name.to_string_lossy(), self.ordinal);
        log::done(format_args!("loaded {name} on device {ordinal}"), started);
        Ok(loaded)
    }

    fn load_now(&self, ptx: &CStr, name: &CStr, threads: u32) -> Result<Function, Error> {
        in_relaxed_mode(|| {
            let mut module = std::ptr::null_mut();
            // SAFETY: the image ends in NUL; the driver writes one handle into a local.
            match unsafe { cuModuleLoadData(&raw mut module, ptx.as_ptr().cast()) } {
                Code::SUCCESS => {}
                code => return Err(refusal(self.ordinal, code)),
            }
            self.count.fetch_add(1, Ordering::Relaxed);
            let (module, mut raw) = (OwnedModule::new(module), std::ptr::null_mut());
            // SAFETY: the module is loaded, and the name ends in NUL; the driver writes one handle into a local.
            let found = unsafe { cuModuleGetFunction(&raw mut raw, module.raw(), name.as_ptr()) };
            match found.of("cuModuleGetFunction", self.ordinal) {
                Ok(()) => Ok(Function { entry: Entry { raw, threads }, module }),
                Err(error) => {
                    self.unload(module);
                    Err(error)
                }
            }
        })
    }

    /// Unloads at most `most` of the modules that are retired now. The device's context is current.
    pub(super) fn unload_retired(&self, most: usize) {
        let count = self.retired().len().min(most);
        for _ in 0..count {
            let Some(module) = self.retired().pop_front() else { return };
            in_relaxed_mode(|| self.unload(module));
        }
    }

    /// The number of loaded modules.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Unloads a module, or retires it if the driver refuses.
    fn unload(&self, module: OwnedModule) {
        match module.unload() {
            Ok(()) => _ = self.count.fetch_sub(1, Ordering::Relaxed),
            Err(module) => self.retire(module),
        }
    }

    /// Retires the module of a kernel that no call can launch any more. Does not call the driver.
    pub(super) fn retire(&self, module: OwnedModule) {
        let mut retired = self.retired();
        // If the list cannot grow, the module stays loaded.
        if retired.try_reserve(1).is_ok() {
            retired.push_back(module);
        }
    }

    fn retired(&self) -> MutexGuard<'_, VecDeque<OwnedModule>> {
        self.retired.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs calls of the driver that a stream capture of another thread would forbid.
pub(super) fn in_relaxed_mode<T>(work: impl FnOnce() -> T) -> T {
    const RELAXED: c_int = 2;
    let mut mode = RELAXED;
    // SAFETY: the driver exchanges the calling thread's mode with that in a local, or fails and changes neither.
    let exchange = |mode: &mut c_int| unsafe { cuThreadExchangeStreamCaptureMode(mode) };
    exchange(&mut mode);
    let result = work();
    exchange(&mut mode);
    result
}

/// The error for an image that the driver refused with a code.
fn refusal(ordinal: usize, code: Code) -> Error {
    let version = driver::version();
    if version < OLDEST_CUDA {
        let (major, minor) = (version / 1000, version % 1000 / 10);
        let why = format!("the driver supports CUDA {major}.{minor}; 12.0 (driver 525) is needed");
        return Error::NoGpu { why: interned(why) };
    }
    let Code(number) = code;
    Error::Driver { call: "cuModuleLoadData", name: code.name(), code: number, ordinal }
}
