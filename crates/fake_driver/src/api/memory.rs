//! Allocation and page-locking.

use super::{call, put};
use crate::memory::{self, Kind};
use crate::{Code, context, stream};
use std::ffi::{c_uint, c_void};

/// # Safety
/// The driver's promises hold.
unsafe fn allocate<T>(
    to: *mut T, kind: Kind, bytes: usize, typed: impl FnOnce(usize) -> T,
) -> Result<(), Code> {
    let address = memory::allocate(kind, context::current_device()?, bytes)?;
    // SAFETY: this function's promise.
    unsafe { put(to, typed(address)) };
    Ok(())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(to: *mut u64, bytes: usize) -> Code {
    // SAFETY: the caller's promise.
    call("cuMemAlloc_v2", |_| unsafe { allocate(to, Kind::Device, bytes, |at| at as u64) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocManaged(to: *mut u64, bytes: usize, _flags: c_uint) -> Code {
    // SAFETY: the caller's promise.
    call("cuMemAllocManaged", |_| unsafe { allocate(to, Kind::Managed, bytes, |at| at as u64) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostAlloc(
    to: *mut *mut c_void, bytes: usize, _flags: c_uint,
) -> Code {
    call("cuMemHostAlloc", |_| {
        // SAFETY: the caller's promise.
        unsafe { allocate(to, Kind::Host, bytes, std::ptr::with_exposed_provenance_mut) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFree_v2(address: u64) -> Code {
    call("cuMemFree_v2", |_| {
        stream::synchronize_all();
        memory::free(address as usize, &[Kind::Device, Kind::Managed])
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFreeHost(address: *mut c_void) -> Code {
    call("cuMemFreeHost", |_| {
        stream::synchronize_all();
        memory::free(address.addr(), &[Kind::Host])
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemHostRegister_v2(address: *mut c_void, bytes: usize, _flags: c_uint) -> Code {
    call("cuMemHostRegister_v2", |_| {
        memory::register(context::current_device()?, address.expose_provenance(), bytes)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemHostUnregister(address: *mut c_void) -> Code {
    call("cuMemHostUnregister", |_| {
        stream::synchronize_all();
        memory::unregister(address.addr())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> Code {
    call("cuMemGetInfo_v2", |_| {
        let ordinal = context::current_device()?;
        // SAFETY: the caller's promise.
        unsafe {
            put(free, memory::free_bytes(ordinal));
            put(total, memory::device_bytes());
        }
        Ok(())
    })
}
