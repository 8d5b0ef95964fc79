//! Streams.

use super::{call, failing, put};
use crate::context::{self, Handle};
use crate::faults::begin;
use crate::stream::Capture;
use crate::{Code, INVALID_VALUE, OUT_OF_MEMORY, SUCCESS, event, stream};
use std::ffi::{c_int, c_uint, c_void};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreateWithPriority(
    to: *mut usize, flags: c_uint, _priority: c_int,
) -> Code {
    const NON_BLOCKING: c_uint = 1;
    call("cuStreamCreateWithPriority", |_| {
        context::current_device()?;
        let handle = stream::create(flags & NON_BLOCKING != 0).ok_or(OUT_OF_MEMORY)?;
        // SAFETY: the caller's promise.
        unsafe { put(to, handle) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamDestroy_v2(handle: usize) -> Code {
    call("cuStreamDestroy_v2", |_| stream::destroy(handle))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamSynchronize(handle: usize) -> Code {
    // Waits for the stream even if the call fails: no work may use its memory afterwards.
    let begun = begin("cuStreamSynchronize");
    let waited = stream::synchronize(handle);
    begun.map(|_| ()).and(waited).err().unwrap_or(SUCCESS)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamQuery(handle: usize) -> Code {
    call("cuStreamQuery", |_| stream::query(handle))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamIsCapturing(handle: usize, to: *mut c_uint) -> Code {
    const NONE: c_uint = 0;
    const ACTIVE: c_uint = 1;
    const INVALIDATED: c_uint = 2;
    call("cuStreamIsCapturing", |_| {
        let status = match stream::capture_of(handle)? {
            None => NONE,
            Some(Capture::Valid) => ACTIVE,
            Some(Capture::Invalidated) => INVALIDATED,
        };
        // SAFETY: the caller's promise.
        unsafe { put(to, status) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuThreadExchangeStreamCaptureMode(mode: *mut c_uint) -> Code {
    call("cuThreadExchangeStreamCaptureMode", |_| {
        // SAFETY: the caller's promise.
        unsafe { put(mode, stream::exchange_capture_mode(mode.read())) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamWaitEvent(handle: usize, awaited: usize, flags: c_uint) -> Code {
    call("cuStreamWaitEvent", |_| match flags {
        0 => event::wait_on(handle, awaited),
        _ => Err(INVALID_VALUE),
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuLaunchHostFunc(
    handle: usize, function: extern "C" fn(*mut c_void), data: usize,
) -> Code {
    call("cuLaunchHostFunc", |fails| {
        let work = move || {
            function(std::ptr::with_exposed_provenance_mut(data));
            Ok(())
        };
        stream::enqueue(handle, failing(fails, work))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetCtx(handle: usize, to: *mut Handle) -> Code {
    call("cuStreamGetCtx", |_| {
        let context = stream::context_of(handle)?;
        // SAFETY: the caller's promise.
        unsafe { put(to, context) };
        Ok(())
    })
}
