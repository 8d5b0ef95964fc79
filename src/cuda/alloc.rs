//! Page-locked host memory and device memory, for callers.

use super::device::{self, Device};
use super::driver::{
    self, Code, cuCtxSynchronize, cuMemHostRegister_v2, cuMemHostUnregister, cuMemcpyHtoD_v2,
};
use super::owned::{Owned, OwnedMemory, OwnedPinned, PORTABLE_MAPPED};
use super::{device_cache, memory_kind};
use crate::call::Array;
use crate::error::Error;
use std::ffi::c_void;
use std::ops::Range;
use std::ptr::NonNull;

impl Device {
    /// Allocates `bytes` of page-locked host memory that every device can access.
    pub(crate) fn pinned_alloc(&self, bytes: usize) -> Result<NonNull<c_void>, Error> {
        self.within(|| OwnedPinned::new(bytes, self.ordinal()).map(OwnedPinned::into_address))
    }

    /// Allocates memory of the device, for a caller.
    pub(crate) fn device_alloc(&self, bytes: usize) -> Result<u64, Error> {
        let ordinal = self.ordinal();
        let allocate = || {
            device_cache::take(ordinal, bytes).map_or_else(|| OwnedMemory::new(bytes, ordinal), Ok)
        };
        let address = self.within(allocate)?.into_address();
        let start = address as usize;
        memory_kind::DEVICE_MEMORY.note(start..=start + bytes - 1);
        Ok(address)
    }

    /// Takes back memory of a caller: caches it once the device has no work left, or frees it.
    fn device_free(&self, address: u64, bytes: usize) -> Result<(), Error> {
        let ordinal = self.ordinal();
        let memory = OwnedMemory::returned(address, bytes, ordinal);
        self.within(|| {
            // SAFETY: takes no pointers.
            if device_cache::is_cached(bytes) && unsafe { cuCtxSynchronize() } == Code::SUCCESS {
                self.recycle(memory);
                return Ok(());
            }
            memory.release().of("cuMemFree", ordinal)
        })
    }

    /// Caches memory that the device no longer uses, or frees it.
    pub(super) fn recycle(&self, memory: OwnedMemory) {
        let ordinal = self.ordinal();
        let refused = match device_cache::is_cached(memory.bytes()) {
            true => device_cache::add(memory).err(),
            false => Some(memory),
        };
        let excess = std::iter::from_fn(|| device_cache::take_excess(ordinal));
        self.destroy(refused.into_iter().chain(excess).map(Owned::Memory));
    }

    /// Page-locks whole pages of existing host memory. `part` is the part of an array in these pages. Returns false if
    /// any library had locked them before.
    pub(crate) fn lock_pages(
        &self, pages: Range<usize>, part: Range<usize>,
    ) -> Result<bool, Error> {
        let start = std::ptr::with_exposed_provenance_mut(pages.start);
        self.within(|| {
            // SAFETY: the driver checks the pages' mapping, and fails if there is none.
            match unsafe { cuMemHostRegister_v2(start, pages.len(), PORTABLE_MAPPED) } {
                Code::ALREADY_REGISTERED => Ok(false),
                // The driver's answer for memory that it has allocated itself.
                Code::INVALID_VALUE if memory_kind::is_locked(part)? => Ok(false),
                code => code.of("cuMemHostRegister", self.ordinal()).map(|()| true),
            }
        })
    }
}

/// Unlocks the pages that one call locked from `start` on. In a forked child they are not locked: does nothing.
pub(crate) fn unlock_pages(ordinal: usize, start: usize) -> Result<(), Error> {
    if driver::if_open().is_none() {
        return Ok(());
    }
    let start = std::ptr::with_exposed_provenance_mut(start);
    device::one(ordinal)?.within(|| {
        // SAFETY: the driver fails for an address that was not registered.
        unsafe { cuMemHostUnregister(start) }.of("cuMemHostUnregister", ordinal)
    })
}

/// Frees page-locked memory. Does nothing in a forked child, which must not call the driver.
///
/// # Safety
/// `address` must come from [`Device::pinned_alloc`] of `bytes`, not be freed yet, and be used by nothing.
pub(crate) unsafe fn pinned_free(
    ordinal: usize, address: NonNull<c_void>, bytes: usize,
) -> Result<(), Error> {
    if driver::if_open().is_none() {
        return Ok(());
    }
    let memory = OwnedPinned::returned(address, bytes, ordinal);
    device::one(ordinal)?.within(|| memory.release().of("cuMemFreeHost", ordinal))
}

/// Frees memory of a device. Does nothing in a forked child, which must not call the driver.
///
/// # Safety
/// `address` must come from [`Device::device_alloc`] of `bytes`, not be freed yet, and be used by nothing.
pub(crate) unsafe fn device_free(ordinal: usize, address: u64, bytes: usize) -> Result<(), Error> {
    if driver::if_open().is_none() {
        return Ok(());
    }
    device::one(ordinal)?.device_free(address, bytes)
}

/// Stores the low bytes of `bits` as the only element of an output, and returns once they are visible there.
///
/// # Panics
/// If the output has more than 8 bytes.
pub(crate) fn write_bits(output: &Array, bits: u64) -> Result<(), Error> {
    let bits = bits.to_le_bytes();
    let value = &bits[..output.bytes];
    let Some(ordinal) = output.device() else {
        // SAFETY: the call promises the output, which has this many bytes, in memory of the host.
        unsafe { output.host_bytes().copy_from_nonoverlapping(value.as_ptr(), value.len()) };
        return Ok(());
    };
    // SAFETY: the call promises the output, which has this many bytes, in this device's memory.
    unsafe { write(ordinal, output.address as u64, value) }
}

/// Stores bytes in a device's memory, and returns once they are visible there.
///
/// # Safety
/// The bytes at the address are the caller's to write.
pub(crate) unsafe fn write(ordinal: usize, address: u64, bytes: &[u8]) -> Result<(), Error> {
    device::one(ordinal)?.within(|| {
        // SAFETY: this function's promise; the driver has read the bytes when it returns.
        unsafe { cuMemcpyHtoD_v2(address, bytes.as_ptr().cast(), bytes.len()) }
            .of("cuMemcpyHtoD", ordinal)
    })
}
