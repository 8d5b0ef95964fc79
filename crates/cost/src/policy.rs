//! The constants of placement `auto`, in three policies: the prior, by the machine; how fast estimates learn; and when
//! alternatives are tried.
//!
//! The prior's rates were measured on one machine: an H200 with 16 cores of a Xeon on PCIe 5 x16, driver 580. Other machines
//! differ from it by what the variances allow, and are learned. The variances and the thresholds were chosen together, by
//! the simulation in `tests`: on 10,000 random machines calls take 1.05 times as long as on the best choice, and the first
//! 200 calls 1.06 (docs/explanation/placement.md). No value has a run of its own unless its line says so.

/// The rates of a machine, in nanoseconds and bytes.
pub(crate) mod prior {
    /// The bytes that fit into a core's own cache: its second one.
    pub(crate) const CACHE_BYTES: f32 = 2e6;

    /// The time of a core, and of all cores together, for a byte of memory. One core reads and writes
    /// 29 GB/s, all 125.
    pub(crate) const CORE_MEMORY_NS: f32 = 0.035;
    pub(crate) const MEMORY_NS: f32 = 0.008;

    /// The time to wake cores, and the additional time for each of them.
    pub(crate) const WAKE_NS: f32 = 2_000.0;
    pub(crate) const WAKE_EACH_NS: f32 = 200.0;

    /// The time of a GPU for a call on few elements: if it accesses all arrays in place, and if one is staged. Add
    /// of 1,000: pinned 9.9 µs, pageable 11.5 to 12.2.
    pub(crate) const LATENCY_NS: [f32; 2] = [10_000.0, 12_000.0];

    /// The time for a byte across the bus, in the direction that has more, and in the other direction. 45 GB/s
    /// one way.
    pub(crate) const BUS_NS: f32 = 0.022;
    pub(crate) const REVERSE_NS: f32 = 0.004;

    /// The time for a byte that is staged; the additional time for each of the first bytes, which one thread stages; and
    /// the number of these. 33 to 34 GB/s with four threads.
    pub(crate) const STAGED_NS: f32 = 0.030;
    pub(crate) const STAGED_ALONE_NS: f32 = 0.035;
    pub(crate) const STAGED_ALONE_BYTES: f32 = 2e6;

    /// The time of a GPU for arithmetic, as a fraction of a core's.
    pub(crate) const GPU_SHARE: f32 = 0.002;

    /// The time for several processors to share a call.
    pub(crate) const SHARING_NS: f32 = 20_000.0;

    /// The fraction of the compiler's time that a kernel is expected to take: the driver keeps on disk what it compiled in
    /// earlier processes.
    pub(crate) const COMPILER_SHARE: f32 = 0.25;
}

/// The variances from which estimates begin, and by which they move.
pub(crate) mod learning {
    use crate::estimate::Prior;
    use crate::model::RATES;

    /// Variances of the logarithms of the rates, in their order.
    pub(crate) const RATE_VARIANCES: [f32; RATES] =
        [0.25, 0.65, 1.5, 0.15, 0.02, 1.5, 2.5, 1.9, 1.4, 0.4, 0.6];

    /// The variance that a rate's estimate gains with each observation, as a fraction of its first variance.
    pub(crate) const RATE_DRIFT: f32 = 0.000_3;

    /// Corrections of a choice, of a choice for a size, and of a choice for an operation.
    pub(crate) const CHOICE: Prior = Prior { variance: 0.05, drift: 0.000_015 };
    pub(crate) const SIZE: Prior = Prior { variance: 0.06, drift: 0.000_02 };
    pub(crate) const OPERATION: Prior = Prior { variance: 0.09, drift: 0.000_03 };

    /// The variance of the deviations that rates and corrections do not explain.
    pub(crate) const MISFIT_VARIANCE: f32 = 0.015;

    /// The times of a case's calls, relative to the prior.
    pub(crate) const CASE: Prior = Prior { variance: 1.0, drift: 0.000_3 };

    /// The variance of a case's estimate after its first call; and the additional variance if that call took longer than
    /// predicted, as a factor of the error's square. On new memory, or with sleeping threads, a first call takes longer.
    pub(crate) const FRESH_VARIANCE: f32 = 0.01;
    pub(crate) const FRESH_DOUBT: f32 = 0.2;

    /// The variance of the same call's time from one run to the next.
    pub(crate) const NOISE_VARIANCE: f32 = 0.04;

    /// The time that kernels took to compile relative to what was expected, and its variance from one to the next.
    pub(crate) const COMPILER: Prior = Prior { variance: 2.0, drift: 0.0 };
    pub(crate) const COMPILER_NOISE: f32 = 0.3;

    /// The most standard deviations of the prior that a correction is. Slow calls that are not alike, such as the first of
    /// a GPU after a while, must not add up.
    pub(crate) const MOST_DEVIATIONS: f32 = 3.0;

    /// An observation is a surprise if its error is more than this many standard deviations.
    pub(crate) const SURPRISE: f32 = 4.8;

    /// A surprisingly long time may be an outlier: its error counts as the bound of surprises, divided by this. (No call is
    /// fast by accident.)
    pub(crate) const SHRINKING: f32 = 2.4;

    /// The factor of the variances after a surprise: such times may be the rule from now on.
    pub(crate) const DOUBT: f32 = 3.0;

    /// The fraction of a prediction below which a rate learns nothing from it.
    pub(crate) const LEAST_WEIGHT: f32 = 0.01;
}

/// When alternatives are tried, and for how many calls decisions stand.
pub(crate) mod trying {
    /// An alternative may be this many standard deviations faster than predicted.
    pub(crate) const OPTIMISM: f32 = 1.0;

    /// A try is due once calls may have lost this many times its cost, or once the calls of a case took this many times
    /// its cost; fewer if none of them ran there.
    pub(crate) const CAUTION: f32 = 5.0;
    pub(crate) const CAUTION_IN_A_CASE: f32 = 100.0;
    pub(crate) const CAUTION_IF_NEW: f32 = 50.0;

    /// A prediction is well known if its standard deviation is below this. A decision by it, or on a call that is not
    /// long, stands for `STANDING_CALLS`.
    pub(crate) const WELL_KNOWN: f32 = 0.1;
    pub(crate) const STANDING_CALLS: u32 = 8;

    /// A call that takes less may be on arrays in caches, or on a GPU that is asleep, so that a try takes `TRIES` calls.
    pub(crate) const CACHED_NS: f32 = 3e6;
    pub(crate) const TRIES: u32 = 2;

    /// A call of several cores that takes less takes much longer if their threads are asleep: `SHORT_TRIES` calls.
    pub(crate) const WAKING_NS: f32 = 100_000.0;
    pub(crate) const SHORT_TRIES: u32 = 4;
}

/// Up to this time of a core, by the prior, the calling core does the work and nothing is predicted.
pub const SHORT_CALL_NS: f32 = 1_500.0;
/// A call on the calling core is long if it is predicted to take more than this.
pub const LONG_CALL_NS: f32 = 20_000.0;
