//! Chooses the processors of a call.

use super::array::MemoryKind;
use super::by_key::has_tables;
use super::checked::Call;
use super::cost;
use super::plan::Resources;
use super::task::{Task, TaskKind};
use crate::policy::gpu;
use crate::process::settings::Placement;
use gpuvec_cost::{self as model, Choice, Choices, Decision, Learner, Predictions, Work};

/// cbindgen:rename-all=QualifiedScreamingSnakeCase
/// The reason for a choice.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// None: nothing was chosen.
    None = 0,
    /// It was predicted to finish first.
    Fastest = 1,
    /// It was tried, to learn how long it takes.
    Explored = 2,
    /// A GPU might be faster, but opening the driver has not paid so far.
    NoDriverYet = 3,
    /// A GPU might be faster, but having its driver compile the kernel has not paid so far.
    Compiling = 4,
    /// The placement, or the memory that the arrays are in, leaves no choice.
    AskedFor = 5,
    /// A GPU failed, and cores did the work.
    Fallback = 6,
}

impl Reason {
    /// The reason for a choice that needs no prediction.
    pub(super) fn of(placement: Placement) -> Self {
        if placement == Placement::Auto { Reason::Fastest } else { Reason::AskedFor }
    }
}

/// The processors of a call, and the reason for them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Chosen {
    pub(crate) choice: Choice,
    pub(crate) reason: Reason,
    /// The predicted time of each choice in nanoseconds, or infinity without a prediction.
    pub(crate) predicted: Predictions,
    /// True if the call is long enough to be timed.
    pub(crate) is_long: bool,
    /// The lesson from the call's time. `None` if the library does not learn from it.
    pub(crate) lesson: Option<Lesson>,
    /// True if GPUs use pageable arrays in place. Otherwise such arrays are staged.
    pub(crate) in_place: bool,
}

/// The information that a call's time gives the learner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Lesson {
    /// The time of this work on these processors.
    Call { work: Work, processors: model::Processors, choice: Choice },
    /// The time includes loading a kernel. `full_ns` is the time that the driver's compiler is expected to take, and
    /// `call_ns` the predicted time of the rest of the call.
    Compiler { full_ns: f32, call_ns: f32 },
}

impl Lesson {
    /// True if the time includes work that later calls benefit from.
    pub(crate) fn is_of_warmup(&self) -> bool {
        matches!(self, Lesson::Compiler { .. })
    }

    /// Learns from the time that the call took.
    pub(crate) fn learn(&self, learner: &Learner, ns: f32) {
        match self {
            Lesson::Call { work, processors, choice } => {
                learner.observe(work, processors, *choice, ns)
            }
            Lesson::Compiler { full_ns, call_ns } => {
                learner.observe_compiler(*full_ns, ns - call_ns);
            }
        }
    }
}

/// The devices that can compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Devices {
    /// The number of devices. While the driver is closed, it is taken to be 1.
    pub(crate) all: usize,
    /// The number of open devices.
    pub(crate) open: usize,
}

/// The access of all open devices to host memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reach {
    /// Kernels access pageable arrays through the host's page tables, as on Grace Hopper.
    pub(crate) pageable: bool,
    /// The devices' memory is the host's memory, as on Jetson, so that copies save nothing.
    pub(crate) is_integrated: bool,
}

impl Chosen {
    /// A choice that needs no prediction.
    pub(super) fn only(choice: Choice, reason: Reason) -> Self {
        let is_long = choice != Choice::CallingCore;
        let predicted = [f32::INFINITY; model::CHOICES];
        Chosen { choice, reason, predicted, is_long, lesson: None, in_place: false }
    }

    fn asked_for(choice: Choice, call: &Call<'_>, resources: &impl Resources) -> Self {
        let work = work(call, resources);
        let processors =
            model::Processors { cores: resources.thread_limit(), gpus: resources.devices().all };
        let in_place = work.is_staged != cost::is_staged(call);
        let lesson = Some(Lesson::Call { work, processors, choice });
        Chosen { lesson, in_place, ..Self::only(choice, Reason::AskedFor) }
    }
}

/// True if the host cannot access an array.
pub(super) fn needs_gpu(call: &Call<'_>) -> bool {
    call.device().is_some()
}

/// Chooses the processors of a call.
pub(crate) fn choose(call: &Call<'_>, placement: Placement, resources: &impl Resources) -> Chosen {
    if call.is_uniform() || call.n() == 0 {
        return Chosen::only(Choice::CallingCore, Reason::of(placement));
    }
    if call.task().kind() == TaskKind::Grouped && !has_tables(call) {
        let reason = Reason::of(placement);
        return Chosen { reason, ..fastest_cores(call, resources) };
    }
    if needs_gpu(call) {
        return Chosen::only(Choice::Gpu, Reason::AskedFor);
    }
    let is_copy = matches!(call.task(), Task::Copy);
    if placement == Placement::Gpu && !is_copy {
        let is_long = cost::is_shareable(call) && call.max_bytes() > gpu::SEVERAL_GPUS_BYTES;
        let is_only_one = resources.devices() == Devices { all: 1, open: 1 };
        let several = is_long && !is_only_one;
        return Chosen::asked_for(
            if several { Choice::Gpus } else { Choice::Gpu },
            call,
            resources,
        );
    }
    if cost::core_ns(call) <= model::SHORT_CALL_NS {
        return Chosen::only(Choice::CallingCore, Reason::of(placement));
    }
    match placement {
        Placement::Auto if !is_copy => fastest(call, resources),
        Placement::Auto => fastest_cores(call, resources),
        Placement::All if !is_copy && pays_everywhere(call, resources) => {
            Chosen::asked_for(Choice::Together, call, resources)
        }
        _ => Chosen { reason: Reason::AskedFor, ..fastest_cores(call, resources) },
    }
}

/// Chooses the number of cores that is predicted to finish first.
pub(crate) fn fastest_cores(call: &Call<'_>, resources: &impl Resources) -> Chosen {
    let processors = model::Processors { cores: resources.thread_limit(), gpus: 0 };
    standing(call, resources, &processors, Choices::CORES).unwrap_or_else(|| {
        let work = work(call, resources);
        let decision = resources.learner().decide(&work, &processors, Choices::CORES);
        decided(call, decision, work, processors)
    })
}

/// The earlier decision that is reused for a short call, if there is one.
fn standing(
    call: &Call<'_>, resources: &impl Resources, processors: &model::Processors, among: Choices,
) -> Option<Chosen> {
    let core_ns = cost::core_ns(call);
    let (operation, is_staged) = (cost::operation(call), cost::is_staged(call));
    if core_ns > model::LONG_CALL_NS || (is_staged && resources.reach().pageable) {
        return None;
    }
    let choice = resources.learner().standing(operation, core_ns, is_staged, processors, among)?;
    Some(Chosen { is_long: false, ..Chosen::only(choice, Reason::Fastest) })
}

/// Chooses the ready processors that are predicted to finish first. Makes faster processors ready as soon as that pays.
fn fastest(call: &Call<'_>, resources: &impl Resources) -> Chosen {
    let devices = resources.devices();
    let processors = model::Processors { cores: resources.thread_limit(), gpus: devices.all };
    let lacks_kernel = devices.open > 0 && !resources.is_ready_for(call.task());
    let possible = if is_dividable(call) { Choices::ALL } else { Choices::APART };
    let mut ready = Choices::CORES;
    if !lacks_kernel && devices.open > 0 {
        ready = if devices.open == devices.all { possible } else { ready.with(Choice::Gpu) };
    }
    if let Some(chosen) = standing(call, resources, &processors, ready) {
        return chosen;
    }
    let work = work(call, resources);
    let decision = resources.learner().decide(&work, &processors, ready);
    let chosen = decided(call, decision, work, processors);
    if ready == possible || devices.all == 0 {
        return chosen;
    }
    let time_of = |choice: Choice| decision.predicted[choice as usize];
    let unready = possible.iter().filter(|choice| !ready.has(*choice));
    let Some(faster) = unready.min_by(|a, b| time_of(*a).total_cmp(&time_of(*b))) else {
        return chosen;
    };
    let loss = time_of(chosen.choice) - time_of(faster);
    if loss.is_nan() || loss <= 0.0 {
        return chosen;
    }
    let mut lesson = None;
    let is_worth_it = if lacks_kernel {
        let full_ns = cost::compiler_ns(call.task());
        lesson = Some(Lesson::Compiler { full_ns, call_ns: time_of(faster) });
        let losses =
            call.task().formula().map_or(resources.opening(), |formula| &formula.compiling);
        losses.is_reached(loss, resources.learner().compiler_ns(full_ns))
    } else if call.arrays().any(|array| array.kind != MemoryKind::Pageable) {
        // The driver allocated or registered the array, so that the program or another library already uses a GPU.
        true
    } else {
        let needed = if faster == Choice::Gpu { 1 } else { devices.all };
        resources.opening().is_reached(loss, (needed - devices.open) as f32 * gpu::OPENING_NS)
    };
    let reason = if lacks_kernel { Reason::Compiling } else { Reason::NoDriverYet };
    match is_worth_it && resources.gpu().is_ok() {
        // The call's time includes the time to make the processors ready.
        true => Chosen { choice: faster, lesson, ..chosen },
        false => Chosen { reason, ..chosen },
    }
}

/// The features of a call for the cost model. A call is repeated if the thread's last long call had the same key.
fn work(call: &Call<'_>, resources: &impl Resources) -> Work {
    let work = cost::work(call);
    let is_long = work.core_ns > model::LONG_CALL_NS;
    let work = Work { is_repeated: !is_long || resources.is_repeated(cost::key(call)), ..work };
    if work.is_staged && resources.reach().pageable {
        return staged_or_in_place(work, resources);
    }
    work
}

/// Work on pageable arrays that GPUs can access: staged or in place, whichever a GPU is predicted to finish first.
#[cold]
fn staged_or_in_place(work: Work, resources: &impl Resources) -> Work {
    let in_place = Work { is_staged: false, operation: cost::in_place(work.operation), ..work };
    let processors =
        model::Processors { cores: resources.thread_limit(), gpus: resources.devices().all };
    let ns = |work| resources.learner().predicted(work, &processors, Choice::Gpu);
    if ns(&in_place) < ns(&work) { in_place } else { work }
}

fn decided(
    call: &Call<'_>, decision: Decision, work: Work, processors: model::Processors,
) -> Chosen {
    let Decision { choice, predicted, is_long, .. } = decision;
    let reason = if decision.is_explored { Reason::Explored } else { Reason::Fastest };
    let lesson = decision.is_observed.then_some(Lesson::Call { work, processors, choice });
    let in_place = work.is_staged != cost::is_staged(call);
    Chosen { choice, reason, predicted, is_long, lesson, in_place }
}

/// True if cores and GPUs can share a call. They cannot share strided arrays: the tiles of GPUs and the smaller blocks
/// of cores would overlap.
fn is_dividable(call: &Call<'_>) -> bool {
    call.strides().is_none()
}

/// True if placement `all` shares a call between cores and GPUs.
fn pays_everywhere(call: &Call<'_>, resources: &impl Resources) -> bool {
    let is_long = cost::is_shareable(call) && call.max_bytes() > gpu::SEVERAL_GPUS_BYTES;
    let waits_for_compiler = || {
        let is_expression = call.task().formula().is_some_and(|formula| formula.op.is_none());
        let of_each = cost::core_ns(call) / resources.thread_limit() as f32;
        let compiler_ns = resources.learner().compiler_ns(cost::compiler_ns(call.task()));
        is_expression && of_each <= compiler_ns && !resources.is_ready_for(call.task())
    };
    is_long
        && is_dividable(call)
        && !cost::is_staged(call)
        && resources.gpu().is_ok()
        && !waits_for_compiler()
}

#[cfg(test)]
mod tests;
