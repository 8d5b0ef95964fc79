//! The prior: computes the time of a call on each choice of processors from rates of the machine.

use crate::policy::prior;
use crate::{Choice, Processors, Work};
use std::ops::Add;

/// A rate of the machine. Its ratio to the prior's rate is learned from calls.
#[repr(usize)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rate {
    /// The time of a core for arithmetic in its cache.
    Core,
    /// The time of a core for a byte of memory.
    CoreMemory,
    /// The time of all cores together for a byte of memory.
    Memory,
    /// The time to wake cores, and to wait for the last one.
    Wake,
    /// The loss with many cores, as a power of their number.
    Crowd,
    /// The time of a GPU for a call on few elements.
    Latency,
    /// The time for a byte across the bus, in the direction with more bytes.
    Bus,
    /// The time for a byte across the bus, in the other direction.
    Reverse,
    /// The time for a byte that is staged.
    Staging,
    /// The time of a GPU for arithmetic.
    Gpu,
    /// The time for several processors to share a call.
    Sharing,
}

pub(crate) const RATES: usize = Rate::Sharing as usize + 1;

/// The learned ratios of the machine's rates to the prior's.
pub(crate) type Factors = [f32; RATES];

/// A predicted time, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time {
    pub(crate) ns: f32,
    /// The prior's prediction, without the factors.
    pub(crate) prior_ns: f32,
    /// The derivatives with respect to the logarithm of each rate.
    pub(crate) by_rate: [f32; RATES],
}

impl Time {
    /// A time that is proportional to one rate.
    fn of(rate: Rate, prior_ns: f32, factors: &Factors) -> Self {
        let ns = prior_ns * factors[rate as usize];
        let mut by_rate = [0.0; RATES];
        by_rate[rate as usize] = ns;
        Time { ns, prior_ns, by_rate }
    }

    /// The time of two processors that share a call and finish at the same time.
    fn shared(self, other: Self) -> Self {
        let own = other.ns / (self.ns + other.ns);
        let others = 1.0 - own;
        let by_rate =
            |rate: usize| own * own * self.by_rate[rate] + others * others * other.by_rate[rate];
        let prior_sum = self.prior_ns + other.prior_ns;
        Time {
            ns: own * self.ns,
            prior_ns: self.prior_ns * other.prior_ns / prior_sum,
            by_rate: std::array::from_fn(by_rate),
        }
    }

    /// The time of several threads that slow each other down.
    fn crowded(mut self, threads: f32, factors: &Factors) -> Self {
        let crowd = Rate::Crowd as usize;
        let ln_threads = threads.ln();
        let factor = (factors[crowd].ln() * ln_threads).exp();
        self.ns *= factor;
        self.by_rate = self.by_rate.map(|ns| ns * factor);
        self.by_rate[crowd] = self.ns * ln_threads;
        self
    }

    fn max(self, other: Self) -> Self {
        let longer = if self.ns >= other.ns { self } else { other };
        Time { prior_ns: self.prior_ns.max(other.prior_ns), ..longer }
    }
}

impl Add for Time {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Time {
            ns: self.ns + other.ns,
            prior_ns: self.prior_ns + other.prior_ns,
            by_rate: std::array::from_fn(|rate| self.by_rate[rate] + other.by_rate[rate]),
        }
    }
}

/// The time of a call on a choice of processors.
pub(crate) fn time(
    work: &Work, choice: Choice, processors: &Processors, factors: &Factors,
) -> Time {
    let gpus = |count: usize| on_gpus(work, count, factors);
    match choice {
        Choice::Gpu => gpus(1),
        Choice::Gpus => gpus(processors.gpus) + Time::of(Rate::Sharing, prior::SHARING_NS, factors),
        Choice::Together => {
            let cores =
                on_cores(work, processors.cores.saturating_sub(processors.gpus).max(1), factors);
            gpus(processors.gpus).shared(cores)
                + Time::of(Rate::Sharing, prior::SHARING_NS, factors)
        }
        of_cores => on_cores(work, of_cores.threads(work.most_threads, processors.cores), factors),
    }
}

fn on_cores(work: &Work, threads: usize, factors: &Factors) -> Time {
    let of = |rate, ns| Time::of(rate, ns, factors);
    let threads = threads as f32;
    let cached = if work.is_repeated { prior::CACHE_BYTES * threads } else { 0.0 };
    let past_cache = (work.bytes() - cached).max(0.0);
    let memory = of(Rate::CoreMemory, past_cache * prior::CORE_MEMORY_NS / threads)
        .max(of(Rate::Memory, past_cache * prior::MEMORY_NS));
    let alone = of(Rate::Core, work.core_ns / threads) + memory;
    if threads == 1.0 {
        alone
    } else {
        alone.crowded(threads, factors)
            + of(Rate::Wake, prior::WAKE_NS + threads * prior::WAKE_EACH_NS)
    }
}

fn on_gpus(work: &Work, count: usize, factors: &Factors) -> Time {
    let of = |rate, ns| Time::of(rate, ns, factors);
    let each = 1.0 / count.max(1) as f32;
    let latency = of(Rate::Latency, prior::LATENCY_NS[usize::from(work.is_staged)]);
    let arithmetic = of(Rate::Gpu, each * work.core_ns * prior::GPU_SHARE);
    let [more, less] =
        [work.input_bytes.max(work.output_bytes), work.input_bytes.min(work.output_bytes)];
    let across = of(Rate::Bus, each * more * prior::BUS_NS)
        + of(Rate::Reverse, each * less * prior::REVERSE_NS);
    let busy = arithmetic.max(across);
    if work.is_staged {
        let alone = work.bytes().min(prior::STAGED_ALONE_BYTES) * prior::STAGED_ALONE_NS;
        return latency
            + busy.max(of(Rate::Staging, alone + each * work.bytes() * prior::STAGED_NS));
    }
    latency + busy
}
