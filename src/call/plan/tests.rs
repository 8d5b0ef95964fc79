//! The processors that calls run on, by memory kind, length, placement and machine.

use super::*;
use crate::call::array::Layout;
use crate::call::checked::tests::{check, unfollowed, with_call};
use crate::call::choice::{Reason, choose};
use crate::call::chunk::Queue;
use crate::call::formula::{Binding, Evaluation, Formula};
use MemoryKind::{Managed, Pageable, Pinned};
use Placement::{All, Auto, Cpu, Gpu};
use gpuvec_expr::{Element, Program};
use gpuvec_ops::Op;
use proptest::prelude::*;
use std::collections::VecDeque;

const DEVICE: MemoryKind = MemoryKind::Device { ordinal: 0 };
const OTHER: MemoryKind = MemoryKind::Device { ordinal: 1 };

/// A machine with GPUs, which are open, and a limit of threads, where nothing was learned.
struct Host {
    gpus: usize,
    limit: usize,
    reach: Reach,
    learner: Box<Learner>,
    opening: BreakEven,
}

/// A machine with as many GPUs, and 16 threads.
fn with(gpus: usize) -> Host {
    limited(gpus, 16)
}

fn limited(gpus: usize, limit: usize) -> Host {
    let reach = Reach::default();
    Host { gpus, limit, reach, learner: Box::default(), opening: BreakEven::new() }
}

impl Resources for Host {
    fn thread_limit(&self) -> usize {
        self.limit
    }

    fn threads(&self, wanted: usize) -> usize {
        wanted.max(1)
    }

    fn devices(&self) -> Devices {
        Devices { all: self.gpus, open: self.gpus }
    }

    fn reach(&self) -> Reach {
        self.reach
    }

    fn gpu(&self) -> Result<usize, Error> {
        self.gpus().map(|gpus| gpus[0])
    }

    fn gpus(&self) -> Result<Vec<usize>, Error> {
        let gpus: Vec<usize> = (0..self.gpus).collect();
        if gpus.is_empty() { Err(Error::NoGpu { why: "a test" }) } else { Ok(gpus) }
    }

    fn is_ready_for(&self, _: Task<'_>) -> bool {
        false
    }

    fn is_repeated(&self, _: u64) -> bool {
        true
    }

    fn learner(&self) -> &Learner {
        &self.learner
    }

    fn opening(&self) -> &BreakEven {
        &self.opening
    }
}

/// A machine that must not be asked for anything but its calling core.
struct NotAsked;

#[rustfmt::skip]
impl Resources for NotAsked {
    fn thread_limit(&self) -> usize {
        panic!("threads were asked for")
    }

    fn threads(&self, _: usize) -> usize {
        panic!("threads were asked for")
    }

    fn devices(&self) -> Devices {
        panic!("devices were asked for")
    }

    fn reach(&self) -> Reach {
        panic!("devices were asked")
    }

    fn gpu(&self) -> Result<usize, Error> {
        panic!("a GPU was asked for")
    }

    fn gpus(&self) -> Result<Vec<usize>, Error> {
        panic!("GPUs were asked for")
    }

    fn is_ready_for(&self, _: Task<'_>) -> bool {
        panic!("a device was asked")
    }

    fn is_repeated(&self, _: u64) -> bool {
        panic!("the last call was asked for")
    }

    fn learner(&self) -> &Learner {
        panic!("what was learned was asked for")
    }

    fn opening(&self) -> &BreakEven {
        panic!("what opening costs was asked for")
    }
}

/// Plans a call for the processors that are chosen.
fn plan(call: &Call<'_>, placement: Placement, resources: &impl Resources) -> Result<Plan, Error> {
    super::plan(call, placement, &choose(call, placement, resources), resources)
}

fn planned(op: Op, n: usize, kinds: [MemoryKind; 3], placement: Placement, gpus: usize) -> Plan {
    with_call(op, n, kinds, |call| plan(call, placement, &with(gpus)).unwrap())
}

fn limit(blocks: u32) -> String {
    if blocks == MAX_BLOCKS { "any".into() } else { blocks.to_string() }
}

fn ways(transfers: &Transfers) -> String {
    transfers.all().map(|transfer| format!("{transfer:?}")).collect::<Vec<_>>().join(" ")
}

fn task(op: Op) -> Task<'static> {
    Task::Evaluate(Evaluation { formula: Formula::of(op), bindings: &[], groups: 0 })
}

/// A plan of an operation on `n` elements in one line.
fn line(plan: &Plan, op: Op, n: usize) -> String {
    match plan {
        Plan::Cores(OnCores { threads, partition }) => {
            format!("cores: {threads} threads; {} chunks", partition.chunks())
        }
        Plan::Gpus(plan) => format!(
            "GPUs {:?}: {}; {} chunks; {} threads, {} slots; {} cores; {} blocks{}; {:?}",
            plan.devices,
            ways(&plan.transfers),
            n.div_ceil(plan.chunk),
            plan.threads,
            plan.slots,
            plan.cores,
            limit(plan.block_limits.of(task(op))),
            if plan.uses_flags { ", flags" } else { "" },
            plan.fallback
        ),
    }
}

#[test]
fn each_call_has_its_plan() {
    let (add, dot) = (Op::AddF32, Op::DotF32);
    #[rustfmt::skip]
    let table = [
        // Placement, GPUs, operation, n, memory of a, b and out.
        (Cpu, 1, add, 1000, [Pageable; 3], "cores: 1 threads; 1 chunks"),
        (Cpu, 1, add, 100_000, [Pageable; 3], "cores: 8 threads; 25 chunks"),
        (Auto, 0, add, 150_000, [Pinned; 3], "cores: 12 threads; 37 chunks"),
        (Auto, 1, add, 150_000, [Pinned; 3], "cores: 12 threads; 37 chunks"),
        (Gpu, 1, add, 300_000, [Pinned; 3],
         "GPUs [0]: Mapped Mapped Mapped; 1 chunks; 1 threads, 1 slots; 0 cores; 64 blocks, flags; None"),
        (Gpu, 1, add, 1_000_000, [Pageable; 3],
         "GPUs [0]: Staged Staged Staged; 8 chunks; 4 threads, 2 slots; 0 cores; any blocks; None"),
        (Gpu, 1, dot, 100_000_000, [Pageable; 3],
         "GPUs [0]: Staged Staged State; 382 chunks; 4 threads, 2 slots; 0 cores; 16 blocks; None"),
        (Auto, 0, dot, 1, [Pageable, DEVICE, Pinned],
         "GPUs [0]: Staged InPlace State; 1 chunks; 1 threads, 1 slots; 0 cores; 1 blocks, flags; None"),
        (Gpu, 1, add, 1000, [Pinned; 3],
         "GPUs [0]: Mapped Mapped Mapped; 1 chunks; 1 threads, 1 slots; 0 cores; 64 blocks, flags; None"),
        (Gpu, 1, add, 1000, [DEVICE; 3],
         "GPUs [0]: InPlace InPlace InPlace; 1 chunks; 1 threads, 1 slots; 0 cores; any blocks, flags; None"),
        (Gpu, 1, add, 1000, [Managed; 3],
         "GPUs [0]: InPlace InPlace InPlace; 1 chunks; 1 threads, 1 slots; 0 cores; any blocks; None"),
        (Gpu, 1, dot, 1000, [Pinned; 3],
         "GPUs [0]: Mapped Mapped State; 1 chunks; 1 threads, 1 slots; 0 cores; 1 blocks, flags; None"),
        (Gpu, 1, dot, 100_000_000, [DEVICE; 3],
         "GPUs [0]: InPlace InPlace State; 1 chunks; 1 threads, 1 slots; 0 cores; any blocks; None"),
        (Auto, 1, dot, 1 << 30, [DEVICE; 3],
         "GPUs [0]: InPlace InPlace State; 1 chunks; 1 threads, 1 slots; 0 cores; any blocks; None"),
        (Auto, 2, add, 9, [DEVICE, OTHER, DEVICE],
         "GPUs [0]: InPlace Dma InPlace; 1 chunks; 1 threads, 1 slots; 0 cores; any blocks, flags; None"),
        (Gpu, 1, add, 100_000_000, [Pinned; 3],
         "GPUs [0]: Dma Dma Dma; 96 chunks; 1 threads, 3 slots; 0 cores; any blocks; None"),
        (Gpu, 2, add, 100_000_000, [Pinned; 3],
         "GPUs [0, 1]: Mapped Mapped Mapped; 24 chunks; 1 threads, 8 slots; 0 cores; any blocks; None"),
        (Gpu, 2, Op::ScaleF32, 100_000_000, [Pinned; 3],
         "GPUs [0, 1]: Dma Dma; 48 chunks; 1 threads, 3 slots; 0 cores; any blocks; None"),
        (Gpu, 2, dot, 100_000_000, [Pinned; 3],
         "GPUs [0, 1]: Dma Dma State; 48 chunks; 1 threads, 3 slots; 0 cores; any blocks; None"),
        (Gpu, 2, add, 100_000_000, [Pageable, Pinned, Pinned],
         "GPUs [0, 1]: Staged Mapped Mapped; 382 chunks; 4 threads, 2 slots; 0 cores; any blocks; None"),
        (Gpu, 1, add, 100_000_000, [MemoryKind::PinnedInParts; 3],
         "GPUs [0]: Mapped Mapped Mapped; 1 chunks; 1 threads, 1 slots; 0 cores; 64 blocks, flags; None"),
        (All, 1, add, 100_000_000, [Pinned; 3],
         "GPUs [0]: Dma Dma Dma; 382 chunks; 1 threads, 3 slots; 15 cores; any blocks; Cores"),
        (All, 2, dot, 100_000_000, [Pinned; 3],
         "GPUs [0, 1]: Dma Dma State; 382 chunks; 1 threads, 3 slots; 14 cores; any blocks; Cores"),
        (All, 0, add, 100_000_000, [Pinned; 3], "cores: 16 threads; 1526 chunks"),
        (All, 1, add, 100_000_000, [Pageable; 3], "cores: 16 threads; 1526 chunks"),
        (All, 1, add, 1, [DEVICE; 3],
         "GPUs [0]: InPlace InPlace InPlace; 1 chunks; 1 threads, 1 slots; 0 cores; any blocks, flags; None"),
    ];
    for (placement, gpus, op, n, kinds, expected) in table {
        let plan = planned(op, n, kinds, placement, gpus);
        assert_eq!(
            line(&plan, op, n),
            expected,
            "{placement:?}, {gpus} GPUs, {op:?} of {n} in {kinds:?}"
        );
    }
}

#[test]
fn pageable_arrays_are_used_in_place_by_gpus_that_reach_them() {
    let reach = Reach { pageable: true, is_integrated: false };
    let host = Host { reach, ..with(1) };
    let n = 1_000_000;
    for (kinds, expected) in [
        ([Pageable; 3], "InPlace InPlace InPlace"),
        ([Pageable, Pinned, Pageable], "InPlace Mapped InPlace"),
    ] {
        let Plan::Gpus(plan) =
            with_call(Op::AddF32, n, kinds, |call| plan(call, Gpu, &host).unwrap())
        else {
            panic!("not a plan for GPUs")
        };
        assert_eq!((ways(&plan.transfers).as_str(), plan.chunk), (expected, n));
    }
}

#[test]
fn nothing_is_copied_to_the_memory_of_an_integrated_gpu() {
    let reach = Reach { pageable: false, is_integrated: true };
    let host = Host { reach, ..with(1) };
    for (kind, expected) in [(Pinned, "Mapped Mapped Mapped"), (Pageable, "Staged Staged Staged")] {
        let call = |call: &Call<'_>| plan(call, Gpu, &host).unwrap();
        let Plan::Gpus(plan) = with_call(Op::AddF32, 100_000_000, [kind; 3], call) else {
            panic!("not a plan for GPUs")
        };
        assert_eq!(ways(&plan.transfers), expected);
    }
}

#[test]
fn a_stream_takes_calls_whose_arrays_its_device_reaches() {
    let on = |stream, placement, op, n, kinds| {
        with_call(op, n, kinds, |call| {
            let plan = on_stream(call, placement, stream)?;
            Some(format!(
                "{}; {} blocks",
                ways(&plan.transfers),
                limit(plan.block_limits.of(call.task()))
            ))
        })
    };
    let whole = Some("InPlace InPlace InPlace; any blocks".into());
    assert_eq!(on(0, Auto, Op::AddF32, 9, [DEVICE; 3]), whole);
    assert_eq!(on(0, Gpu, Op::DotF32, 1 << 40, [DEVICE, DEVICE, Managed]), whole);
    let mapped = Some("Mapped InPlace Mapped; 64 blocks".into());
    assert_eq!(on(0, All, Op::AddF32, 9, [Pinned, DEVICE, Pinned]), mapped);
    for (stream, placement, kinds) in [
        (1, Auto, [DEVICE; 3]),
        (0, Auto, [DEVICE, OTHER, DEVICE]),
        (0, Auto, [DEVICE, Pageable, DEVICE]),
    ] {
        assert_eq!(on(stream, placement, Op::AddF32, 9, kinds), None);
    }
    assert_eq!(on(0, Cpu, Op::AddF32, 9, [Pinned; 3]), None);
}

#[test]
fn small_arrays_wake_neither_a_core_nor_the_driver() {
    for (placement, kind) in [(Auto, Pageable), (Auto, Pinned), (Cpu, Pageable), (All, Pinned)] {
        let plan = with_call(Op::AddF32, 1000, [kind; 3], |call| {
            plan(call, placement, &NotAsked).unwrap()
        });
        assert_eq!(line(&plan, Op::AddF32, 1000), "cores: 1 threads; 1 chunks");
    }
}

#[test]
fn a_gpu_that_is_demanded_and_missing_is_an_error() {
    let result = with_call(Op::AddF32, 1000, [Pageable; 3], |call| plan(call, Gpu, &with(0)));
    assert!(matches!(result, Err(Error::NoGpu { .. })));
}

fn any_kind() -> impl Strategy<Value = MemoryKind> {
    prop_oneof![Just(Pageable), Just(Pinned), Just(DEVICE), Just(OTHER), Just(Managed)]
}

proptest! {
    #[test]
    fn chunks_fit_their_buffers(
        n in 1usize..1 << 40, gpus in 1usize..9,
        a in any_kind(), b in any_kind(), output in any_kind(), left in 0usize..1 << 40,
    ) {
        for op in Op::ALL {
            let Plan::Gpus(plan) = planned(*op, n, [a, b, output], Gpu, gpus) else {
                panic!("not a plan for GPUs")
            };
            // No cores wait for the last chunks.
            prop_assert_eq!(plan.next_chunk(left), plan.chunk);
            let bytes = plan.chunk.min(n) * op.element_bytes();
            let count = |transfer| plan.transfers.all().filter(|t| *t == transfer).count();
            let direct = count(Transfer::Dma) * bytes;
            match plan.transfers.slot_kind() {
                SlotKind::Staged => {
                    let staged = count(Transfer::Staged) * bytes;
                    prop_assert!(staged.max(direct) <= gpu::STAGED_SLOT_BYTES);
                }
                SlotKind::Dma => prop_assert!(direct <= gpu::DMA_SLOT_BYTES),
                SlotKind::InPlace => prop_assert_eq!(direct, 0),
            }
        }
    }

    #[test]
    fn no_more_threads_than_allowed(
        n in 1usize..1 << 40, gpus in 1usize..9, limit in 1usize..20,
        a in any_kind(), b in any_kind(), all: bool,
    ) {
        let placement = if all { All } else { Gpu };
        let resources = limited(gpus, limit);
        let plan = with_call(Op::AddF32, n, [a, b, a], |call| plan(call, placement, &resources));
        let (threads, groups, devices) = match plan.unwrap() {
            Plan::Gpus(plan) => {
                (plan.groups * plan.threads + plan.cores, plan.groups, plan.devices.len())
            }
            Plan::Cores(plan) => (plan.threads, 1, 1),
        };
        prop_assert!(threads <= limit && (1..=devices).contains(&groups));
    }

    #[test]
    fn each_core_has_a_chunk_of_some_size_to_take(n in 1usize..1 << 40) {
        let OnCores { threads, partition } =
            with_call(Op::DotF32, n, [Pageable; 3], |call| on_cores(call, Choice::Cores, &with(0)));
        let [least, most] = cores::CHUNK;
        let first = partition.in_order().next().unwrap().len();
        prop_assert!((least.min(n)..=most).contains(&first));
        prop_assert!(threads == 1 || partition.chunks() >= threads);
    }
}

/// Numbers of elements of f32 that are shared.
const SHARED: std::ops::Range<usize> = 600_000..200_000_000;

/// Plans a formula of two f32 arrays for cores and GPUs together. `cost_ns` is the time of a core per element.
fn shared(cost_ns: f64, n: usize, kind: MemoryKind, gpus: usize) -> OnGpus {
    const SPACE: usize = 1 << 44;
    let declared = ["a", "b"].map(|name| gpuvec_expr::Input {
        name,
        element: Element::F32,
        form: gpuvec_expr::Form::Array,
    });
    let program = gpuvec_expr::compile("a + b", &declared).unwrap();
    let formula = Formula::new(0, program, (cost_ns * 1e3) as usize, None);
    let task =
        Task::Evaluate(Evaluation { formula: &formula, bindings: &[Binding::Array; 2], groups: 0 });
    let layout = Layout::contiguous(size_of::<f32>());
    let [a, b, out] =
        [("a", 1), ("b", 2), ("out", 3)].map(|(name, i)| unfollowed(name, i * SPACE, layout));
    let plan = |call: &Call<'_>| {
        on_gpus(call, All, &Chosen::only(Choice::Together, Reason::AskedFor), &with(gpus))
    };
    check(task, n, &[a, b], &[out], |_: &_| Ok(kind), plan).unwrap().unwrap()
}

/// A core, or a thread that feeds a device.
struct Taker {
    is_core: bool,
    element_ns: f64,
    /// The most chunks that it holds; it works on one after the other.
    slots: usize,
    /// When it is done with each of its newest chunks.
    done: VecDeque<f64>,
}

impl Taker {
    /// The time when it takes another chunk.
    fn next(&self) -> f64 {
        if self.done.len() < self.slots { 0.0 } else { self.done[0] }
    }

    fn take(&mut self, len: usize) {
        let now = self.next();
        let start = self.done.back().map_or(now, |newest| newest.max(now));
        if self.done.len() == self.slots {
            self.done.pop_front();
        }
        self.done.push_back(start + len as f64 * self.element_ns);
    }
}

/// The time of a call of `n` elements whose processors take them as the plan says, in nanoseconds.
fn simulated(plan: &OnGpus, n: usize, core_ns: f64, gpu_ns: f64) -> f64 {
    let taker =
        |is_core, element_ns, slots| Taker { is_core, element_ns, slots, done: VecDeque::new() };
    let threads = plan.devices.len() * plan.threads;
    let mut takers: Vec<Taker> = (0..plan.cores).map(|_| taker(true, core_ns, 1)).collect();
    takers.extend((0..threads).map(|_| taker(false, gpu_ns * plan.threads as f64, plan.slots)));
    let queue = Queue::new(n);
    loop {
        let next = takers.iter_mut().min_by(|a, b| a.next().total_cmp(&b.next()));
        let next = next.unwrap();
        let most = if next.is_core { plan.core_chunk } else { plan.next_chunk(queue.left()) };
        let Some(chunk) = queue.take(most) else { break };
        next.take(chunk.len());
    }
    takers.iter().filter_map(|taker| taker.done.back()).copied().fold(0.0, f64::max)
}

#[test]
fn processors_that_share_a_heavy_formula_are_done_at_the_same_time() {
    const CORE_NS: f64 = 16.0;
    const GPU_NS: f64 = 0.24;
    for (n, kind) in [(10_000_000, Pinned), (10_000_000, Pageable), (100_000_000, Pinned)] {
        let plan = shared(CORE_NS, n, kind, 1);
        let ideal = n as f64 / (plan.cores as f64 / CORE_NS + 1.0 / GPU_NS);
        let time = simulated(&plan, n, CORE_NS, GPU_NS);
        assert!(time < 1.05 * ideal, "{n}, {kind:?}: {time} ns, at best {ideal}");
    }
}

#[test]
fn cores_take_short_chunks_and_devices_long_ones() {
    for (kind, slots, least, chunk, core_ns, core_chunk) in [
        (Pinned, 3, 1 << 16, 1 << 18, 0.2, 1 << 16),
        (Pinned, 3, 1 << 16, 1 << 18, 16.0, 1 << 12),
        (Pageable, 8, 1 << 16, 1 << 18, 16.0, 1 << 12),
        (Pinned, 3, 1 << 16, 1 << 18, 1e3, 1 << 10),
    ] {
        let plan = shared(core_ns, 100_000_000, kind, 1);
        assert_eq!((plan.least_chunk, plan.chunk, plan.core_chunk), (least, chunk, core_chunk));
        assert_eq!(plan.threads * plan.slots, slots);
        assert_eq!(plan.next_chunk(100_000_000), chunk);
        assert_eq!(plan.next_chunk(1), least);
    }
}

proptest! {
    #[test]
    fn chunks_are_short_near_the_end(
        n in SHARED, core_ns in 0.1..100.0, gpus in 1usize..9, is_pinned: bool, left in 0usize..1 << 28,
    ) {
        let plan = shared(core_ns, n, if is_pinned { Pinned } else { Pageable }, gpus);
        let next = plan.next_chunk(left);
        prop_assert!((plan.least_chunk..=plan.chunk).contains(&next));
        let slots = gpus * plan.threads * plan.slots;
        prop_assert!(next == plan.least_chunk || slots * next <= left / 2);
        let core_time = plan.core_chunk as f64 * core_ns;
        prop_assert!(core_time <= 2.01 * f64::from(cores::SHARED_NS)
            || plan.core_chunk == cores::SHARED_CHUNK);
    }

    /// Covers calls in which the devices do at least half of the work.
    #[test]
    fn processors_that_share_a_call_are_done_at_the_same_time(
        n in SHARED, core_ns in 0.5..40.0, part in 0.5..0.95, gpus in 1usize..9, is_pinned: bool,
    ) {
        let plan = shared(core_ns, n, if is_pinned { Pinned } else { Pageable }, gpus);
        let cores_rate = plan.cores as f64 / core_ns;
        let gpu_ns = gpus as f64 * (1.0 - part) / (part * cores_rate);
        let ideal = n as f64 * (1.0 - part) / cores_rate;
        let shortest = (plan.threads * plan.slots * plan.least_chunk) as f64 * gpu_ns;
        let slack = shortest + 2.0 * f64::from(cores::SHARED_NS);
        let time = simulated(&plan, n, core_ns, gpu_ns);
        prop_assert!(time <= 1.2 * ideal + slack, "{time} ns, at best {ideal}, slack {slack}, {plan:?}");
    }
}

/// A formula of arrays `a` and `b` of f32, as expressions have it, with a kernel for each reduction.
pub(in crate::call) fn formula(text: &str) -> Formula {
    let array =
        |name| gpuvec_expr::Input { name, element: Element::F32, form: gpuvec_expr::Form::Array };
    let program = gpuvec_expr::compile(text, &[array("a"), array("b")]).unwrap();
    let of_kernel = |program: Program| {
        let state = program.reduction().map(|_| (8, true));
        Formula::new(0, program, 1000, state)
    };
    let kernels = gpuvec_ptx::outputs_of_kernels(&program).into_iter();
    let kernels: Vec<_> = kernels
        .map(|outputs| (of_kernel(program.of_outputs(&outputs).unwrap()), outputs))
        .collect();
    if kernels.len() == 1 {
        return of_kernel(program);
    }
    Formula::of_kernels(0, program, 1000, kernels)
}

/// Calls a formula on arrays of these kinds and at these places, those of `a`, `b` and the outputs, which no test
/// follows.
fn with_outputs<R>(
    text: &str, n: usize, arrays: &[(MemoryKind, usize)], then: impl FnOnce(&Call<'_>) -> R,
) -> Result<R, Error> {
    const SPACE: usize = 1 << 40;
    let formula = formula(text);
    let layouts = [Layout::contiguous(4); 2].into_iter().chain(formula.outputs());
    let array = |((_, place), layout): (&(MemoryKind, usize), Layout)| {
        unfollowed("array", place * SPACE, layout)
    };
    let checked: Vec<_> = arrays.iter().zip(layouts).map(array).collect();
    let (inputs, outputs) = checked.split_at(2);
    let bindings = [Binding::Array; 2];
    let task = Task::Evaluate(Evaluation { formula: &formula, bindings: &bindings, groups: 0 });
    let kind_of = |array: &Array| {
        let is_it = |(_, place): &&(MemoryKind, usize)| place * SPACE == array.address;
        Ok(arrays.iter().find(is_it).expect("an array").0)
    };
    let checked = check(task, n, inputs, outputs, kind_of, |call| Ok(then(call)))?;
    Ok(checked.expect("elements"))
}

#[test]
fn each_output_has_its_transfer() {
    let ways_of = |text, arrays: &[(MemoryKind, usize)]| {
        with_outputs(text, 1000, arrays, |call| match plan(call, Gpu, &with(1)) {
            Ok(Plan::Gpus(plan)) => format!("{}, {}", ways(&plan.transfers), plan.uses_flags),
            other => panic!("{other:?}"),
        })
        .unwrap()
    };
    let pinned = [1, 2, 3, 4, 5].map(|place| (Pinned, place));
    let two = "a + b; a - b";
    assert_eq!(ways_of(two, &pinned[..4]), "Mapped Mapped Mapped Mapped, true");
    let mixed = "sum(a); a - b; max(b)";
    assert_eq!(ways_of(mixed, &pinned), "Mapped Mapped State Mapped State, false");
    let pageable = pinned.map(|(_, place)| (Pageable, place));
    assert_eq!(ways_of(mixed, &pageable), "Staged Staged State Staged State, false");
    let reductions = "sum(a); max(b)";
    assert_eq!(ways_of(reductions, &pageable[..4]), "Staged Staged State State, false");
}

#[test]
fn a_stream_does_not_take_several_kernels_whose_result_is_in_an_input() {
    let takes = |text, places: &[usize]| {
        let arrays: Vec<_> = places.iter().map(|&place| (DEVICE, place)).collect();
        with_outputs(text, 1000, &arrays, |call| on_stream(call, Auto, 0).is_some()).unwrap()
    };
    assert!(takes("a + b; sum(a)", &[1, 2, 3, 4]));
    assert!(takes("a + b; sum(a)", &[1, 2, 1, 4]));
    assert!(!takes("a + b; sum(a)", &[1, 2, 3, 1]));
    assert!(!takes("max(b); sum(a)", &[1, 2, 3, 2]));
    assert!(takes("sum(a)", &[1, 2, 1]));
}

#[test]
fn outputs_are_exactly_an_input_or_overlap_nothing() {
    let checked = |text, places: &[usize]| {
        let arrays: Vec<_> = places.iter().map(|&place| (Pageable, place)).collect();
        with_outputs(text, 1000, &arrays, |_| ())
    };
    assert!(checked("b; a", &[1, 2, 1, 2]).is_ok());
    assert!(checked("sum(a); b", &[1, 2, 1, 2]).is_ok());
    for (text, places) in
        [("b; a", [1, 2, 1, 1]), ("a; b", [1, 2, 3, 3]), ("sum(a); b", [1, 2, 1, 1])]
    {
        assert!(matches!(checked(text, &places), Err(Error::OutputsOverlap { .. })), "{text}");
    }
}
