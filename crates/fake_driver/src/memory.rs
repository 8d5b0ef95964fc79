//! Device, managed and page-locked memory.
//!
//! A device address is in a reserved range without access: the bytes themselves are elsewhere, and
//! only kernels and copies find them, through [`reach`]. Page-locked memory lies between guard
//! pages.

use crate::calls::driver_functions;
use crate::codes::{
    Code, HOST_MEMORY_ALREADY_REGISTERED, HOST_MEMORY_NOT_REGISTERED, INVALID_CONTEXT,
    INVALID_VALUE, OUT_OF_MEMORY,
};
use crate::faults::violate;
use crate::{context, lock, setting, stream};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint, c_void};
use std::ops::Range;
use std::sync::Mutex;

const PAGE: usize = 4096;

/// New device memory of up to that many bytes has this content, as if it had been used before.
const FILLED_BYTES: usize = 1 << 20;
const FOUND: u8 = 0xA5;

/// The kind of a block's memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A device's.
    Device,
    /// Managed: the host can access it as well.
    Managed,
    /// Page-locked host memory.
    Host,
    /// Existing host memory that was page-locked.
    Registered,
}

impl Kind {
    pub(crate) fn is_host(self) -> bool {
        matches!(self, Kind::Host | Kind::Registered)
    }
}

/// One allocation.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    /// The kind of memory.
    pub(crate) kind: Kind,
    /// The device that allocated it.
    pub(crate) ordinal: usize,
    /// Its address on the device, which for host and managed memory is the host's as well.
    pub(crate) start: usize,
    /// Its length, as requested.
    pub(crate) bytes: usize,
    /// The address of its bytes.
    bytes_at: usize,
}

static BLOCKS: Mutex<BTreeMap<usize, Block>> = Mutex::new(BTreeMap::new());

driver_functions! {
    fn cuMemAlloc_v2(bytes: usize) -> u64 {
        allocate(Kind::Device, bytes)? as u64
    }

    fn cuMemAllocManaged(bytes: usize, _flags: c_uint) -> u64 {
        allocate(Kind::Managed, bytes)? as u64
    }

    fn cuMemHostAlloc(bytes: usize, _flags: c_uint) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(allocate(Kind::Host, bytes)?)
    }

    fn cuMemFree_v2(address: u64) {
        free(address as usize, &[Kind::Device, Kind::Managed])?;
    }

    fn cuMemFreeHost(address: *mut c_void) {
        free(address.addr(), &[Kind::Host])?;
    }

    /// Page-locks the pages of existing host memory. Fails if one of them is locked already.
    fn cuMemHostRegister_v2(address: *mut c_void, bytes: usize, _flags: c_uint) {
        let (ordinal, start) = (context::current_device()?, address.expose_provenance());
        let pages = pages_of(start, bytes).filter(is_mapped).ok_or(INVALID_VALUE)?;
        let mut blocks = lock(&BLOCKS);
        // No two blocks share a page: if any block shares one with these pages, it is the last block
        // that begins before their end.
        let last = blocks.range(..pages.end).next_back().map(|(_, block)| block);
        let shares_a_page = |block: &&Block| {
            pages_of(block.start, block.bytes).is_some_and(|others| pages.start < others.end)
        };
        match last.filter(shares_a_page) {
            Some(block) if block.kind == Kind::Registered => {
                return Err(HOST_MEMORY_ALREADY_REGISTERED);
            }
            Some(_) => return Err(INVALID_VALUE),
            None => {}
        }
        let kind = Kind::Registered;
        blocks.insert(start, Block { kind, ordinal, start, bytes, bytes_at: start });
    }

    fn cuMemHostUnregister(address: *mut c_void) {
        stream::synchronize_all();
        take(address.addr(), &[Kind::Registered]).ok_or(HOST_MEMORY_NOT_REGISTERED)?;
    }

    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        let bytes = free_bytes(context::current_device()?);
        // SAFETY: the caller promises writable places.
        unsafe {
            free.write(bytes);
            total.write(device_bytes());
        }
    }

    fn cuPointerGetAttribute(value: *mut c_void, attribute: c_uint, address: u64) {
        // SAFETY: the caller's promise.
        unsafe { put_attribute(value, attribute, address, find(address as usize))? };
    }

    fn cuPointerGetAttributes(
        count: c_uint, attributes: *const c_uint, values: *const *mut c_void, address: u64,
    ) {
        let block = find(address as usize);
        for i in 0..count as usize {
            // SAFETY: the caller promises `count` of both. A missing attribute is not an error of
            // the call.
            let _ = unsafe {
                put_attribute(values.add(i).read(), attributes.add(i).read(), address, block)
            };
        }
    }
}

/// Returns the host address of a device address's bytes, which tests can read even after the device
/// is lost; NULL for an address that is in no allocation.
#[unsafe(no_mangle)]
extern "C" fn fake_driver_bytes(address: u64) -> *mut u8 {
    reach(address as usize, 0).unwrap_or(std::ptr::null_mut())
}

/// Writes one attribute of an address; like the driver, writes no range for an unknown address.
///
/// # Safety
/// `value` must be writable for the attribute's type.
unsafe fn put_attribute(
    value: *mut c_void, attribute: c_uint, address: u64, block: Option<Block>,
) -> Result<(), Code> {
    const MEMORY_TYPE: c_uint = 2;
    const DEVICE_POINTER: c_uint = 3;
    const IS_MANAGED: c_uint = 8;
    const DEVICE_ORDINAL: c_uint = 9;
    const RANGE_START: c_uint = 11;
    const RANGE_BYTES: c_uint = 12;
    const NO_ORDINAL: c_int = -2;
    let is_managed = block.is_some_and(|block| block.kind == Kind::Managed);
    let memory_type: c_uint = block.map_or(0, |block| if block.kind.is_host() { 1 } else { 2 });
    let ordinal = block.map_or(NO_ORDINAL, |block| block.ordinal as c_int);
    // SAFETY: this function's promise, in each arm.
    unsafe {
        match (attribute, block) {
            (MEMORY_TYPE, _) => value.cast::<c_uint>().write(memory_type),
            (IS_MANAGED, _) => value.cast::<bool>().write(is_managed),
            (DEVICE_ORDINAL, _) => value.cast::<c_int>().write(ordinal),
            (DEVICE_POINTER, Some(_)) if context::current() == 0 => return Err(INVALID_CONTEXT),
            (DEVICE_POINTER, Some(_)) => value.cast::<u64>().write(address),
            (RANGE_START, Some(block)) => value.cast::<usize>().write(block.start),
            (RANGE_BYTES, Some(block)) => value.cast::<usize>().write(block.bytes),
            (RANGE_START | RANGE_BYTES, None) => {}
            _ => return Err(INVALID_VALUE),
        }
    }
    Ok(())
}

fn device_bytes() -> usize {
    setting("FAKE_DRIVER_MEMORY", 1 << 30) as usize
}

/// Returns the free bytes of a device's memory.
fn free_bytes(ordinal: usize) -> usize {
    let blocks = lock(&BLOCKS);
    let of_device =
        blocks.values().filter(|block| !block.kind.is_host() && block.ordinal == ordinal);
    device_bytes().saturating_sub(of_device.map(|block| block.bytes).sum())
}

/// Allocates, in this thread's context.
fn allocate(kind: Kind, bytes: usize) -> Result<usize, Code> {
    let ordinal = context::current_device()?;
    if bytes == 0 {
        return Err(INVALID_VALUE);
    }
    if !kind.is_host() && bytes > free_bytes(ordinal) {
        return Err(OUT_OF_MEMORY);
    }
    let before = match kind {
        Kind::Host => setting("FAKE_DRIVER_HOST_OFFSET", 0) as usize,
        _ => 0,
    };
    let page = map_between_guards(before + bytes, libc::PROT_READ | libc::PROT_WRITE)?;
    let bytes_at = page + before;
    if kind == Kind::Device && bytes <= FILLED_BYTES {
        let found = std::ptr::with_exposed_provenance_mut::<u8>(bytes_at);
        // SAFETY: the bytes are new.
        unsafe { found.write_bytes(FOUND, bytes) };
    }
    let start = match kind {
        Kind::Device => map_between_guards(bytes, libc::PROT_NONE)?,
        Kind::Managed | Kind::Host | Kind::Registered => bytes_at,
    };
    lock(&BLOCKS).insert(start, Block { kind, ordinal, start, bytes, bytes_at });
    Ok(start)
}

/// Waits for all streams, and frees a block of one of these kinds that begins at the address.
fn free(start: usize, kinds: &[Kind]) -> Result<(), Code> {
    stream::synchronize_all();
    let block = take(start, kinds).ok_or(INVALID_VALUE)?;
    unmap_with_guards(block.bytes_at, block.bytes);
    if block.start != block.bytes_at {
        unmap_with_guards(block.start, block.bytes);
    }
    Ok(())
}

fn take(start: usize, kinds: &[Kind]) -> Option<Block> {
    let mut blocks = lock(&BLOCKS);
    blocks.get(&start).filter(|block| kinds.contains(&block.kind))?;
    blocks.remove(&start)
}

/// Returns the pages that hold these bytes; `None` if they leave the address space.
fn pages_of(start: usize, bytes: usize) -> Option<Range<usize>> {
    let end = start.checked_add(bytes)?.checked_next_multiple_of(PAGE)?;
    (bytes > 0).then_some(start / PAGE * PAGE..end)
}

/// True if the process has mapped all of these pages.
fn is_mapped(pages: &Range<usize>) -> bool {
    let at = std::ptr::with_exposed_provenance_mut(pages.start);
    // SAFETY: the call only queries the pages, and does not access them.
    unsafe { libc::msync(at, pages.len(), libc::MS_ASYNC) == 0 }
}

/// Maps new memory of that protection, between two guard pages.
fn map_between_guards(bytes: usize, protection: i32) -> Result<usize, Code> {
    let pages = bytes.next_multiple_of(PAGE);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping touches nothing that exists; its middle is inside it.
    unsafe {
        let nowhere = std::ptr::null_mut();
        let all = libc::mmap(nowhere, pages + 2 * PAGE, libc::PROT_NONE, flags, -1, 0);
        if all == libc::MAP_FAILED {
            return Err(OUT_OF_MEMORY);
        }
        let middle = all.byte_add(PAGE);
        libc::mprotect(middle, pages, protection);
        Ok(middle.expose_provenance())
    }
}

fn unmap_with_guards(start: usize, bytes: usize) {
    let before = start % PAGE;
    let all = std::ptr::with_exposed_provenance_mut::<c_void>(start - before - PAGE);
    // SAFETY: `map_between_guards` made the range, and no block uses it any more.
    unsafe { libc::munmap(all, (before + bytes).next_multiple_of(PAGE) + 2 * PAGE) };
}

/// Returns the block that contains the address.
pub(crate) fn find(address: usize) -> Option<Block> {
    let blocks = lock(&BLOCKS);
    let (_, block) = blocks.range(..=address).next_back()?;
    (address < block.start + block.bytes).then_some(*block)
}

/// Returns the host address of these bytes for a device; `None` if they are not all in one block,
/// or are in another device's memory while a stream works.
pub(crate) fn reach(address: usize, bytes: usize) -> Option<*mut u8> {
    let block = find(address)?;
    if block.kind == Kind::Device
        && let Some(device) = stream::device_at_work()
        && device != block.ordinal
    {
        let owner = block.ordinal;
        violate(&format!("device {device} accessed {address:#x}, which is device {owner}'s"));
        return None;
    }
    let offset = address - block.start;
    (bytes <= block.bytes - offset)
        .then(|| std::ptr::with_exposed_provenance_mut(block.bytes_at + offset))
}

/// True if kernels access all of the host's memory through its page tables.
pub(crate) fn kernels_reach_pageable() -> bool {
    setting("FAKE_DRIVER_PAGEABLE", 0) != 0
}

/// Returns the host address of these bytes for a kernel: as [`reach`], or in any number of adjacent
/// blocks of page-locked host memory, or in memory that is not the driver's if kernels reach that.
pub(crate) fn reach_by_kernel(address: usize, bytes: usize) -> Option<*mut u8> {
    let is_the_hosts = || is_pageable(address) && kernels_reach_pageable();
    let beside = || {
        let is_reached = is_locked(address, bytes) || is_the_hosts();
        is_reached.then(|| std::ptr::with_exposed_provenance_mut(address))
    };
    reach(address, bytes).or_else(beside)
}

/// True if the driver does not know the address.
pub(crate) fn is_pageable(address: usize) -> bool {
    find(address).is_none()
}

fn is_locked(address: usize, bytes: usize) -> bool {
    let end = address.saturating_add(bytes);
    let mut next = address;
    while next < end {
        match find(next).filter(|block| block.kind.is_host()) {
            Some(block) => next = block.start + block.bytes,
            None => return false,
        }
    }
    true
}

/// Counts the blocks of these kinds, and their bytes.
pub(crate) fn count(kinds: &[Kind]) -> (usize, usize) {
    let blocks = lock(&BLOCKS);
    let of_kinds = || blocks.values().filter(|block| kinds.contains(&block.kind));
    (of_kinds().count(), of_kinds().map(|block| block.bytes).sum())
}
