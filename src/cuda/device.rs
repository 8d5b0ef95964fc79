//! The GPUs: each is opened at the first call that runs on it, and never closed.
//!
//! The library uses each device's primary context, as the CUDA runtime does, so that pointers from
//! other libraries work. It leaves the caller's current context as it found it, and never resets a
//! device.

use super::attempt::Attempt;
use super::destroy::{Object, Refused};
use super::driver::{
    self, CUcontext, CUdevice, CUdevice_attribute, CUstream, Code, Driver, cuCtxGetCurrent,
    cuCtxGetDevice, cuCtxPopCurrent_v2, cuCtxPushCurrent_v2, cuDeviceGet, cuDeviceGetAttribute,
    cuDeviceGetCount, cuDeviceGetName, cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRetain,
    cuMemFree_v2, cuMemcpyHtoD_v2, cuStreamGetCtx, cuStreamSynchronize,
};
use super::kernels::Kernels;
use super::lane::Lanes;
use super::{memory, pointer, seen};
use crate::error::{Error, kept};
use crate::route::Lane;
use crate::settings::Placement;
use std::ffi::{CStr, CString, c_int, c_void};
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};

/// A device that the driver shows.
pub(crate) struct Gpu {
    /// Its number, as the driver counts the visible ones.
    pub(crate) ordinal: usize,
    /// Its name, for people.
    pub(crate) name: CString,
    device: CUdevice,
    opened: Attempt<Opened>,
    lost: AtomicBool,
}

/// What a device needs before it can compute. Nothing of it is given back: at exit the driver may
/// be gone before us.
pub(crate) struct Opened {
    context: ManuallyDrop<Primary>,
    /// The kernels, for this device.
    pub(crate) kernels: Kernels,
    /// The streams and their memory, by kind.
    pub(crate) lanes: [Lanes; 3],
    /// Whether kernels reach all page-locked memory at the host's own addresses.
    has_host_addresses: bool,
    /// Objects that the driver did not take back yet.
    pub(super) refused: Refused,
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
    let mut count = 0;
    // SAFETY: the driver writes one number into a local.
    unsafe { cuDeviceGetCount(&raw mut count) }.of("cuDeviceGetCount", 0)?;
    if count == 0 {
        return Err(Error::NoGpu { why: NO_DEVICE });
    }
    (0..count).map(Gpu::shown).collect()
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

/// All devices that can compute, open; or why the first one cannot.
pub(crate) fn all_usable() -> Result<Vec<(&'static Gpu, &'static Opened)>, Error> {
    let opened = |gpu: &'static Gpu| Some((gpu, gpu.open().ok()?));
    let usable: Vec<_> = all()?.iter().filter_map(opened).collect();
    if usable.is_empty() { self::usable().map(|gpu| vec![gpu]) } else { Ok(usable) }
}

/// One device, open; or why it cannot compute.
pub(crate) fn one(ordinal: usize) -> Result<(&'static Gpu, &'static Opened), Error> {
    let gpu = &all()?[ordinal];
    Ok((gpu, gpu.open()?))
}

/// The device of that number, open, for what a caller asked for; `None` where host memory takes its
/// place: with placement `cpu`, or `auto` or `all` where there is no usable GPU. That counts as device
/// 0.
pub(crate) fn asked_for(
    placement: Placement,
    device: i32,
) -> Result<Option<(&'static Gpu, &'static Opened)>, Error> {
    let missing =
        |expected| Error::Value { argument: "device", value: i64::from(device), expected };
    let has_gpu = match placement {
        Placement::Cpu => false,
        Placement::Auto | Placement::All => usable().is_ok(),
        Placement::Gpu => usable().map(|_| true)?,
    };
    if !has_gpu {
        let first = device == 0;
        return if first { Ok(None) } else { Err(missing("without a usable GPU, pass 0")) };
    }
    let gpu = usize::try_from(device).ok().and_then(|ordinal| all().ok()?.get(ordinal));
    let gpu = gpu.ok_or(missing("pass a number from 0 to gpuvec_device_count() - 1"))?;
    Ok(Some((gpu, gpu.open()?)))
}

/// The device that a stream of somebody else's works on, open. The default streams, which have
/// numbers in place of handles, are those of the current context.
pub(crate) fn of_stream(stream: CUstream) -> Result<(&'static Gpu, &'static Opened), Error> {
    const DEFAULT_STREAMS: std::ops::RangeInclusive<usize> = 0..=2;
    driver::get()?;
    let mut context = std::ptr::null_mut();
    // SAFETY: the driver writes one handle into a local; the caller promises the stream.
    unsafe {
        if DEFAULT_STREAMS.contains(&stream.addr()) {
            cuCtxGetCurrent(&raw mut context).of("cuCtxGetCurrent", 0)?;
        } else {
            cuStreamGetCtx(stream, &raw mut context).of("cuStreamGetCtx", 0)?;
        }
    }
    if context.is_null() {
        return usable();
    }
    let (gpu, opened) = one(ordinal_of(context)?)?;
    if context == opened.context.context {
        Ok((gpu, opened))
    } else {
        Err(Error::OtherContext { ordinal: gpu.ordinal })
    }
}

/// The number of a context's device.
fn ordinal_of(context: CUcontext) -> Result<usize, Error> {
    let mut device = 0;
    // SAFETY: the context exists: it is current, or that of a stream; the driver writes one number
    // into a local.
    unsafe {
        cuCtxPushCurrent_v2(context).of("cuCtxPushCurrent", 0)?;
        let _current = Current { is_pushed: true };
        cuCtxGetDevice(&raw mut device).of("cuCtxGetDevice", 0)?;
    }
    let gpus = all()?;
    let found = gpus.iter().find(|gpu| gpu.device == device);
    found.map(|gpu| gpu.ordinal).ok_or(Error::NoGpu { why: NO_DEVICE })
}

/// Waits for what others queued on a device's legacy default stream, which streams of other devices
/// are not ordered with.
pub(crate) fn settle_default_stream(ordinal: usize) -> Result<(), Error> {
    let (gpu, opened) = one(ordinal)?;
    gpu.within(opened, || settle_current(ordinal))
}

/// The same for cores, which no stream is ordered with, before they touch memory that a device may
/// be about to write: for the calling thread's context, if it has one. Work that fails there is for
/// others to hear of.
pub(crate) fn settle_for_cores() {
    if driver::if_open().is_some() && !current().is_null() {
        let _ = settle_current(0);
    }
}

/// The same for these devices, whose own streams are ordered with their own default streams alone:
/// for the calling thread's context, if it is another one, and for each of several.
pub(crate) fn settle_for(gpus: &[(&'static Gpu, &'static Opened)]) {
    let current = current();
    let is_theirs = gpus.iter().any(|(_, opened)| opened.context.context == current);
    if !current.is_null() && !is_theirs {
        let _ = settle_current(0);
    }
    if gpus.len() > 1 {
        for (gpu, opened) in gpus {
            let _ = gpu.within(opened, || settle_current(gpu.ordinal));
        }
    }
}

/// Waits for the legacy default stream of the current context.
fn settle_current(ordinal: usize) -> Result<(), Error> {
    // SAFETY: 0 is the legacy default stream of the current context.
    unsafe { cuStreamSynchronize(std::ptr::null_mut()) }.of("cuStreamSynchronize", ordinal)
}

/// The calling thread's context, to compare with others: it may be one that was destroyed. NULL if
/// there is none, or the driver cannot tell.
fn current() -> CUcontext {
    let mut current = std::ptr::null_mut();
    // SAFETY: the driver writes one handle into a local.
    match unsafe { cuCtxGetCurrent(&raw mut current) } {
        Code::SUCCESS => current,
        _ => std::ptr::null_mut(),
    }
}

/// Allocates memory of a device.
pub(crate) fn device_alloc(
    (gpu, opened): (&'static Gpu, &'static Opened),
    bytes: usize,
) -> Result<u64, Error> {
    let driver = driver::get()?;
    let address = gpu.within(opened, || memory::device_alloc(driver, gpu.ordinal, bytes))?;
    let start = address as usize;
    seen::note(start..=start + bytes - 1);
    Ok(address)
}

/// Gives memory of a device back; in a forked child, which must not ask the driver, does nothing.
///
/// # Safety
/// `address` must come from [`device_alloc`], not be freed yet, and be used by nobody.
pub(crate) unsafe fn device_free(ordinal: usize, address: u64) -> Result<(), Error> {
    if driver::if_open().is_none() {
        return Ok(());
    }
    let (gpu, opened) = one(ordinal)?;
    gpu.within(opened, || {
        // SAFETY: this function's promise.
        unsafe { cuMemFree_v2(address) }.of("cuMemFree", ordinal)
    })
}

/// Page-locks whole pages that exist, with the part of an array that is in them; whether they were
/// not locked before.
pub(crate) fn lock_pages(
    (gpu, opened): (&'static Gpu, &'static Opened),
    pages: Range<usize>,
    part: Range<usize>,
) -> Result<bool, Error> {
    let driver = driver::get()?;
    gpu.within(opened, || memory::lock_pages(driver, gpu.ordinal, pages, part))
}

/// Unlocks pages that a device had locked; in a forked child, where they are not, does nothing.
pub(crate) fn unlock_pages(ordinal: usize, start: usize) -> Result<(), Error> {
    let Some(driver) = driver::if_open() else { return Ok(()) };
    let (gpu, opened) = one(ordinal)?;
    gpu.within(opened, || memory::unlock_pages(driver, ordinal, start))
}

/// Writes one value into a device's memory, and returns when it is there.
pub(crate) fn write<T: Copy>(ordinal: usize, address: usize, value: T) -> Result<(), Error> {
    let (gpu, opened) = one(ordinal)?;
    gpu.within(opened, || {
        // SAFETY: the library's caller promises the address; `pointer::locate` found it to be
        // device memory that holds the value, which is read from a local.
        unsafe { cuMemcpyHtoD_v2(address as u64, (&raw const value).cast(), size_of::<T>()) }
            .of("cuMemcpyHtoD", ordinal)
    })
}

/// A device for which memory of the host's is to be page-locked, for all to see; `None` where no
/// GPU would see it: with placement `cpu`, or `auto` or `all` where there is no usable GPU.
pub(crate) fn to_see_memory(
    placement: Placement,
) -> Result<Option<(&'static Gpu, &'static Opened)>, Error> {
    match placement {
        Placement::Cpu => Ok(None),
        Placement::Gpu => usable().map(Some),
        Placement::Auto | Placement::All => Ok(usable().ok()),
    }
}

/// Page-locks `bytes` of new host memory, seen by every device.
pub(crate) fn pinned_alloc(
    (gpu, opened): (&'static Gpu, &'static Opened),
    bytes: usize,
) -> Result<NonNull<c_void>, Error> {
    let driver = driver::get()?;
    gpu.within(opened, || memory::pinned_alloc(driver, gpu.ordinal, bytes))
}

/// Gives page-locked memory back; in a forked child, which must not ask the driver, does nothing.
///
/// # Safety
/// As [`memory::pinned_free`].
pub(crate) unsafe fn pinned_free(ordinal: usize, address: NonNull<c_void>) -> Result<(), Error> {
    let Some(driver) = driver::if_open() else { return Ok(()) };
    let (gpu, opened) = one(ordinal)?;
    // SAFETY: this function's promise.
    gpu.within(opened, || unsafe { memory::pinned_free(driver, ordinal, address) })
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
    /// The device of a number, which the driver shows.
    fn shown(number: c_int) -> Result<Self, Error> {
        const NAME_BYTES: usize = 256;
        let (ordinal, mut device, mut name) = (number as usize, 0, [0; NAME_BYTES]);
        // SAFETY: the driver writes one number, and a C string of at most so many bytes, into locals.
        unsafe {
            cuDeviceGet(&raw mut device, number).of("cuDeviceGet", ordinal)?;
            cuDeviceGetName(name.as_mut_ptr(), NAME_BYTES as c_int, device)
                .of("cuDeviceGetName", ordinal)?;
        }
        let name = CStr::from_bytes_until_nul(name.map(i8::cast_unsigned).as_slice())
            .map_or_else(|_| CString::default(), CStr::to_owned);
        Ok(Gpu { ordinal, name, device, opened: Attempt::new(), lost: AtomicBool::new(false) })
    }

    fn open(&self) -> Result<&Opened, Error> {
        self.alive()?;
        let driver = driver::get()?;
        self.opened.get_or_try(|| {
            let name = self.name.to_string_lossy();
            let what = || format!("device {} ({name})", self.ordinal);
            self.opened_now(driver).map_err(|error| unusable(&what(), error))
        })
    }

    fn opened_now(&self, driver: Driver) -> Result<Opened, Error> {
        let context = Primary::retain(driver, self.device, self.ordinal)?;
        let _current = context.push(self.ordinal)?;
        let kernels = Kernels::new(driver, self.ordinal)?;
        let lanes = Lane::ALL.map(|kind| Lanes::new(self.ordinal, kind));
        let has_host_addresses = context.has_host_addresses();
        let context = ManuallyDrop::new(context);
        Ok(Opened { context, kernels, lanes, has_host_addresses, refused: Refused::new() })
    }

    /// Runs what calls the driver, in the device's context, and takes note of what it fails with.
    pub(super) fn within<T>(
        &self,
        opened: &Opened,
        work: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.alive()?;
        driver::get()?;
        opened.enter(self.ordinal).and_then(|_current| work()).inspect_err(|error| self.note(error))
    }

    /// Fails if it is known that the device will do nothing more.
    pub(super) fn alive(&self) -> Result<(), Error> {
        if self.lost.load(Ordering::Acquire) {
            return Err(Error::DeviceLost { ordinal: self.ordinal });
        }
        Ok(())
    }

    /// Gives objects back to the driver, or remembers those that it refuses. A lost device has none,
    /// and a forked child none of its parent's.
    ///
    /// # Safety
    /// The objects must exist, be this device's, and be used by nothing else.
    pub(super) unsafe fn give_back(
        &self,
        opened: &Opened,
        objects: impl IntoIterator<Item = Object>,
    ) {
        if driver::if_open().is_none() || self.alive().is_err() {
            return;
        }
        // SAFETY: this function's promise.
        unsafe { opened.refused.take(objects) };
        if let Ok(_current) = opened.enter(self.ordinal) {
            opened.refused.give_back();
        }
    }

    /// Takes note if the error means that the device will do nothing more.
    pub(crate) fn note(&self, error: &Error) {
        if error.loses_device() {
            self.lost.store(true, Ordering::Release);
        }
    }
}

impl Opened {
    /// Where the device, whose context is current, reaches page-locked memory.
    pub(crate) fn address(&self, driver: Driver, host_address: usize) -> Result<u64, Error> {
        if self.has_host_addresses {
            return Ok(host_address as u64);
        }
        pointer::device_address(driver, self.kernels.ordinal, host_address)
    }

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

    /// Whether the device says that memory has one address, allocated or registered. A driver that
    /// cannot tell is asked for each address.
    fn has_host_addresses(&self) -> bool {
        [
            CUdevice_attribute::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING,
            CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
        ]
        .into_iter()
        .all(|attribute| {
            let mut value = 0;
            // SAFETY: the driver writes one number into a local.
            let code = unsafe { cuDeviceGetAttribute(&raw mut value, attribute, self.device) };
            code == Code::SUCCESS && value != 0
        })
    }

    /// Makes it the calling thread's context, if it is not.
    fn push(&self, ordinal: usize) -> Result<Current, Error> {
        if current() == self.context {
            return Ok(Current { is_pushed: false });
        }
        // SAFETY: the context is retained.
        unsafe { cuCtxPushCurrent_v2(self.context) }.of("cuCtxPushCurrent", ordinal)?;
        Ok(Current { is_pushed: true })
    }
}

impl Drop for Primary {
    fn drop(&mut self) {
        // SAFETY: the context was retained once, by this.
        let _ = unsafe { cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// A device's context is the calling thread's, above the caller's, which is never used: it
/// may be one that was destroyed.
pub(crate) struct Current {
    is_pushed: bool,
}

impl Drop for Current {
    fn drop(&mut self) {
        if !self.is_pushed {
            return;
        }
        let mut popped = std::ptr::null_mut();
        // SAFETY: the driver writes one handle into a local; the topmost context is the one that
        // was pushed.
        let _ = unsafe { cuCtxPopCurrent_v2(&raw mut popped) };
    }
}
