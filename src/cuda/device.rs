//! The GPUs. The first call that runs on a GPU opens it; nothing closes it.
//!
//! The library uses each device's primary context, as the CUDA runtime does, so that pointers from other libraries
//! work. It leaves the caller's current context as it found it, and never resets a device.

use super::context::{Entered, Primary};
use super::driver::{
    self, CUcontext, CUdevice, Driver, cuCtxGetDevice, cuCtxPushCurrent_v2, cuDeviceGet,
    cuDeviceGetCount, cuDeviceGetName,
};
use super::fallible_once::FallibleOnceCell;
use super::kernels::Kernels;
use super::memory_stats::{Kind, MemoryStats};
use super::modules::in_relaxed_mode;
use super::owned::{DeferredFrees, Owned};
use super::slot::SlotPool;
use super::{device_cache, memory_kind};
use crate::call::{Formula, Reach, SlotKind, Task};
use crate::error::{Error, interned};
use crate::policy::{KernelPolicy, gpu};
use crate::process::settings::{self, GPUVEC_ALL_DEVICES, Placement};
use crate::process::warmup;
use cust::sys::CUdevice_attribute::{
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
    CU_DEVICE_ATTRIBUTE_INTEGRATED, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,
    CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
    CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO,
};
use std::ffi::{CStr, CString, c_int};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};

/// A device that the driver shows.
pub(crate) struct Gpu {
    /// Its number among the devices that the driver shows.
    pub(crate) ordinal: usize,
    /// The driver's name for it.
    pub(crate) name: CString,
    handle: CUdevice,
    device: FallibleOnceCell<Device>,
    is_lost: AtomicBool,
    memory: MemoryStats,
}

/// An open device with its context, kernels and slots. It is never destroyed: at exit the driver may be gone before
/// this library.
pub(crate) struct Device {
    gpu: &'static Gpu,
    context: ManuallyDrop<Primary>,
    pub(super) kernels: Kernels,
    /// The slots, by kind.
    slots: [SlotPool; 3],
    /// True if page-locked memory has the same addresses on the device as on the host.
    has_host_addresses: bool,
    reach: Reach,
    /// The sizes of kernels' launches.
    pub(super) policy: &'static KernelPolicy,
    pub(super) multiprocessors: u32,
    /// True if the device sums f32 faster in integers alone than with f64.
    pub(super) lacks_f64_units: bool,
    /// Objects that the driver refused to destroy so far.
    refused: DeferredFrees,
}

const NO_DEVICE: &str = "the CUDA driver shows no device";

static GPUS: FallibleOnceCell<Vec<Gpu>> = FallibleOnceCell::new();

/// The devices that the driver shows.
pub(crate) fn all() -> Result<&'static [Gpu], Error> {
    let driver = driver::get()?;
    GPUS.get_or_try(|| list(driver).map_err(|error| unusable("the CUDA driver", error)))
        .map(Vec::as_slice)
}

/// The devices that may compute calls on host arrays: all, or the one that the user has chosen.
fn for_host_arrays() -> Result<&'static [Gpu], Error> {
    let gpus = all()?;
    let Ok(ordinal) = usize::try_from(settings::device()?) else { return Ok(gpus) };
    gpus.get(ordinal..=ordinal).ok_or_else(|| {
        let count = gpus.len();
        let why = format!(
            "device {ordinal} is chosen, and the CUDA driver shows {count} devices, from 0 on"
        );
        Error::NoGpu { why: interned(why) }
    })
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

/// The error of a GPU that cannot be used, in the words of `gpuvec_why_cpu`.
fn unusable(what: &str, error: Error) -> Error {
    match error {
        Error::NoGpu { .. } => error,
        _ => Error::NoGpu { why: interned(format!("{what}: {error}")) },
    }
}

/// The first usable device for host arrays. The error is why the first of all cannot be used.
pub(crate) fn usable() -> Result<&'static Device, Error> {
    let [first, others @ ..] = for_host_arrays()? else {
        return Err(Error::NoGpu { why: NO_DEVICE });
    };
    first.open().or_else(|failure| others.iter().find_map(|gpu| gpu.open().ok()).ok_or(failure))
}

/// All usable devices for host arrays, at least one. The error is why the first of all cannot be used.
pub(crate) fn all_usable() -> Result<Vec<&'static Device>, Error> {
    let usable: Vec<_> = for_host_arrays()?.iter().filter_map(|gpu| gpu.open().ok()).collect();
    if usable.is_empty() { self::usable().map(|device| vec![device]) } else { Ok(usable) }
}

/// Counts the devices for host arrays that are open, and the devices that are open or could be opened. If none is open
/// but the calling thread has a context, because another library uses the driver, opens the first.
pub(crate) fn counts() -> [usize; 2] {
    let Ok(gpus) = for_host_arrays() else { return [0, 0] };
    let count = |is_counted: fn(&&Gpu) -> bool| gpus.iter().filter(is_counted).count();
    let open = || count(|gpu| gpu.device.get().is_some() && gpu.refuse_lost().is_ok());
    if open() == 0 && !super::context::current().is_null() {
        let _ = usable();
    }
    [open(), count(|gpu| gpu.device.failure().is_none() && gpu.refuse_lost().is_ok())]
}

/// Device `ordinal`, opened if it is not. The error is why it cannot be used.
pub(crate) fn one(ordinal: usize) -> Result<&'static Device, Error> {
    all()?.get(ordinal).ok_or(Error::NoGpu { why: NO_DEVICE })?.open()
}

/// The device of a context, which must be the device's primary one.
///
/// # Safety
/// The context must exist.
pub(super) unsafe fn of_context(context: CUcontext) -> Result<&'static Device, Error> {
    let mut handle = 0;
    // SAFETY: this function's promise; the driver writes one number into a local.
    unsafe {
        cuCtxPushCurrent_v2(context).of("cuCtxPushCurrent", 0)?;
        let _entered = Entered::pushed(context);
        cuCtxGetDevice(&raw mut handle).of("cuCtxGetDevice", 0)?;
    }
    let gpu = all()?.iter().find(|gpu| gpu.handle == handle);
    let device = gpu.ok_or(Error::NoGpu { why: NO_DEVICE })?.open()?;
    let ordinal = device.ordinal();
    if device.has_context(context) { Ok(device) } else { Err(Error::OtherContext { ordinal }) }
}

/// The device of a number that a caller passed. `None` for device 0 where host memory stands in for the memory of a
/// device: with placement `cpu`, and with `auto` or `all` if no GPU is usable.
pub(crate) fn asked_for(
    placement: Placement, device: i32,
) -> Result<Option<&'static Device>, Error> {
    if to_see_memory(placement)?.is_none() {
        let first = device == 0;
        return if first { Ok(None) } else { Err(refused(device, "without a usable GPU, pass 0")) };
    }
    numbered(device)?.open().map(Some)
}

/// The GPU of a number that a caller passed.
pub(crate) fn numbered(device: i32) -> Result<&'static Gpu, Error> {
    let gpus = all()?;
    let gpu = usize::try_from(device).ok().and_then(|ordinal| gpus.get(ordinal));
    gpu.ok_or(refused(device, "pass a number from 0 to gpuvec_device_count() - 1"))
}

fn refused(device: i32, expected: &'static str) -> Error {
    Error::Value { argument: "device", value: device.into(), expected }
}

/// A device with a context in which host memory is page-locked, for all devices. `None` if no GPU would access the
/// memory: with placement `cpu`, and with `auto` or `all` if no GPU is usable.
pub(crate) fn to_see_memory(placement: Placement) -> Result<Option<&'static Device>, Error> {
    match placement {
        Placement::Cpu => Ok(None),
        Placement::Gpu => usable().map(Some),
        Placement::Auto | Placement::All => Ok(usable().ok()),
    }
}

/// Fails unless a number is [`GPUVEC_ALL_DEVICES`] or the number of a device. While the driver is closed, any nonnegative
/// number may be a device's.
pub(crate) fn check_number(device: i32) -> Result<(), Error> {
    let count = driver::if_open().and_then(|_| GPUS.get()).map_or(usize::MAX, Vec::len);
    match usize::try_from(device) {
        Err(_) if device == GPUVEC_ALL_DEVICES => Ok(()),
        Ok(ordinal) if ordinal < count => Ok(()),
        _ => Err(refused(
            device,
            "pass a number from 0 to gpuvec_device_count() - 1, or GPUVEC_ALL_DEVICES (-1)",
        )),
    }
}

/// Forgets why the driver and the devices could not be opened, so that the next call tries again. A lost device stays
/// lost.
pub(crate) fn forget_failures() {
    driver::forget_failure();
    GPUS.forget_failure();
    for gpu in GPUS.get().into_iter().flatten() {
        gpu.device.forget_failure();
    }
}

/// The counts of the memory that the library has allocated with a device.
pub(super) fn memory_stats(ordinal: usize) -> Option<&'static MemoryStats> {
    Some(&GPUS.get()?.get(ordinal)?.memory)
}

/// The devices that this process has opened: none in a forked child.
pub(crate) fn open() -> impl Iterator<Item = &'static Device> {
    let gpus = driver::if_open().and_then(|_| GPUS.get());
    gpus.into_iter().flatten().filter_map(|gpu| gpu.device.get())
}

/// The host memory that all open devices can access.
pub(crate) fn reach() -> Reach {
    let of_both = |a: Reach, b: Reach| Reach {
        pageable: a.pageable && b.pageable,
        is_integrated: a.is_integrated && b.is_integrated,
    };
    open().map(|device| device.reach).reduce(of_both).unwrap_or_default()
}

/// Retires the kernels of a formula on all devices. Does not call the driver.
pub(crate) fn forget(formula: u64) {
    open().for_each(|device| device.kernels.forget(formula));
}

impl Gpu {
    /// Asks the driver for device `number`.
    fn shown(number: c_int) -> Result<Self, Error> {
        const NAME_BYTES: usize = 256;
        let (ordinal, mut handle, mut name) = (number as usize, 0, [0_u8; NAME_BYTES]);
        // SAFETY: the driver writes one number, and a C string of at most `NAME_BYTES`, into locals.
        unsafe {
            cuDeviceGet(&raw mut handle, number).of("cuDeviceGet", ordinal)?;
            cuDeviceGetName(name.as_mut_ptr().cast(), NAME_BYTES as c_int, handle)
                .of("cuDeviceGetName", ordinal)?;
        }
        let name =
            CStr::from_bytes_until_nul(&name).map_or_else(|_| CString::default(), CStr::to_owned);
        let (device, is_lost) = (FallibleOnceCell::new(), AtomicBool::new(false));
        Ok(Gpu { ordinal, name, handle, device, is_lost, memory: MemoryStats::new() })
    }

    fn open(&'static self) -> Result<&'static Device, Error> {
        self.refuse_lost()?;
        driver::get()?;
        self.device.get_or_try(|| {
            let name = self.name.to_string_lossy();
            let what = || format!("device {} ({name})", self.ordinal);
            Device::new(self).map_err(|error| unusable(&what(), error))
        })
    }

    /// Fails if the device is lost.
    fn refuse_lost(&self) -> Result<(), Error> {
        if self.is_lost.load(Ordering::Acquire) {
            return Err(Error::DeviceLost { ordinal: self.ordinal });
        }
        Ok(())
    }
}

/// The bytes of dynamic shared memory of a block that are left for reductions by key, if a block can have `all` bytes.
fn by_key_bytes(all: c_int) -> usize {
    let all = usize::try_from(all).unwrap_or(0).max(gpu::LEAST_SHARED_BYTES);
    all - gpu::STATIC_SHARED_BYTES
}

impl Device {
    fn new(gpu: &'static Gpu) -> Result<Self, Error> {
        warmup::note();
        let context = Primary::retain(gpu.handle, gpu.ordinal)?;
        let _entered = context.enter(gpu.ordinal)?;
        let attribute = |attribute| context.attribute(attribute, gpu.ordinal);
        let shared = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
        let kernels = Kernels::new(gpu.ordinal, by_key_bytes(shared))?;
        let slots = SlotKind::ALL.map(|kind| SlotPool::new(gpu.ordinal, kind));
        let major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let policy = KernelPolicy::of([major, minor]);
        let multiprocessors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let f64_ratio = attribute(CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO)?;
        Ok(Device {
            gpu,
            kernels,
            slots,
            has_host_addresses: context.has_host_addresses(gpu.ordinal),
            reach: Reach {
                pageable: context.has(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, gpu.ordinal)
                    && context.has(
                        CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
                        gpu.ordinal,
                    ),
                is_integrated: context.has(CU_DEVICE_ATTRIBUTE_INTEGRATED, gpu.ordinal),
            },
            policy,
            multiprocessors: multiprocessors.max(1).cast_unsigned(),
            lacks_f64_units: f64_ratio > policy.f64_ratio,
            refused: DeferredFrees::new(),
            context: ManuallyDrop::new(context),
        })
    }

    pub(crate) fn ordinal(&self) -> usize {
        self.gpu.ordinal
    }

    /// Loads the kernels of a formula that are not loaded yet.
    pub(crate) fn prepare(&self, formula: &Formula) -> Result<(), Error> {
        self.within(|| self.kernels.load_all(formula))
    }

    /// True if the kernels of a task are loaded.
    pub(crate) fn is_ready_for(&self, task: Task<'_>) -> bool {
        task.formula().is_none_or(|formula| formula.kernels().all(|(one, _)| self.kernels.has(one)))
    }

    /// The slots of a kind. The device's context must stay current until the caller has returned the slots that it
    /// takes.
    pub(super) fn slots(&self, kind: SlotKind) -> &SlotPool {
        &self.slots[kind as usize]
    }

    /// Runs code that calls the driver, in the device's context. Notes the loss of the device.
    pub(super) fn within<T>(&self, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        self.refuse_lost()?;
        driver::get()?;
        self.enter().and_then(|_entered| work()).inspect_err(|error| self.note(error))
    }

    /// The bytes of page-locked and of device memory that the library has allocated, the bytes of device memory in the
    /// cache, and the number of loaded modules.
    pub(crate) fn holdings(&self) -> [usize; 4] {
        let memory = &self.gpu.memory;
        let [pinned, device] = [Kind::Pinned, Kind::Device].map(|kind| memory.bytes(kind));
        [pinned, device, device_cache::bytes(self.ordinal()), self.kernels.modules.count()]
    }

    /// Frees the slots that no call uses, the cached memory, and the kernels of dropped expressions. Returns the number
    /// of freed bytes. A later call frees what the driver refuses now.
    pub(crate) fn trim(&self) -> Result<usize, Error> {
        self.within(|| {
            Ok(in_relaxed_mode(|| {
                let mut freed = self.refused.retry();
                let mut destroy = |object: Owned| {
                    let bytes = object.bytes();
                    match object.destroy() {
                        Ok(()) => freed += bytes,
                        Err(object) => self.refused.add([object]),
                    }
                };
                self.slots.iter().for_each(|slots| slots.trim(&mut destroy));
                let cached = std::iter::from_fn(|| device_cache::take_oldest(self.ordinal()));
                cached.take(gpu::KEPT_BLOCKS).map(Owned::Memory).for_each(destroy);
                self.kernels.modules.unload_retired(usize::MAX);
                freed
            }))
        })
    }

    /// Makes the device's context the calling thread's current one until the result is dropped.
    pub(super) fn enter(&self) -> Result<Entered, Error> {
        self.context.enter(self.ordinal())
    }

    pub(super) fn has_context(&self, context: CUcontext) -> bool {
        self.context.is(context)
    }

    /// Fails if the device is lost.
    pub(super) fn refuse_lost(&self) -> Result<(), Error> {
        self.gpu.refuse_lost()
    }

    /// Marks the device as lost, if the error means that.
    pub(super) fn note(&self, error: &Error) {
        if error.loses_device() {
            self.gpu.is_lost.store(true, Ordering::Release);
        }
    }

    /// The device's address of page-locked memory. The device's context is current.
    pub(super) fn address_of(&self, host_address: usize) -> Result<u64, Error> {
        if self.has_host_addresses {
            return Ok(host_address as u64);
        }
        memory_kind::device_address(self.ordinal(), host_address)
    }

    /// Destroys objects of the device, and retries the objects that the driver refused to destroy before. Keeps what it
    /// refuses now. Does nothing if the device is lost, or in a forked child, where the objects are gone.
    pub(super) fn destroy(&self, objects: impl IntoIterator<Item = Owned>) {
        if driver::if_open().is_none() || self.refuse_lost().is_err() {
            return;
        }
        let Ok(_entered) = self.enter() else { return self.refused.add(objects) };
        self.refused.retry();
        for object in objects {
            self.refused.add(object.destroy().err());
        }
    }
}
