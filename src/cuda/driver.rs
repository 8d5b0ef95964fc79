//! The CUDA driver, opened at run time.
//!
//! The library does not link libcuda: without the driver it would not load. Instead, each `cu*` symbol that this crate
//! uses is defined here, hidden, as a jump through a slot. [`get`] opens the driver and fills the slots; an empty slot
//! points to [`missing`]. Linking with `-z defs` proves that no symbol was forgotten.

use super::fallible_once::FallibleOnceCell;
use super::loader;
use crate::arch::jump;
use crate::error::{Error, interned};
use crate::process::fork::{self, PerProcess};
use crate::process::memory;
use crate::process::settings::Placement;
pub(crate) use cust::sys::{
    CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUfunction,
    CUfunction_attribute_enum as CUfunction_attribute, CUmodule, CUpointer_attribute, CUstream,
};
use once_cell::race::OnceBox;
use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

/// Proof that the driver is open and initialised and that this process may use it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Driver(());

/// cbindgen:ignore
/// The result of a driver call. It is a number, since a code of a newer driver would be an invalid value of cust's
/// enum. Every call is therefore declared below, with this result and cust's other types.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) u32);

impl Code {
    pub(crate) const SUCCESS: Code = Code(0);
    pub(crate) const INVALID_VALUE: Code = Code(1);
    pub(crate) const OUT_OF_MEMORY: Code = Code(2);
    const NOT_INITIALIZED: Code = Code(3);
    const NO_DEVICE: Code = Code(100);
    const NOT_READY: Code = Code(600);
    pub(crate) const ALREADY_REGISTERED: Code = Code(712);
    const NOT_FOUND: Code = Code(500);

    /// Turns the code into the result of `call` on device `ordinal`.
    pub(crate) fn of(self, call: &'static str, ordinal: usize) -> Result<(), Error> {
        match self {
            Code::SUCCESS => Ok(()),
            Code(code) => Err(Error::Driver { call, name: self.name(), code, ordinal }),
        }
    }

    /// Turns the code of a query into its answer: true if the work is done.
    pub(crate) fn is_done(self, call: &'static str, ordinal: usize) -> Result<bool, Error> {
        if self == Code::NOT_READY { Ok(false) } else { self.of(call, ordinal).map(|()| true) }
    }

    /// Returns the driver's own name for the code.
    #[cold]
    pub(crate) fn name(self) -> &'static str {
        let mut name: *const c_char = std::ptr::null();
        // SAFETY: the driver writes a pointer to a constant string, or leaves NULL; it is never closed.
        let name = unsafe {
            match cuGetErrorName(self, &raw mut name) {
                Code::SUCCESS if !name.is_null() => CStr::from_ptr(name).to_str(),
                _ => Ok("an error without a name"),
            }
        };
        name.unwrap_or("an error with an unreadable name")
    }
}

/// A process's use of the driver.
struct Opening {
    driver: FallibleOnceCell<Driver>,
    /// True while the driver is open or being opened. A forked child must then not use the driver: it has a copy of the
    /// memory, but not the driver's state.
    is_in_use: AtomicBool,
    /// The number of calls that looked for the driver while it was closed.
    searches: AtomicU32,
}

static OPENING: PerProcess<Opening> = PerProcess::new();

impl Opening {
    /// Returns this process's opening. Fails if an ancestor's driver is in use.
    fn of_this_process() -> Result<&'static Self, Error> {
        if let Some(opening) = OPENING.get() {
            return Ok(opening);
        }
        if OPENING.inherited().is_some_and(|parents| parents.is_in_use.load(Ordering::Acquire)) {
            return Err(Error::Forked);
        }
        let new = || Opening {
            driver: FallibleOnceCell::new(),
            is_in_use: AtomicBool::new(false),
            searches: AtomicU32::new(0),
        };
        Ok(OPENING.get_or_init(new))
    }

    /// Counts a call that looked for an open driver. After many such calls looks for a driver on this system: if there
    /// is none, later calls need not look.
    fn count_search(&self) {
        const MANY: u32 = 1 << 14;
        if self.searches.fetch_add(1, Ordering::Relaxed) == MANY
            && let Err(error) = open_library()
        {
            // The cell stores the failure.
            let _ = self.driver.get_or_try(|| Err(error));
        }
    }

    /// Returns the driver; opens it first if necessary, in one thread of the process at a time.
    fn get_or_try(&self, open: fn() -> Result<Driver, Error>) -> Result<Driver, Error> {
        let is_decided = self.driver.get().is_some() || self.driver.failure().is_some();
        if !is_decided && !memory::is_left() {
            let bytes = memory::NEEDED_BYTES;
            return Err(Error::OutOfHostMemory { bytes, purpose: "the driver" });
        }
        let open = || {
            self.is_in_use.store(true, Ordering::Release);
            open().inspect_err(|_| self.is_in_use.store(false, Ordering::Release))
        };
        self.driver.get_or_try(open).copied()
    }
}

/// Returns the driver, which the first call opens and initialises.
pub(crate) fn get() -> Result<Driver, Error> {
    Opening::of_this_process()?.get_or_try(open)
}

/// Returns the driver, if this process has it open.
pub(crate) fn if_open() -> Option<Driver> {
    OPENING.get()?.driver.get().copied()
}

/// Returns the driver, if the placement allows to use it. Placements `cpu` and `auto` do not open it here: with them it
/// must be open, or initialised by another library.
pub(crate) fn for_placement(placement: Placement) -> Option<Driver> {
    match placement {
        Placement::Cpu => if_open().or_else(of_another_library),
        Placement::Auto => {
            let opening = Opening::of_this_process().ok()?;
            match opening.driver.get() {
                Some(driver) => Some(*driver),
                None if opening.driver.has_failed() => None,
                None => of_another_library().or_else(|| {
                    opening.count_search();
                    None
                }),
            }
        }
        Placement::Gpu | Placement::All => get().ok(),
    }
}

/// The reason why [`for_placement`] returned no driver. `None` with placement `cpu`, which needs none.
pub(crate) fn failure_for(placement: Placement) -> Option<Error> {
    const CLOSED: Error = Error::NoGpu { why: "no call has opened the driver yet" };
    match placement {
        Placement::Cpu => None,
        Placement::Auto => Some(match Opening::of_this_process() {
            Ok(opening) => opening.driver.failure().unwrap_or(CLOSED),
            Err(error) => error,
        }),
        Placement::Gpu | Placement::All => get().err(),
    }
}

/// True if this process failed to open the driver.
pub(crate) fn has_failed() -> bool {
    Opening::of_this_process().is_ok_and(|opening| opening.driver.has_failed())
}

/// Returns the driver, if another library in this process has initialised it.
fn of_another_library() -> Option<Driver> {
    let library = loader::loaded()?;
    let opening = Opening::of_this_process().ok()?;
    fill_slots(library).ok()?;
    if !is_initialized() {
        return None;
    }
    // The driver works now, even if it could not be opened before.
    opening.driver.forget_failure();
    opening.get_or_try(|| Ok(Driver(()))).ok()
}

/// The latest result of cuInit.
static INITIALIZATION: AtomicU32 = AtomicU32::new(Code::SUCCESS.0);

/// True if the driver that this process has loaded is initialised. Ignores the answer of a driver that returned "not
/// initialized" from cuInit itself.
fn is_initialized() -> bool {
    let mut context = std::ptr::null_mut();
    // Every small call asks. A child that is forked meanwhile would find the driver's locks taken.
    // SAFETY: the driver writes one handle into a local, or the slot is not filled.
    let code = fork::with_lock(|| unsafe { cuCtxGetCurrent(&raw mut context) });
    let is_believed = INITIALIZATION.load(Ordering::Relaxed) != Code::NOT_INITIALIZED.0;
    !(is_believed && matches!(code, Code::NOT_INITIALIZED | Code::NO_DEVICE))
}

/// True if device memory may exist in this process although [`for_placement`] returned no driver: another library's, or
/// in a forked child the parent's.
pub(crate) fn may_serve_others() -> bool {
    match Opening::of_this_process() {
        Err(_) => true,
        Ok(_) => loader::known().is_some() && is_initialized(),
    }
}

/// Forgets why the driver could not be opened, so that the next call tries again.
pub(crate) fn forget_failure() {
    if let Some(opening) = OPENING.get() {
        opening.driver.forget_failure();
    }
}

fn open() -> Result<Driver, Error> {
    fill_slots(open_library()?)?;
    // SAFETY: cuInit takes no pointers; 0 is its only flag value.
    let code = unsafe { cuInit(0) };
    INITIALIZATION.store(code.0, Ordering::Relaxed);
    if code == Code::SUCCESS {
        return Ok(Driver(()));
    }
    let why = format!("cuInit failed with {} ({})", code.name(), code.0);
    Err(Error::NoGpu { why: interned(why) })
}

/// Opens the driver's library by its soname, so that only the system's search path decides.
fn open_library() -> Result<*mut c_void, Error> {
    // SAFETY: the name is a C string; NVIDIA answers for the driver's initialisers.
    let library = unsafe { libc::dlopen(loader::DRIVER.as_ptr(), libc::RTLD_NOW) };
    if library.is_null() {
        // SAFETY: after a failed dlopen, dlerror returns a C string that is valid until this thread's next dl call.
        let why = unsafe { CStr::from_ptr(libc::dlerror()) }.to_string_lossy();
        return Err(Error::NoGpu { why: interned(format!("no CUDA driver: {why}")) });
    }
    loader::keep(library);
    Ok(library)
}

/// Fills every slot, in the first call. Fails if the driver lacks a function, as only very old ones do.
fn fill_slots(library: *mut c_void) -> Result<(), Error> {
    // Not a lock, which another thread could hold at a fork.
    static FILLED: OnceBox<Result<(), Error>> = OnceBox::new();
    *FILLED.get_or_init(|| Box::new(look_up(library)))
}

/// Looks up the function of every slot.
fn look_up(library: *mut c_void) -> Result<(), Error> {
    for (name, slot) in SLOTS {
        // SAFETY: `library` is an open library and `name` a C string.
        let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
        if symbol.is_null() {
            let name = name.to_string_lossy();
            return Err(Error::NoGpu { why: interned(format!("the CUDA driver lacks {name}")) });
        }
        slot.store(symbol, Ordering::Release);
    }
    Ok(())
}

/// Returns the newest CUDA version that the driver supports, as 1000 major + 10 minor.
pub(crate) fn version() -> i32 {
    let mut version = 0;
    // SAFETY: the driver writes one int. On failure it stays 0, which reads as "very old".
    unsafe { cuDriverGetVersion(&raw mut version) };
    version
}

/// The target of a slot that was not filled.
extern "C" fn missing() -> Code {
    Code::NOT_FOUND
}

/// Declares functions of the driver (CUDA driver API reference), each a jump through a slot.
macro_rules! driver {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?);)+) => {
        #[expect(non_upper_case_globals, reason = "named as the driver's functions")]
        mod slots {
            use super::{AtomicPtr, c_void, missing};
            $(pub(super) static $name: AtomicPtr<c_void> =
                AtomicPtr::new(missing as extern "C" fn() -> _ as *mut c_void);)+
        }

        static SLOTS: &[(&CStr, &AtomicPtr<c_void>)] = &[
            $((
                match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => unreachable!(),
                },
                &slots::$name,
            ),)+
        ];

        $(jump!($name, slots::$name);)+

        unsafe extern "C" {
            $(pub(super) fn $name($($argument: $type),*) -> Code;)+
        }
    };
}

driver! {
    fn cuCtxGetCurrent(context: *mut CUcontext);
    fn cuCtxGetDevice(device: *mut CUdevice);
    fn cuCtxPopCurrent_v2(context: *mut CUcontext);
    fn cuCtxPushCurrent_v2(context: CUcontext);
    fn cuCtxSetCurrent(context: CUcontext);
    fn cuCtxSynchronize();
    fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
    fn cuDeviceGetCount(count: *mut c_int);
    fn cuDeviceGetName(name: *mut c_char, bytes: c_int, device: CUdevice);
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: CUdevice_attribute, device: CUdevice);
    fn cuDevicePrimaryCtxRelease_v2(device: CUdevice);
    fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
    fn cuEventCreate(event: *mut CUevent, flags: c_uint);
    fn cuEventDestroy_v2(event: CUevent);
    fn cuEventElapsedTime(ms: *mut f32, start: CUevent, end: CUevent);
    fn cuEventQuery(event: CUevent);
    fn cuEventRecord(event: CUevent, stream: CUstream);
    fn cuEventSynchronize(event: CUevent);
    fn cuFuncSetAttribute(function: CUfunction, attribute: CUfunction_attribute, value: c_int);
    fn cuModuleLoadData(module: *mut CUmodule, image: *const c_void);
    fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
    fn cuModuleUnload(module: CUmodule);
    fn cuPointerGetAttribute(value: *mut c_void, attribute: CUpointer_attribute, at: CUdeviceptr);
    fn cuPointerGetAttributes(
        count: c_uint, attributes: *mut CUpointer_attribute, values: *mut *mut c_void,
        at: CUdeviceptr,
    );
    fn cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize);
    fn cuMemHostAlloc(address: *mut *mut c_void, bytes: usize, flags: c_uint);
    fn cuMemFreeHost(address: *mut c_void);
    fn cuMemFree_v2(address: CUdeviceptr);
    fn cuMemHostRegister_v2(start: *mut c_void, bytes: usize, flags: c_uint);
    fn cuMemHostUnregister(start: *mut c_void);
    fn cuStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, priority: c_int);
    fn cuStreamDestroy_v2(stream: CUstream);
    fn cuStreamGetCtx(stream: CUstream, context: *mut CUcontext);
    fn cuStreamIsCapturing(stream: CUstream, status: *mut c_int);
    fn cuStreamQuery(stream: CUstream);
    fn cuStreamSynchronize(stream: CUstream);
    fn cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint);
    fn cuThreadExchangeStreamCaptureMode(mode: *mut c_int);
    fn cuMemsetD8Async(to: CUdeviceptr, value: c_uchar, bytes: usize, stream: CUstream);
    fn cuMemcpyHtoD_v2(to: CUdeviceptr, from: *const c_void, bytes: usize);
    fn cuMemcpyAsync(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream);
    fn cuLaunchKernel(
        function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint,
        block_y: c_uint, block_z: c_uint, shared_bytes: c_uint, stream: CUstream,
        parameters: *mut *mut c_void, extra: *mut *mut c_void,
    );
    fn cuInit(flags: c_uint);
    fn cuDriverGetVersion(version: *mut c_int);
    fn cuGetErrorName(error: Code, name: *mut *const c_char);
}
