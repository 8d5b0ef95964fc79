//! A stream of a device, for work that callers queue.

use super::destroy::Object;
use super::device::{self, Gpu, Opened};
use super::driver::{
    self, CUevent, CUstream, cuEventCreate, cuEventQuery, cuEventRecord, cuEventSynchronize,
    cuStreamCreateWithPriority, cuStreamIsCapturing, cuStreamQuery, cuStreamSynchronize,
    cuStreamWaitEvent,
};
use super::memory;
use super::pipeline;
use crate::error::Error;
use crate::op::{Op, Shape};
use crate::operand::{Call, Operand, Residence, Task};
use crate::route::Route;
use crate::sum::{GROUP, TILE};
use crate::tuning::QUEUED_SUMS;
use std::sync::{Mutex, PoisonError};

/// A stream of the driver's, ours or adopted.
pub(crate) struct Stream {
    /// The device that it works on.
    pub(crate) gpu: &'static Gpu,
    pub(super) opened: &'static Opened,
    pub(super) raw: CUstream,
    is_ours: bool,
    /// Of a per-thread default stream.
    order: Option<Order>,
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

/// The order of work that is queued through one handle of the per-thread default stream. The driver
/// resolves that handle to another stream in each thread (CUDA driver API, "Stream synchronization
/// behavior"), while a handle of the library's is one queue: what one thread queues waits for what
/// any thread queued through the handle before.
struct Order {
    /// Behind the newest work.
    newest: CUevent,
    /// Held while a thread queues work.
    turn: Mutex<()>,
}

/// The driver's name for the per-thread default stream (CU_STREAM_PER_THREAD).
const PER_THREAD: usize = 2;

impl Order {
    /// For a handle through which nothing was queued yet. The device's context is current.
    fn new(ordinal: usize) -> Result<Self, Error> {
        const WITHOUT_TIMING: u32 = 2;
        let mut newest = std::ptr::null_mut();
        // SAFETY: the driver writes one handle into a local.
        unsafe { cuEventCreate(&raw mut newest, WITHOUT_TIMING) }.of("cuEventCreate", ordinal)?;
        Ok(Order { newest, turn: Mutex::new(()) })
    }

    /// Queues work on the calling thread's stream, behind all that was queued before.
    fn enqueue<T>(
        &self,
        stream: &Stream,
        work: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let ordinal = stream.gpu.ordinal;
        // SAFETY: the event is this handle's; the stream is the calling thread's.
        unsafe { cuStreamWaitEvent(stream.raw, self.newest, 0) }
            .of("cuStreamWaitEvent", ordinal)?;
        let result = work();
        // Also where the work failed: part of it may be queued.
        // SAFETY: as above.
        let recorded = unsafe { cuEventRecord(self.newest, stream.raw) };
        recorded.of("cuEventRecord", ordinal).or_else(|_| stream.wait()).and(result)
    }
}

/// A new stream of the driver's, of the device whose context is current.
pub(super) fn create(ordinal: usize) -> Result<CUstream, Error> {
    const FLAGS: u32 = 0;
    const PRIORITY: i32 = 0;
    let mut raw = std::ptr::null_mut();
    // SAFETY: the driver writes one handle into a local.
    unsafe { cuStreamCreateWithPriority(&raw mut raw, FLAGS, PRIORITY) }
        .of("cuStreamCreateWithPriority", ordinal)?;
    Ok(raw)
}

/// Waits until a stream's work is done.
///
/// # Safety
/// The stream must exist, and the context of its device be current.
pub(super) unsafe fn wait(raw: CUstream, ordinal: usize) -> Result<(), Error> {
    // SAFETY: this function's promise.
    unsafe { cuStreamSynchronize(raw) }.of("cuStreamSynchronize", ordinal)
}

impl Stream {
    /// A new stream. It is ordered with work on the legacy default stream, as the CUDA runtime's.
    pub(crate) fn create((gpu, opened): (&'static Gpu, &'static Opened)) -> Result<Self, Error> {
        let raw = gpu.within(opened, || create(gpu.ordinal))?;
        // SAFETY: these are none: what was refused before is given back again.
        unsafe { gpu.give_back(opened, []) };
        Ok(Stream { gpu, opened, raw, is_ours: true, order: None, sums: Mutex::new(None) })
    }

    /// Somebody else's stream, which stays theirs.
    pub(crate) fn adopt(raw: CUstream) -> Result<Self, Error> {
        let (gpu, opened) = device::of_stream(raw)?;
        let is_per_thread = raw.addr() == PER_THREAD;
        let order = is_per_thread.then(|| gpu.within(opened, || Order::new(gpu.ordinal)));
        let order = order.transpose()?;
        Ok(Stream { gpu, opened, raw, is_ours: false, order, sums: Mutex::new(None) })
    }

    /// Waits until all that was queued is done.
    pub(crate) fn synchronize(&self) -> Result<(), Error> {
        self.within(|| {
            if let Some(order) = &self.order {
                // SAFETY: the event exists as long as this does.
                unsafe { cuEventSynchronize(order.newest) }
                    .of("cuEventSynchronize", self.gpu.ordinal)?;
            }
            self.wait()
        })
    }

    /// Waits for the driver's stream, which for a per-thread one is the calling thread's.
    fn wait(&self) -> Result<(), Error> {
        // SAFETY: the stream exists as long as this does, or its owner promises it.
        unsafe { wait(self.raw, self.gpu.ordinal) }
    }

    /// Whether all that was queued is done.
    pub(crate) fn is_done(&self) -> Result<bool, Error> {
        let ordinal = self.gpu.ordinal;
        self.within(|| {
            if let Some(order) = &self.order {
                // SAFETY: as in `synchronize`.
                let newest = unsafe { cuEventQuery(order.newest) };
                if !newest.is_done("cuEventQuery", ordinal)? {
                    return Ok(false);
                }
            }
            // SAFETY: as in `wait`.
            unsafe { cuStreamQuery(self.raw) }.is_done("cuStreamQuery", ordinal)
        })
    }

    /// Runs what queues work, behind the handle's earlier work, in the device's context.
    pub(super) fn enqueue<T>(&self, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        self.within(|| match &self.order {
            Some(order) => order.enqueue(self, work),
            None => work(),
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
        self.enqueue(|| {
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
        self.refuse_capture()?;
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

    /// Fails while the stream's work is being recorded into a graph: the graph may run on any stream,
    /// beside this handle's reductions, and would use the same buffers.
    fn refuse_capture(&self) -> Result<(), Error> {
        const NOT_CAPTURING: i32 = 0;
        let mut status = NOT_CAPTURING;
        // SAFETY: the driver writes one number into a local; the stream exists, as in `wait`.
        unsafe { cuStreamIsCapturing(self.raw, &raw mut status) }
            .of("cuStreamIsCapturing", self.gpu.ordinal)?;
        if status == NOT_CAPTURING { Ok(()) } else { Err(Error::Captured) }
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

/// Queued work is still done: the driver keeps a stream until then, and waits before it takes memory
/// back.
impl Drop for Stream {
    fn drop(&mut self) {
        let sums = self.sums.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let objects = [
            sums.map(|sums| Object::Memory(sums.tiles)),
            self.order.as_ref().map(|order| Object::Event(order.newest)),
            self.is_ours.then_some(Object::Stream(self.raw)),
        ];
        // SAFETY: the stream, unless it is another owner's, and the rest are this one's alone.
        unsafe { self.gpu.give_back(self.opened, objects.into_iter().flatten()) };
    }
}
