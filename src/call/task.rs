//! The task of a call, and the interface of the work that does it.

use super::by_key::Table;
use super::chunk::Chunk;
use super::formula::{Binding, Evaluation, Formula};
use gpuvec_expr::{Output, OutputKind, Reduction, Type};

/// The task of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Task<'a> {
    /// A formula.
    Evaluate(Evaluation<'a>),
    /// A copy of bytes.
    Copy,
}

/// The kind of a task, by the kinds of its outputs. A kernel's task is not [`Mixed`](TaskKind::Mixed).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskKind {
    /// A copy of bytes.
    Copy,
    /// Each output has an element for each of the call's.
    Elementwise,
    /// Each output has the results of a reduction.
    Reduced,
    /// Each output has the results of a reduction by key.
    Grouped,
    /// Some outputs are elementwise, and some are reduced.
    Mixed,
}

impl TaskKind {
    /// The kind of a formula whose outputs have one kind.
    pub(super) const fn of(kind: OutputKind) -> Self {
        match kind {
            OutputKind::Elementwise => TaskKind::Elementwise,
            OutputKind::Reduced { .. } | OutputKind::Single => TaskKind::Reduced,
            OutputKind::Grouped { .. } => TaskKind::Grouped,
        }
    }

    /// The bits of all axes if a task of the kind reduces, else none.
    #[inline(always)]
    pub(crate) const fn reduced_axes(self, axes: usize) -> u64 {
        match self {
            TaskKind::Copy | TaskKind::Elementwise => 0,
            TaskKind::Reduced | TaskKind::Grouped | TaskKind::Mixed => (1 << axes) - 1,
        }
    }

    /// The kind of a formula that has the outputs of both kinds.
    pub(super) fn and(self, other: Self) -> Self {
        if self == other { self } else { TaskKind::Mixed }
    }
}

impl<'a> Task<'a> {
    /// The kind of the task.
    pub(crate) fn kind(self) -> TaskKind {
        self.formula().map_or(TaskKind::Copy, |formula| formula.kind)
    }

    pub(crate) fn formula(self) -> Option<&'a Formula> {
        match self {
            Task::Evaluate(Evaluation { formula, .. }) => Some(formula),
            Task::Copy => None,
        }
    }

    /// The arguments of the formula's inputs, in the order of the declaration.
    pub(crate) fn bindings(self) -> &'a [Binding] {
        match self {
            Task::Evaluate(Evaluation { bindings, .. }) => bindings,
            Task::Copy => &[],
        }
    }

    /// The reduction, and the type of the values that it takes, if that is the only output.
    pub(crate) fn reduction(self) -> Option<(Reduction, Type)> {
        self.formula()?.reduction
    }

    /// True if there are several kernels. All but the last are reductions.
    pub(crate) fn has_several_kernels(self) -> bool {
        self.formula().is_some_and(Formula::has_several_kernels)
    }

    /// The tasks of its kernels, and the outputs that each computes, in the order in which kernels run.
    pub(crate) fn kernels(self) -> impl Iterator<Item = (Task<'a>, &'a [usize])> {
        (0..).map_while(move |number| self.kernel(number))
    }

    #[inline(never)]
    fn kernel(self, number: usize) -> Option<(Task<'a>, &'a [usize])> {
        let Task::Evaluate(Evaluation { formula, bindings, groups }) = self else {
            return (number == 0).then_some((self, &[0]));
        };
        let (formula, outputs) = formula.kernel_of(number)?;
        Some((Task::Evaluate(Evaluation { formula, bindings, groups }), outputs))
    }

    /// The size of a reduction's state as its kernel writes it, in bytes.
    pub(crate) fn state_bytes(self) -> usize {
        self.formula().map_or(0, |formula| formula.state_bytes)
    }

    /// The place of that state in the state of the output, in bytes.
    pub(crate) fn state_offset(self) -> usize {
        self.formula().map_or(0, |formula| formula.state_offset)
    }

    /// True if the host computes an output from several sums.
    pub(crate) fn has_moments(self) -> bool {
        self.formula().is_some_and(Formula::has_moments)
    }

    /// The conversion of the only reduction's result to the type of the output, if there is one.
    pub(crate) fn conversion(self) -> Option<fn(u64) -> u64> {
        let formula = self.formula().filter(|formula| formula.op.is_none())?;
        formula.program().outputs()[0].conversion()
    }

    /// The reductions among the outputs.
    pub(crate) fn reductions(self) -> impl Iterator<Item = &'a Output> {
        let outputs = self.formula().map_or(&[][..], |formula| formula.program().outputs());
        outputs.iter().filter(|output| output.reduction().is_some())
    }

    /// True if the task has a result for no elements. Each group may also lack elements, so groups are checked later.
    pub(super) fn has_empty_result(self) -> bool {
        self.kind() == TaskKind::Grouped
            || self.formula().is_none_or(|formula| formula.has_empty_result)
    }
}

/// Computes the chunks of a call; the types of elements and states are erased.
pub(crate) trait ChunkWork: Sync {
    /// Prepares for a run over that number of elements; forgets an earlier one.
    fn begin(&mut self, _elements: usize) {}

    /// Computes chunks, one after the other, on the calling core.
    fn compute(&self, chunks: &mut dyn Iterator<Item = Chunk>);

    /// Merges the states that kernels wrote.
    fn take_states(&self, _states: &KernelStates<'_>) {}

    /// Merges the states in the table of kernel `number`.
    fn take_table(&self, _number: usize, _table: &Table, _words: &[u64]) {}
}

/// The states of a reduction, as its kernels wrote them for a chunk.
pub(crate) struct KernelStates<'a> {
    /// The reduction, counted from 0 among the outputs.
    pub(crate) reduction: usize,
    /// The number of the first result in the order of the kept axes.
    pub(crate) first: usize,
    /// The words of the states, of `bytes` bytes each.
    pub(crate) words: &'a [u8],
    pub(crate) bytes: usize,
    /// The elements, or tiles, of the chunk.
    pub(crate) elements: usize,
}
