//! The constants of placement `auto`, in three policies: the prior's rates, the learning of estimates, and the trying
//! of alternatives.
//!
//! The prior's rates were measured on one machine: an H200 with 16 cores of a Xeon on PCIe 5 x16, driver 580. The rates
//! of other machines are learned. The variances tell how much these may differ. The variances and the thresholds were
//! chosen together, by the simulation in `tests`: on 10,000 random machines calls take 1.05 times as long as on the
//! best choice, and the first 200 calls 1.06 times (docs/explanation/placement.md). No value was measured alone unless
//! its comment says so.

/// The rates of a machine, in nanoseconds and bytes.
pub(crate) mod prior {
    /// The bytes that fit into a core's second cache.
    pub(crate) const CACHE_BYTES: f32 = 2e6;

    /// The time of a core, and of all cores together, for a byte of memory. One core reads and writes 29 GB/s, all
    /// cores 125.
    pub(crate) const CORE_MEMORY_NS: f32 = 0.035;
    pub(crate) const MEMORY_NS: f32 = 0.008;

    /// The time to wake cores, and the additional time for each of them.
    pub(crate) const WAKE_NS: f32 = 2_000.0;
    pub(crate) const WAKE_EACH_NS: f32 = 200.0;

    /// The time of a GPU for a call on few elements: if it accesses all arrays in place, and if one is staged. Add of
    /// 1,000: pinned 9.9 µs, pageable 11.5 to 12.2.
    pub(crate) const LATENCY_NS: [f32; 2] = [10_000.0, 12_000.0];

    /// The time for a byte across the bus, in the direction with more bytes, and in the other direction. 45 GB/s one
    /// way.
    pub(crate) const BUS_NS: f32 = 0.022;
    pub(crate) const REVERSE_NS: f32 = 0.004;

    /// The time for a staged byte, and the additional time for each of the first `STAGED_ALONE_BYTES` bytes, which one
    /// thread stages. 33 to 34 GB/s with four threads.
    pub(crate) const STAGED_NS: f32 = 0.030;
    pub(crate) const STAGED_ALONE_NS: f32 = 0.035;
    pub(crate) const STAGED_ALONE_BYTES: f32 = 2e6;

    /// The time of a GPU for arithmetic, as a fraction of a core's.
    pub(crate) const GPU_SHARE: f32 = 0.002;

    /// The time for several processors to share a call.
    pub(crate) const SHARING_NS: f32 = 20_000.0;

    /// The fraction of the compiler's time that a kernel is expected to take. The driver keeps on disk the kernels that
    /// it compiled in earlier processes.
    pub(crate) const COMPILER_SHARE: f32 = 0.25;
}

/// The variances with which estimates begin and move.
pub(crate) mod learning {
    use crate::estimate::Prior;
    use crate::model::RATES;

    /// The variances of the logarithms of the rates, in the order of the rates.
    pub(crate) const RATE_VARIANCES: [f32; RATES] =
        [0.25, 0.65, 1.5, 0.15, 0.02, 1.5, 2.5, 1.9, 1.4, 0.4, 0.6];

    /// The variance that a rate's estimate gains with each observation, as a fraction of its first variance.
    pub(crate) const RATE_DRIFT: f32 = 0.000_3;

    /// The corrections of a choice: for all calls, for a size, and for an operation.
    pub(crate) const CHOICE: Prior = Prior { variance: 0.05, drift: 0.000_015 };
    pub(crate) const SIZE: Prior = Prior { variance: 0.06, drift: 0.000_02 };
    pub(crate) const OPERATION: Prior = Prior { variance: 0.09, drift: 0.000_03 };

    /// The variance of the deviations that rates and corrections do not explain.
    pub(crate) const MISFIT_VARIANCE: f32 = 0.015;

    /// The times of a case's calls, relative to the prior.
    pub(crate) const CASE: Prior = Prior { variance: 1.0, drift: 0.000_3 };

    /// The variance of a case's estimate after its first call; and the additional variance if that call took longer
    /// than predicted, as a multiple of the error's square. On new memory, or with sleeping threads, a first call takes
    /// longer.
    pub(crate) const FRESH_VARIANCE: f32 = 0.01;
    pub(crate) const FRESH_DOUBT: f32 = 0.2;

    /// The variance of a call's time from one run to the next.
    pub(crate) const NOISE_VARIANCE: f32 = 0.04;

    /// The time that kernels took to compile, relative to the expected time, and its variance from one kernel to the
    /// next.
    pub(crate) const COMPILER: Prior = Prior { variance: 2.0, drift: 0.0 };
    pub(crate) const COMPILER_NOISE: f32 = 0.3;

    /// The limit of a correction, in standard deviations of the prior. Slow calls that have nothing in common, such as
    /// a GPU's first calls after a while, must not add up.
    pub(crate) const MOST_DEVIATIONS: f32 = 3.0;

    /// An observation is a surprise if its error is more than this many standard deviations.
    pub(crate) const SURPRISE: f32 = 4.8;

    /// A surprisingly long time may be an outlier. Its error counts as the bound of surprises, divided by this. (No
    /// call is fast by accident.)
    pub(crate) const SHRINKING: f32 = 2.4;

    /// The factor of the variances after a surprise, since such times may be the rule from now on.
    pub(crate) const DOUBT: f32 = 3.0;

    /// A prediction corrects only the rates that make up at least this fraction of it.
    pub(crate) const LEAST_WEIGHT: f32 = 0.01;
}

/// The conditions for tries of alternatives, and the numbers of calls for which decisions stand.
pub(crate) mod trying {
    /// An alternative may be this many standard deviations faster than predicted.
    pub(crate) const OPTIMISM: f32 = 1.0;

    /// A try is due once calls may have lost `CAUTION` times its cost, or once the calls of a case have taken
    /// `CAUTION_IN_A_CASE` times its cost, or `CAUTION_IF_NEW` times if none of them ran there.
    pub(crate) const CAUTION: f32 = 5.0;
    pub(crate) const CAUTION_IN_A_CASE: f32 = 100.0;
    pub(crate) const CAUTION_IF_NEW: f32 = 50.0;

    /// A prediction is well known if its standard deviation is below this. With a well known prediction, or for a call
    /// that is not long, a decision stands for `STANDING_CALLS` calls.
    pub(crate) const WELL_KNOWN: f32 = 0.1;
    pub(crate) const STANDING_CALLS: u32 = 8;

    /// A shorter call may have its arrays in caches, or a sleeping GPU, so that a try takes `TRIES` calls.
    pub(crate) const CACHED_NS: f32 = 3e6;
    pub(crate) const TRIES: u32 = 2;

    /// A shorter call on several cores takes much longer if their threads are asleep, so that a try takes `SHORT_TRIES`
    /// calls.
    pub(crate) const WAKING_NS: f32 = 100_000.0;
    pub(crate) const SHORT_TRIES: u32 = 4;
}

/// The longest time of a core, by the prior, for which the calling core does the work without a prediction.
pub const SHORT_CALL_NS: f32 = 1_500.0;
/// The predicted time from which on a call on the calling core is long.
pub const LONG_CALL_NS: f32 = 20_000.0;
