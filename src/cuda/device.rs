//! The GPUs: each is opened at the first call that runs on it, and never closed.
//!
//! The library uses each device's primary context, as the CUDA runtime does, so that pointers from
//! other libraries work. It leaves the caller's current context as it found it, and never resets a
//! device.

use super::attempt::Attempt;
use super::driver::{
    self, Driver, OfCall, cuCtxPopCurrent_v2, cuCtxPushCurrent_v2, cuDevicePrimaryCtxRelease_v2,
    cuDevicePrimaryCtxRetain, cuMemcpyHtoD_v2,
};
use super::kernels::Kernels;
use super::memory;
use super::staging::Lanes;
use crate::error::{Error, kept};
use cust::device::{Device, DeviceAttribute};
use cust::sys::{CUcontext, CUdevice};
use std::ffi::{CString, c_void};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};

/// A device that the driver shows.
pub(crate) struct Gpu {
    /// Its number, as the driver counts the visible ones.
    pub(crate) ordinal: usize,
    /// Its name, for people.
    pub(crate) name: CString,
    device: Device,
    opened: Attempt<Opened>,
    lost: AtomicBool,
}

/// What a device needs before it can compute. Nothing of it is given back: at exit the driver may
/// be gone before us.
pub(crate) struct Opened {
    context: ManuallyDrop<Primary>,
    /// The kernels, loaded for this device.
    pub(crate) kernels: Kernels,
    /// The buffers and streams.
    pub(crate) lanes: Lanes,
}

const NO_DEVICE: &str = "the CUDA driver shows no device";

static GPUS: Attempt<Vec<Gpu>> = Attempt::new();

/// The devices that the driver shows.
pub(crate) fn all() -> Result<&'static [Gpu], Error> {
    let driver = driver::get()?;
    GPUS.get_or_try(|| list(driver).map_err(|error| unusable("the CUDA driver", error)))
        .map(Vec::as_slice)
}

fn list(_: Driver) -> Result<Vec<Gpu>, Error> {
    let count = Device::num_devices().of("cuDeviceGetCount", 0)?;
    if count == 0 {
        return Err(Error::NoGpu { why: NO_DEVICE });
    }
    (0..count)
        .map(|number| {
            let ordinal = number as usize;
            let device = Device::get_device(number).of("cuDeviceGet", ordinal)?;
            let name = device.name().of("cuDeviceGetName", ordinal)?;
            let name = CString::new(name).unwrap_or_default();
            let opened = Attempt::new();
            Ok(Gpu { ordinal, name, device, opened, lost: AtomicBool::new(false) })
        })
        .collect()
}

/// The error of a GPU that there is no using, as `gpuvec_why_cpu` says it.
fn unusable(what: &str, error: Error) -> Error {
    match error {
        Error::NoGpu { .. } => error,
        _ => Error::NoGpu { why: kept(format!("{what}: {error}")) },
    }
}

/// The first device that can compute, open; or why the first one cannot.
pub(crate) fn usable() -> Result<(&'static Gpu, &'static Opened), Error> {
    let [first, others @ ..] = all()? else {
        return Err(Error::NoGpu { why: NO_DEVICE });
    };
    first.open().map(|opened| (first, opened)).or_else(|failure| {
        others.iter().find_map(|gpu| Some((gpu, gpu.open().ok()?))).ok_or(failure)
    })
}

/// One device, open; or why it cannot compute.
pub(crate) fn one(ordinal: usize) -> Result<(&'static Gpu, &'static Opened), Error> {
    let gpu = &all()?[ordinal];
    Ok((gpu, gpu.open()?))
}

/// Writes one value into a device's memory, and returns when it is there.
pub(crate) fn write<T: Copy>(ordinal: usize, address: usize, value: T) -> Result<(), Error> {
    let (_, opened) = one(ordinal)?;
    let _restore = opened.enter(ordinal)?;
    // SAFETY: the library's caller promises the address; `pointer::locate` found it to be device
    // memory that holds the value, which is read from a local.
    unsafe { cuMemcpyHtoD_v2(address as u64, (&raw const value).cast(), size_of::<T>()) }
        .of("cuMemcpyHtoD", ordinal)
}

/// Page-locks `bytes` of new host memory, seen by every device.
pub(crate) fn pinned_alloc(bytes: usize) -> Result<NonNull<c_void>, Error> {
    let driver = driver::get()?;
    let (gpu, opened) = usable()?;
    let _restore = opened.enter(gpu.ordinal)?;
    memory::pinned_alloc(driver, gpu.ordinal, bytes)
}

/// Gives page-locked memory back; in a forked child, which must not ask the driver, does nothing.
///
/// # Safety
/// As [`memory::pinned_free`].
pub(crate) unsafe fn pinned_free(address: NonNull<c_void>) -> Result<(), Error> {
    let Some(driver) = driver::if_open() else { return Ok(()) };
    let (gpu, opened) = usable()?;
    let _restore = opened.enter(gpu.ordinal)?;
    // SAFETY: this function's promise.
    unsafe { memory::pinned_free(driver, address) }
}

/// Lets the next call try again whatever failed before. A lost device stays lost.
pub(crate) fn forget_failures() {
    driver::forget_failure();
    GPUS.forget_failure();
    for gpu in GPUS.get().into_iter().flatten() {
        gpu.opened.forget_failure();
    }
}

impl Gpu {
    fn open(&self) -> Result<&Opened, Error> {
        if self.lost.load(Ordering::Acquire) {
            return Err(Error::DeviceLost { ordinal: self.ordinal });
        }
        let driver = driver::get()?;
        self.opened.get_or_try(|| {
            let name = self.name.to_string_lossy();
            let what = || format!("device {} ({name})", self.ordinal);
            self.opened_now(driver).map_err(|error| unusable(&what(), error))
        })
    }

    fn opened_now(&self, driver: Driver) -> Result<Opened, Error> {
        let context = Primary::retain(driver, self.device.as_raw(), self.ordinal)?;
        let _current = context.push(self.ordinal)?;
        let multiprocessors = self
            .device
            .get_attribute(DeviceAttribute::MultiprocessorCount)
            .of("cuDeviceGetAttribute", self.ordinal)?;
        let kernels = Kernels::load(driver, self.ordinal, multiprocessors.unsigned_abs())?;
        let lanes = Lanes::new(self.ordinal);
        Ok(Opened { context: ManuallyDrop::new(context), kernels, lanes })
    }

    /// Takes note if the error means that the device will do nothing more.
    pub(crate) fn note(&self, error: &Error) {
        if error.loses_device() {
            self.lost.store(true, Ordering::Release);
        }
    }
}

impl Opened {
    /// Makes the device's context the calling thread's, until the result is dropped.
    pub(crate) fn enter(&self, ordinal: usize) -> Result<Current, Error> {
        self.context.push(ordinal)
    }
}

/// A device's primary context, retained.
struct Primary {
    context: CUcontext,
    device: CUdevice,
}

// SAFETY: contexts may be used from any thread.
unsafe impl Send for Primary {}
// SAFETY: as above.
unsafe impl Sync for Primary {}

impl Primary {
    /// cust's own `Context` also makes it current in place of the caller's, unasked.
    fn retain(_: Driver, device: CUdevice, ordinal: usize) -> Result<Self, Error> {
        let mut context = std::ptr::null_mut();
        // SAFETY: the driver writes one handle into a local.
        unsafe { cuDevicePrimaryCtxRetain(&raw mut context, device) }
            .of("cuDevicePrimaryCtxRetain", ordinal)?;
        Ok(Primary { context, device })
    }

    fn push(&self, ordinal: usize) -> Result<Current, Error> {
        // SAFETY: the context is retained.
        unsafe { cuCtxPushCurrent_v2(self.context) }.of("cuCtxPushCurrent", ordinal)?;
        Ok(Current(()))
    }
}

impl Drop for Primary {
    fn drop(&mut self) {
        // SAFETY: the context was retained once, by this.
        let _ = unsafe { cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// A device's context is the calling thread's, above the caller's, which is never looked at: it
/// may be one that was destroyed.
pub(crate) struct Current(());

impl Drop for Current {
    fn drop(&mut self) {
        let mut popped = std::ptr::null_mut();
        // SAFETY: the driver writes one handle into a local; the topmost context is the one that
        // was pushed.
        let _ = unsafe { cuCtxPopCurrent_v2(&raw mut popped) };
    }
}
