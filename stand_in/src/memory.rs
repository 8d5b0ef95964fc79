//! Device, managed and page-locked memory.
//!
//! A device address is a reserved range that nobody can touch: the bytes themselves are elsewhere,
//! and only kernels and copies get there, through [`reach`]. Page-locked memory lies between pages
//! that nobody can touch.

use crate::{Code, INVALID_VALUE, OUT_OF_MEMORY, lock, setting};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::Mutex;

const PAGE: usize = 4096;

/// What kind of memory a block is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A device's.
    Device,
    /// Managed: the host reaches it as well.
    Managed,
    /// Page-locked host memory.
    Host,
}

/// One allocation.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    /// What kind of memory.
    pub(crate) kind: Kind,
    /// The device that it was made on.
    pub(crate) ordinal: usize,
    /// Its address, for devices; for host and managed memory the host's as well.
    pub(crate) start: usize,
    /// Its length, as it was asked for.
    pub(crate) bytes: usize,
    /// Where its bytes are.
    bytes_at: usize,
}

static BLOCKS: Mutex<BTreeMap<usize, Block>> = Mutex::new(BTreeMap::new());

/// How many bytes a device has.
pub(crate) fn device_bytes() -> usize {
    setting("STAND_IN_MEMORY", 1 << 30) as usize
}

/// How many bytes of a device are free.
pub(crate) fn free_bytes(ordinal: usize) -> usize {
    device_bytes().saturating_sub(used(ordinal))
}

fn used(ordinal: usize) -> usize {
    let blocks = lock(&BLOCKS);
    let of_device =
        blocks.values().filter(|block| block.kind != Kind::Host && block.ordinal == ordinal);
    of_device.map(|block| block.bytes).sum()
}

/// Allocates.
pub(crate) fn allocate(kind: Kind, ordinal: usize, bytes: usize) -> Result<usize, Code> {
    if bytes == 0 {
        return Err(INVALID_VALUE);
    }
    if kind != Kind::Host && bytes > free_bytes(ordinal) {
        return Err(OUT_OF_MEMORY);
    }
    let bytes_at = map_between_guards(bytes, libc::PROT_READ | libc::PROT_WRITE)?;
    let start = match kind {
        Kind::Device => map_between_guards(bytes, libc::PROT_NONE)?,
        Kind::Managed | Kind::Host => bytes_at,
    };
    lock(&BLOCKS).insert(start, Block { kind, ordinal, start, bytes, bytes_at });
    Ok(start)
}

/// Frees a block that begins at the address.
pub(crate) fn free(start: usize, is_host: bool) -> Result<(), Code> {
    let mut blocks = lock(&BLOCKS);
    let block = blocks.get(&start).copied().ok_or(INVALID_VALUE)?;
    if (block.kind == Kind::Host) != is_host {
        return Err(INVALID_VALUE);
    }
    blocks.remove(&start);
    unmap_with_guards(block.bytes_at, block.bytes);
    if block.start != block.bytes_at {
        unmap_with_guards(block.start, block.bytes);
    }
    Ok(())
}

fn whole_pages(bytes: usize) -> usize {
    bytes.next_multiple_of(PAGE)
}

/// New memory of that protection, between two pages that nobody can touch.
fn map_between_guards(bytes: usize, protection: i32) -> Result<usize, Code> {
    let pages = whole_pages(bytes);
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

fn unmap_with_guards(middle: usize, bytes: usize) {
    let all = std::ptr::with_exposed_provenance_mut::<c_void>(middle - PAGE);
    // SAFETY: the range is one that `map_between_guards` made and that no block has any more.
    unsafe { libc::munmap(all, whole_pages(bytes) + 2 * PAGE) };
}

/// The block that the address is in.
pub(crate) fn find(address: usize) -> Option<Block> {
    let blocks = lock(&BLOCKS);
    let (_, block) = blocks.range(..=address).next_back()?;
    (address < block.start + block.bytes).then_some(*block)
}

/// Where a device finds these bytes; `None` if they are not all in one block.
pub(crate) fn reach(address: usize, bytes: usize) -> Option<*mut u8> {
    let block = find(address)?;
    let offset = address - block.start;
    (offset + bytes <= block.bytes)
        .then(|| std::ptr::with_exposed_provenance_mut(block.bytes_at + offset))
}

/// How many blocks there are of host memory or of devices', and their bytes.
pub(crate) fn count(is_host: bool) -> (usize, usize) {
    let blocks = lock(&BLOCKS);
    let of_kind = || blocks.values().filter(|block| (block.kind == Kind::Host) == is_host);
    (of_kind().count(), of_kind().map(|block| block.bytes).sum())
}
