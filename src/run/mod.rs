//! Runs calls: makes a [`Call`] of a caller's arguments, plans it, and does as the plan says.

mod cores;
mod gpus;
pub mod last_run;
mod memory_kinds;
mod work;

use crate::call::plan::{Fallback, Machine, OnCores, Plan, on_cores, plan};
use crate::call::{Call, Input, Task, Work};
use crate::cuda::{Device, alloc, device};
use crate::error::Error;
use crate::objects::stream::{Stream, given, gpuvec_stream};
use crate::ops::{Elementwise, Reduction, Visitor};
use crate::pool;
use crate::process::settings;
use gpus::Failure;
use last_run::{Backend, Run};
use memory_kinds::MemoryKinds;
use std::cell::LazyCell;
use std::ffi::c_void;
use work::{Copying, Mapping, Reducing};

/// Runs a task over `n` elements of each input, or queues it on a stream. Says in the thread's last run
/// how.
///
/// # Safety
/// As [`Call::new`].
pub(crate) unsafe fn run(
    task: Task,
    inputs: &[Input],
    output: (&'static str, *mut c_void),
    n: usize,
    stream: *mut gpuvec_stream,
) -> Result<(), Error> {
    let (placement, stream) = (settings::placement()?, given(stream)?);
    let kinds = LazyCell::new(|| MemoryKinds::new(placement));
    let kind_of = |array: &_| match task {
        Task::Copy => kinds.of_copied(array),
        Task::Compute { .. } => kinds.of(array),
    };
    // SAFETY: this function's promise.
    let Some(call) = (unsafe { Call::new(task, inputs, output, n, kind_of)? }) else {
        return Ok(());
    };
    let machine = Host { thread_limit: settings::threads()?.get() };
    let device = stream.as_deref().and_then(Stream::device);
    let plan = plan(&call, placement, device, &machine)?;
    let run = match (plan, stream.as_deref()) {
        (Plan::Queue(plan), Some(Stream::Gpu(stream))) => {
            stream.queue(&call, &plan)?;
            Run {
                backend: Backend::Gpu as i32,
                path: gpus::path(&call, &plan.transfers),
                devices: last_run::device_bit(stream.ordinal()),
                threads: 1,
                chunks: 1,
                ..Run::default()
            }
        }
        (plan, stream) => {
            stream.map_or(Ok(()), Stream::synchronize)?;
            let runner = Runner { call: &call, plan, machine };
            match task {
                Task::Compute { op, alpha } => op.visit(alpha, runner)?,
                Task::Copy => runner.copy()?,
            }
        }
    };
    if n > 0 {
        last_run::set(run);
    }
    Ok(())
}

/// This process, for plans.
struct Host {
    thread_limit: usize,
}

impl Machine for Host {
    fn thread_limit(&self) -> usize {
        self.thread_limit
    }

    fn threads(&self, wanted: usize) -> usize {
        pool::available(wanted)
    }

    fn gpu(&self) -> Result<usize, Error> {
        device::usable().map(Device::ordinal)
    }

    fn gpus(&self) -> Result<Vec<usize>, Error> {
        Ok(device::all_usable()?.into_iter().map(Device::ordinal).collect())
    }
}

/// Runs a call that is done when it returns.
struct Runner<'a> {
    call: &'a Call,
    plan: Plan,
    machine: Host,
}

impl Runner<'_> {
    fn copy(self) -> Result<Run, Error> {
        self.run(|_| Ok(Copying(self.call))).map(|(run, _)| run)
    }

    /// Runs the work that `new` makes for a number of chunks. Where GPUs fail, cores do it if the plan
    /// says so.
    fn run<W: Work>(&self, new: impl Fn(usize) -> Result<W, Error>) -> Result<(Run, W), Error> {
        let run_on_cores = |plan: &OnCores| {
            let work = new(plan.partition.chunks())?;
            Ok((cores::run(self.call, plan, &work), work))
        };
        match &self.plan {
            Plan::Queue(_) => Err(Error::Internal { text: "a queued call was run" }),
            Plan::Cores(plan) => run_on_cores(plan),
            Plan::Gpus(plan) => {
                let work = new(plan.partition.chunks())?;
                match (gpus::run(self.call, plan, &work), plan.fallback) {
                    (Ok(run), _) => Ok((run, work)),
                    (Err(Failure { wrote: false, .. }), Fallback::CoresIfUnwritten)
                    | (Err(_), Fallback::Cores) => {
                        run_on_cores(&on_cores(self.call, &self.machine))
                    }
                    (Err(Failure { error, .. }), _) => Err(error),
                }
            }
        }
    }

    /// Stores the result of a reduction.
    fn store<T: Copy>(&self, value: T) -> Result<(), Error> {
        let output = self.call.output();
        if let Some(ordinal) = output.device() {
            // SAFETY: the call promises the output; the driver says that it is of this device.
            return unsafe { alloc::write(ordinal, output.address, value) };
        }
        // SAFETY: the call promises the output, which is aligned, and which the host reaches.
        unsafe { output.host_pointer::<T>(0).write(value) };
        Ok(())
    }
}

impl Visitor for Runner<'_> {
    type Result = Result<Run, Error>;

    fn elementwise<O: Elementwise>(self, op: O) -> Self::Result {
        self.run(|_| Ok(Mapping(op, self.call))).map(|(run, _)| run)
    }

    fn reduction<O: Reduction>(self, op: O) -> Self::Result {
        let (run, work) = self.run(|chunks| Reducing::new(op, self.call, chunks))?;
        self.store(work.result()?)?;
        Ok(run)
    }
}
