//! Asks the driver for the kind of an array's memory.

use super::device_cache;
use super::driver::{
    CUpointer_attribute as Attribute, Code, Driver, cuPointerGetAttribute, cuPointerGetAttributes,
};
use crate::call::{Array, MemoryKind};
use crate::error::Error;
use crate::policy::gpu;
use crate::process::memory::Extent;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

const MEMORY_TYPE_HOST: u32 = 1;
const MEMORY_TYPE_DEVICE: u32 = 2;

/// The driver's attributes of an address; all zero for memory that it does not know.
#[derive(Default)]
struct Attributes {
    memory_type: u32,
    is_managed: u32,
    ordinal: i32,
    range_start: u64,
    range_bytes: usize,
}

/// Returns the kind of an array's memory. It is page-locked only if the whole array is; otherwise it counts as
/// pageable, and is staged.
pub(crate) fn kind_of(_: Driver, array: &Array) -> Result<MemoryKind, Error> {
    let attributes = attributes(array.address)?;
    let end = array.address + array.bytes;
    let available = available(&attributes, array.address);
    let is_whole = array.bytes <= available;
    let ordinal = usize::try_from(attributes.ordinal).unwrap_or(0);
    Ok(match attributes.memory_type {
        MEMORY_TYPE_DEVICE if !is_whole => {
            return Err(Error::OutOfBounds {
                argument: array.name,
                available,
                needed: array.bytes,
            });
        }
        MEMORY_TYPE_DEVICE if device_cache::begins_at(attributes.range_start) => {
            return Err(Error::NoMemory { argument: array.name, address: array.address });
        }
        MEMORY_TYPE_HOST | MEMORY_TYPE_DEVICE if attributes.is_managed != 0 && is_whole => {
            MemoryKind::Managed
        }
        MEMORY_TYPE_DEVICE => {
            DEVICE_MEMORY.note(array.address..=end - 1);
            MemoryKind::Device { ordinal }
        }
        MEMORY_TYPE_HOST if is_whole => MemoryKind::Pinned,
        MEMORY_TYPE_HOST if is_locked(array.address + available..end)? => MemoryKind::PinnedInParts,
        _ if !could_be_freed_device_memory(array) => MemoryKind::Pageable,
        _ if host_reads_ends(array) => MemoryKind::Pageable,
        _ => return Err(Error::NoMemory { argument: array.name, address: array.address }),
    })
}

/// True if all of these bytes are page-locked, as a whole or in parts.
pub(super) fn is_locked(mut bytes: Range<usize>) -> Result<bool, Error> {
    while !bytes.is_empty() {
        let next = attributes(bytes.start)?;
        match available(&next, bytes.start) {
            more if more > 0 && next.memory_type == MEMORY_TYPE_HOST && next.is_managed == 0 => {
                bytes.start = bytes.start.saturating_add(more);
            }
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// True if memory that the driver does not know may be freed device memory. To save time, a small array outside the
/// range of all device memory seen so far counts as host memory without a check.
fn could_be_freed_device_memory(array: &Array) -> bool {
    array.bytes > gpu::SMALL_ARRAY_BYTES || DEVICE_MEMORY.may_have_any(array.ends())
}

/// The range of all device memory seen so far.
pub(super) static DEVICE_MEMORY: Extent = Extent::new();

/// True if the driver knew the last memory that it was asked about: it will probably know the next. For unknown memory,
/// a query of one attribute is faster than a query of all.
static LAST_WAS_KNOWN: AtomicBool = AtomicBool::new(false);

fn attributes(address: usize) -> Result<Attributes, Error> {
    let mut found = Attributes::default();
    let mut names = [
        Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        Attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED,
        Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        Attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        Attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE,
    ];
    let mut values: [*mut c_void; 5] = [
        (&raw mut found.memory_type).cast(),
        (&raw mut found.is_managed).cast(),
        (&raw mut found.ordinal).cast(),
        (&raw mut found.range_start).cast(),
        (&raw mut found.range_bytes).cast(),
    ];
    let mut ask = |which: Range<usize>| {
        let (count, address) = (which.len() as u32, address as u64);
        let (names, values) = (names[which.clone()].as_mut_ptr(), values[which].as_mut_ptr());
        // SAFETY: each value points to a local of its attribute's type; the driver looks the address up without
        // following it.
        unsafe { cuPointerGetAttributes(count, names, values, address) }
    };
    let code = if LAST_WAS_KNOWN.load(Ordering::Relaxed) {
        ask(0..5)
    } else {
        match ask(0..1) {
            Code::SUCCESS if found.memory_type != 0 => ask(1..5),
            code => code,
        }
    };
    let is_known = found.memory_type != 0;
    if is_known != LAST_WAS_KNOWN.load(Ordering::Relaxed) {
        LAST_WAS_KNOWN.store(is_known, Ordering::Relaxed);
    }
    match code {
        Code::SUCCESS => Ok(found),
        Code::INVALID_VALUE => Ok(Attributes::default()),
        // The driver may be unable to answer because a device is lost. Memory that the host reads is then used as host
        // memory; only device memory must not be.
        _ if host_reads(address) => Ok(Attributes::default()),
        code => code.of("cuPointerGetAttributes", 0).map(|()| Attributes::default()),
    }
}

/// True if the host can read both ends of an array.
pub(crate) fn host_reads_ends(array: &Array) -> bool {
    array.ends().into_iter().all(host_reads)
}

/// True if the host can read the word at the address. Causes no fault: the operating system reads a signal mask there,
/// and then refuses an unknown request (EINVAL), or it fails to read the mask (EFAULT).
fn host_reads(address: usize) -> bool {
    const NO_SUCH_CHANGE: i64 = -1;
    const WORD: usize = size_of::<u64>();
    let word = address - address % WORD;
    let nowhere = std::ptr::null_mut::<c_void>();
    // SAFETY: the operating system checks the address, and an unknown request changes nothing.
    let result =
        unsafe { libc::syscall(libc::SYS_rt_sigprocmask, NO_SUCH_CHANGE, word, nowhere, WORD) };
    result == -1 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL)
}

/// The bytes from the address to the end of its allocation.
fn available(attributes: &Attributes, address: usize) -> usize {
    let end = attributes.range_start.saturating_add(attributes.range_bytes as u64);
    usize::try_from(end.saturating_sub(address as u64)).unwrap_or(usize::MAX)
}

/// The address of pinned memory on the device of the current context.
pub(super) fn device_address(ordinal: usize, host_address: usize) -> Result<u64, Error> {
    let mut address = 0u64;
    // SAFETY: the attribute is an address, which the driver writes into a local.
    unsafe {
        cuPointerGetAttribute(
            (&raw mut address).cast(),
            Attribute::CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
            host_address as u64,
        )
    }
    .of("cuPointerGetAttribute", ordinal)?;
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_the_host_cannot_read_is_found_without_a_fault() {
        let byte = 1u8;
        assert!(host_reads((&raw const byte).addr()));
        let code: fn(usize) -> bool = host_reads;
        assert!(host_reads(code as usize));
        assert!(!host_reads(8));
        // SAFETY: a new mapping, which nothing accesses.
        let reserved = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_NONE, flags, -1, 0)
        };
        assert_ne!(reserved, libc::MAP_FAILED);
        assert!(!host_reads(reserved.addr()));
    }
}
