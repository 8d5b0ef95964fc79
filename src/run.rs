//! Runs a checked call: asks the plan where, lets cores or a GPU take its chunks, and stores what
//! comes of it.

use crate::chunk::{Chunk, Cut, Queue, Shares};
use crate::cuda::device::{self, Gpu, Opened};
use crate::cuda::pipeline::{self, Done};
use crate::element::Element;
use crate::error::Error;
use crate::op::{Elementwise, Operation, Reduction, Shape, SumOf};
use crate::operand::{Call, Operand, Residence, Task};
use crate::plan::{self, Place};
use crate::record::{self, Backend, Run};
use crate::route::{Access, Lane, Route};
use crate::settings::{self, Placement};
use crate::stream::Stream;
use crate::sum::{self, Sum, SumKind};
use crate::{cpu, threads, tuning};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Runs an elementwise operation.
///
/// # Safety
/// The library's caller promises the arrays: readable inputs and a writable output, for as long as
/// the call lasts.
pub(crate) unsafe fn elementwise<O: Elementwise>(
    op: O,
    placement: Placement,
    stream: Option<&Stream>,
    call: &Call,
) -> Result<(), Error> {
    let on_core = |chunk: Chunk| {
        let [a, b] = input_parts::<O>(call, chunk);
        let out = part(&call.output, chunk);
        // SAFETY: this function's promise, for the part of the arrays that the chunk is; `check`
        // saw that the output is an input or overlaps none.
        unsafe { cpu::elementwise(op, a, b, out, chunk.len) };
        0
    };
    // SAFETY: this function's promise.
    let (_, run) = unsafe { dispatch(placement, stream, call, &on_core) }?;
    record::set(run);
    Ok(())
}

/// Copies bytes.
///
/// # Safety
/// As [`elementwise`].
pub(crate) unsafe fn copy(
    placement: Placement,
    stream: Option<&Stream>,
    call: &Call,
) -> Result<(), Error> {
    let on_core = |chunk: Chunk| {
        let [from, to] = [call.inputs[0].unwrap_or(call.output), call.output];
        let [from, to] = [from, to].map(|operand| part::<u8>(&operand, chunk));
        // SAFETY: this function's promise, for the part of the arrays that the chunk is; `check`
        // saw that they do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(from, to, chunk.len) };
        0
    };
    // SAFETY: this function's promise.
    let (_, run) = unsafe { dispatch(placement, stream, call, &on_core) }?;
    record::set(run);
    Ok(())
}

/// Runs a reduction.
///
/// # Safety
/// As [`elementwise`].
pub(crate) unsafe fn reduction<O: Reduction>(
    op: O,
    placement: Placement,
    stream: Option<&Stream>,
    call: &Call,
) -> Result<(), Error> {
    let on_core = |chunk: Chunk| {
        let [a, b] = input_parts::<O>(call, chunk);
        // SAFETY: this function's promise, for the part of the arrays that the chunk is.
        unsafe { cpu::reduce(op, a, b, chunk.len) }.to_bits()
    };
    // SAFETY: this function's promise.
    let (sum, run) = unsafe { dispatch(placement, stream, call, &on_core) }?;
    if let Some(sum) = sum {
        // SAFETY: this function's promise.
        unsafe { store(&call.output, op.round(SumOf::<O>::from_bits(sum)).canonical())? };
    }
    record::set(run);
    Ok(())
}

/// Stores what a reduction of nothing gives.
///
/// # Safety
/// The library's caller promises that the output is writable.
pub(crate) unsafe fn empty_reduction<O: Reduction>(
    op: O,
    stream: Option<&Stream>,
    output: &Operand,
) -> Result<(), Error> {
    if let Some(stream) = stream {
        stream.synchronize()?;
    }
    if output.residence != Residence::Pageable {
        device::settle_for_cores();
    }
    // SAFETY: this function's promise.
    unsafe { store(output, op.round(SumOf::<O>::ZERO)) }
}

/// The parts of the inputs that a chunk is, for the host; a missing second one is the first.
fn input_parts<O: Operation>(call: &Call, chunk: Chunk) -> [*const O::Element; 2] {
    let at = |input| part::<O::Element>(&input, chunk).cast_const();
    let [a, b] = call.inputs.map(|input| input.map(at));
    let a = a.unwrap_or(std::ptr::null());
    [a, b.unwrap_or(a)]
}

/// The part of an array that a chunk is, for the host.
fn part<T>(operand: &Operand, chunk: Chunk) -> *mut T {
    std::ptr::with_exposed_provenance_mut(operand.address + chunk.start * size_of::<T>())
}

/// # Safety
/// The operand must be writable for one value.
unsafe fn store<T: Copy>(output: &Operand, value: T) -> Result<(), Error> {
    if let Residence::Device { ordinal } = output.residence {
        return device::write(ordinal, output.address, value);
    }
    // SAFETY: this function's promise; `check` saw that the address is aligned.
    unsafe { std::ptr::with_exposed_provenance_mut::<T>(output.address).write(value) };
    Ok(())
}

/// The work of one chunk on a core; what it returns is the bits of the chunk's sum, if this is a
/// reduction.
type OnCore<'a> = &'a (dyn Fn(Chunk) -> u64 + Sync);

/// Queues the call if its stream can take it. Otherwise runs it, after the stream's earlier work,
/// where the placement puts it. Returns the bits of the sum of all chunks, unless the stream stores
/// the result, and how it ran.
///
/// Where a GPU fails that was not demanded, the cores do the work, unless the inputs may be gone.
///
/// # Safety
/// As [`elementwise`].
unsafe fn dispatch(
    placement: Placement,
    stream: Option<&Stream>,
    call: &Call,
    on_core: OnCore<'_>,
) -> Result<(Option<u64>, Run), Error> {
    let is_on_gpus = placement != Placement::Cpu || call.task == Task::Copy;
    match stream {
        Some(Stream::Gpu(queue)) if is_on_gpus && plan::is_queueable(call, queue.gpu.ordinal) => {
            let route = plan::queued_route(call);
            // SAFETY: this function's promise, which for a stream lasts until it has done the work.
            unsafe { queue.queue(call, &route)? };
            return Ok((None, queued(call, &route, queue.gpu)));
        }
        Some(stream) => stream.synchronize()?,
        None => {}
    }
    let place = plan::place(placement, call, || device::usable().is_ok());
    let beside = match place {
        Place::CallingCore | Place::Cores => return on_cores(call, place, on_core),
        Place::Gpu => None,
        Place::Everywhere => Some(on_core),
    };
    // SAFETY: this function's promise.
    unsafe { on_gpus(call, beside) }.or_else(|Failure { error, wrote }| {
        let inputs_intact = !(wrote && call.in_place());
        if placement != Placement::Gpu && inputs_intact && !plan::needs_gpu(call) {
            on_cores(call, plan::cores(call), on_core)
        } else {
            Err(error)
        }
    })
}

/// What there is to say of a call that a stream took.
fn queued(call: &Call, route: &Route, gpu: &Gpu) -> Run {
    Run {
        backend: Backend::Gpu as i32,
        path: path(call, route),
        devices: device_bit(gpu),
        threads: 1,
        chunks: 1,
        ..Run::default()
    }
}

fn device_bit(gpu: &Gpu) -> u64 {
    1u64.checked_shl(gpu.ordinal as u32).unwrap_or(0)
}

/// Whether a device may be at work in an operand's memory.
fn is_known_to_a_driver(call: &Call) -> bool {
    call.operands().any(|operand| operand.residence != Residence::Pageable)
}

fn on_cores(call: &Call, place: Place, on_core: OnCore<'_>) -> Result<(Option<u64>, Run), Error> {
    if is_known_to_a_driver(call) {
        device::settle_for_cores();
    }
    let threads = match place {
        Place::CallingCore => 1,
        _ => threads::available(plan::core_threads(call, settings::threads()?.get())),
    };
    let cut = Cut::new(call.n, plan::core_chunk(call, threads));
    let threads = threads.min(cut.chunks());
    let sums = Sums::new(call, cut)?;
    let work = |chunk| sums.put(chunk, on_core(chunk));
    if threads == 1 {
        cut.in_turn().for_each(work);
    } else {
        let shares = Shares::new(cut, threads);
        threads::on_each(threads, &|core| shares.of(core).for_each(work));
    }
    let run = Run {
        backend: Backend::Cpu as i32,
        path: if threads == 1 {
            record::GPUVEC_PATH_CALLING_CORE
        } else {
            record::GPUVEC_PATH_CORES
        },
        threads: threads as u64,
        chunks: cut.chunks() as u64,
        ..Run::default()
    };
    Ok((Some(sums.total()), run))
}

/// Why a GPU did not do the work, and whether the output may have been written.
struct Failure {
    error: Error,
    wrote: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure { error, wrote: false }
    }
}

/// Runs a call on GPUs, and on cores `beside` them, if they are given what to do.
///
/// # Safety
/// As [`elementwise`].
unsafe fn on_gpus(call: &Call, beside: Option<OnCore<'_>>) -> Result<(Option<u64>, Run), Failure> {
    let gpus = gpus_for(call)?;
    settle(call, &gpus, beside.is_some())?;
    let shared = Shared::new(call, &gpus, beside.is_some())?;
    let mut workers: Vec<_> = gpus.iter().map(|(gpu, opened)| Worker::Gpu(gpu, opened)).collect();
    workers.extend(beside.map(Worker::Cores));
    let started = threads::side_by_side(&workers, &|worker| match worker {
        Worker::Gpu(gpu, opened) => threads::on_each(shared.threads, &|_| {
            // SAFETY: this function's promise; all threads are done when this function returns.
            unsafe { shared.on_gpu(gpu, opened) };
        }),
        Worker::Cores(on_core) => threads::on_each(shared.cores, &|_| shared.on_core(*on_core)),
    });
    let threads = workers[..started].iter().map(|worker| shared.threads_of(worker)).sum();
    shared.finish(threads)
}

/// Who takes chunks of a call.
enum Worker<'a> {
    Gpu(&'static Gpu, &'static Opened),
    Cores(OnCore<'a>),
}

/// Waits for what others may be about to write into the operands, as far as the GPUs' own streams are
/// not ordered with it.
fn settle(call: &Call, gpus: &[(&'static Gpu, &'static Opened)], cores: bool) -> Result<(), Error> {
    if is_known_to_a_driver(call) {
        device::settle_for(gpus);
    }
    if cores {
        device::settle_for_cores();
    }
    for other in call.operands().filter_map(|operand| operand.device()) {
        if other != gpus[0].0.ordinal {
            device::settle_default_stream(other)?;
        }
    }
    Ok(())
}

/// A call of which GPUs, and cores beside them, take chunks.
struct Shared<'a> {
    call: &'a Call,
    route: Route,
    cut: Cut,
    queue: Queue,
    sums: Sums,
    /// Threads that see to each GPU, and those that compute.
    threads: usize,
    cores: usize,
    outcome: Mutex<Outcome>,
}

impl<'a> Shared<'a> {
    fn new(
        call: &'a Call,
        gpus: &[(&'static Gpu, &'static Opened)],
        beside_cores: bool,
    ) -> Result<Self, Error> {
        let (runs_on, all) = (gpus[0].0.ordinal, settings::threads()?.get());
        let (route, cores) = if beside_cores {
            let others = threads::available(all.saturating_sub(gpus.len()));
            (plan::route_beside_cores(call, runs_on, gpus.len()), others)
        } else {
            (plan::route(call, runs_on, gpus.len()), 0)
        };
        let cut = Cut::new(call.n, route.chunk);
        let threads = match route.lane() {
            Lane::Staged => threads::available(all.min(tuning::STAGING_THREADS).min(cut.chunks())),
            Lane::InPlace | Lane::Direct => 1,
        };
        let (queue, sums) = (Queue::new(cut), Sums::new(call, cut)?);
        let outcome = Mutex::new(Outcome::default());
        Ok(Shared { call, route, cut, queue, sums, threads, cores, outcome })
    }

    /// Takes chunks for a GPU, on one of its threads.
    ///
    /// # Safety
    /// As [`elementwise`].
    unsafe fn on_gpu(&self, gpu: &Gpu, opened: &Opened) {
        let on_sum = |chunk, sum| self.sums.put(chunk, sum);
        let (call, route, queue) = (self.call, &self.route, &self.queue);
        // SAFETY: this function's promise.
        let (done, result) =
            unsafe { pipeline::run((gpu, opened), call, route, queue, self.threads, &on_sum) };
        if done.lost_chunks() {
            queue.close();
        }
        self.outcome().add(Some(gpu), done, result);
    }

    /// Takes chunks for a core.
    fn on_core(&self, on_core: OnCore<'_>) {
        let mut count = 0;
        while let Some(chunk) = self.queue.take() {
            self.sums.put(chunk, in_parts(self.sums.0, chunk, on_core));
            count += 1;
        }
        self.outcome().add(None, Done::by_cores(count), Ok(()));
    }

    /// Threads that may take part in one worker's share of the call.
    fn threads_of(&self, worker: &Worker<'_>) -> usize {
        match worker {
            Worker::Gpu(..) => self.threads,
            Worker::Cores(_) => self.cores,
        }
    }

    fn outcome(&self) -> MutexGuard<'_, Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The result, once all of the `threads` that could take part are done.
    fn finish(self, threads: usize) -> Result<(Option<u64>, Run), Failure> {
        let Outcome { done, devices, by_cores, error } =
            self.outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
        if done.finished < self.cut.chunks() {
            let error = error.unwrap_or(Error::Internal { text: "a chunk was not processed" });
            return Err(Failure { error, wrote: done.wrote });
        }
        let run = Run {
            backend: if devices == 0 { Backend::Cpu } else { Backend::Gpu } as i32,
            path: path(self.call, &self.route)
                | if by_cores { record::GPUVEC_PATH_CORES } else { 0 },
            devices,
            threads: threads as u64,
            chunks: self.cut.chunks() as u64,
            bytes_staged: done.bytes_staged,
        };
        Ok((Some(self.sums.total()), run))
    }
}

/// Does a chunk that is longer than a core's, on one core. Its parts are whole tiles, a power of two
/// of them, so that their sums make its sum.
fn in_parts(kind: SumKind, chunk: Chunk, on_core: OnCore<'_>) -> u64 {
    const MOST: usize = tuning::SHARED_CHUNK_BYTES / tuning::CORE_CHUNK;
    let parts = Cut::new(chunk.len, tuning::CORE_CHUNK);
    let mut sums = [0; MOST];
    for (part, sum) in parts.in_turn().zip(&mut sums) {
        *sum = on_core(Chunk { start: chunk.start + part.start, ..part });
    }
    sum::tree_of_bits(kind, &mut sums[..parts.chunks()])
}

/// What came of a call on GPUs, and cores beside them.
#[derive(Default)]
struct Outcome {
    done: Done,
    /// A bit for each device that did a chunk.
    devices: u64,
    /// Whether cores did one.
    by_cores: bool,
    error: Option<Error>,
}

impl Outcome {
    /// Takes in what a GPU did, or, without one, a core.
    fn add(&mut self, gpu: Option<&Gpu>, done: Done, result: Result<(), Error>) {
        self.done.add(done);
        if done.finished > 0 {
            self.devices |= gpu.map_or(0, device_bit);
            self.by_cores |= gpu.is_none();
        }
        self.error = self.error.or(result.err());
    }
}

/// The device that the call is nearest to; else the first that can compute, or all of them. Never
/// empty.
fn gpus_for(call: &Call) -> Result<Vec<(&'static Gpu, &'static Opened)>, Error> {
    match call.device() {
        Some(ordinal) => device::one(ordinal).map(|gpu| vec![gpu]),
        None if plan::is_for_all_gpus(call) => device::all_usable(),
        None => device::usable().map(|gpu| vec![gpu]),
    }
}

fn path(call: &Call, route: &Route) -> u32 {
    let bits = |access: Access| match access {
        Access::Resident if call.task == Task::Copy && plan::needs_gpu(call) => {
            record::GPUVEC_PATH_DMA
        }
        Access::Staged if call.task == Task::Copy => record::GPUVEC_PATH_STAGED,
        Access::Resident => record::GPUVEC_PATH_RESIDENT,
        Access::Mapped => record::GPUVEC_PATH_MAPPED,
        Access::Dma => record::GPUVEC_PATH_DMA,
        Access::Staged => record::GPUVEC_PATH_STAGED | record::GPUVEC_PATH_MAPPED,
        Access::TileSums => 0,
    };
    route.ways().fold(0, |path, access| path | bits(access))
}

/// The chunks' sums, each in its place, so that who computed it does not matter. Empty for an
/// elementwise operation.
struct Sums(SumKind, Vec<AtomicU64>);

impl Sums {
    fn new(call: &Call, cut: Cut) -> Result<Self, Error> {
        let mut sums = Vec::new();
        let Task::Compute(op, _) = call.task else { return Ok(Sums(SumKind::F64, sums)) };
        if op.shape() == Shape::Reduction {
            let chunks = cut.chunks();
            let bytes = chunks * size_of::<u64>();
            sums.try_reserve_exact(chunks)
                .map_err(|_| Error::OutOfHostMemory { bytes, purpose: "the chunks' sums" })?;
            sums.resize_with(chunks, AtomicU64::default);
        }
        Ok(Sums(op.sum_kind(), sums))
    }

    fn put(&self, chunk: Chunk, sum: u64) {
        if let Some(place) = self.1.get(chunk.index) {
            place.store(sum, Ordering::Relaxed);
        }
    }

    fn total(self) -> u64 {
        let mut sums: Vec<u64> = self.1.into_iter().map(AtomicU64::into_inner).collect();
        sum::tree_of_bits(self.0, &mut sums)
    }
}
