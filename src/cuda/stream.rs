//! Streams of a device, for work that callers queue.

use super::device::{self, Device};
use super::device_view::DeviceView;
use super::driver::{
    self, CUevent, CUstream, cuCtxGetCurrent, cuEventQuery, cuEventRecord, cuEventSynchronize,
    cuStreamGetCtx, cuStreamIsCapturing, cuStreamQuery, cuStreamSynchronize, cuStreamWaitEvent,
};
use super::enqueue::addresses_of_first;
use super::owned::{Owned, OwnedEvent, OwnedStream};
use super::part::Part;
use super::placed_part::{PlacedPart, Target};
use super::scratch::Scratch;
use crate::call::plan::OnStream;
use crate::call::{Call, MAX_ARRAYS, Task, TaskKind};
use crate::error::Error;
use arrayvec::ArrayVec;
use std::ffi::c_void;
use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A stream that the library or another library owns.
pub(crate) struct Stream {
    pub(super) device: &'static Device,
    pub(super) raw: CUstream,
    /// The stream, if the library owns it.
    owned: Option<OwnedStream>,
    /// The order of the work, if this is the per-thread default stream.
    order: Option<Order>,
    /// Memory for queued reductions. The first one allocates it; each locks it while it is queued.
    scratch: Mutex<Option<Scratch>>,
}

// SAFETY: the CUDA driver API lets any thread use a stream.
unsafe impl Send for Stream {}
// SAFETY: the CUDA driver API lets any number of threads use a stream; the rest is locked.
unsafe impl Sync for Stream {}

/// The order of work that is queued through one handle of the per-thread default stream. The driver resolves its own
/// handle to another stream in each thread (CUDA driver API, "Stream synchronization behavior"), but a handle of this
/// library is one queue: work waits for the work that any thread queued through the handle before.
struct Order {
    /// The event that is recorded behind the newest work.
    newest: OwnedEvent,
    /// Locked while a thread queues work.
    turn: Mutex<()>,
}

/// The driver's names for the default streams (NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD).
const DEFAULT_STREAMS: RangeInclusive<usize> = 0..=PER_THREAD;
const PER_THREAD: usize = 2;

impl Order {
    /// Makes the order of a new handle.
    fn new(device: &Device) -> Result<Self, Error> {
        const WITHOUT_TIMING: u32 = 2;
        let newest = device.within(|| OwnedEvent::new(WITHOUT_TIMING, device.ordinal()))?;
        Ok(Order { newest, turn: Mutex::new(()) })
    }

    fn event(&self) -> CUevent {
        self.newest.raw()
    }

    /// Queues work on the calling thread's stream, behind all work that was queued before.
    fn enqueue<T>(
        &self, stream: &Stream, work: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        // A graph has its own order, without the work of other threads.
        if stream.is_captured()? {
            return work();
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let ordinal = stream.device.ordinal();
        // SAFETY: the event is this handle's; the stream is the calling thread's.
        unsafe { cuStreamWaitEvent(stream.raw, self.event(), 0) }
            .of("cuStreamWaitEvent", ordinal)?;
        let result = work();
        // Also if the work failed: part of it may be queued.
        // SAFETY: the event is this handle's; the stream is the calling thread's.
        let recorded = unsafe { cuEventRecord(self.event(), stream.raw) };
        recorded.of("cuEventRecord", ordinal).or_else(|_| stream.wait()).and(result)
    }
}

/// A CUstream that another library owns.
pub(crate) struct ForeignStream(CUstream);

impl ForeignStream {
    /// # Safety
    /// The stream must exist until every [`Stream`] that is made from it is dropped.
    pub(crate) unsafe fn new(native: *mut c_void) -> Self {
        ForeignStream(native.cast())
    }

    /// The device of the stream. Default streams have numbers as handles, and belong to the current context.
    fn device(&self) -> Result<&'static Device, Error> {
        driver::get()?;
        let mut context = std::ptr::null_mut();
        // SAFETY: the stream exists; the driver writes one handle into a local.
        unsafe {
            if DEFAULT_STREAMS.contains(&self.0.addr()) {
                cuCtxGetCurrent(&raw mut context).of("cuCtxGetCurrent", 0)?;
            } else {
                cuStreamGetCtx(self.0, &raw mut context).of("cuStreamGetCtx", 0)?;
            }
        }
        if context.is_null() {
            return device::usable();
        }
        // SAFETY: the context exists, since it is current or has a stream.
        unsafe { device::of_context(context) }
    }
}

impl Stream {
    /// Makes a stream.
    pub(crate) fn new(device: &'static Device) -> Result<Self, Error> {
        let owned = device.within(|| OwnedStream::new(device.ordinal()))?;
        // Retries to destroy what the driver refused before.
        device.destroy([]);
        let (raw, scratch) = (owned.raw(), Mutex::new(None));
        Ok(Stream { device, raw, owned: Some(owned), order: None, scratch })
    }

    /// Makes a stream from another library's, which keeps its owner.
    pub(crate) fn adopt(stream: ForeignStream) -> Result<Self, Error> {
        let (device, raw) = (stream.device()?, stream.0);
        let is_per_thread = raw.addr() == PER_THREAD;
        let order = is_per_thread.then(|| Order::new(device)).transpose()?;
        Ok(Stream { device, raw, owned: None, order, scratch: Mutex::new(None) })
    }

    pub(crate) fn ordinal(&self) -> usize {
        self.device.ordinal()
    }

    /// Waits until all queued work is done.
    pub(crate) fn synchronize(&self) -> Result<(), Error> {
        self.device.within(|| {
            self.refuse_capture()?;
            if let Some(order) = &self.order {
                // SAFETY: the event exists as long as this does.
                unsafe { cuEventSynchronize(order.event()) }
                    .of("cuEventSynchronize", self.ordinal())?;
            }
            self.wait()
        })
    }

    /// Waits for the driver's stream: for the per-thread one, the calling thread's.
    fn wait(&self) -> Result<(), Error> {
        // SAFETY: the stream exists as long as this does, as its owner promises.
        unsafe { cuStreamSynchronize(self.raw) }
            .of("cuStreamSynchronize", self.ordinal())
            .inspect_err(|_| self.scratch().iter_mut().for_each(Scratch::spoil))
    }

    fn scratch(&self) -> MutexGuard<'_, Option<Scratch>> {
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if all queued work is done.
    pub(crate) fn is_done(&self) -> Result<bool, Error> {
        self.device.within(|| {
            self.refuse_capture()?;
            if let Some(order) = &self.order {
                // SAFETY: as in `synchronize`.
                let newest = unsafe { cuEventQuery(order.event()) };
                if !newest.is_done("cuEventQuery", self.ordinal())? {
                    return Ok(false);
                }
            }
            // SAFETY: as in `wait`.
            unsafe { cuStreamQuery(self.raw) }.is_done("cuStreamQuery", self.ordinal())
        })
    }

    /// Runs code that queues work behind the handle's earlier work, in the device's context.
    pub(super) fn enqueue<T>(&self, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        self.device.within(|| match &self.order {
            Some(order) => order.enqueue(self, work),
            None => work(),
        })
    }

    /// Queues a call as planned, and returns at once.
    pub(crate) fn queue(&self, call: &Call<'_>, plan: &OnStream) -> Result<(), Error> {
        self.enqueue(|| {
            let first = addresses_of_first(self.device, call, &plan.transfers)?;
            let mut scratch = self.scratch_for(call.task())?;
            let mut queue = |part: &Part<'_>| {
                let arrays = first.iter().zip(call.arrays()).enumerate();
                let arrays = arrays.map(|(number, (first, array))| {
                    DeviceView::in_place(*first, part, number, array.element_bytes())
                });
                let arrays: ArrayVec<_, MAX_ARRAYS> = arrays.collect();
                let arrays = arrays.split_at(call.inputs().len()).into();
                let target = Target {
                    device: self.device,
                    stream: self.raw,
                    scratch: scratch.as_mut().and_then(|scratch| scratch.as_mut()),
                    tables: &[],
                    block_limits: plan.block_limits,
                    flags: None,
                    copies_by_driver: plan.copies_by_driver,
                };
                // SAFETY: the call promises the arrays until the stream has done the work, and the plan that the device
                // can access them. The scratch memory is this stream's.
                let placed = unsafe { PlacedPart::new(target, part, arrays, false) };
                placed.queue(call.task(), &mut false).map(|_| ())
            };
            let queued = match call.strides() {
                None => queue(&Part::Chunk { call, first: 0, len: call.n() }),
                Some(strides) => {
                    let tiles = strides.tiles_in_place(call.task());
                    let mut tiles = (0..tiles.count()).map(|number| tiles.at(number));
                    tiles.try_for_each(|tile| queue(&Part::Tile { strides, tile }))
                }
            };
            drop(scratch);
            // After an error no work on the call's arrays may be in flight.
            queued.inspect_err(|_| {
                let _ = self.is_captured().is_ok_and(|is| !is && self.wait().is_ok());
            })
        })
    }

    /// Locks the stream's scratch memory, if the task has reductions.
    fn scratch_for(
        &self, task: Task<'_>,
    ) -> Result<Option<MutexGuard<'_, Option<Scratch>>>, Error> {
        match task.kind() {
            TaskKind::Copy | TaskKind::Elementwise => return Ok(None),
            TaskKind::Reduced | TaskKind::Grouped | TaskKind::Mixed => {}
        }
        self.refuse_capture()?;
        let mut made = self.scratch();
        if made.is_none() {
            *made = Some(Scratch::new(self.ordinal())?);
        }
        Ok(Some(made))
    }

    /// Fails while the stream's work is being captured into a graph. Waiting for the stream would invalidate the
    /// capture. And the graph may run on any stream, where its reductions would use the scratch memory at the same time
    /// as this handle's reductions.
    fn refuse_capture(&self) -> Result<(), Error> {
        if self.is_captured()? { Err(Error::Captured) } else { Ok(()) }
    }

    /// True if the stream's work is being captured into a graph. The device's context is current.
    pub(super) fn is_captured(&self) -> Result<bool, Error> {
        const NOT_CAPTURING: i32 = 0;
        let mut status = NOT_CAPTURING;
        // SAFETY: the driver writes one number into a local; the stream exists, as in `wait`.
        unsafe { cuStreamIsCapturing(self.raw, &raw mut status) }
            .of("cuStreamIsCapturing", self.ordinal())?;
        Ok(status != NOT_CAPTURING)
    }
}

/// Queued work still completes: the driver keeps a stream until then, and waits for the work before it frees memory.
impl Drop for Stream {
    fn drop(&mut self) {
        let scratch = self.scratch.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let memories = scratch.into_iter().flat_map(Scratch::into_memories).map(Owned::Memory);
        let order = self.order.take().map(|order| Owned::Event(order.newest));
        let owned = self.owned.take().map(Owned::Stream);
        self.device.destroy(memories.chain(order).chain(owned));
    }
}
