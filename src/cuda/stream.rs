//! A stream of a device, for work that callers queue.

use super::device::{self, Gpu, Opened};
use super::driver::{
    self, Code, cuMemFree_v2, cuStreamCreateWithPriority, cuStreamDestroy_v2, cuStreamQuery,
    cuStreamSynchronize,
};
use super::memory;
use super::pipeline;
use crate::error::Error;
use crate::op::{Op, Shape};
use crate::operand::{Call, Operand, Residence, Task};
use crate::route::Route;
use crate::sum::{GROUP, TILE};
use crate::tuning::QUEUED_SUMS;
use cust::sys::CUstream;
use std::sync::{Mutex, PoisonError};

/// A stream of the driver's, ours or adopted.
pub(crate) struct Stream {
    /// The device that it works on.
    pub(crate) gpu: &'static Gpu,
    pub(super) opened: &'static Opened,
    pub(super) raw: CUstream,
    is_ours: bool,
    /// Where a queued reduction keeps its sums: made when one is first needed. Held while one is
    /// queued, so that the kernels of two do not mix.
    sums: Mutex<Option<Sums>>,
}

// SAFETY: streams may be used from any thread.
unsafe impl Send for Stream {}
// SAFETY: as above; the rest is locked.
unsafe impl Sync for Stream {}

/// Addresses of two buffers of [`QUEUED_SUMS`] sums, in the device's memory.
#[derive(Clone, Copy)]
struct Sums {
    tiles: u64,
    groups: u64,
}

const SUM_BYTES: usize = size_of::<u64>();

impl Stream {
    /// A new stream. It is ordered with work on the legacy default stream, as the CUDA runtime's.
    pub(crate) fn create((gpu, opened): (&'static Gpu, &'static Opened)) -> Result<Self, Error> {
        const ORDINARY: i32 = 0;
        let mut raw = std::ptr::null_mut();
        gpu.within(opened, || {
            // SAFETY: the driver writes one handle into a local.
            unsafe { cuStreamCreateWithPriority(&raw mut raw, 0, ORDINARY) }
                .of("cuStreamCreateWithPriority", gpu.ordinal)
        })?;
        Ok(Stream { gpu, opened, raw, is_ours: true, sums: Mutex::new(None) })
    }

    /// Somebody else's stream, which stays theirs.
    pub(crate) fn adopt(raw: CUstream) -> Result<Self, Error> {
        let (gpu, opened) = device::of_stream(raw)?;
        Ok(Stream { gpu, opened, raw, is_ours: false, sums: Mutex::new(None) })
    }

    /// Waits until all that was queued is done.
    pub(crate) fn synchronize(&self) -> Result<(), Error> {
        self.within(|| {
            // SAFETY: the stream exists as long as this does, or its owner promises it.
            unsafe { cuStreamSynchronize(self.raw) }.of("cuStreamSynchronize", self.gpu.ordinal)
        })
    }

    /// Whether all that was queued is done.
    pub(crate) fn is_done(&self) -> Result<bool, Error> {
        self.within(|| {
            // SAFETY: as in `synchronize`.
            unsafe { cuStreamQuery(self.raw) }.is_done("cuStreamQuery", self.gpu.ordinal)
        })
    }

    /// Runs what calls the driver, in the device's context, and takes note of what it fails with.
    pub(super) fn within<T>(&self, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        self.gpu.within(self.opened, work)
    }

    /// Queues a call whose arrays the device reaches where they are, as the route says, and returns
    /// at once.
    ///
    /// # Safety
    /// The library's caller promises the arrays until the stream has done the work.
    pub(crate) unsafe fn queue(&self, call: &Call, route: &Route) -> Result<(), Error> {
        self.within(|| {
            let [a, b, output] = call.slots().map(|slot| slot.map(|array| self.address(&array)));
            let (Some(a), Some(output)) = (a.transpose()?, output.transpose()?) else {
                return Ok(());
            };
            let addresses = [a, b.transpose()?.unwrap_or(a), output];
            let crosses_bus = route.crosses_bus();
            match call.task {
                Task::Compute(op, alpha) if op.shape() == Shape::Reduction => {
                    self.queue_reduction((op, alpha), addresses, call.n, crosses_bus)
                }
                Task::Copy if !call.is_drivers_copy() => {
                    self.opened.kernels.copy(self.raw, [a, output], call.n)
                }
                // SAFETY: this function's promise.
                task => unsafe {
                    pipeline::queue(
                        self.opened,
                        task,
                        self.raw,
                        addresses,
                        call.n,
                        crosses_bus,
                        None,
                    )
                }
                .map(|_| ()),
            }
        })
    }

    /// Where the device reaches an array.
    fn address(&self, array: &Operand) -> Result<u64, Error> {
        match array.residence {
            Residence::Pinned | Residence::PinnedInParts => {
                self.opened.address(driver::get()?, array.address)
            }
            _ => Ok(array.address as u64),
        }
    }

    /// As many tiles at a time as there is room for their sums; each group of them becomes one sum,
    /// and those the result.
    fn queue_reduction(
        &self,
        (op, alpha): (Op, u64),
        [a, b, out]: [u64; 3],
        n: usize,
        crosses_bus: bool,
    ) -> Result<(), Error> {
        const PART: usize = QUEUED_SUMS * TILE;
        let (kernels, kind) = (&self.opened.kernels, op.sum_kind());
        let mut held = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        let sums = *self.made(&mut held)?;
        let launch = |start: usize| {
            let offset = (start * op.element_bytes()) as u64;
            let addresses = [a + offset, b + offset, sums.tiles];
            kernels.launch((op, alpha), self.raw, addresses, PART.min(n - start), crosses_bus, None)
        };
        if n <= GROUP * TILE {
            launch(0)?;
            return kernels.finish(op, self.raw, sums.tiles, out, n.div_ceil(TILE));
        }
        for start in (0..n).step_by(PART) {
            launch(start)?;
            let groups = sums.groups + (start / (GROUP * TILE) * SUM_BYTES) as u64;
            let tiles = PART.min(n - start).div_ceil(TILE);
            kernels.fold(kind, self.raw, sums.tiles, groups, tiles)?;
        }
        kernels.finish(op, self.raw, sums.groups, out, n.div_ceil(GROUP * TILE))
    }

    fn made<'a>(&self, sums: &'a mut Option<Sums>) -> Result<&'a Sums, Error> {
        if sums.is_none() {
            let bytes = QUEUED_SUMS * SUM_BYTES;
            let tiles = memory::device_alloc(driver::get()?, self.gpu.ordinal, 2 * bytes)?;
            *sums = Some(Sums { tiles, groups: tiles + bytes as u64 });
        }
        sums.as_ref().ok_or(Error::DeviceLost { ordinal: self.gpu.ordinal })
    }
}

/// What was queued is still done: the driver keeps a stream until then, and waits before it takes
/// memory back.
impl Drop for Stream {
    fn drop(&mut self) {
        let sums = self.sums.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if driver::if_open().is_none() {
            return;
        }
        let Ok(_current) = self.opened.enter(self.gpu.ordinal) else { return };
        // SAFETY: nobody has the stream or the buffers any more. A failure changes nothing: the
        // device is lost, and its memory with it.
        unsafe {
            if let Some(sums) = sums {
                let _: Code = cuMemFree_v2(sums.tiles);
            }
            if self.is_ours {
                let _: Code = cuStreamDestroy_v2(self.raw);
            }
        }
    }
}
