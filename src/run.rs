//! Runs a checked call: asks the plan where, lets cores or a GPU take its chunks, and stores what
//! comes of it.

use crate::chunk::{Chunk, Queue};
use crate::cuda::device::{self, Gpu, Opened};
use crate::cuda::pipeline;
use crate::element::Element;
use crate::error::Error;
use crate::op::{Elementwise, Operation, Reduction, Shape};
use crate::operand::{Call, Operand, Residence};
use crate::plan::{self, Place};
use crate::record::{self, Backend, Run};
use crate::route::{Access, Route};
use crate::settings::{self, Placement};
use crate::{cpu, sum, threads, tuning};
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs an elementwise operation.
///
/// # Safety
/// The library's caller promises the arrays: readable inputs and a writable output, for as long as
/// the call lasts.
pub(crate) unsafe fn elementwise<O: Elementwise>(
    op: O,
    placement: Placement,
    call: &Call,
) -> Result<(), Error> {
    let on_core = |chunk: Chunk| {
        let [a, b, out] = call.operands().map(|operand| part::<O>(&operand, chunk));
        // SAFETY: this function's promise, for the part of the arrays that the chunk is; `check`
        // saw that the output is an input or overlaps none.
        unsafe { cpu::elementwise(op, a, b, out, chunk.len) };
        0.0
    };
    // SAFETY: this function's promise.
    let (_, run) = unsafe { dispatch(placement, call, &on_core) }?;
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
    call: &Call,
) -> Result<(), Error> {
    let on_core = |chunk: Chunk| {
        let [a, b] = call.inputs.map(|input| part::<O>(&input, chunk));
        // SAFETY: this function's promise, for the part of the arrays that the chunk is.
        unsafe { cpu::reduce(op, a, b, chunk.len) }
    };
    // SAFETY: this function's promise.
    let (sum, run) = unsafe { dispatch(placement, call, &on_core) }?;
    // SAFETY: this function's promise.
    unsafe { store(&call.output, op.round(sum).canonical())? };
    record::set(run);
    Ok(())
}

/// Stores what a reduction of nothing gives.
///
/// # Safety
/// The library's caller promises that the output is writable.
pub(crate) unsafe fn empty_reduction<O: Reduction>(op: O, output: &Operand) -> Result<(), Error> {
    // SAFETY: this function's promise.
    unsafe { store(output, op.round(0.0)) }
}

/// The part of an array that a chunk is, for the host.
fn part<O: Operation>(operand: &Operand, chunk: Chunk) -> *mut O::Element {
    let offset = chunk.start * size_of::<O::Element>();
    std::ptr::with_exposed_provenance_mut(operand.address + offset)
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

/// The work of one chunk on a core; what it returns is the chunk's sum, if this is a reduction.
type OnCore<'a> = &'a (dyn Fn(Chunk) -> f64 + Sync);

/// Runs the call where the placement puts it, and returns the sum of all chunks, and how it ran.
/// Where placement `auto` meets a GPU that fails, the cores do the work, unless the inputs may be
/// gone.
///
/// # Safety
/// As [`elementwise`].
unsafe fn dispatch(
    placement: Placement,
    call: &Call,
    on_core: OnCore<'_>,
) -> Result<(f64, Run), Error> {
    let place = plan::place(placement, call, || device::usable().is_ok());
    if place != Place::Gpu {
        return on_cores(call, place, on_core);
    }
    // SAFETY: this function's promise.
    unsafe { on_gpu(call) }.or_else(|Failure { error, wrote }| {
        let inputs_intact = !(wrote && call.in_place());
        if placement == Placement::Auto && inputs_intact && !plan::needs_gpu(call) {
            on_cores(call, plan::cores(call), on_core)
        } else {
            Err(error)
        }
    })
}

fn on_cores(call: &Call, place: Place, on_core: OnCore<'_>) -> Result<(f64, Run), Error> {
    let queue = Queue::new(call.n, tuning::CORE_CHUNK);
    let sums = Sums::new(call, &queue)?;
    let threads = match place {
        Place::CallingCore => 1,
        _ => settings::threads()?.get().min(queue.chunks()),
    };
    threads::on_each(threads, &|| {
        while let Some(chunk) = queue.take() {
            sums.put(chunk, on_core(chunk));
        }
    });
    let run = Run {
        backend: Backend::Cpu as i32,
        path: if threads == 1 {
            record::GPUVEC_PATH_CALLING_CORE
        } else {
            record::GPUVEC_PATH_CORES
        },
        threads: threads as u64,
        chunks: queue.chunks() as u64,
        ..Run::default()
    };
    Ok((sums.total(), run))
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

/// # Safety
/// As [`elementwise`].
unsafe fn on_gpu(call: &Call) -> Result<(f64, Run), Failure> {
    let threads = settings::threads()?.get();
    let (gpu, opened) = gpu_for(call)?;
    let route = plan::route(call, gpu.ordinal)?;
    let queue = Queue::new(call.n, route.chunk);
    let sums = Sums::new(call, &queue)?;
    let on_sum = |chunk, sum| sums.put(chunk, sum);
    // SAFETY: this function's promise.
    let (done, result) =
        unsafe { pipeline::run((gpu, opened), call, &route, &queue, threads, &on_sum) };
    result.map_err(|error| Failure { error, wrote: done.wrote })?;
    let run = Run {
        backend: Backend::Gpu as i32,
        path: path(&route),
        devices: 1u64.checked_shl(gpu.ordinal as u32).unwrap_or(0),
        threads: if done.bytes_staged > 0 { threads as u64 } else { 1 },
        chunks: queue.chunks() as u64,
        bytes_staged: done.bytes_staged,
    };
    Ok((sums.total(), run))
}

/// The device that holds the operands, else the first that can compute.
fn gpu_for(call: &Call) -> Result<(&'static Gpu, &'static Opened), Error> {
    match call.operands().iter().find_map(Operand::device) {
        Some(ordinal) => device::one(ordinal),
        None => device::usable(),
    }
}

fn path(route: &Route) -> u32 {
    let bits = |access: &Access| match access {
        Access::Resident => record::GPUVEC_PATH_RESIDENT,
        Access::Mapped => record::GPUVEC_PATH_MAPPED,
        Access::Dma => record::GPUVEC_PATH_DMA,
        Access::StagedMapped => record::GPUVEC_PATH_STAGED | record::GPUVEC_PATH_MAPPED,
        Access::StagedDma => record::GPUVEC_PATH_STAGED | record::GPUVEC_PATH_DMA,
        Access::TileSums => 0,
    };
    route.access.iter().fold(0, |path, access| path | bits(access))
}

/// The chunks' sums, each in its place, so that who computed it does not matter. Empty for an
/// elementwise operation.
struct Sums(Vec<AtomicU64>);

impl Sums {
    fn new(call: &Call, queue: &Queue) -> Result<Self, Error> {
        let mut sums = Vec::new();
        if call.op.shape() == Shape::Reduction {
            let chunks = queue.chunks();
            let bytes = chunks * size_of::<f64>();
            sums.try_reserve_exact(chunks)
                .map_err(|_| Error::OutOfHostMemory { bytes, purpose: "the chunks' sums" })?;
            sums.resize_with(chunks, AtomicU64::default);
        }
        Ok(Sums(sums))
    }

    fn put(&self, chunk: Chunk, sum: f64) {
        if let Some(place) = self.0.get(chunk.index) {
            place.store(sum.to_bits(), Ordering::Relaxed);
        }
    }

    fn total(self) -> f64 {
        let mut sums: Vec<f64> =
            self.0.into_iter().map(|sum| f64::from_bits(sum.into_inner())).collect();
        sum::tree(&mut sums)
    }
}
