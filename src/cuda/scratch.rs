//! Device memory in which the blocks of a reduction's kernel merge their states.
//!
//! A kernel relies on zeros there, and leaves zeros. Unless the last kernel is known to have left them, the
//! memory is zeroed again, on the stream of the next kernel.

use super::driver::{CUstream, cuMemsetD8Async};
use super::owned::OwnedMemory;
use crate::error::Error;
use crate::tuning::REDUCTION_SCRATCH_BYTES as BYTES;

/// The scratch memory of one stream.
pub(super) struct Scratch {
    memory: OwnedMemory,
    ordinal: usize,
    /// Says that the memory is zero when the stream has done its work.
    is_zero: bool,
}

impl Scratch {
    /// Allocates the memory, on the device whose context is current.
    pub(super) fn new(ordinal: usize) -> Result<Self, Error> {
        Ok(Scratch { memory: OwnedMemory::new(BYTES, ordinal)?, ordinal, is_zero: false })
    }

    /// Queues a kernel on the stream: `kernel` does that, and gets the memory's address.
    pub(super) fn lend<R>(
        &mut self, stream: CUstream, kernel: impl FnOnce(u64) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let address = self.memory.address();
        if !std::mem::take(&mut self.is_zero) {
            // SAFETY: the memory is for this stream's work alone, which is done in order.
            unsafe { cuMemsetD8Async(address, 0, BYTES, stream) }
                .of("cuMemsetD8Async", self.ordinal)?;
        }
        let queued = kernel(address)?;
        self.is_zero = true;
        Ok(queued)
    }

    /// Forgets that the memory is zero, after work of the stream failed.
    pub(super) fn spoil(&mut self) {
        self.is_zero = false;
    }

    pub(super) fn into_memory(self) -> OwnedMemory {
        self.memory
    }
}
