//! The processors that calls run on, before anything was learned and afterwards.

use super::*;
use crate::call::checked::tests::{check, unfollowed};
use crate::call::formula::{Binding, Evaluation, Formula};
use crate::call::plan::{Plan, plan};
use crate::call::transfer::{SlotKind, Transfer};
use crate::call::{Layout, MemoryKind, Task};
use crate::error::Error;
use MemoryKind::{Pageable, Pinned};
use Placement::{All, Auto, Cpu, Gpu};
use gpuvec_cost::BreakEven;
use gpuvec_expr::{Element, Form};
use proptest::prelude::*;
use std::cell::Cell;

/// A machine with 16 threads and a GPU.
struct Host {
    devices: Cell<Devices>,
    has_kernel: bool,
    reach: Reach,
    learner: Box<Learner>,
    opening: BreakEven,
}

impl Host {
    fn with(open: usize, has_kernel: bool) -> Self {
        let devices = Cell::new(Devices { all: 1, open });
        let opening = BreakEven::new();
        Host { devices, has_kernel, reach: Reach::default(), learner: Box::default(), opening }
    }
}

impl Resources for Host {
    fn thread_limit(&self) -> usize {
        16
    }

    fn threads(&self, wanted: usize) -> usize {
        wanted.max(1)
    }

    fn devices(&self) -> Devices {
        self.devices.get()
    }

    fn reach(&self) -> Reach {
        self.reach
    }

    fn gpu(&self) -> Result<usize, Error> {
        self.devices.set(Devices { all: 1, open: 1 });
        Ok(0)
    }

    fn gpus(&self) -> Result<Vec<usize>, Error> {
        self.gpu().map(|gpu| vec![gpu])
    }

    fn is_ready_for(&self, _: Task<'_>) -> bool {
        self.has_kernel
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

/// A formula of arrays `a0`, `a1`, … of these types; the cost is the time of a core for an element, in
/// picoseconds.
fn formula((text, cost): (&str, usize), elements: &[Element]) -> Formula {
    let names: Vec<String> = (0..elements.len()).map(|i| format!("a{i}")).collect();
    let form = Form::Array;
    let declared: Vec<_> = names
        .iter()
        .zip(elements)
        .map(|(name, &element)| gpuvec_expr::Input { name, element, form })
        .collect();
    Formula::new(0, gpuvec_expr::compile(text, &declared).unwrap(), cost, None)
}

/// Plans a formula of arrays of these types, in memory of one kind.
fn planned(
    formula: &Formula, elements: &[Element], n: usize, kind: MemoryKind, placement: Placement,
    host: &Host,
) -> (Plan, Chosen) {
    const SPACE: usize = 1 << 44;
    let bindings = vec![Binding::Array; elements.len()];
    let task = Task::Evaluate(Evaluation { formula, bindings: &bindings, groups: 0 });
    let array = |(i, layout)| unfollowed("array", (i + 1) * SPACE, layout);
    let layouts = elements.iter().map(|element| Layout::contiguous(element.bytes()));
    let arrays: Vec<_> = layouts.chain([formula.output]).enumerate().map(array).collect();
    let (inputs, outputs) = arrays.split_at(elements.len());
    let planned = check(
        task,
        n,
        inputs,
        outputs,
        |_: &_| Ok(kind),
        |call| {
            let chosen = choose(call, placement, host);
            Ok((plan(call, placement, &chosen, host)?, chosen))
        },
    );
    planned.unwrap().unwrap()
}

const LIGHT: (&str, usize) = ("a0*a1 + 1", 200);
const HEAVY: (&str, usize) = ("exp(sin(a0)) + log(cos(a1))", 5000);
const TWO: [Element; 2] = [Element::F32; 2];

#[test]
fn a_call_goes_where_the_prior_has_it_done_first() {
    let cases = [
        (LIGHT, 1000, Pageable, Auto, Choice::CallingCore, Reason::Fastest),
        (LIGHT, 1_000_000, Pageable, Auto, Choice::Cores, Reason::Fastest),
        (LIGHT, 1_000_000, Pageable, Gpu, Choice::Gpu, Reason::AskedFor),
        (LIGHT, 100_000_000, Pageable, Cpu, Choice::Cores, Reason::AskedFor),
        (LIGHT, 100_000_000, Pinned, All, Choice::Together, Reason::AskedFor),
        (HEAVY, 1_000_000, Pinned, Auto, Choice::Together, Reason::Fastest),
    ];
    for (text, n, kind, placement, choice, reason) in cases {
        let formula = formula(text, &TWO);
        let host = Host::with(1, true);
        let (_, chosen) = planned(&formula, &TWO, n, kind, placement, &host);
        assert_eq!(
            (chosen.choice, chosen.reason),
            (choice, reason),
            "{text:?} of {n}, {kind:?}, {placement:?}"
        );
    }
}

/// Makes calls until one is not on cores, and returns their number and the time that they lost.
fn until_moved(formula: &Formula, n: usize, host: &Host, reason: Reason) -> (usize, f32) {
    let kind = if reason == Reason::NoDriverYet { Pageable } else { Pinned };
    let mut lost = 0.0;
    for call in 0..1_000_000 {
        let (plan, chosen) = planned(formula, &TWO, n, kind, Auto, host);
        if matches!(plan, Plan::Gpus(_)) {
            return (call, lost);
        }
        assert_eq!(chosen.reason, reason);
        let fastest = chosen.predicted.iter().copied().fold(f32::INFINITY, f32::min);
        lost += chosen.predicted[chosen.choice as usize] - fastest;
    }
    panic!("the calls stay on cores");
}

#[test]
fn the_driver_is_opened_once_calls_have_lost_what_that_costs() {
    let (formula, host) = (formula(HEAVY, &TWO), Host::with(0, true));
    let (calls, lost) = until_moved(&formula, 1_000_000, &host, Reason::NoDriverYet);
    let loss = lost / calls as f32;
    assert!(calls > 10 && lost <= gpu::OPENING_NS && lost + 2.0 * loss > gpu::OPENING_NS);
    assert_eq!(host.devices().open, 1);
}

#[test]
fn one_call_that_pays_for_the_driver_opens_it() {
    let (formula, host) = (formula(HEAVY, &TWO), Host::with(0, true));
    assert_eq!(until_moved(&formula, 5_000_000_000, &host, Reason::NoDriverYet).0, 0);
}

#[test]
fn arrays_that_a_driver_knows_open_a_device_at_once() {
    let (formula, host) = (formula(HEAVY, &TWO), Host::with(0, true));
    let (plan, _) = planned(&formula, &TWO, 1_000_000, Pinned, Auto, &host);
    assert!(matches!(plan, Plan::Gpus(_)));
}

#[test]
fn calls_that_a_gpu_would_not_speed_up_never_open_the_driver() {
    let (formula, host) = (formula(LIGHT, &TWO), Host::with(0, true));
    for _ in 0..10_000 {
        planned(&formula, &TWO, 1_000_000, Pageable, Auto, &host);
    }
    assert_eq!(host.devices().open, 0);
}

#[test]
fn a_formula_is_compiled_once_calls_have_lost_what_that_costs() {
    let (formula, host) = (formula(HEAVY, &TWO), Host::with(1, false));
    let (calls, lost) = until_moved(&formula, 1_000_000, &host, Reason::Compiling);
    let bindings = [Binding::Array; 2];
    let evaluation = Evaluation { formula: &formula, bindings: &bindings, groups: 0 };
    let price = host.learner.compiler_ns(cost::compiler_ns(Task::Evaluate(evaluation)));
    assert!(calls > 1 && lost <= price && lost + 2.0 * lost / calls as f32 > price);
}

/// Makes calls on pageable arrays that a GPU reaches, which take a millisecond if these are staged, and returns whether
/// the last ones are in place.
fn are_in_place_in_the_end(ns_in_place: f32) -> bool {
    let reach = Reach { pageable: true, is_integrated: false };
    let (formula, host) = (formula(HEAVY, &TWO), Host { reach, ..Host::with(1, true) });
    let call = || {
        let (plan, chosen) = planned(&formula, &TWO, 1_000_000, Pageable, Gpu, &host);
        let ns = if chosen.in_place { ns_in_place } else { 1e6 };
        chosen.lesson.unwrap().learn(&host.learner, ns);
        let Plan::Gpus(plan) = plan else { panic!("not a plan for GPUs") };
        assert_eq!(plan.transfers.any(Transfer::Staged), !chosen.in_place);
        chosen.in_place
    };
    (0..100).fold(false, |_, _| call())
}

#[test]
fn pageable_arrays_that_a_gpu_reaches_are_staged_if_that_takes_less_time() {
    assert!(are_in_place_in_the_end(0.5e6));
    assert!(!are_in_place_in_the_end(3e6));
}

proptest! {
    #[test]
    fn chunks_of_arrays_of_any_widths_fit_their_buffers(
        elements in prop::collection::vec(prop::sample::select(Element::ALL), 1..=32),
        n in 1usize..1 << 34, pinned: bool,
    ) {
        let sum: Vec<_> = (0..elements.len()).map(|i| format!("f64(a{i})")).collect();
        let kind = if pinned { Pinned } else { Pageable };
        let formula = formula((&sum.join("+"), 1000), &elements);
        let host = Host::with(1, true);
        let (Plan::Gpus(plan), _) = planned(&formula, &elements, n, kind, Gpu, &host) else {
            panic!("not a plan for GPUs")
        };
        let chunk = plan.chunk.min(n);
        let bytes = chunk * (elements.iter().map(|element| element.bytes()).sum::<usize>() + 8);
        match plan.transfers.slot_kind() {
            SlotKind::Staged => prop_assert!(bytes <= gpu::STAGED_SLOT_BYTES),
            SlotKind::Dma => prop_assert!(bytes <= gpu::DMA_SLOT_BYTES),
            SlotKind::InPlace => prop_assert!(!plan.transfers.any(Transfer::Dma)),
        }
        // Buffers of each array begin at multiples of a pack.
        prop_assert!(plan.chunk >= n || chunk.is_multiple_of(16));
    }
}
