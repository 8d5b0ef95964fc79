//! The resources of this process, which plans depend on.

use super::last_run;
use crate::call::plan::Resources;
use crate::call::{Chosen, Devices, Reach, Task};
use crate::cuda::{Device, device, driver};
use crate::error::Error;
use crate::pool;
use crate::process::{settings, warmup};
use gpuvec_cost::{BreakEven, Learner};
use std::cell::Cell;
use std::num::NonZeroUsize;
use std::time::Instant;

/// Everything learned from this process's calls. A forked child begins with its parent's knowledge.
static LEARNER: Learner = Learner::new();

/// The time that calls have lost because devices were not open.
static OPENING: BreakEven = BreakEven::new();

/// This process.
pub(super) struct Host;

impl Resources for Host {
    fn thread_limit(&self) -> usize {
        // The guard has refused calls with an invalid environment.
        settings::threads().map_or(1, NonZeroUsize::get)
    }

    fn threads(&self, wanted: usize) -> usize {
        pool::available(wanted)
    }

    fn devices(&self) -> Devices {
        let [open, all] = match driver::if_open() {
            Some(_) => device::counts(),
            None if driver::has_failed() => [0, 0],
            None => [0, 1],
        };
        Devices { all, open }
    }

    fn reach(&self) -> Reach {
        device::reach()
    }

    fn gpu(&self) -> Result<usize, Error> {
        device::usable().map(Device::ordinal)
    }

    fn is_ready_for(&self, task: Task<'_>) -> bool {
        device::usable().is_ok_and(|device| device.is_ready_for(task))
    }

    fn is_repeated(&self, key: u64) -> bool {
        thread_local! {
            static LAST: Cell<u64> = const { Cell::new(0) };
        }
        LAST.replace(key) == key
    }

    fn gpus(&self) -> Result<Vec<usize>, Error> {
        Ok(device::all_usable()?.into_iter().map(Device::ordinal).collect())
    }

    fn learner(&self) -> &Learner {
        &LEARNER
    }

    fn opening(&self) -> &BreakEven {
        &OPENING
    }
}

/// Runs a call. Times it if it is long or one of the sampled short calls, and learns from its time. The time of a call
/// that created threads, buffers or kernels, counted since `warmups`, only teaches the time of creating them. If a
/// choice fails and cores do the work, the whole time counts for that choice.
pub(super) fn timed(
    chosen: &Chosen, warmups: u32, work: impl FnOnce() -> Result<(), Error>,
) -> Result<(), Error> {
    let is_measured = chosen.is_long || (chosen.lesson.is_some() && is_sampled());
    if !is_measured {
        return work();
    }
    let begin = Instant::now();
    work()?;
    let ns = begin.elapsed().as_nanos();
    last_run::set_times(u64::try_from(ns).unwrap_or(u64::MAX), &chosen.predicted);
    let is_warmup = warmup::count() != warmups;
    if let Some(lesson) = chosen.lesson.filter(|lesson| lesson.is_of_warmup() == is_warmup) {
        lesson.learn(&LEARNER, ns as f32);
    }
    Ok(())
}

/// Selects one of several short calls to be timed as well, since it may take longer than predicted.
fn is_sampled() -> bool {
    const SAMPLED: u32 = 4;
    thread_local! {
        static SHORT_CALLS: Cell<u32> = const { Cell::new(0) };
    }
    SHORT_CALLS.replace(SHORT_CALLS.get().wrapping_add(1)).is_multiple_of(SAMPLED)
}
