//! What a call costs a core, and what it costs a GPU.

use super::array::{Array, MemoryKind};
use super::checked::Call;
use super::formula::Evaluation;
use super::plan::Machine;
use super::task::Task;
use crate::ops::Shape;
use crate::tuning;

/// Says whether to wake a core, or a GPU, costs more than it saves.
pub(super) fn is_small(call: &Call<'_>) -> bool {
    work(call) <= tuning::CALLING_CORE_BYTES
}

/// The work of a call on cores, in bytes of each array that most operations do in the same time.
pub(super) fn work(call: &Call<'_>) -> usize {
    match call.task() {
        Task::Compute { op, .. } if op.is_exact() => tuning::EXACT_WORK * call.max_bytes(),
        Task::Evaluate(evaluation) => {
            let time = call.n().saturating_mul(evaluation.formula.cost);
            call.max_bytes().max(time / tuning::CORE_PICOSECONDS)
        }
        _ => call.max_bytes(),
    }
}

/// Says whether the calling core is done before a GPU would be.
pub(super) fn pays_on_calling_core(call: &Call<'_>) -> bool {
    match call.task() {
        Task::Evaluate(_) => core_picoseconds(call) <= gpu_picoseconds(call),
        _ => call.max_bytes() <= core_bytes(call),
    }
}

/// The time of the calling core for an expression.
fn core_picoseconds(call: &Call<'_>) -> usize {
    let [inputs, output] = bytes(call);
    let from_memory = inputs.saturating_add(output).saturating_sub(tuning::CORE_CACHE_BYTES);
    let in_cache = work(call).saturating_mul(tuning::CORE_PICOSECONDS);
    in_cache.saturating_add(from_memory.saturating_mul(tuning::MEMORY_PICOSECONDS))
}

/// The time of a GPU for an expression, which is that of the bus.
fn gpu_picoseconds(call: &Call<'_>) -> usize {
    let [inputs, output] = bytes(call);
    let [mapped, staged] = tuning::GPU_PICOSECONDS;
    let [of_mapped, of_staged] = tuning::BUS_PICOSECONDS;
    if is_staged(call) {
        let bytes = inputs.saturating_add(output);
        let alone = tuning::STAGED_ALONE_PICOSECONDS * bytes.min(tuning::STAGED_ALONE_BYTES);
        staged.saturating_add(alone).saturating_add(of_staged.saturating_mul(bytes))
    } else {
        mapped.saturating_add(of_mapped.saturating_mul(inputs.max(output)))
    }
}

/// The bytes of all inputs, and of the output.
fn bytes(call: &Call<'_>) -> [usize; 2] {
    let inputs = call.inputs().iter().map(|array| array.bytes);
    [inputs.fold(0, usize::saturating_add), call.output().bytes]
}

/// Bytes of each array up to which the calling core is done before a GPU would be.
fn core_bytes(call: &Call<'_>) -> usize {
    let [pinned, pageable] = match call.task() {
        Task::Compute { op, .. } if op.is_exact() => {
            let is_f64 = usize::from(op.element_bytes() == size_of::<f64>());
            match call.inputs().len() {
                1 => tuning::AUTO_CORE_BYTES_SUM[is_f64],
                _ => tuning::AUTO_CORE_BYTES_DOT[is_f64],
            }
        }
        task if task.shape() == Shape::Reduction => tuning::AUTO_CORE_BYTES_REDUCTION,
        _ => tuning::AUTO_CORE_BYTES_ELEMENTWISE,
    };
    if is_staged(call) { pageable } else { pinned }
}

/// Says whether a device has to compile the call's formula, and cores are done before it has.
pub(super) fn waits_for_compiler(call: &Call<'_>, machine: &impl Machine) -> bool {
    let Task::Evaluate(Evaluation { formula, .. }) = call.task() else { return false };
    let [any, for_each, most] = tuning::COMPILER_PICOSECONDS;
    let compiler = any + formula.cost.saturating_mul(for_each).min(most);
    let of_each = work(call).saturating_mul(tuning::CORE_PICOSECONDS) / machine.thread_limit();
    of_each <= compiler && !machine.is_ready_for(formula)
}

/// Says whether an array has to go through a pinned buffer.
pub(super) fn is_staged(call: &Call<'_>) -> bool {
    let is_pageable = |array: &Array| array.kind == MemoryKind::Pageable;
    let output_too = call.task().shape() == Shape::Elementwise;
    call.inputs().iter().any(is_pageable) || (output_too && is_pageable(call.output()))
}

#[cfg(test)]
mod tests {
    use super::super::checked::Input;
    use super::super::formula::{Formula, Operand};
    use super::super::plan::{Plan, plan};
    use super::super::transfer::{SlotKind, Transfer};
    use super::*;
    use crate::error::Error;
    use crate::expr::{self, Element, Shape as InputShape};
    use crate::process::settings::Placement;
    use MemoryKind::{Pageable, Pinned};
    use Placement::{All, Auto, Cpu, Gpu};
    use proptest::prelude::*;

    /// A machine with 16 threads and a GPU, which has compiled the formula or not.
    struct With {
        is_ready: bool,
    }

    impl Machine for With {
        fn thread_limit(&self) -> usize {
            16
        }

        fn threads(&self, wanted: usize) -> usize {
            wanted.max(1)
        }

        fn gpu(&self) -> Result<usize, Error> {
            Ok(0)
        }

        fn gpus(&self) -> Result<Vec<usize>, Error> {
            Ok(vec![0])
        }

        fn is_ready_for(&self, _: &Formula) -> bool {
            self.is_ready
        }
    }

    /// Plans an expression of arrays `a0`, `a1`, ... of these types, in memory of one kind.
    fn planned(
        (text, cost): (&str, usize), elements: &[Element], n: usize, kind: MemoryKind,
        placement: Placement, is_ready: bool,
    ) -> Plan {
        const SPACE: usize = 1 << 44;
        let names: Vec<String> = (0..elements.len()).map(|i| format!("a{i}")).collect();
        let shape = InputShape::Array;
        let declared = names.iter().zip(elements);
        let declared: Vec<_> =
            declared.map(|(name, &element)| expr::Input { name, element, shape }).collect();
        let formula = Formula::new(0, expr::compile(text, &declared).unwrap(), cost, None);
        let operands = vec![Operand::Array; elements.len()];
        let task = Task::Evaluate(Evaluation { formula: &formula, operands: &operands });
        let pointer = |i: usize| std::ptr::without_provenance_mut((i + 1) * SPACE);
        let inputs: Vec<Input> = elements
            .iter()
            .enumerate()
            .map(|(i, element)| Input {
                name: "input",
                pointer: pointer(i),
                element_bytes: element.bytes(),
            })
            .collect();
        let out = ("out", pointer(elements.len()));
        let then = |call: &Call<'_>| plan(call, placement, None, &With { is_ready });
        // SAFETY: the arrays are never accessed.
        unsafe { Call::with(task, &inputs, out, n, |_| Ok(kind), then) }.unwrap().unwrap()
    }

    #[test]
    fn a_formula_goes_where_it_is_done_first() {
        let (light, heavy) = (("a0*a1 + 1", 200), ("exp(sin(a0)) + log(cos(a1))", 5000));
        // As if it had a thousand functions.
        let long = ("tan(a0) + tan(a1)", 2_000_000);
        let cases = [
            // Text and picoseconds, n, memory, placement, whether the driver has compiled it, threads or 0.
            (light, 1000, Pageable, Auto, true, 1),
            (light, 100_000_000, Pageable, Auto, false, 16),
            (light, 100_000_000, Pageable, Auto, true, 0),
            (light, 100_000_000, Pageable, Cpu, true, 16),
            (light, 1000, Pinned, Gpu, false, 0),
            (light, 100_000_000, Pinned, All, false, 16),
            (light, 100_000_000, Pinned, All, true, 0),
            (heavy, 200_000, Pinned, Auto, false, 16),
            (heavy, 200_000, Pinned, Auto, true, 0),
            (heavy, 10_000_000_000, Pageable, Auto, false, 0),
            (long, 10_000_000, Pinned, Auto, false, 16),
            (long, 10_000_000, Pinned, Auto, true, 0),
            (long, 100_000_000, Pinned, Auto, false, 0),
        ];
        for (text, n, kind, placement, is_ready, threads) in cases {
            let found = planned(text, &[Element::F32; 2], n, kind, placement, is_ready);
            let expected = match found {
                Plan::Cores(cores) => cores.threads,
                Plan::Gpus(_) => 0,
                Plan::Queue(_) => panic!("there is no stream"),
            };
            assert_eq!(threads, expected, "{text:?} of {n}, {kind:?}, {placement:?}, {is_ready}");
        }
    }

    proptest! {
        #[test]
        fn chunks_of_arrays_of_any_widths_fit_their_buffers(
            elements in prop::collection::vec(prop::sample::select(Element::ALL), 1..=32),
            n in 1usize..1 << 34, pinned: bool,
        ) {
            let sum: Vec<_> = (0..elements.len()).map(|i| format!("f64(a{i})")).collect();
            let kind = if pinned { Pinned } else { Pageable };
            let Plan::Gpus(plan) = planned((&sum.join("+"), 1000), &elements, n, kind, Gpu, true) else {
                panic!("not a plan for GPUs")
            };
            let chunk = plan.partition.chunk().min(n);
            let bytes = chunk * (elements.iter().map(|element| element.bytes()).sum::<usize>() + 8);
            match plan.transfers.slot_kind() {
                SlotKind::Staged => prop_assert!(bytes <= tuning::STAGED_SLOT_BYTES),
                SlotKind::Dma => prop_assert!(bytes <= tuning::DMA_SLOT_BYTES),
                SlotKind::InPlace => prop_assert!(!plan.transfers.any(Transfer::Dma)),
            }
            // Buffers of each array begin at multiples of a pack.
            prop_assert!(plan.partition.chunks() == 1 || chunk.is_multiple_of(16));
        }
    }
}
