//! The report on the processors and transfers of this thread's last operation.

use crate::call::Chosen;
pub use crate::call::Reason;
use gpuvec_cost::Predictions;
use std::cell::Cell;

/// cbindgen:rename-all=QualifiedScreamingSnakeCase
/// The kind of processor that did the work.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// None: there was nothing to do, or the call failed.
    None = 0,
    /// The CPU.
    Cpu = 1,
    /// One GPU or several.
    Gpu = 2,
}

/// The calling core alone did the work.
pub const GPUVEC_PATH_CALLING_CORE: u32 = 1;
/// Several cores did the work.
pub const GPUVEC_PATH_CORES: u32 = 2;
/// An array was staged: copied through gpuvec's own pinned buffers.
pub const GPUVEC_PATH_STAGED: u32 = 4;
/// An array was transferred to or from device memory by DMA.
pub const GPUVEC_PATH_DMA: u32 = 8;
/// Kernels read or wrote an array in host memory across the bus, without a copy (mapped).
pub const GPUVEC_PATH_MAPPED: u32 = 16;
/// An array was in device memory and was used in place.
pub const GPUVEC_PATH_RESIDENT: u32 = 32;

/// The path bits of transfers, with their names.
pub(super) const PATHS: [(u32, &str); 4] = [
    (GPUVEC_PATH_STAGED, "staged"),
    (GPUVEC_PATH_DMA, "dma"),
    (GPUVEC_PATH_MAPPED, "mapped"),
    (GPUVEC_PATH_RESIDENT, "resident"),
];

/// cbindgen:rename-all=QualifiedScreamingSnakeCase
/// The choice of processors for a call.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// None: there was nothing to do, the call failed, or a stream took it.
    None = 0,
    /// The calling core.
    CallingCore = 1,
    /// A quarter of the cores.
    QuarterOfCores = 2,
    /// Half of the cores.
    HalfOfCores = 3,
    /// All cores.
    Cores = 4,
    /// One GPU.
    Gpu = 5,
    /// All GPUs.
    Gpus = 6,
    /// Cores and GPUs at the same time.
    CoresAndGpus = 7,
}

/// Every choice, by its number, with its name.
pub(super) const CHOICES: [(Choice, &str); 8] = [
    (Choice::None, "none"),
    (Choice::CallingCore, "calling core"),
    (Choice::QuarterOfCores, "quarter of cores"),
    (Choice::HalfOfCores, "half of cores"),
    (Choice::Cores, "cores"),
    (Choice::Gpu, "gpu"),
    (Choice::Gpus, "gpus"),
    (Choice::CoresAndGpus, "cores and gpus"),
];

/// Every reason, by its number, with its name.
pub(super) const REASONS: [(Reason, &str); 7] = [
    (Reason::None, "none"),
    (Reason::Fastest, "fastest"),
    (Reason::Explored, "explored"),
    (Reason::NoDriverYet, "no driver yet"),
    (Reason::Compiling, "compiling"),
    (Reason::AskedFor, "asked for"),
    (Reason::Fallback, "fallback"),
];

/// The last run: where and how the calling thread's last operation on arrays ran.
///
/// Later versions may append fields; they never change or remove one.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// A `gpuvec_backend`.
    pub backend: i32,
    /// The `GPUVEC_PATH_*` bits of all cores and transfers that took part.
    pub path: u32,
    /// Bit d is set if device d took part.
    pub devices: u64,
    /// The number of host threads that could take part, including the calling one.
    pub threads: u64,
    /// The number of chunks that the work was split into.
    pub chunks: u64,
    /// The number of bytes copied through gpuvec's own pinned buffers; 0 if nothing was staged.
    pub bytes_staged: u64,
    /// A `gpuvec_choice`.
    pub choice: i32,
    /// A `gpuvec_reason`.
    pub reason: i32,
    /// The nanoseconds that the call took; 0 if it was not measured: short calls are not, unless `GPUVEC_LOG` is set.
    pub time_ns: u64,
    /// The nanoseconds that each choice was predicted to take, by its `gpuvec_choice`; 0 where there was
    /// no such choice, or no prediction.
    pub predicted_ns: [u64; 8],
}

/// The processors that were chosen for a call, and why.
#[derive(Clone, Copy, Debug)]
pub(super) struct Selection {
    pub(super) choice: Choice,
    pub(super) reason: Reason,
}

impl Selection {
    pub(super) const NONE: Selection = Selection { choice: Choice::None, reason: Reason::None };
}

impl From<&Chosen> for Selection {
    fn from(chosen: &Chosen) -> Self {
        Selection { choice: CHOICES[number(chosen.choice)].0, reason: chosen.reason }
    }
}

/// The number of a choice as a [`Choice`].
fn number(choice: gpuvec_cost::Choice) -> usize {
    Choice::CallingCore as usize + choice as usize
}

/// The part of a [`Run`] that the backends fill in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    pub(super) backend: Backend,
    pub(super) path: u32,
    pub(super) devices: u64,
    pub(super) threads: u64,
    pub(super) chunks: u64,
    pub(super) bytes_staged: u64,
    pub(super) selection: Selection,
}

impl Report {
    const NONE: Report = Report {
        backend: Backend::None,
        path: 0,
        devices: 0,
        threads: 0,
        chunks: 0,
        bytes_staged: 0,
        selection: Selection::NONE,
    };
}

/// The part of a [`Run`] that short calls do not store.
#[derive(Clone, Copy)]
struct Times {
    time_ns: u64,
    predicted_ns: [u64; CHOICES.len()],
}

struct Last {
    report: Cell<Report>,
    /// `None` stands for zeros, and is faster to store.
    times: Cell<Option<Times>>,
}

thread_local! {
    static LAST: Last = const {
        Last { report: Cell::new(Report::NONE), times: Cell::new(None) }
    };
}

/// The bit of a device in [`Run::devices`].
pub(super) fn device_bit(ordinal: usize) -> u64 {
    1u64.checked_shl(ordinal as u32).unwrap_or(0)
}

/// Forgets the last run.
pub(crate) fn clear() {
    set(Report::NONE);
}

/// Stores the report on a call. The guard clears it if the call fails afterwards.
pub(super) fn set(report: Report) {
    LAST.with(|last| {
        last.report.set(report);
        last.times.set(None);
    });
}

/// Does work, and then restores the report on the last run.
pub(super) fn keep<R>(work: impl FnOnce() -> R) -> R {
    let before = LAST.with(|last| (last.report.get(), last.times.get()));
    let result = work();
    LAST.with(|last| {
        last.report.set(before.0);
        last.times.set(before.1);
    });
    result
}

/// Stores the time of the last run, if there is one and its time is not stored yet.
pub(super) fn set_time(ns: u64) {
    let last = last();
    if last.backend != Backend::None as i32 && last.time_ns == 0 {
        let times = Times { time_ns: ns, predicted_ns: last.predicted_ns };
        LAST.with(|last| last.times.set(Some(times)));
    }
}

/// Stores the time of the last run and the predicted times.
pub(super) fn set_times(ns: u64, predicted: &Predictions) {
    let mut predicted_ns = [0; CHOICES.len()];
    for (choice, ns) in gpuvec_cost::Choice::ALL.into_iter().zip(predicted) {
        predicted_ns[number(choice)] = if ns.is_finite() { *ns as u64 } else { 0 };
    }
    LAST.with(|last| last.times.set(Some(Times { time_ns: ns, predicted_ns })));
}

/// Returns the last run.
pub(crate) fn last() -> Run {
    let (report, times) = LAST.with(|last| (last.report.get(), last.times.get()));
    let times = times.unwrap_or(Times { time_ns: 0, predicted_ns: [0; CHOICES.len()] });
    let Report { backend, path, devices, threads, chunks, bytes_staged, selection } = report;
    Run {
        backend: backend as i32,
        path,
        devices,
        threads,
        chunks,
        bytes_staged,
        choice: selection.choice as i32,
        reason: selection.reason as i32,
        time_ns: times.time_ns,
        predicted_ns: times.predicted_ns,
    }
}
