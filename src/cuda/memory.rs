//! Page-locked host memory and device memory, as the driver gives them.

use super::driver::{Driver, cuMemAlloc_v2, cuMemFreeHost, cuMemHostAlloc};
use crate::error::Error;
use std::ffi::{c_uint, c_void};
use std::ptr::NonNull;

/// CU_MEMHOSTALLOC_PORTABLE and _DEVICEMAP: every device sees it, at the host's address.
const PORTABLE_MAPPED: c_uint = 1 | 2;

/// Page-locks `bytes` of new host memory. The current context is one of device `ordinal`.
pub(crate) fn pinned_alloc(
    _: Driver,
    ordinal: usize,
    bytes: usize,
) -> Result<NonNull<c_void>, Error> {
    let mut address = std::ptr::null_mut();
    // SAFETY: the driver writes one pointer into a local.
    unsafe { cuMemHostAlloc(&raw mut address, bytes, PORTABLE_MAPPED) }
        .of("cuMemHostAlloc", ordinal)?;
    NonNull::new(address).ok_or(Error::OutOfHostMemory { bytes, purpose: "pinned memory" })
}

/// Gives page-locked memory back. A context is current.
///
/// # Safety
/// `address` must come from [`pinned_alloc`], not be freed yet, and be used by nobody.
pub(crate) unsafe fn pinned_free(_: Driver, address: NonNull<c_void>) -> Result<(), Error> {
    // SAFETY: this function's promise.
    unsafe { cuMemFreeHost(address.as_ptr()) }.of("cuMemFreeHost", 0)
}

/// Memory of the device whose context is current.
pub(crate) fn device_alloc(_: Driver, ordinal: usize, bytes: usize) -> Result<u64, Error> {
    let mut address = 0;
    // SAFETY: the driver writes one address into a local.
    unsafe { cuMemAlloc_v2(&raw mut address, bytes) }.of("cuMemAlloc", ordinal)?;
    Ok(address)
}
