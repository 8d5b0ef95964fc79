//! Device memory in which the blocks of a reduction's kernel merge their states.
//!
//! A kernel expects zeros there, and leaves zeros. If the last kernel may not have left zeros, the memory is zeroed
//! again on the stream of the next kernel.

use super::driver::{CUstream, cuMemsetD8Async};
use super::owned::OwnedMemory;
use crate::error::Error;
use crate::policy::gpu;

/// The scratch memory of one stream.
pub(super) struct Scratch {
    ordinal: usize,
    small: Zeros,
    /// For reductions along axes, which merge many states. The first one allocates it.
    large: Option<Zeros>,
}

/// Scratch memory that a kernel may use.
#[derive(Clone, Copy)]
pub(super) struct Lent {
    pub(super) address: u64,
    pub(super) bytes: usize,
}

impl Scratch {
    /// Allocates the memory that every reduction needs, on the device of the current context.
    pub(super) fn new(ordinal: usize) -> Result<Self, Error> {
        let small = Zeros::new(gpu::REDUCTION_SCRATCH_BYTES, ordinal)?;
        Ok(Scratch { ordinal, small, large: None })
    }

    /// Calls `kernel`, which queues a kernel on the stream, with the memory's address.
    pub(super) fn lend<R>(
        &mut self, stream: CUstream, kernel: impl FnOnce(u64) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.small.lend(self.ordinal, stream, |lent| kernel(lent.address))
    }

    /// Does the same with more memory, if the device has enough left.
    pub(super) fn lend_along_axes<R>(
        &mut self, stream: CUstream, kernel: impl FnOnce(Lent) -> Result<R, Error>,
    ) -> Result<R, Error> {
        if self.large.is_none() {
            self.large = Zeros::new(gpu::AXES_SCRATCH_BYTES, self.ordinal).ok();
        }
        let zeros = self.large.as_mut().unwrap_or(&mut self.small);
        zeros.lend(self.ordinal, stream, kernel)
    }

    /// Forgets that the memory is zero, after work of the stream failed.
    pub(super) fn spoil(&mut self) {
        self.small.is_zero = false;
        self.large.iter_mut().for_each(|large| large.is_zero = false);
    }

    pub(super) fn into_memories(self) -> impl Iterator<Item = OwnedMemory> {
        self.large.into_iter().chain([self.small]).map(|zeros| zeros.memory)
    }
}

/// Device memory that is zero before and after each kernel.
struct Zeros {
    memory: OwnedMemory,
    bytes: usize,
    /// True if the memory is zero once the stream has done its work.
    is_zero: bool,
}

impl Zeros {
    fn new(bytes: usize, ordinal: usize) -> Result<Self, Error> {
        Ok(Zeros { memory: OwnedMemory::new(bytes, ordinal)?, bytes, is_zero: false })
    }

    fn lend<R>(
        &mut self, ordinal: usize, stream: CUstream, kernel: impl FnOnce(Lent) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let (address, bytes) = (self.memory.address(), self.bytes);
        if !std::mem::take(&mut self.is_zero) {
            // SAFETY: the memory is for this stream's work alone, which is done in order.
            unsafe { cuMemsetD8Async(address, 0, bytes, stream) }.of("cuMemsetD8Async", ordinal)?;
        }
        let queued = kernel(Lent { address, bytes })?;
        self.is_zero = true;
        Ok(queued)
    }
}
