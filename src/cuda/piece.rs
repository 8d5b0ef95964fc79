//! One array's part of a chunk: how a kernel gets at it, by way of a lane.

use super::driver::{cuMemcpyDtoHAsync_v2, cuMemcpyHtoDAsync_v2};
use super::staging::{self, Lane};
use crate::error::Error;
use crate::route::Access;

/// The part of one array that belongs to a chunk.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    /// Which of the lane's buffers it uses.
    pub(crate) slot: usize,
    /// How kernels get at it.
    pub(crate) access: Access,
    /// Where it is for the host, unless it is device memory.
    pub(crate) host: *mut u8,
    /// Where it is for the device, if kernels use it where it is.
    pub(crate) device: u64,
    /// Its length.
    pub(crate) bytes: usize,
}

impl Piece {
    /// Bytes that go through a pinned buffer of ours.
    pub(crate) fn staged_bytes(&self) -> u64 {
        if self.access.is_staged() { self.bytes as u64 } else { 0 }
    }

    /// The address that a kernel gets.
    pub(crate) fn address(&self, lane: &mut Lane) -> Result<u64, Error> {
        match self.access {
            Access::Resident | Access::Mapped => Ok(self.device),
            Access::Dma | Access::StagedDma => lane.device(self.slot),
            Access::StagedMapped | Access::TileSums => {
                Ok(lane.pinned(self.slot)?.addr().get() as u64)
            }
        }
    }

    /// Makes an input visible to kernels: stages it, queues its copy to the device, or neither.
    ///
    /// # Safety
    /// The host memory must be readable until the lane's stream is synchronised.
    pub(crate) unsafe fn bring_in(&self, lane: &mut Lane, threads: usize) -> Result<(), Error> {
        if self.access.is_staged() {
            let buffer = lane.pinned(self.slot)?.cast().as_ptr();
            // SAFETY: this function's promise; the buffer is the lane's alone and holds a chunk.
            unsafe { staging::copy(self.host, buffer, self.bytes, threads) };
        }
        if !self.access.is_dma() {
            return Ok(());
        }
        let from = self.dma_end(lane)?;
        let to = lane.device(self.slot)?;
        // SAFETY: this function's promise, or the lane's buffer; the device buffer holds a chunk.
        unsafe { cuMemcpyHtoDAsync_v2(to, from.cast(), self.bytes, lane.stream.as_inner()) }
            .of("cuMemcpyHtoDAsync", lane.ordinal)
    }

    /// Queues the output's copy from the device, behind the kernel, if it needs one.
    ///
    /// # Safety
    /// The host memory must be writable until the lane's stream is synchronised.
    pub(crate) unsafe fn queue_out(&self, lane: &mut Lane) -> Result<(), Error> {
        if !self.access.is_dma() {
            return Ok(());
        }
        let to = self.dma_end(lane)?;
        let from = lane.device(self.slot)?;
        // SAFETY: as in `bring_in`, the other way round.
        unsafe { cuMemcpyDtoHAsync_v2(to.cast(), from, self.bytes, lane.stream.as_inner()) }
            .of("cuMemcpyDtoHAsync", lane.ordinal)
    }

    /// Copies a staged output to where the caller wants it.
    ///
    /// # Safety
    /// The host memory must be writable, and the lane's stream synchronised.
    pub(crate) unsafe fn take_out(&self, lane: &mut Lane, threads: usize) -> Result<(), Error> {
        if self.access.is_staged() {
            let buffer = lane.pinned(self.slot)?.cast().as_ptr();
            // SAFETY: this function's promise; the buffer's copy or kernel is done.
            unsafe { staging::copy(buffer, self.host, self.bytes, threads) };
        }
        Ok(())
    }

    /// The pinned memory that a copy to or from the device has at its host end.
    fn dma_end(&self, lane: &mut Lane) -> Result<*mut u8, Error> {
        if self.access.is_staged() {
            Ok(lane.pinned(self.slot)?.cast().as_ptr())
        } else {
            Ok(self.host)
        }
    }
}
