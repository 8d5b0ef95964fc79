//! # Settings and library
//!
//! The placement and the threads of calls, the last run, devices and versions. "All functions" says under
//! "Placement" how calls are placed.
//!
//! ```c
//! float a[3] = {1, 2, 3};
//! gpuvec_run run;
//! gpuvec_set_thread_placement(GPUVEC_PLACE_CPU);
//! gpuvec_scale_f32(2, a, a, 3, NULL);
//! if (gpuvec_last_run(&run, sizeof run) == GPUVEC_OK && run.backend == GPUVEC_BACKEND_CPU) {
//!     printf("%d thread\n", (int)run.threads); // 1 thread
//! }
//! ```

use super::{Status, guard, store};
use crate::cuda::device;
use crate::error::{Error, gpuvec_status};
use crate::pool;
use crate::process::settings::{self, GPUVEC_ALL_DEVICES, Placement};
use crate::run::last_run::{self, Run};
use std::ffi::{CStr, c_char};

/// Sets the placement of all later calls. The placement, a `gpuvec_place`, holds in every thread that has no
/// placement of its own.
///
/// Overrides the environment variable `GPUVEC_PLACEMENT`. Returns `GPUVEC_OK`, or `GPUVEC_ERROR_VALUE` for any
/// other number.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_set_placement(placement: i32) -> Status {
    guard::choice(|| {
        let chosen = Placement::from_value(placement).ok_or(Error::Value {
            argument: "placement",
            value: i64::from(placement),
            expected: "pass GPUVEC_PLACE_AUTO (0), _GPU (1), _CPU (2) or _ALL (3)",
        })?;
        settings::set_placement(chosen);
        Ok(0)
    })
}

/// Returns the placement in force for the calling thread. The result is a `gpuvec_place`. It is
/// `GPUVEC_ERROR_ENVIRONMENT` if `GPUVEC_PLACEMENT` has a wrong value, which `gpuvec_why_cpu()` then names, and
/// `GPUVEC_ERROR_REENTRANT` in a signal handler that interrupted a call.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_get_placement() -> i32 {
    guard::query(gpuvec_status::GPUVEC_ERROR_REENTRANT as i32, || match settings::placement() {
        Ok(placement) => placement as i32,
        Err(error) => error.status() as i32,
    })
}

/// Sets the placement of the calling thread's later calls. It takes precedence over the process's placement.
/// `placement` is a `gpuvec_place`, or `GPUVEC_PLACE_INHERIT` to follow the process's placement again.
///
/// Other threads are not affected. A child made by `fork` starts with the placement of the thread that called
/// `fork`; a new thread has none of its own. Returns `GPUVEC_OK`, or `GPUVEC_ERROR_VALUE` for any other number.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_set_thread_placement(placement: i32) -> Status {
    guard::choice(|| {
        let own = match placement {
            GPUVEC_PLACE_INHERIT => None,
            value => Some(Placement::from_value(value).ok_or(Error::Value {
                argument: "placement",
                value: i64::from(value),
                expected: "pass GPUVEC_PLACE_AUTO (0), _GPU (1), _CPU (2), _ALL (3) or _INHERIT (-1)",
            })?),
        };
        settings::set_thread_placement(own);
        Ok(0)
    })
}

/// Returns the calling thread's own placement. The result is a `gpuvec_place`, or `GPUVEC_PLACE_INHERIT` if the
/// thread has none.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_get_thread_placement() -> i32 {
    guard::constant(GPUVEC_PLACE_INHERIT, || {
        settings::thread_placement().map_or(GPUVEC_PLACE_INHERIT, |own| own as i32)
    })
}

/// The placement of a thread that follows the process's; see `gpuvec_set_thread_placement`.
pub const GPUVEC_PLACE_INHERIT: i32 = -1;

/// Sets the greatest number of threads that work on one call. The calling thread counts. The number holds for
/// all later calls in every thread; 0 restores the environment's number. A call uses the number of threads that
/// is predicted to finish first.
///
/// Overrides the environment variables `GPUVEC_NUM_THREADS` and `OMP_NUM_THREADS`. With 1 the calling thread
/// works alone; threads that were started before stay asleep. A number above 256 counts as 256. Returns
/// `GPUVEC_OK`, or `GPUVEC_ERROR_VALUE` for a number below 0.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_set_num_threads(threads: i32) -> Status {
    guard::choice(|| {
        let number = usize::try_from(threads).map_err(|_| Error::Value {
            argument: "threads",
            value: i64::from(threads),
            expected: "pass the most threads that may work on a call, or 0 for the environment's number",
        })?;
        settings::set_threads(number);
        Ok(0)
    })
}

/// Returns the greatest number of threads that work on one call. The result is from 1 to 256. It is 0 if
/// `GPUVEC_NUM_THREADS` has a wrong value, which the error of every other call names, and in a signal handler
/// that interrupted a call.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_get_num_threads() -> i32 {
    guard::query(0, || {
        settings::threads().map_or(0, |threads| i32::try_from(threads.get()).unwrap_or(i32::MAX))
    })
}

/// Sets the device that computes calls on host arrays.
///
/// The setting holds for all later calls of every thread, and overrides the environment variable
/// `GPUVEC_DEVICE`. With `GPUVEC_ALL_DEVICES` each call uses the first device, or several devices if they are
/// predicted to finish sooner. Calls on device memory run on the device that holds it, and functions that take a
/// device or a stream use that one. Does not open the driver. If the driver shows no device of that number, host
/// arrays are computed without a GPU, for the reason that `gpuvec_why_cpu()` returns. Returns `GPUVEC_OK`, or
/// `GPUVEC_ERROR_VALUE` for a number below -1 and for one that an open driver does not show.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_set_device(device: i32) -> Status {
    guard::choice(|| {
        device::check_number(device)?;
        settings::set_device(device);
        Ok(0)
    })
}

/// Returns the device that computes calls on host arrays. The result may be `GPUVEC_ALL_DEVICES`.
///
/// It is `GPUVEC_ALL_DEVICES` also if `GPUVEC_DEVICE` has a wrong value, which the error of every other call
/// names.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_get_device() -> i32 {
    guard::query(GPUVEC_ALL_DEVICES, || settings::device().unwrap_or(GPUVEC_ALL_DEVICES))
}

/// Returns the reason why no GPU is usable. Possible reasons are no driver, a driver that is too old, no device,
/// a device that refuses to work, placement `cpu`, and a forked child.
///
/// Opens the driver and a device to find out, as `gpuvec_init` does, except with placement `cpu`. The string
/// belongs to this thread and is valid until the thread calls this function again; it is empty if a GPU is
/// usable.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_why_cpu() -> *const c_char {
    guard::query(IN_PROGRESS.as_ptr(), || match settings::placement() {
        Ok(Placement::Cpu) => c"placement cpu was chosen".as_ptr(),
        Ok(_) => device::usable().err().map_or(c"".as_ptr(), guard::keep),
        Err(error) => guard::keep(error),
    })
}

/// The answer for a signal handler that interrupted a call.
const IN_PROGRESS: &CStr = c"a gpuvec call is in progress in this thread";

/// Stores where, how and why this thread's last operation on arrays ran.
///
/// `run` points to a `gpuvec_run` and `size` is `sizeof(gpuvec_run)`: a program built with an older, shorter
/// structure keeps working, and one built with a newer, longer structure finds 0 in the new fields. All fields
/// are 0 after an operation that failed or had nothing to do. Returns `GPUVEC_OK` or `GPUVEC_ERROR_NULL`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_last_run(run: *mut Run, size: usize) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::report(|| unsafe { store("run", run, size, || Ok(last_run::last())) })
}

/// Starts the worker threads, and opens the driver and a GPU. Otherwise later calls do this. The GPU is the
/// first one; with placement `cpu` the call opens neither. A driver or GPU that failed before is tried again.
///
/// No program has to call it: it only lets you choose when to spend those tenths of a second. With placement
/// `auto`, calls on host arrays may use a GPU from then on; otherwise they open it once that pays. An
/// operation's kernel is still loaded when a device first runs it, which takes some milliseconds, and for which
/// the driver may wait for work in flight. Returns `GPUVEC_OK`, also without a GPU; with placement `gpu`, the
/// error that a call would return.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_init() -> Status {
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

/// Returns the number of GPUs that the driver shows. The number is 0 without a driver and in a forked child.
/// Opens the driver to find out, with every placement.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_device_count() -> i32 {
    guard::query(0, || {
        device::all().map_or(0, |gpus| i32::try_from(gpus.len()).unwrap_or(i32::MAX))
    })
}

/// Returns the name of a GPU. Returns NULL if no device has that number; `gpuvec_last_error()` then says why.
/// The name is a constant string.
///
/// `device` counts from 0. Opens the driver, with every placement.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_device_name(device: i32) -> *const c_char {
    guard::call(|| device::numbered(device).map(|gpu| gpu.name.as_ptr()))
}

/// Returns the library's version. The version is a constant string, "major.minor.patch".
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_version() -> *const c_char {
    guard::constant(VERSION.as_ptr(), || VERSION.as_ptr())
}

const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => unreachable!(),
    };

/// Returns the version of the library's binary interface. A program runs with this library if its
/// header has the same `GPUVEC_ABI_VERSION` and is not of a newer version than `gpuvec_version()`.
///
/// Within a version of the interface, functions, statuses and fields are only added. A program that was built with
/// an older header therefore runs unchanged; one that was built with a newer header runs as far as it calls no
/// function that the library lacks.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_abi_version() -> i32 {
    guard::constant(GPUVEC_ABI_VERSION, || GPUVEC_ABI_VERSION)
}

/// The version of this header's binary interface; the library's is `gpuvec_abi_version()`. It is
/// raised when a function, a status or a field is changed or removed, not when one is added: a
/// program needs a library of the same version of the interface that is at least as new as its header.
pub const GPUVEC_ABI_VERSION: i32 = 1;
