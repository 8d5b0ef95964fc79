//! Runs expressions on arrays of any strides on a GPU, or queues them on its stream.

use super::cores::may_be_written_by_devices;
use super::gpus;
use super::host::Host;
use super::last_run::{self, Backend, Choice, Reason, Report, Selection};
use super::report_queued;
use crate::call::plan::{Resources, on_stream};
use crate::call::{AxesCall, Call, OnStrides, SlotKind, StridedCall};
use crate::cuda::pipeline::Progress;
use crate::cuda::strided::StridedRun;
use crate::cuda::{Device, default_stream, device, reduce_axes};
use crate::error::Error;
use crate::objects::stream::Stream;
use crate::pool;
use crate::process::settings::Placement;
use crate::tuning;
use std::sync::{Mutex, PoisonError};

/// Runs a call on a GPU: where an array is in its memory, where the placement asks for it, or where the stream is its
/// own and it reaches all arrays. Says whether it did; else the call is left to cores.
pub(super) fn run(
    call: &StridedCall<'_>, placement: Placement, stream: Option<&Stream>,
) -> Result<bool, Error> {
    if let Some(Stream::Gpu(stream)) = stream
        && let Some(plan) = on_stream(call.call(), placement, stream.ordinal())
    {
        stream.queue_strided(call, &plan)?;
        report_queued(call.call(), &plan, stream);
        return Ok(true);
    }
    let Some(device) = device_of(call.call(), placement)? else { return Ok(false) };
    let plan = call.on_device(device.ordinal())?;
    stream.map_or(Ok(()), Stream::synchronize)?;
    run_blocks(call, &plan, device)?;
    Ok(true)
}

/// Returns the GPU that does a call: with an array in its memory, or the one that the placement asks for.
fn device_of(call: &Call<'_>, placement: Placement) -> Result<Option<&'static Device>, Error> {
    match call.device() {
        Some(ordinal) => device::one(ordinal).map(Some),
        None if placement == Placement::Gpu => device::usable().map(Some),
        None => Ok(None),
    }
}

/// Reduces along axes on a GPU, as [`run`]. Says whether it did; else the call is left to cores.
pub(super) fn reduce(
    call: &AxesCall<'_>, placement: Placement, stream: Option<&Stream>,
) -> Result<bool, Error> {
    if let Some(Stream::Gpu(stream)) = stream
        && call.reduced().elements() > 0
        && let Some(plan) = on_stream(call.call(), placement, stream.ordinal())
    {
        call.check()?;
        stream.queue_axes(call, &plan.transfers)?;
        report_queued(call.call(), &plan, stream);
        return Ok(true);
    }
    let Some(device) = device_of(call.call(), placement)? else { return Ok(false) };
    call.check()?;
    let transfers = call.on_device(device.ordinal())?;
    stream.map_or(Ok(()), Stream::synchronize)?;
    if may_be_written_by_devices(call.call()) {
        default_stream::synchronize_for(&[device]);
    }
    reduce_axes::run(device, call, &transfers)?;
    last_run::set(Report {
        backend: Backend::Gpu,
        path: gpus::path(call.call(), &transfers),
        devices: last_run::device_bit(device.ordinal()),
        threads: 1,
        chunks: 1,
        bytes_staged: 0,
        selection: Selection { choice: Choice::Gpu, reason: Reason::AskedFor },
    });
    Ok(true)
}

/// Runs the blocks of a call, on several threads where they stage arrays.
fn run_blocks(
    call: &StridedCall<'_>, plan: &OnStrides, device: &'static Device,
) -> Result<(), Error> {
    let (is_staged, count) = (plan.transfers.is_any_staged(), plan.blocks.count());
    if may_be_written_by_devices(call.call()) {
        default_stream::synchronize_for(&[device]);
        if is_staged {
            default_stream::synchronize_for_cores();
        }
    }
    let (kind, threads) = match is_staged {
        true => {
            let wanted = Host.thread_limit().min(tuning::STAGING_THREADS).min(count);
            (SlotKind::Staged, Host.threads(wanted))
        }
        false => (SlotKind::InPlace, 1),
    };
    let slots = (tuning::SLOTS[kind as usize] / threads).clamp(1, count);
    let run = StridedRun::new(device, call, plan);
    let outcome = Mutex::new((Progress::default(), None));
    pool::run(threads, &|_| {
        let result = run.run(slots);
        let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(progress) => outcome.0.add(progress),
            Err(error) => outcome.1 = outcome.1.or(Some(error)),
        }
    });
    let (progress, error) = outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
    if progress.finished < call.call().n() {
        return Err(error.unwrap_or(Error::Internal { text: "a block was not computed" }));
    }
    let staged = if is_staged { last_run::GPUVEC_PATH_STAGED } else { 0 };
    last_run::set(Report {
        backend: Backend::Gpu,
        path: gpus::path(call.call(), &plan.transfers) | staged,
        devices: last_run::device_bit(device.ordinal()),
        threads: threads as u64,
        chunks: progress.chunks as u64,
        bytes_staged: progress.bytes_staged,
        selection: Selection { choice: Choice::Gpu, reason: Reason::AskedFor },
    });
    Ok(())
}
