//! The cache of device memory that callers freed, for their next allocations of the same size.
//!
//! The driver takes up to a millisecond to map memory and to unmap it, and a loop needs results of the same sizes again
//! and again. A block serves only allocations of exactly its size, so that the driver still knows the end of every
//! array. The blocks of a device go back to the driver, the oldest first, when they exceed the limits in
//! src/policy/gpu.rs, and all of them when the device is out of memory. No lock is held during a call of the driver.

use super::driver::Code;
use super::owned::OwnedMemory;
use crate::policy::gpu;
use std::sync::{Mutex, PoisonError};

/// True for sizes that are worth caching and not too large.
pub(super) fn is_cached(bytes: usize) -> bool {
    (gpu::LEAST_KEPT_BYTES..=gpu::KEPT_BYTES).contains(&bytes)
}

/// Adds a block that the device no longer uses. Returns the memory if the list of blocks cannot grow.
pub(super) fn add(memory: OwnedMemory) -> Result<(), OwnedMemory> {
    with_blocks(|blocks| {
        if blocks.try_reserve(1).is_err() {
            return Err(memory);
        }
        blocks.push(memory);
        Ok(())
    })
}

/// Removes the newest block of a device that has exactly this size.
pub(super) fn take(ordinal: usize, bytes: usize) -> Option<OwnedMemory> {
    with_blocks(|blocks| {
        let fits = |block: &OwnedMemory| block.ordinal() == ordinal && block.bytes() == bytes;
        let place = blocks.iter().rposition(fits)?;
        Some(blocks.remove(place))
    })
}

/// Removes the oldest block of a device if its blocks exceed a limit.
pub(super) fn take_excess(ordinal: usize) -> Option<OwnedMemory> {
    with_blocks(|blocks| {
        let [count, bytes] = size(blocks, ordinal);
        let is_within = count <= gpu::KEPT_BLOCKS && bytes <= gpu::KEPT_BYTES;
        if is_within { None } else { remove_oldest(blocks, ordinal) }
    })
}

/// Removes the oldest block of a device.
pub(super) fn take_oldest(ordinal: usize) -> Option<OwnedMemory> {
    with_blocks(|blocks| remove_oldest(blocks, ordinal))
}

/// Frees the blocks of a device. The device's context must be current. Returns true if it freed any.
pub(super) fn free_all(ordinal: usize) -> bool {
    let mut has_freed = false;
    while let Some(block) = take_oldest(ordinal) {
        if block.release() != Code::SUCCESS {
            // A later call tries again. If the list cannot grow, the memory stays allocated.
            let _ = add(block);
            break;
        }
        has_freed = true;
    }
    has_freed
}

/// True if a block begins at an address. Its former owner must not use it any more.
pub(super) fn begins_at(address: u64) -> bool {
    with_blocks(|blocks| blocks.iter().any(|block| block.address() == address))
}

/// The bytes of a device's blocks.
pub(super) fn bytes(ordinal: usize) -> usize {
    with_blocks(|blocks| size(blocks, ordinal)[1])
}

/// The number of a device's blocks, and their bytes.
fn size(blocks: &[OwnedMemory], ordinal: usize) -> [usize; 2] {
    let of_device = blocks.iter().filter(|block| block.ordinal() == ordinal);
    of_device.fold([0, 0], |[count, bytes], block| [count + 1, bytes + block.bytes()])
}

fn remove_oldest(blocks: &mut Vec<OwnedMemory>, ordinal: usize) -> Option<OwnedMemory> {
    let place = blocks.iter().position(|block| block.ordinal() == ordinal)?;
    Some(blocks.remove(place))
}

/// Runs `work` with the blocks of all devices, the oldest first. A forked child never calls this: its parent's blocks
/// are not its own.
fn with_blocks<T>(work: impl FnOnce(&mut Vec<OwnedMemory>) -> T) -> T {
    static BLOCKS: Mutex<Vec<OwnedMemory>> = Mutex::new(Vec::new());
    work(&mut BLOCKS.lock().unwrap_or_else(PoisonError::into_inner))
}
