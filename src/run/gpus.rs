//! Runs a call on GPUs, and on cores at the same time if the plan says so.

use super::cores::may_be_written_by_devices;
use super::last_run::{self, Backend, Choice, Report, Selection};
use crate::call::chunk::Queue;
use crate::call::plan::OnGpus;
use crate::call::{Array, Call, ChunkWork, Task, Transfer, Transfers};
use crate::cuda::job::Job;
use crate::cuda::pipeline::{self, Progress};
use crate::cuda::{Device, default_stream, device};
use crate::error::Error;
use crate::pool;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The failure of GPUs to compute a call.
pub(super) struct Failure {
    pub(super) error: Error,
    /// True if the output may have been written.
    pub(super) wrote: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure { error, wrote: false }
    }
}

/// Computes all chunks of a call on GPUs, and on cores by `work`, which also takes the states of contiguous arrays.
pub(super) fn run(
    call: &Call<'_>, plan: &OnGpus, selection: Selection, work: &dyn ChunkWork,
) -> Result<(), Failure> {
    let devices: Vec<&'static Device> =
        plan.devices.iter().map(|ordinal| device::one(*ordinal)).collect::<Result<_, _>>()?;
    synchronize(call, plan, &devices)?;
    let job = Job::new(call, plan, work);
    let queue = job.queue();
    let outcome = Mutex::new(Outcome::default());
    let parallel = Parallel { call, plan, job, work, queue, outcome };
    let mut workers: Vec<_> = (0..plan.groups.min(devices.len()))
        .map(|group| devices.iter().copied().skip(group).step_by(plan.groups).collect())
        .map(Worker::Devices)
        .collect();
    workers.extend((plan.cores > 0).then_some(Worker::Cores));
    let threads_of = |worker: &Worker| match worker {
        Worker::Devices(_) => plan.threads,
        Worker::Cores => plan.cores,
    };
    let started = pool::run_concurrently(&workers, &|worker| {
        pool::run(threads_of(worker), &|_| parallel.join(worker));
    });
    let threads: usize = workers[..started].iter().map(threads_of).sum();
    parallel.finish(threads, selection)
}

/// Waits for work of other libraries that may be about to write to the arrays, and with which the slots' streams are
/// not ordered.
fn synchronize(call: &Call<'_>, plan: &OnGpus, devices: &[&'static Device]) -> Result<(), Error> {
    if may_be_written_by_devices(call) {
        default_stream::synchronize_for(devices);
    }
    if plan.cores > 0 {
        default_stream::synchronize_for_cores();
    }
    for other in call.arrays().filter_map(Array::device) {
        if other != plan.devices[0] {
            default_stream::synchronize(other)?;
        }
    }
    Ok(())
}

enum Worker {
    /// Devices that the same threads drive.
    Devices(Vec<&'static Device>),
    Cores,
}

/// A call with several workers, which take its chunks from a queue.
struct Parallel<'a> {
    call: &'a Call<'a>,
    plan: &'a OnGpus,
    /// The devices' work.
    job: Job<'a>,
    /// The cores' work.
    work: &'a dyn ChunkWork,
    queue: Queue,
    outcome: Mutex<Outcome>,
}

/// The outcome of all workers.
#[derive(Default)]
struct Outcome {
    progress: Progress,
    /// A bit for each device that finished a chunk.
    devices: u64,
    /// True if cores finished a chunk.
    used_cores: bool,
    error: Option<Error>,
}

impl Parallel<'_> {
    /// Works on chunks as a worker, on one of its threads.
    fn join(&self, worker: &Worker) {
        match worker {
            Worker::Devices(devices) => {
                let end = |device, outcome| self.end(Some(device), outcome);
                pipeline::run(devices, &self.job, self.plan, &self.queue, &end);
            }
            Worker::Cores => self.end(None, (self.compute(), Ok(()))),
        }
    }

    /// Adds the outcome of a device, or of a core.
    fn end(&self, device: Option<&Device>, (progress, result): pipeline::Outcome) {
        if progress.finished < progress.taken {
            self.queue.close();
        }
        let mut outcome = self.outcome();
        outcome.progress.add(progress);
        outcome.error = outcome.error.or(result.err());
        if progress.finished > 0 {
            match device {
                Some(device) => outcome.devices |= last_run::device_bit(device.ordinal()),
                None => outcome.used_cores = true,
            }
        }
    }

    /// Works on chunks as a core.
    fn compute(&self) -> Progress {
        let mut progress = Progress::default();
        let taken = std::iter::from_fn(|| self.queue.take(self.plan.core_chunk));
        self.work.compute(&mut taken.inspect(|chunk| {
            progress.taken += chunk.len();
            progress.chunks += 1;
        }));
        Progress { finished: progress.taken, wrote: progress.taken > 0, ..progress }
    }

    fn outcome(&self) -> MutexGuard<'_, Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The result, after all threads are done.
    fn finish(self, threads: usize, selection: Selection) -> Result<(), Failure> {
        let job = self.job;
        let Outcome { progress, devices, used_cores, error } =
            self.outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
        if progress.finished < self.queue.all() {
            let error = error.unwrap_or(Error::Internal { text: "a chunk was not computed" });
            return Err(Failure { error, wrote: progress.wrote });
        }
        job.merge_tables()?;
        let cores = if used_cores { last_run::GPUVEC_PATH_CORES } else { 0 };
        // Arrays that repeat elements are staged before a copy by DMA.
        let staged = if progress.bytes_staged > 0 { last_run::GPUVEC_PATH_STAGED } else { 0 };
        last_run::set(Report {
            backend: if devices == 0 { Backend::Cpu } else { Backend::Gpu },
            path: path(self.call, &self.plan.transfers) | cores | staged,
            devices,
            threads: threads as u64,
            chunks: progress.chunks as u64,
            bytes_staged: progress.bytes_staged,
            selection: Selection { choice: choice(self.plan), ..selection },
        });
        Ok(())
    }
}

fn choice(plan: &OnGpus) -> Choice {
    match plan.devices.len() {
        _ if plan.cores > 0 => Choice::CoresAndGpus,
        1 => Choice::Gpu,
        _ => Choice::Gpus,
    }
}

/// The path bits of a call's transfers.
pub(super) fn path(call: &Call<'_>, transfers: &Transfers) -> u32 {
    let is_copy = matches!(call.task(), Task::Copy);
    let bits = |transfer: Transfer| match transfer {
        Transfer::InPlace if is_copy && call.device().is_some() => last_run::GPUVEC_PATH_DMA,
        Transfer::Staged if is_copy => last_run::GPUVEC_PATH_STAGED,
        Transfer::InPlace => last_run::GPUVEC_PATH_RESIDENT,
        Transfer::Mapped => last_run::GPUVEC_PATH_MAPPED,
        Transfer::Dma => last_run::GPUVEC_PATH_DMA,
        Transfer::Staged => last_run::GPUVEC_PATH_STAGED | last_run::GPUVEC_PATH_MAPPED,
        Transfer::State | Transfer::Table => 0,
    };
    transfers.all().fold(0, |path, transfer| path | bits(transfer))
}
