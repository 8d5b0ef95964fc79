//! One array's part of a chunk, as a slot transfers it.

use super::device::Device;
use super::driver::CUstream;
use super::enqueue;
use super::slot::Slot;
use crate::call::chunk::Chunk;
use crate::call::{Array, Transfer};
use crate::error::Error;

/// A chunk's part of one array of a [`Call`](crate::call::Call).
pub(super) struct ChunkView {
    pub(super) transfer: Transfer,
    /// The offset of the chunk's buffer in the slot's device memory, in its pinned memory, or among its states.
    offset: usize,
    /// The address for the host and for the driver's copies.
    address: usize,
    /// The address for kernels that use the array in place.
    in_place: u64,
    bytes: usize,
}

impl ChunkView {
    /// A chunk's part of an array. Kernels that use the array in place reach it at the address `in_place`. The array's
    /// buffer begins `offset` bytes after the slot's first one.
    pub(super) fn new(
        array: &Array, transfer: Transfer, in_place: u64, chunk: &Chunk, offset: usize,
    ) -> Self {
        let (start, bytes) = array.part(chunk);
        ChunkView {
            transfer,
            offset,
            address: array.address + start,
            in_place: in_place + start as u64,
            bytes,
        }
    }

    /// The bytes that go through a pinned buffer of the slot.
    pub(super) fn staged_bytes(&self) -> u64 {
        if self.transfer == Transfer::Staged { self.bytes as u64 } else { 0 }
    }

    /// The address for a kernel.
    pub(super) fn kernel_address(&self, slot: &Slot) -> Result<u64, Error> {
        match self.transfer {
            Transfer::InPlace | Transfer::Mapped => Ok(self.in_place),
            Transfer::Dma => self.device_buffer(slot),
            Transfer::Staged => Ok(self.pinned_buffer(slot)?.addr() as u64),
            Transfer::State => Ok(slot.states_address()? + self.offset as u64),
        }
    }

    /// Makes an input visible to kernels: stages it or queues its copy to the device, unless kernels use it in place.
    pub(super) fn bring_in(
        &self, device: &Device, slot: &Slot, stream: CUstream,
    ) -> Result<(), Error> {
        match self.transfer {
            Transfer::Staged => {
                let buffer = self.pinned_buffer(slot)?;
                // SAFETY: the call promises the chunk's elements. The buffer is the slot's alone, and a chunk fits.
                unsafe { std::ptr::copy_nonoverlapping(self.host_pointer(), buffer, self.bytes) };
                Ok(())
            }
            Transfer::Dma => {
                let (from, to) = (self.address as u64, self.device_buffer(slot)?);
                // SAFETY: the call promises the chunk's elements. The buffer is the slot's alone, and a chunk fits. The
                // slot is waited for before the call returns.
                unsafe { enqueue::copy(device, stream, from, to, self.bytes) }
            }
            _ => Ok(()),
        }
    }

    /// Queues the copy of an output from the device, after the kernel, if its transfer is DMA.
    pub(super) fn queue_out(
        &self, device: &Device, slot: &Slot, stream: CUstream,
    ) -> Result<(), Error> {
        if self.transfer != Transfer::Dma {
            return Ok(());
        }
        let (from, to) = (self.device_buffer(slot)?, self.address as u64);
        // SAFETY: as in `bring_in`, the other way round.
        unsafe { enqueue::copy(device, stream, from, to, self.bytes) }
    }

    /// Copies a staged output to the caller's array, after the slot's work is done.
    pub(super) fn take_out(&self, slot: &Slot) -> Result<(), Error> {
        if self.transfer == Transfer::Staged {
            let buffer = self.pinned_buffer(slot)?;
            // SAFETY: as in `bring_in`, the other way round.
            unsafe { std::ptr::copy_nonoverlapping(buffer, self.host_pointer(), self.bytes) };
        }
        Ok(())
    }

    fn host_pointer(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.address)
    }

    fn device_buffer(&self, slot: &Slot) -> Result<u64, Error> {
        Ok(slot.device()? + self.offset as u64)
    }

    fn pinned_buffer(&self, slot: &Slot) -> Result<*mut u8, Error> {
        Ok(slot.pinned()?.as_ptr().wrapping_add(self.offset))
    }
}
