//! Page-locked host memory and device memory, as the driver gives them.

use super::driver::{
    Code, Driver, cuMemAlloc_v2, cuMemFreeHost, cuMemHostAlloc, cuMemHostRegister_v2,
    cuMemHostUnregister,
};
use super::pointer;
use crate::error::Error;
use std::ffi::{c_uint, c_void};
use std::ops::Range;
use std::ptr::NonNull;

/// What the library asks for is whole pages: other memory of the driver's then begins with one too.
pub(crate) const PAGE: usize = 4096;

/// CU_MEMHOSTALLOC_PORTABLE and _DEVICEMAP, and CU_MEMHOSTREGISTER_'s: every device sees it, at the
/// host's address.
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

/// Gives page-locked memory back. The current context is one of device `ordinal`.
///
/// # Safety
/// `address` must come from [`pinned_alloc`], not be freed yet, and be used by nobody.
pub(crate) unsafe fn pinned_free(
    _: Driver,
    ordinal: usize,
    address: NonNull<c_void>,
) -> Result<(), Error> {
    // SAFETY: this function's promise.
    unsafe { cuMemFreeHost(address.as_ptr()) }.of("cuMemFreeHost", ordinal)
}

/// Memory of the device whose context is current.
pub(crate) fn device_alloc(_: Driver, ordinal: usize, bytes: usize) -> Result<u64, Error> {
    let mut address = 0;
    // SAFETY: the driver writes one address into a local.
    unsafe { cuMemAlloc_v2(&raw mut address, bytes) }.of("cuMemAlloc", ordinal)?;
    Ok(address)
}

/// Page-locks whole pages that exist, with the part of an array that is in them; whether they were
/// not locked before, by whomever.
pub(crate) fn lock_pages(
    driver: Driver,
    ordinal: usize,
    pages: Range<usize>,
    part: Range<usize>,
) -> Result<bool, Error> {
    let start = std::ptr::with_exposed_provenance_mut(pages.start);
    // SAFETY: the driver looks at the pages' mapping, and fails where there is none.
    match unsafe { cuMemHostRegister_v2(start, pages.len(), PORTABLE_MAPPED) } {
        Code::ALREADY_REGISTERED => Ok(false),
        // The driver's answer for memory that it has allocated itself.
        Code::INVALID_VALUE if pointer::is_locked(driver, part)? => Ok(false),
        code => code.of("cuMemHostRegister", ordinal).map(|()| true),
    }
}

/// Unlocks the pages that were locked together and begin there.
pub(crate) fn unlock_pages(_: Driver, ordinal: usize, start: usize) -> Result<(), Error> {
    let start = std::ptr::with_exposed_provenance_mut(start);
    // SAFETY: the driver fails for an address that was not registered.
    unsafe { cuMemHostUnregister(start) }.of("cuMemHostUnregister", ordinal)
}
