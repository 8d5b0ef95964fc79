//! The library itself: its state, its choices, and what it says of them.

use super::guard;
use crate::cuda::device;
use crate::error::{Error, STATUSES, gpuvec_status};
use crate::pool;
use crate::process::settings::{self, Placement};
use crate::run::last_run::{self, Run};
use std::ffi::{CStr, c_char};

/// Says what went wrong in this thread's last call: which argument, its value and what to do, or
/// which call of the driver and the driver's own name for the error.
///
/// Empty after a call that succeeded. Functions that only answer questions (`gpuvec_version`,
/// `gpuvec_status_string`, `gpuvec_why_cpu`, `gpuvec_last_run` and the like) leave it as it is.
///
/// Returns a borrowed string of this thread's, valid until its next call; never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_last_error() -> *const c_char {
    guard::constant(c"".as_ptr(), guard::last_error)
}

/// The name of a status and its meaning in a few words.
///
/// Returns a constant string; for a number that is no status, one that says so.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_status_string(status: i32) -> *const c_char {
    guard::constant(c"".as_ptr(), || {
        let known = STATUSES.iter().find(|known| **known as i32 == status);
        known.map_or(c"not a status of gpuvec's", |known| known.text()).as_ptr()
    })
}

/// Chooses where the work of all later calls is done, in every thread: a `gpuvec_place`.
///
/// Goes before the environment variable `GPUVEC_PLACEMENT`.
///
/// Returns `GPUVEC_OK`, or `GPUVEC_ERROR_VALUE` for another number.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_set_placement(placement: i32) -> i32 {
    guard::choice(|| {
        let chosen = Placement::from_value(placement).ok_or(Error::Value {
            argument: "placement",
            value: i64::from(placement),
            expected: "it takes GPUVEC_PLACE_AUTO (0), _GPU (1), _CPU (2) or _ALL (3)",
        })?;
        settings::set_placement(chosen);
        Ok(0)
    })
}

/// The placement in force: a `gpuvec_place`, or the status `GPUVEC_ERROR_ENVIRONMENT` if
/// `GPUVEC_PLACEMENT` is set to something else; `gpuvec_why_cpu()` then says to what. In a signal
/// handler that interrupts a call it is `GPUVEC_ERROR_REENTRANT`.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_get_placement() -> i32 {
    guard::query(gpuvec_status::GPUVEC_ERROR_REENTRANT as i32, || match settings::placement() {
        Ok(placement) => placement as i32,
        Err(error) => error.status() as i32,
    })
}

/// Says why there is no GPU to compute on: no driver, one too old, no device, a device that
/// refuses, placement `cpu`, a forked child.
///
/// Opens the driver and a device to find out, as `gpuvec_init` does, except with placement `cpu`.
///
/// Returns a borrowed string of this thread's, valid until it asks again; empty if a GPU is there
/// and usable.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_why_cpu() -> *const c_char {
    guard::query(IN_PROGRESS.as_ptr(), || match settings::placement() {
        Ok(Placement::Cpu) => c"placement cpu was chosen".as_ptr(),
        Ok(_) => device::usable().err().map_or(c"".as_ptr(), guard::keep),
        Err(error) => guard::keep(error),
    })
}

/// The answer for a signal handler that interrupted a call.
const IN_PROGRESS: &CStr = c"a call of gpuvec is in progress in this thread";

/// Says where this thread's last operation on arrays ran, and how.
///
/// `run` points to a `gpuvec_run` and `size` is its size, `sizeof(gpuvec_run)`: a program built
/// with an older, shorter one stays right. After an operation that failed, and one with nothing to
/// do, all fields are 0.
///
/// Returns `GPUVEC_OK`, or `GPUVEC_ERROR_NULL`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_last_run(run: *mut Run, size: usize) -> i32 {
    guard::constant(gpuvec_status::GPUVEC_ERROR_INTERNAL as i32, || {
        if run.is_null() {
            return gpuvec_status::GPUVEC_ERROR_NULL as i32;
        }
        let last = last_run::last();
        let bytes = size.min(size_of::<Run>());
        // SAFETY: the caller promises `size` writable bytes; no more are written, and they are
        // read from a local of at least as many.
        unsafe { std::ptr::copy_nonoverlapping((&raw const last).cast::<u8>(), run.cast(), bytes) };
        0
    })
}

/// Pays what the first call would: opens the driver and the first GPU, starts the CPU's threads. A
/// driver or GPU that failed before is tried again.
///
/// Never needed; for programs that want to choose when those tenths of a second pass. The kernel of
/// an operation is loaded when a device first runs it, in some milliseconds, for which the driver
/// may wait for work that is under way.
///
/// Returns `GPUVEC_OK`, also without a GPU; with placement `gpu` the error that a call would
/// return.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_init() -> i32 {
    guard::call(|| {
        let placement = settings::placement()?;
        pool::available(settings::threads()?.get());
        if placement == Placement::Cpu {
            return Ok(0);
        }
        device::forget_failures();
        match device::usable() {
            Err(error) if placement == Placement::Gpu => Err(error),
            _ => Ok(0),
        }
    })
}

/// How many GPUs the driver shows to this process; 0 without a driver and in a forked child. Opens the
/// driver to find out, with every placement.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_device_count() -> i32 {
    guard::query(0, || {
        device::all().map_or(0, |gpus| i32::try_from(gpus.len()).unwrap_or(i32::MAX))
    })
}

/// The name of a GPU, for people.
///
/// `device` counts from 0. Opens the driver, with every placement. Returns a constant string, or NULL
/// if there is no such device; `gpuvec_last_error()` says why.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_device_name(device: i32) -> *const c_char {
    guard::call(|| {
        let gpus = device::all()?;
        let gpu = usize::try_from(device).ok().and_then(|ordinal| gpus.get(ordinal));
        gpu.map(|gpu| gpu.name.as_ptr()).ok_or(Error::Value {
            argument: "device",
            value: i64::from(device),
            expected: "devices count from 0 to gpuvec_device_count() - 1",
        })
    })
}

/// The library's version, as "major.minor.patch": a constant string.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_version() -> *const c_char {
    guard::constant(VERSION.as_ptr(), || VERSION.as_ptr())
}

const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => unreachable!(),
    };

/// The version of the binary interface. A program that was built with a header whose
/// `GPUVEC_ABI_VERSION` is the same runs with this library.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_abi_version() -> i32 {
    guard::constant(GPUVEC_ABI_VERSION, || GPUVEC_ABI_VERSION)
}

/// This header's binary interface; the library's own is `gpuvec_abi_version()`. Raised when a
/// function, a status or a field is changed or removed, not when one is added.
pub const GPUVEC_ABI_VERSION: i32 = 1;
