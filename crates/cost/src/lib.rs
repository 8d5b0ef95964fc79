//! Predicts the time of a call on each choice of processors, learns from the times that calls took, and decides where
//! the next call runs. The crate knows neither arrays nor devices. docs/explanation/placement.md explains it.
//!
//! The prior (`model`) predicts a time from rates of the machine. A learned factor multiplies each rate. Three learned
//! corrections of a choice follow, for the deviations that the rates do not explain: one for all calls, one for calls
//! of about this size, and one for this operation. The prediction is combined with the times of similar calls (`case`).
//! Factors and corrections are estimates: a mean and a variance of a logarithm (`estimate`). A call's time moves them
//! by a step of an extended Kalman filter with a diagonal covariance (Anderson and Moore, Optimal Filtering, 1979,
//! chapter 8).

mod break_even;
mod case;
mod decide;
mod estimate;
mod learner;
mod model;
mod policy;

pub use break_even::BreakEven;
pub use decide::{Decision, Predictions};
pub use learner::Learner;
pub use policy::{LONG_CALL_NS, SHORT_CALL_NS};

/// A choice of processors.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The calling core alone.
    CallingCore,
    /// A quarter of the cores.
    QuarterOfCores,
    /// Half of the cores.
    HalfOfCores,
    /// All cores.
    Cores,
    /// One GPU.
    Gpu,
    /// All GPUs.
    Gpus,
    /// Cores and all GPUs.
    Together,
}

impl Choice {
    /// Every choice. The choices of cores come first, in the order of their size.
    pub const ALL: [Choice; CHOICES] = [
        Choice::CallingCore,
        Choice::QuarterOfCores,
        Choice::HalfOfCores,
        Choice::Cores,
        Choice::Gpu,
        Choice::Gpus,
        Choice::Together,
    ];

    /// True if no GPU takes part.
    pub fn is_cores(self) -> bool {
        (self as u8) < Choice::Gpu as u8
    }

    /// The number of threads of a choice of cores: its part of `limit`, but at most `worth`, the number of threads for
    /// which there is enough work.
    pub fn threads(self, worth: usize, limit: usize) -> usize {
        let of_all = match self {
            Choice::CallingCore => 1,
            Choice::QuarterOfCores => limit.div_ceil(4),
            Choice::HalfOfCores => limit.div_ceil(2),
            _ => limit,
        };
        of_all.min(worth).max(1)
    }

    /// True if the machine has the choice for this work, and the next smaller choice has fewer threads.
    fn exists(self, work: &Work, processors: &Processors) -> bool {
        match self {
            Choice::CallingCore => true,
            Choice::Gpu => processors.gpus > 0,
            Choice::Gpus => processors.gpus > 1 && work.is_shareable,
            Choice::Together => {
                processors.gpus > 0 && work.is_shareable && processors.cores > processors.gpus
            }
            of_cores => {
                let smaller = Choice::ALL[of_cores as usize - 1];
                let threads = |choice: Choice| choice.threads(work.most_threads, processors.cores);
                threads(of_cores) > threads(smaller)
            }
        }
    }
}

/// The number of choices.
pub const CHOICES: usize = Choice::Together as usize + 1;

/// A set of choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choices(u8);

impl Choices {
    /// All choices.
    pub const ALL: Choices = Choices((1 << CHOICES) - 1);
    /// The choices in which either cores or GPUs do all of the work.
    pub const APART: Choices = Choices((1 << Choice::Together as u8) - 1);
    /// The choices without a GPU.
    pub const CORES: Choices = Choices((1 << Choice::Gpu as u8) - 1);

    /// The set with one more choice.
    #[must_use]
    pub fn with(self, choice: Choice) -> Self {
        Choices(self.0 | 1 << choice as u8)
    }

    /// True if a choice is in the set.
    pub fn has(self, choice: Choice) -> bool {
        self.0 & 1 << choice as u8 != 0
    }

    /// The choices in the set.
    pub fn iter(self) -> impl Iterator<Item = Choice> {
        Choice::ALL.into_iter().filter(move |choice| self.has(*choice))
    }
}

/// The properties of a call that its time depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// The operation's number, unique in a process.
    pub operation: u32,
    /// The time of one core of the prior's machine, with all arrays in its cache, in nanoseconds.
    pub core_ns: f32,
    /// The bytes of all inputs.
    pub input_bytes: f32,
    /// The bytes of the output.
    pub output_bytes: f32,
    /// True if an array has to be staged for a GPU.
    pub is_staged: bool,
    /// True if the thread's last call was the same, so that caches may hold the arrays, and threads may be awake.
    pub is_repeated: bool,
    /// The most threads for which there is enough work.
    pub most_threads: usize,
    /// True if several GPUs, or cores and GPUs, can share the work.
    pub is_shareable: bool,
}

impl Work {
    fn bytes(&self) -> f32 {
        self.input_bytes + self.output_bytes
    }
}

/// The processors of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processors {
    /// The number of threads that may work on a call.
    pub cores: usize,
    /// The number of GPUs that can compute.
    pub gpus: usize,
}

#[cfg(test)]
mod tests;
