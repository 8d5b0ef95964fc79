//! The constants of placement `auto`, in three policies: the prior, by the machine; how fast estimates learn; and when
//! alternatives are tried.
//!
//! The prior's rates were measured on one machine: an H200 with 16 cores of a Xeon on PCIe 5 x16, driver 580. Other machines
//! differ from it by what the variances allow, and are learned. The variances and the thresholds were chosen together, by
//! the simulation in `tests`: on 10,000 random machines calls take 1.05 times as long as on the best choice, and the first
//! 200 calls 1.06 (docs/explanation/placement.md). No value has a run of its own unless its line says so.

use crate::estimate::Prior;
use crate::model::RATES;

/// The rates of a machine, in nanoseconds and bytes.
pub(crate) struct Rates {
    /// The bytes that fit into a core's own cache.
    pub(crate) cache_bytes: f32,
    /// The time of a core, and of all cores together, for a byte of memory.
    pub(crate) core_memory_ns: f32,
    pub(crate) memory_ns: f32,
    /// The time to wake cores, and the additional time for each of them.
    pub(crate) wake_ns: f32,
    pub(crate) wake_each_ns: f32,
    /// The time of a GPU for a call on few elements: if it accesses all arrays in place, and if one is staged.
    pub(crate) latency_ns: [f32; 2],
    /// The time for a byte across the bus, in the direction that has more, and in the other direction.
    pub(crate) bus_ns: f32,
    pub(crate) reverse_ns: f32,
    /// The time for a byte that is staged; the additional time for each of the first bytes, which one thread stages; and
    /// the number of these.
    pub(crate) staged_ns: f32,
    pub(crate) staged_alone_ns: f32,
    pub(crate) staged_alone_bytes: f32,
    /// The time of a GPU for arithmetic, as a fraction of a core's.
    pub(crate) gpu_share: f32,
    /// The time for several processors to share a call.
    pub(crate) sharing_ns: f32,
    /// The fraction of the compiler's time that a kernel is expected to take: the driver keeps on disk what it compiled in
    /// earlier processes.
    pub(crate) compiler_share: f32,
}

pub(crate) const PRIOR: Rates = Rates {
    // The second cache of a core.
    cache_bytes: 2e6,
    // One core reads and writes 29 GB/s, all 125.
    core_memory_ns: 0.035,
    memory_ns: 0.008,
    wake_ns: 2_000.0,
    wake_each_ns: 200.0,
    // Add of 1,000: pinned 9.9 µs, pageable 11.5 to 12.2.
    latency_ns: [10_000.0, 12_000.0],
    // 45 GB/s one way.
    bus_ns: 0.022,
    reverse_ns: 0.004,
    // 33 to 34 GB/s with four threads.
    staged_ns: 0.030,
    staged_alone_ns: 0.035,
    staged_alone_bytes: 2e6,
    gpu_share: 0.002,
    sharing_ns: 20_000.0,
    compiler_share: 0.25,
};

/// The variances from which estimates begin, and by which they move.
pub(crate) struct Learning {
    /// Variances of the logarithms of the rates, in their order.
    pub(crate) rate_variances: [f32; RATES],
    /// The variance that a rate's estimate gains with each observation, as a fraction of its first variance.
    pub(crate) rate_drift: f32,
    /// Corrections of a choice, of a choice for a size, and of a choice for an operation.
    pub(crate) choice: Prior,
    pub(crate) size: Prior,
    pub(crate) operation: Prior,
    /// The variance of the deviations that rates and corrections do not explain.
    pub(crate) misfit_variance: f32,
    /// The times of a case's calls, relative to the prior.
    pub(crate) case: Prior,
    /// The variance of a case's estimate after its first call; and the additional variance if that call took longer than
    /// predicted, as a factor of the error's square. On new memory, or with sleeping threads, a first call takes longer.
    pub(crate) fresh_variance: f32,
    pub(crate) fresh_doubt: f32,
    /// The variance of the same call's time from one run to the next.
    pub(crate) noise_variance: f32,
    /// The time that kernels took to compile relative to what was expected, and its variance from one to the next.
    pub(crate) compiler: Prior,
    pub(crate) compiler_noise: f32,
    /// The most standard deviations of the prior that a correction is. Slow calls that are not alike, such as the first of
    /// a GPU after a while, must not add up.
    pub(crate) most_deviations: f32,
    /// An observation is a surprise if its error is more than this many standard deviations.
    pub(crate) surprise: f32,
    /// A surprisingly long time may be an outlier: its error counts as the bound of surprises, divided by this. (No call is
    /// fast by accident.)
    pub(crate) shrinking: f32,
    /// The factor of the variances after a surprise: such times may be the rule from now on.
    pub(crate) doubt: f32,
    /// The fraction of a prediction below which a rate learns nothing from it.
    pub(crate) least_weight: f32,
}

pub(crate) const LEARNING: Learning = Learning {
    rate_variances: [0.25, 0.65, 1.5, 0.15, 0.02, 1.5, 2.5, 1.9, 1.4, 0.4, 0.6],
    rate_drift: 0.000_3,
    choice: Prior { variance: 0.05, drift: 0.000_015 },
    size: Prior { variance: 0.06, drift: 0.000_02 },
    operation: Prior { variance: 0.09, drift: 0.000_03 },
    misfit_variance: 0.015,
    case: Prior { variance: 1.0, drift: 0.000_3 },
    fresh_variance: 0.01,
    fresh_doubt: 0.2,
    noise_variance: 0.04,
    compiler: Prior { variance: 2.0, drift: 0.0 },
    compiler_noise: 0.3,
    most_deviations: 3.0,
    surprise: 4.8,
    shrinking: 2.4,
    doubt: 3.0,
    least_weight: 0.01,
};

/// When alternatives are tried, and for how many calls decisions stand.
pub(crate) struct Trying {
    /// An alternative may be this many standard deviations faster than predicted.
    pub(crate) optimism: f32,
    /// A try is due once calls may have lost this many times its cost, or once the calls of a case took this many times
    /// its cost; fewer if none of them ran there.
    pub(crate) caution: f32,
    pub(crate) caution_in_a_case: f32,
    pub(crate) caution_if_new: f32,
    /// A prediction is well known if its standard deviation is below this. A decision by it, or on a call that is not
    /// long, stands for `standing_calls`.
    pub(crate) well_known: f32,
    pub(crate) standing_calls: u32,
    /// A call that takes less may be on arrays in caches, or on a GPU that is asleep, so that a try takes `tries` calls.
    pub(crate) cached_ns: f32,
    pub(crate) tries: u32,
    /// A call of several cores that takes less takes much longer if their threads are asleep: `short_tries` calls.
    pub(crate) waking_ns: f32,
    pub(crate) short_tries: u32,
}

pub(crate) const TRYING: Trying = Trying {
    optimism: 1.0,
    caution: 5.0,
    caution_in_a_case: 100.0,
    caution_if_new: 50.0,
    well_known: 0.1,
    standing_calls: 8,
    cached_ns: 3e6,
    tries: 2,
    waking_ns: 100_000.0,
    short_tries: 4,
};

/// Up to this time of a core, by the prior, the calling core does the work and nothing is predicted.
pub const SHORT_CALL_NS: f32 = 1_500.0;
/// A call on the calling core is long if it is predicted to take more than this.
pub const LONG_CALL_NS: f32 = 20_000.0;
