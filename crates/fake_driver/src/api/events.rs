//! Events.

use super::{call, put};
use crate::faults::begin;
use crate::{Code, SUCCESS, event};
use std::ffi::c_uint;

const DISABLE_TIMING: c_uint = 2;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventCreate(to: *mut usize, flags: c_uint) -> Code {
    call("cuEventCreate", |_| {
        let handle = event::create(flags & DISABLE_TIMING == 0)?;
        // SAFETY: the caller's promise.
        unsafe { put(to, handle) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventDestroy_v2(handle: usize) -> Code {
    call("cuEventDestroy_v2", |_| event::destroy(handle))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventRecord(handle: usize, on: usize) -> Code {
    call("cuEventRecord", |_| event::record(handle, on))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventQuery(handle: usize) -> Code {
    call("cuEventQuery", |_| event::query(handle))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventSynchronize(handle: usize) -> Code {
    // Waits for the event even if the call fails, as for a stream.
    let begun = begin("cuEventSynchronize");
    let waited = event::synchronize(handle);
    begun.map(|_| ()).and(waited).err().unwrap_or(SUCCESS)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventElapsedTime(to: *mut f32, start: usize, end: usize) -> Code {
    call("cuEventElapsedTime", |_| {
        let milliseconds = event::elapsed(start, end)?;
        // SAFETY: the caller's promise.
        unsafe { put(to, milliseconds) };
        Ok(())
    })
}
