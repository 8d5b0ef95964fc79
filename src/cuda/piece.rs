//! One array's part of a chunk: how a kernel gets at it, by way of a lane.

use super::driver::cuMemcpyAsync;
use super::lane::Lane;
use crate::error::Error;
use crate::route::Access;

/// The part of one array that belongs to a chunk.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    /// Where its buffer is in the lane's device memory, or in its pinned memory.
    pub(crate) offset: usize,
    /// How kernels get at it.
    pub(crate) access: Access,
    /// Where it is for the host, or, if it is device memory, for the driver's copies.
    pub(crate) host: *mut u8,
    /// Where it is for the device, if kernels use it where it is.
    pub(crate) device: u64,
    /// Its length.
    pub(crate) bytes: usize,
}

impl Piece {
    /// Bytes that go through a pinned buffer of ours.
    pub(crate) fn staged_bytes(&self) -> u64 {
        if self.access == Access::Staged { self.bytes as u64 } else { 0 }
    }

    /// The address that a kernel gets.
    pub(crate) fn address(&self, lane: &mut Lane) -> Result<u64, Error> {
        match self.access {
            Access::Resident | Access::Mapped => Ok(self.device),
            Access::Dma => self.device_buffer(lane),
            Access::Staged => Ok(self.pinned_buffer(lane)?.addr() as u64),
            Access::TileSums => Ok(lane.host_sums()?.addr().get() as u64),
        }
    }

    /// Makes an input visible to kernels: stages it, queues its copy to the device, or neither.
    ///
    /// # Safety
    /// The host memory must be readable until the lane was waited for.
    pub(crate) unsafe fn bring_in(&self, lane: &mut Lane) -> Result<(), Error> {
        if self.access == Access::Staged {
            let buffer = self.pinned_buffer(lane)?;
            // SAFETY: this function's promise; the buffer is the lane's alone and holds a chunk.
            unsafe { std::ptr::copy_nonoverlapping(self.host, buffer, self.bytes) };
        }
        if self.access != Access::Dma {
            return Ok(());
        }
        let (from, to) = (self.host.addr() as u64, self.device_buffer(lane)?);
        // SAFETY: this function's promise; the device buffer holds a chunk.
        unsafe { cuMemcpyAsync(to, from, self.bytes, lane.stream) }
            .of("cuMemcpyAsync", lane.ordinal)
    }

    /// Queues the output's copy from the device, behind the kernel, if it needs one.
    ///
    /// # Safety
    /// The host memory must be writable until the lane was waited for.
    pub(crate) unsafe fn queue_out(&self, lane: &mut Lane) -> Result<(), Error> {
        if self.access != Access::Dma {
            return Ok(());
        }
        let (to, from) = (self.host.addr() as u64, self.device_buffer(lane)?);
        // SAFETY: as in `bring_in`, the other way round.
        unsafe { cuMemcpyAsync(to, from, self.bytes, lane.stream) }
            .of("cuMemcpyAsync", lane.ordinal)
    }

    /// Copies a staged output to where the caller wants it.
    ///
    /// # Safety
    /// The host memory must be writable, and the lane waited for.
    pub(crate) unsafe fn take_out(&self, lane: &mut Lane) -> Result<(), Error> {
        if self.access == Access::Staged {
            let buffer = self.pinned_buffer(lane)?;
            // SAFETY: this function's promise; the buffer's copy or kernel is done.
            unsafe { std::ptr::copy_nonoverlapping(buffer, self.host, self.bytes) };
        }
        Ok(())
    }

    fn device_buffer(&self, lane: &mut Lane) -> Result<u64, Error> {
        Ok(lane.device()? + self.offset as u64)
    }

    fn pinned_buffer(&self, lane: &mut Lane) -> Result<*mut u8, Error> {
        // SAFETY: the lane's memory has room for a chunk of every array that is staged.
        Ok(unsafe { lane.pinned()?.cast::<u8>().as_ptr().add(self.offset) })
    }
}
