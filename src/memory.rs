//! Page-locked memory for callers, with and without a GPU.

use crate::cuda::device;
use crate::error::Error;
use crate::fork;
use crate::settings::{self, Placement};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

/// Who gave an allocation, and so who takes it back.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// The driver, page-locked.
    Driver,
    /// The system, in whole pages.
    System { bytes: usize },
}

/// Allocates at least `bytes`, page-locked where there is a GPU to see it.
pub(crate) fn pinned_alloc(bytes: usize) -> Result<NonNull<c_void>, Error> {
    let bytes = whole_pages(bytes)?;
    let (address, source) = match gpu_memory(bytes)? {
        Some(address) => (address, Source::Driver),
        None => (system_memory(bytes)?, Source::System { bytes }),
    };
    with_registry(|registry| registry.insert(address.addr().get(), source));
    Ok(address)
}

/// Takes back what [`pinned_alloc`] gave. In a forked child, what the parent's driver gave is
/// forgotten: the child never had it.
///
/// # Safety
/// Nobody may use the memory any more.
pub(crate) unsafe fn pinned_free(pointer: *mut c_void) -> Result<(), Error> {
    let Some(address) = NonNull::new(pointer) else { return Ok(()) };
    let key = address.addr().get();
    let source = with_registry(|registry| registry.remove(&key))
        .ok_or(Error::NotPinnedHere { argument: "ptr", address: key })?;
    // SAFETY: the registry held the address, so it is ours and was not freed; the rest is this
    // function's promise.
    unsafe { give_back(address, source) }.inspect_err(|_| {
        with_registry(|registry| registry.insert(key, source));
    })
}

/// # Safety
/// The memory must be of this source, and used by nobody.
unsafe fn give_back(address: NonNull<c_void>, source: Source) -> Result<(), Error> {
    match source {
        // SAFETY: this function's promise.
        Source::Driver => unsafe { device::pinned_free(address) },
        Source::System { bytes } => {
            // SAFETY: this function's promise; the length is the one that was mapped.
            unsafe { libc::munmap(address.as_ptr(), bytes) };
            Ok(())
        }
    }
}

/// `None` where no GPU would see the memory.
fn gpu_memory(bytes: usize) -> Result<Option<NonNull<c_void>>, Error> {
    match settings::placement()? {
        Placement::Cpu => Ok(None),
        Placement::Gpu => device::pinned_alloc(bytes).map(Some),
        Placement::Auto if device::usable().is_err() => Ok(None),
        Placement::Auto => device::pinned_alloc(bytes).map(Some),
    }
}

fn system_memory(bytes: usize) -> Result<NonNull<c_void>, Error> {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new anonymous mapping touches nothing that exists.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    match NonNull::new(address) {
        Some(address) if address.as_ptr() != libc::MAP_FAILED => Ok(address),
        _ => Err(Error::OutOfHostMemory { bytes, purpose: "pinned_alloc" }),
    }
}

/// `bytes` rounded up to whole pages, at least one.
fn whole_pages(bytes: usize) -> Result<usize, Error> {
    const PAGE: usize = 4096;
    bytes
        .max(1)
        .checked_next_multiple_of(PAGE)
        .filter(|bytes| isize::try_from(*bytes).is_ok())
        .ok_or(Error::TooManyBytes { bytes })
}

/// Every allocation that was not freed yet, by address.
fn with_registry<T>(work: impl FnOnce(&mut BTreeMap<usize, Source>) -> T) -> T {
    static REGISTRY: Mutex<BTreeMap<usize, Source>> = Mutex::new(BTreeMap::new());
    fork::unbroken(|| work(&mut REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_to_whole_pages() {
        assert_eq!(whole_pages(0).unwrap(), 4096);
        assert_eq!(whole_pages(4096).unwrap(), 4096);
        assert_eq!(whole_pages(4097).unwrap(), 8192);
        for too_many in [usize::MAX, isize::MAX as usize] {
            assert!(matches!(whole_pages(too_many), Err(Error::TooManyBytes { .. })));
        }
    }
}
