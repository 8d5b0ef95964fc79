//! Predicts how long a call takes on each choice of processors, learns from how long calls took, and
//! decides where the next one runs. Pure: knows neither arrays nor devices.
//!
//! A prediction is the prior's (`model`), with a factor for each rate of the machine, and with corrections
//! for what the rates do not explain: of a choice for calls of about this size, for this operation, and for
//! this very call. Factors and corrections are estimates: a mean and a variance of a logarithm
//! (`estimate`). A call's time moves them as an extended Kalman filter with a diagonal covariance does
//! (Anderson and Moore, Optimal Filtering, 1979, chapter 8).

mod break_even;
mod case;
mod decide;
mod estimate;
mod learner;
mod model;
mod nanoseconds;
mod tuning;

pub use break_even::BreakEven;
pub use decide::{Decision, Predictions, Reason};
pub use learner::Learner;
pub use tuning::{LONG_CALL_NS, SHORT_CALL_NS};

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
    /// Every choice; those of cores first, and the smallest of them first.
    pub const ALL: [Choice; CHOICES] = [
        Choice::CallingCore,
        Choice::QuarterOfCores,
        Choice::HalfOfCores,
        Choice::Cores,
        Choice::Gpu,
        Choice::Gpus,
        Choice::Together,
    ];

    /// Says whether no GPU takes part.
    pub fn is_cores(self) -> bool {
        (self as u8) < Choice::Gpu as u8
    }

    /// The threads that compute, of those that may and those that the work is worth, if the choice is of
    /// cores.
    pub fn threads(self, worth: usize, limit: usize) -> usize {
        let of_all = match self {
            Choice::CallingCore => 1,
            Choice::QuarterOfCores => limit.div_ceil(4),
            Choice::HalfOfCores => limit.div_ceil(2),
            _ => limit,
        };
        of_all.min(worth).max(1)
    }

    /// Says whether a choice is there, and not the same as a smaller one.
    fn exists(self, work: &Work, machine: &Machine) -> bool {
        match self {
            Choice::CallingCore => true,
            Choice::Gpu => machine.gpus > 0,
            Choice::Gpus => machine.gpus > 1 && work.is_shareable,
            Choice::Together => {
                machine.gpus > 0 && work.is_shareable && machine.cores > machine.gpus
            }
            of_cores => {
                let smaller = Choice::ALL[of_cores as usize - 1];
                let threads = |choice: Choice| choice.threads(work.most_threads, machine.cores);
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
    /// All of them.
    pub const ALL: Choices = Choices((1 << CHOICES) - 1);
    /// Those without a GPU.
    pub const CORES: Choices = Choices((1 << Choice::Gpu as u8) - 1);

    /// The set with one more.
    #[must_use]
    pub fn with(self, choice: Choice) -> Self {
        Choices(self.0 | 1 << choice as u8)
    }

    /// Says whether a choice is in the set.
    pub fn has(self, choice: Choice) -> bool {
        self.0 & 1 << choice as u8 != 0
    }

    /// The choices in the set.
    pub fn iter(self) -> impl Iterator<Item = Choice> {
        Choice::ALL.into_iter().filter(move |choice| self.has(*choice))
    }
}

/// A call, as far as its time depends on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// Tells the operations of a process apart, by a number whose lowest bits differ.
    pub operation: u32,
    /// The time of one core of the prior's machine, with all arrays in its cache, in nanoseconds.
    pub core_ns: f32,
    /// The bytes of all inputs.
    pub input_bytes: f32,
    /// The bytes of the output.
    pub output_bytes: f32,
    /// Says that a GPU needs an array staged.
    pub is_staged: bool,
    /// The number of threads that the work can be given to.
    pub most_threads: usize,
    /// Says that several processors can share the work.
    pub is_shareable: bool,
}

impl Work {
    fn bytes(&self) -> f32 {
        self.input_bytes + self.output_bytes
    }
}

/// The processors that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Threads that may work on a call.
    pub cores: usize,
    /// GPUs that can compute.
    pub gpus: usize,
}

#[cfg(test)]
mod tests;
