//! The driver's functions, under the driver's names and with its signatures.
//!
//! # Safety
//! Each function trusts its caller as the driver does: pointers are valid as the CUDA driver API's
//! reference requires.

#![expect(missing_docs, reason = "the driver's reference has them")]
#![expect(clippy::missing_safety_doc, reason = "said once, above, for all of them")]

pub mod copies;
pub mod events;
pub mod memory;
pub mod modules;
pub mod pointers;
pub mod streams;

use crate::context::{self, Handle};
use crate::faults::{begin, violate};
use crate::{Code, INVALID_VALUE, NO_DEVICE, SUCCESS, names, process, setting, stream};
use std::ffi::{CStr, c_char, c_int, c_uint};

/// Does a call's work, unless the call is to fail. The work gets the code with which its queued
/// work is to fail, if any.
fn call(name: &'static str, work: impl FnOnce(Option<Code>) -> Result<(), Code>) -> Code {
    begin(name).and_then(work).err().unwrap_or(SUCCESS)
}

/// # Safety
/// `to` must be writable.
unsafe fn put<T>(to: *mut T, value: T) {
    // SAFETY: this function's promise.
    unsafe { to.write(value) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(code: Code, name: *mut *const c_char) -> Code {
    let known = names::name(code);
    // SAFETY: the caller's promise.
    unsafe { put(name, known.map_or(std::ptr::null(), CStr::as_ptr)) };
    if known.is_some() { SUCCESS } else { INVALID_VALUE }
}

fn version() -> c_int {
    setting("FAKE_DRIVER_CUDA_VERSION", 12_080) as c_int
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(to: *mut c_int) -> Code {
    // SAFETY: the caller's promise.
    unsafe { put(to, version()) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(_flags: c_uint) -> Code {
    call("cuInit", |_| {
        if context::devices() == 0 {
            return Err(NO_DEVICE);
        }
        process::set_initialized();
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> Code {
    call("cuDeviceGetCount", |_| {
        // SAFETY: the caller's promise.
        unsafe { put(count, context::devices() as c_int) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> Code {
    call("cuDeviceGet", |_| {
        context::device(ordinal)?;
        // SAFETY: the caller's promise.
        unsafe { put(device, ordinal) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, size: c_int, device: c_int) -> Code {
    call("cuDeviceGetName", |_| {
        let text = format!("Fake device {}\0", context::device(device)?);
        let len = text.len().min(usize::try_from(size).unwrap_or(0));
        // SAFETY: the caller promises `size` writable bytes.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), name.cast(), len) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(
    value: *mut c_int, attribute: c_uint, device: c_int,
) -> Code {
    const MULTIPROCESSOR_COUNT: c_uint = 16;
    const INTEGRATED: c_uint = 18;
    const PAGEABLE_MEMORY_ACCESS: c_uint = 88;
    const PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES: c_uint = 100;
    const SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO: c_uint = 87;
    const CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM: c_uint = 91;
    call("cuDeviceGetAttribute", |_| {
        context::device(device)?;
        let number = match attribute {
            CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM => setting("FAKE_DRIVER_HOST_POINTERS", 1),
            MULTIPROCESSOR_COUNT => 4,
            INTEGRATED => setting("FAKE_DRIVER_INTEGRATED", 0),
            PAGEABLE_MEMORY_ACCESS | PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES => {
                u64::from(crate::memory::kernels_reach_pageable())
            }
            SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO => setting("FAKE_DRIVER_F64_RATIO", 2),
            _ => 4,
        };
        // SAFETY: the caller's promise.
        unsafe { put(value, number as c_int) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(to: *mut Handle, device: c_int) -> Code {
    call("cuDevicePrimaryCtxRetain", |_| {
        let handle = context::retain_primary(context::device(device)?);
        // SAFETY: the caller's promise.
        unsafe { put(to, handle) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> Code {
    call("cuDevicePrimaryCtxRelease_v2", |_| context::release_primary(context::device(device)?))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxReset_v2(device: c_int) -> Code {
    violate("a primary context was reset, which destroys it for the whole process");
    call("cuDevicePrimaryCtxReset_v2", |_| context::device(device).map(|_| ()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxCreate_v2(to: *mut Handle, _flags: c_uint, device: c_int) -> Code {
    call("cuCtxCreate_v2", |_| {
        let handle = context::create(context::device(device)?)?;
        // SAFETY: the caller's promise.
        unsafe { put(to, handle) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxDestroy_v2(handle: Handle) -> Code {
    call("cuCtxDestroy_v2", |_| {
        context::destroy(handle);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetCurrent(to: *mut Handle) -> Code {
    call("cuCtxGetCurrent", |_| {
        // SAFETY: the caller's promise.
        unsafe { put(to, context::current()) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetDevice(device: *mut c_int) -> Code {
    call("cuCtxGetDevice", |_| {
        let ordinal = context::current_device()?;
        // SAFETY: the caller's promise.
        unsafe { put(device, ordinal as c_int) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSynchronize() -> Code {
    call("cuCtxSynchronize", |_| {
        context::current_device()?;
        stream::synchronize_all();
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCurrent(handle: Handle) -> Code {
    call("cuCtxSetCurrent", |_| context::set_current(handle))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxPushCurrent_v2(handle: Handle) -> Code {
    // A failure that loses a context loses this one: it is the one whose device the caller notes.
    let pushed = context::push(handle);
    let code = call("cuCtxPushCurrent_v2", |_| pushed);
    if code != SUCCESS && pushed.is_ok() {
        let _ = context::pop();
    }
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxPopCurrent_v2(to: *mut Handle) -> Code {
    call("cuCtxPopCurrent_v2", |_| {
        // SAFETY: the caller's promise.
        unsafe { put(to, context::pop()?) };
        Ok(())
    })
}

/// Returns the work, or in its place the plan's failure.
fn failing(
    fails: Option<Code>, work: impl FnOnce() -> Result<(), Code> + Send + 'static,
) -> stream::Work {
    match fails {
        Some(code) => Box::new(move || Err(code)),
        None => Box::new(work),
    }
}
