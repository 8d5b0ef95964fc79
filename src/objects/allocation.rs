//! Page-locked and device memory for callers, with and without a GPU.

use crate::call::Array;
use crate::cuda::alloc;
use crate::cuda::{Device, device};
use crate::error::Error;
use crate::process::fork::Shared;
use crate::process::memory::{Extent, page_bytes};
use crate::process::settings;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::NonNull;

/// The source of an allocation.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// The driver, which page-locked `bytes` in a device's context. The caller's memory begins `before` bytes later.
    Pinned { ordinal: usize, bytes: usize, before: usize },
    /// The driver, in a device's memory.
    Device { ordinal: usize, bytes: usize },
    /// The operating system, in whole pages. Callers may use `bytes` of them.
    System { bytes: usize },
}

impl Source {
    /// The bytes that callers may use.
    fn bytes(&self) -> usize {
        match *self {
            Source::Pinned { bytes, before, .. } => bytes - before,
            Source::Device { bytes, .. } | Source::System { bytes } => bytes,
        }
    }
}

/// An allocation that is not freed yet.
#[derive(Clone, Copy, Debug)]
struct Allocation {
    /// The function that returned it.
    by: &'static str,
    source: Source,
}

/// The functions that allocate memory. [`free`] refuses memory of the other one.
pub(crate) const PINNED: &str = "pinned_alloc";
pub(crate) const DEVICE: &str = "gpuvec_device_alloc";

/// Allocates at least `bytes`, page-locked if a GPU may access them.
pub(crate) fn pinned_alloc(bytes: usize) -> Result<NonNull<c_void>, Error> {
    let bytes = whole_pages(bytes)?;
    let (address, source) = match device::to_see_memory(settings::placement()?)? {
        Some(device) => pinned_pages(device, bytes)?,
        None => (system_memory(bytes, PINNED)?, Source::System { bytes }),
    };
    Ok(noted(address, Allocation { by: PINNED, source }))
}

/// Allocates page-locked memory that begins at a page. The driver's own memory does so until another library in the
/// process asks for less than a page: from then on the driver packs small allocations.
fn pinned_pages(device: &Device, bytes: usize) -> Result<(NonNull<c_void>, Source), Error> {
    let ordinal = device.ordinal();
    let address = device.pinned_alloc(bytes)?;
    if address.addr().get().is_multiple_of(page_bytes()) {
        return Ok((address, Source::Pinned { ordinal, bytes, before: 0 }));
    }
    // SAFETY: the memory was allocated above, and nothing uses it.
    unsafe { alloc::pinned_free(ordinal, address, bytes)? };
    let bytes = bytes.saturating_add(page_bytes());
    let address = device.pinned_alloc(bytes)?;
    let before = address.cast::<u8>().align_offset(page_bytes());
    // SAFETY: the allocation is a page longer than asked for.
    Ok((unsafe { address.byte_add(before) }, Source::Pinned { ordinal, bytes, before }))
}

/// Allocates at least `bytes` of a device's memory, or of the host's if there is no GPU.
pub(crate) fn device_alloc(bytes: usize, device: i32) -> Result<NonNull<c_void>, Error> {
    whole_pages(bytes)?;
    let bytes = bytes.max(1);
    let (address, source) = match device::asked_for(settings::placement()?, device)? {
        Some(device) => {
            let ordinal = device.ordinal();
            let address = device.device_alloc(bytes)?;
            let pointer = std::ptr::with_exposed_provenance_mut(address as usize);
            (
                NonNull::new(pointer).ok_or(Error::DeviceLost { ordinal })?,
                Source::Device { ordinal, bytes },
            )
        }
        None => (system_memory(bytes, DEVICE)?, Source::System { bytes }),
    };
    Ok(noted(address, Allocation { by: DEVICE, source }))
}

fn noted(address: NonNull<c_void>, allocation: Allocation) -> NonNull<c_void> {
    let first = address.addr().get();
    ALLOCATED.note(first..=first + (allocation.source.bytes() - 1));
    REGISTRY.change(|registry| registry.insert(first, allocation));
    address
}

/// The addresses of all allocations so far.
static ALLOCATED: Extent = Extent::new();

/// Fails if an array is only partly in an allocation.
#[inline(always)]
pub(crate) fn check_bounds(array: &Array) -> Result<(), Error> {
    match ALLOCATED.may_have_any(array.ends()) {
        true => check_known(array),
        false => Ok(()),
    }
}

/// Fails unless the first and the last byte of an array are in the same allocation, or both in none.
#[inline(never)]
fn check_known(array: &Array) -> Result<(), Error> {
    let [first, last] = array.ends();
    let found = REGISTRY.read(|registry| {
        [first, last].map(|address| {
            let (start, allocation) = registry.range(..=address).next_back()?;
            let end = start + allocation.source.bytes();
            (address < end).then_some((*start, end))
        })
    });
    let available = match found {
        [of_first, of_last] if of_first == of_last => return Ok(()),
        [Some((_, end)), _] => end - first,
        [None, of_last] => of_last.map_or(0, |(start, _)| last + 1 - start),
    };
    Err(Error::OutOfBounds { argument: array.name, available, needed: array.bytes })
}

/// The device number of other memory.
pub(crate) const NO_DEVICE: i32 = -1;

/// The GPU with the allocation that begins at an address. [`NO_DEVICE`] for any other address.
pub(crate) fn device_of(pointer: *const c_void) -> i32 {
    match REGISTRY.read(|registry| registry.get(&pointer.addr()).map(|known| known.source)) {
        Some(Source::Device { ordinal, .. }) => i32::try_from(ordinal).unwrap_or(NO_DEVICE),
        _ => NO_DEVICE,
    }
}

/// The bytes of page-locked memory and of device memory that callers have allocated in a device's context.
pub(crate) fn bytes(of: usize) -> [usize; 2] {
    REGISTRY.read(|registry| {
        registry.values().fold([0, 0], |[pinned, device], allocation| match allocation.source {
            Source::Pinned { ordinal, bytes, .. } if ordinal == of => [pinned + bytes, device],
            Source::Device { ordinal, bytes } if ordinal == of => [pinned, device + bytes],
            _ => [pinned, device],
        })
    })
}

/// Frees memory that the function `by` returned. If that fails, the caller can try again, unless the device is lost,
/// and the memory with it. A forked child only forgets memory of its parent's driver, which it never had.
///
/// # Safety
/// The memory must not be used any more.
pub(crate) unsafe fn free(pointer: *mut c_void, by: &'static str) -> Result<(), Error> {
    let Some(address) = NonNull::new(pointer) else { return Ok(()) };
    let key = address.addr().get();
    let allocation = REGISTRY.change(|registry| {
        let is_such = registry.get(&key).is_some_and(|allocation| allocation.by == by);
        if is_such { registry.remove(&key) } else { None }
    });
    let allocation = allocation.ok_or(Error::NotGivenBy { argument: "ptr", address: key, by })?;
    // SAFETY: the registry had the address, so it comes from this source and is not freed yet; the rest is this
    // function's promise.
    let result = unsafe {
        match allocation.source {
            Source::Pinned { ordinal, bytes, before } => {
                alloc::pinned_free(ordinal, address.byte_sub(before), bytes)
            }
            Source::Device { ordinal, bytes } => alloc::device_free(ordinal, key as u64, bytes),
            Source::System { bytes } => {
                libc::munmap(address.as_ptr(), bytes);
                Ok(())
            }
        }
    };
    result.inspect_err(|error| {
        if !error.is_of_lost_device() {
            REGISTRY.change(|registry| registry.insert(key, allocation));
        }
    })
}

fn system_memory(bytes: usize, purpose: &'static str) -> Result<NonNull<c_void>, Error> {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new anonymous mapping changes no existing memory.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    match NonNull::new(address) {
        Some(address) if address.as_ptr() != libc::MAP_FAILED => Ok(address),
        _ => Err(Error::OutOfHostMemory { bytes, purpose }),
    }
}

/// `bytes` rounded up to whole pages, at least one.
fn whole_pages(bytes: usize) -> Result<usize, Error> {
    bytes
        .max(1)
        .checked_next_multiple_of(page_bytes())
        .filter(|bytes| isize::try_from(*bytes).is_ok())
        .ok_or(Error::TooManyBytes { argument: "bytes", bytes })
}

/// Every allocation that is not freed yet, by address.
static REGISTRY: Shared<BTreeMap<usize, Allocation>> = Shared::new(BTreeMap::new());

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
