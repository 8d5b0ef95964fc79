//! The constants of the prior, and those of learning, which were chosen by simulation (`tests`).
//!
//! The prior's rates are those of an H200 with 16 cores on PCIe 5 x16, in nanoseconds and bytes.

use crate::estimate::Prior;
use crate::model::RATES;

/// The bytes that fit into a core's own cache.
pub(crate) const CACHE_BYTES: f32 = 2e6;
/// The time of a core for a byte of memory.
pub(crate) const CORE_MEMORY_NS: f32 = 0.035;
/// The time of all cores together for a byte of memory.
pub(crate) const MEMORY_NS: f32 = 0.008;
/// The time to wake cores, and the additional time for each of them.
pub(crate) const WAKE_NS: f32 = 2_000.0;
/// See [`WAKE_NS`].
pub(crate) const WAKE_EACH_NS: f32 = 200.0;
/// The time of a GPU for a call on few elements: of arrays that it reaches, and if one is staged.
pub(crate) const LATENCY_NS: [f32; 2] = [10_000.0, 12_000.0];
/// The time for a byte across the bus, in the direction that has more.
pub(crate) const BUS_NS: f32 = 0.022;
/// The same in the other direction.
pub(crate) const REVERSE_NS: f32 = 0.004;
/// The time for a byte that is staged.
pub(crate) const STAGED_NS: f32 = 0.030;
/// The additional time for each of the first bytes, which one thread stages.
pub(crate) const STAGED_ALONE_NS: f32 = 0.035;
/// See [`STAGED_ALONE_NS`].
pub(crate) const STAGED_ALONE_BYTES: f32 = 2e6;
/// The time of a GPU for arithmetic, as a share of a core's.
pub(crate) const GPU_SHARE: f32 = 0.002;
/// The time for several processors to share a call.
pub(crate) const SHARING_NS: f32 = 20_000.0;

/// Variances of the logarithms of the rates, in their order.
pub(crate) const RATE_VARIANCES: [f32; RATES] =
    [0.25, 0.65, 1.5, 0.15, 0.02, 1.5, 2.5, 1.9, 1.4, 0.4, 0.6];
/// The variance that a rate's estimate gains with each observation, as a share of its variance above.
pub(crate) const RATE_DRIFT: f32 = 0.000_3;
/// Corrections of a choice ...
pub(crate) const CHOICE: Prior = Prior { variance: 0.05, drift: 0.000_015 };
/// ... of a choice for a size ...
pub(crate) const SIZE: Prior = Prior { variance: 0.06, drift: 0.000_02 };
/// ... and of a choice for an operation.
pub(crate) const OPERATION: Prior = Prior { variance: 0.09, drift: 0.000_03 };
/// The variance of the deviations that rates and corrections do not explain.
pub(crate) const MISFIT_VARIANCE: f32 = 0.015;

/// The times of a case's calls, relative to the prior.
pub(crate) const CASE: Prior = Prior { variance: 1.0, drift: 0.000_3 };
/// The variance of a case's estimate after its first call.
pub(crate) const FRESH_VARIANCE: f32 = 0.01;
/// The additional variance if that call took longer than predicted, as a factor of the error's square: on new
/// memory, or with threads that sleep, a first call takes longer than the next.
pub(crate) const FRESH_DOUBT: f32 = 0.2;
/// The variance of the same call's time from one run to the next.
pub(crate) const NOISE_VARIANCE: f32 = 0.04;

/// Up to this time of a core, by the prior, the calling core does the work and nothing is predicted.
pub const SHORT_CALL_NS: f32 = 1_500.0;
/// A call on the calling core is long if it is predicted to take more than this.
pub const LONG_CALL_NS: f32 = 20_000.0;

/// The share of the compiler's time that a kernel is expected to take: the driver keeps on disk what it
/// compiled in earlier processes.
pub(crate) const COMPILER_SHARE: f32 = 0.25;
/// The time that kernels took relative to that.
pub(crate) const COMPILER: Prior = Prior { variance: 2.0, drift: 0.0 };
/// The variance of its logarithm from one kernel to the next.
pub(crate) const COMPILER_NOISE: f32 = 0.3;

/// An alternative may be this many standard deviations faster than predicted.
pub(crate) const OPTIMISM: f32 = 1.0;
/// A try is due once calls may have lost this many times its cost ...
pub(crate) const CAUTION: f32 = 5.0;
/// ... or once the calls of a case took this many times its cost.
pub(crate) const CAUTION_IN_A_CASE: f32 = 100.0;
/// ... or fewer if none of them ran there.
pub(crate) const CAUTION_IF_NEW: f32 = 50.0;

/// A prediction is well known if its standard deviation is below this ...
pub(crate) const WELL_KNOWN: f32 = 0.1;
/// ... and a decision by it, or on a call that is not long, stands for this many calls.
pub(crate) const STANDING_CALLS: u32 = 8;

/// A call that takes less may be on arrays that fit in caches, or on a GPU that is asleep ...
pub(crate) const CACHED_NS: f32 = 3e6;
/// ... so that a try takes this many calls: the first one teaches nothing.
pub(crate) const TRIES: u32 = 2;
/// A call of several cores that takes less may take much longer if their threads are asleep ...
pub(crate) const WAKING_NS: f32 = 100_000.0;
/// ... so that a try takes more calls.
pub(crate) const SHORT_TRIES: u32 = 4;
