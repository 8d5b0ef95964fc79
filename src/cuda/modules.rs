//! Modules, each with one kernel: loaded when a device first needs the kernel, and unloaded when nothing
//! can use it any more.
//!
//! `cuModuleUnload` waits for the device's work in flight. An expression is dropped in calls that have
//! nothing to do with it: another text is compiled, and takes the expression's place among the newest ones.
//! No module is therefore unloaded where an expression is dropped: the module is only retired. The next call
//! that loads a module on the same device unloads up to [`UNLOADED_AT_ONCE`]; that call waits for the
//! driver's compiler anyway. The device never holds more modules than were needed at one time. A thread of
//! the library's own would save this wait as well, but could be inside the driver when the process exits.
//!
//! A stream capture in global mode forbids loading and unloading to all threads of the process. Both run
//! in the relaxed mode of the calling thread, which exempts it (CUDA driver API,
//! `cuThreadExchangeStreamCaptureMode`). No lock is held during a call of the driver.

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

/// The oldest driver that takes the images' PTX ISA 8.0 supports this CUDA version.
const OLDEST_CUDA: i32 = 12_000;

/// Retired modules that a call unloads beside the module that it loads: more than one, so that their
/// number decreases.
const UNLOADED_AT_ONCE: usize = 2;

/// A kernel that is loaded, with its module.
pub(super) struct Function {
    raw: CUfunction,
    module: OwnedModule,
}

// SAFETY: the CUDA driver API lets any thread use a function.
unsafe impl Send for Function {}
// SAFETY: the CUDA driver API lets any number of threads use a function.
unsafe impl Sync for Function {}

impl Function {
    pub(super) fn raw(&self) -> CUfunction {
        self.raw
    }
}

/// Loads modules into the context of one device.
pub(super) struct Modules {
    ordinal: usize,
    /// Modules that nothing can use any more, the oldest first.
    retired: Mutex<VecDeque<OwnedModule>>,
    /// The modules that are loaded, retired ones included.
    count: AtomicUsize,
}

impl Modules {
    pub(super) const fn new(ordinal: usize) -> Self {
        Modules { ordinal, retired: Mutex::new(VecDeque::new()), count: AtomicUsize::new(0) }
    }

    /// Loads the PTX of a kernel, and finds the kernel. The device's context is current.
    pub(super) fn load(&self, ptx: &CStr, name: &CStr) -> Result<Function, Error> {
        warmup::note();
        let started = log::started();
        let loaded = self.load_now(ptx, name)?;
        let (name, ordinal) = (name.to_string_lossy(), self.ordinal);
        log::done(format_args!("loaded {name} on device {ordinal}"), started);
        Ok(loaded)
    }

    fn load_now(&self, ptx: &CStr, name: &CStr) -> Result<Function, Error> {
        in_relaxed_mode(|| {
            let mut module = std::ptr::null_mut();
            // SAFETY: the image ends in NUL; the driver writes one handle into a local.
            match unsafe { cuModuleLoadData(&raw mut module, ptx.as_ptr().cast()) } {
                Code::SUCCESS => {}
                code => return Err(refusal(self.ordinal, code)),
            }
            self.count.fetch_add(1, Ordering::Relaxed);
            let (module, mut raw) = (OwnedModule::new(module), std::ptr::null_mut());
            // SAFETY: the module is loaded, and the name ends in NUL; the driver writes one handle into a
            // local.
            let found = unsafe { cuModuleGetFunction(&raw mut raw, module.raw(), name.as_ptr()) };
            match found.of("cuModuleGetFunction", self.ordinal) {
                Ok(()) => Ok(Function { raw, module }),
                Err(error) => {
                    self.unload(module);
                    Err(error)
                }
            }
        })
    }

    /// Retires the module of a kernel that nothing can launch any more. Makes no call of the driver.
    pub(super) fn retire(&self, function: Function) {
        self.add(function.module);
    }

    /// Unloads some of the retired modules. The device's context is current.
    pub(super) fn unload_some(&self) {
        self.unload_retired(UNLOADED_AT_ONCE);
    }

    /// Unloads all modules that are retired now. The device's context is current.
    pub(super) fn unload_all(&self) {
        let count = self.retired().len();
        self.unload_retired(count);
    }

    fn unload_retired(&self, most: usize) {
        for _ in 0..most {
            let Some(module) = self.retired().pop_front() else { return };
            in_relaxed_mode(|| self.unload(module));
        }
    }

    /// The number of modules that are loaded.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Unloads a module, which is retired if the driver refuses.
    fn unload(&self, module: OwnedModule) {
        match module.unload() {
            Ok(()) => _ = self.count.fetch_sub(1, Ordering::Relaxed),
            Err(module) => self.add(module),
        }
    }

    fn add(&self, module: OwnedModule) {
        let mut retired = self.retired();
        // Without memory for one more the module stays with the driver.
        if retired.try_reserve(1).is_ok() {
            retired.push_back(module);
        }
    }

    fn retired(&self) -> MutexGuard<'_, VecDeque<OwnedModule>> {
        self.retired.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs calls of the driver that stream captures of any thread forbid, without a conflict with captures
/// of other threads.
pub(super) fn in_relaxed_mode<T>(work: impl FnOnce() -> T) -> T {
    const RELAXED: c_int = 2;
    let mut mode = RELAXED;
    // SAFETY: the driver exchanges the calling thread's mode with the mode in a local variable, or fails and changes
    // neither.
    let exchange = |mode: &mut c_int| unsafe { cuThreadExchangeStreamCaptureMode(mode) };
    exchange(&mut mode);
    let result = work();
    exchange(&mut mode);
    result
}

/// The reason for which the driver refused an image with a code.
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
