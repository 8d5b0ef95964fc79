//! Formulas: the computations of calls, with the properties that checks, plans and kernels need.

use super::array::{Layout, MAX_OUTPUTS};
use super::by_key::Terms;
use super::picoseconds;
use super::task::TaskKind;
use crate::error::Error;
use crate::process::memory;
use gpuvec_cost::BreakEven;
use gpuvec_expr::{Node, Output, OutputKind, Program, Reduction, Rule, Source, Type};
use gpuvec_ops::{Op, Step};
use gpuvec_ptx::{AxisReduction, Kernel, Limits, Variant};
use once_cell::race::OnceBox;

/// The computation of a call on its arrays and scalars: an operation, or an expression.
#[derive(Debug)]
pub(crate) struct Formula {
    /// Tells the formulas of a process apart.
    pub(crate) id: u64,
    /// The operation, unless it is an expression.
    pub(crate) op: Option<Op>,
    /// The reduction that is the only output, and the type of the values that it takes. `None` for other formulas.
    pub(crate) reduction: Option<(Reduction, Type)>,
    /// The kind of its calls, which follows from the kinds of all outputs.
    pub(crate) kind: TaskKind,
    /// True if the last input is a factor of the call.
    pub(crate) has_alpha: bool,
    /// The layout of the first output: an array, or the value of a reduction.
    pub(crate) output: Layout,
    /// The further outputs, and the kernels, if there are several of either.
    several: Option<Box<Several>>,
    /// The size of a reduction's state as its kernel writes it.
    pub(crate) state_bytes: usize,
    /// The offset of that state, in bytes, in the output's state. The states of the output's earlier kernels come
    /// first.
    pub(crate) state_offset: usize,
    /// True if the formula has a result for no elements.
    pub(crate) has_empty_result: bool,
    /// The time of a core for an element, in picoseconds.
    pub(crate) cost: usize,
    /// The time that calls lost for lack of a compiled kernel.
    pub(crate) compiling: BreakEven,
    /// The terms of its reduction by key.
    pub(crate) terms: Terms,
    /// The program. The program of an operation is made when its kernel is first needed.
    program: OnceBox<Program>,
    /// Written when a device or a caller first needs it. Without a lock: a child that is forked while another thread
    /// writes the kernel writes its own.
    kernel: OnceBox<Kernel>,
}

/// Several outputs, or several kernels.
#[derive(Debug)]
struct Several {
    /// The layouts of all outputs but the first.
    others: Vec<Layout>,
    /// If there are several kernels: a formula for each kernel, with the numbers of the outputs that it computes. The
    /// kernels of one output are adjacent.
    kernels: Vec<(Formula, Vec<usize>)>,
}

/// The numbers of all outputs.
const OUTPUTS: [usize; MAX_OUTPUTS] = [0, 1, 2, 3, 4, 5, 6, 7];

/// The number of the first expression. Operations have the lower numbers.
pub(super) const FIRST_EXPRESSION: u64 = 1 << 10;

/// The formulas of operations, by their place in [`Op::ALL`].
static OPERATIONS: [Formula; Op::ALL.len()] = {
    let mut formulas = [const { Formula::of_map(0, 0) }; Op::ALL.len()];
    let mut i = 0;
    while i < Op::ALL.len() {
        let (op, formula) = (Op::ALL[i], &mut formulas[i]);
        formula.id = i as u64;
        formula.op = Some(op);
        let kind = match op.step() {
            Step::Map(_) => OutputKind::Elementwise,
            Step::Reduce(reduction) => {
                formula.reduction = Some((reduction, op.element().widened()));
                OutputKind::Reduced { reduction, ddof: 0 }
            }
        };
        formula.has_alpha = op.has_alpha();
        formula.output = Layout::of(kind, op.output_bytes());
        formula.kind = TaskKind::of(kind);
        formula.state_bytes = op.state_bytes();
        formula.has_empty_result = op.has_empty_result();
        formula.cost = cost(op);
        i += 1;
    }
    formulas
};

/// The time of a core for an element of an operation, in picoseconds: the program's step with its loads and stores.
const fn cost(op: Op) -> usize {
    let (element, inputs) = (op.element(), op.inputs() * op.element_bytes());
    let (step, bytes) = match op.step() {
        Step::Map(step) => (
            picoseconds::operation(step, element.widened()) + picoseconds::MOVE,
            inputs + op.output_bytes(),
        ),
        Step::Reduce(reduction) => (picoseconds::reduction(reduction, element.widened()), inputs),
    };
    step as usize + bytes * picoseconds::BYTE as usize
}

impl Formula {
    /// The formula of an operation.
    pub(crate) fn of(op: Op) -> &'static Formula {
        &OPERATIONS[op as usize]
    }

    /// The formula of an expression with one kernel. `number` is unique to the expression, and `cost` is the time of a
    /// core for an element in picoseconds. For a reduction, `state` is the size of its state, and true if there is a
    /// result for no elements.
    pub(crate) fn new(
        number: u64, program: Program, cost: usize, state: Option<(usize, bool)>,
    ) -> Self {
        let (state_bytes, has_empty_result) = state.unwrap_or((0, true));
        Formula { state_bytes, has_empty_result, ..Self::of_program(number, program, cost) }
    }

    /// The formula of an expression with several kernels. `kernels` has the formula and the outputs of each kernel, in
    /// the order of [`gpuvec_ptx::outputs_of_kernels`].
    pub(crate) fn of_kernels(
        number: u64, program: Program, cost: usize, kernels: Vec<(Formula, Vec<usize>)>,
    ) -> Self {
        let has_empty_result = kernels.iter().all(|(formula, _)| formula.has_empty_result);
        let mut formula = Self::of_program(number, program, cost);
        let several = Several { others: Vec::new(), kernels: Vec::new() };
        formula.several.get_or_insert_with(|| Box::new(several)).kernels = kernels;
        Formula { has_empty_result, ..formula }
    }

    fn of_program(number: u64, program: Program, cost: usize) -> Self {
        let layout = |output: &Output| Layout::of(output.kind, output.element.bytes());
        let (first, others) = program.outputs().split_first().expect("a program has an output");
        let kinds = others.iter().map(|other| TaskKind::of(other.kind));
        let kind = kinds.fold(TaskKind::of(first.kind), TaskKind::and);
        let others: Vec<_> = others.iter().map(layout).collect();
        Formula {
            reduction: program.reduction(),
            kind,
            output: layout(first),
            several: match others[..] {
                [] => None,
                _ => Some(Box::new(Several { others, kernels: Vec::new() })),
            },
            program: OnceBox::with_value(Box::new(program)),
            ..Self::of_map(FIRST_EXPRESSION + number, cost)
        }
    }

    const fn of_map(id: u64, cost: usize) -> Self {
        Formula {
            id,
            op: None,
            reduction: None,
            kind: TaskKind::Elementwise,
            has_alpha: false,
            output: Layout::contiguous(1),
            several: None,
            state_bytes: 0,
            state_offset: 0,
            has_empty_result: true,
            cost,
            compiling: BreakEven::new(),
            terms: Terms::new(),
            program: OnceBox::new(),
            kernel: OnceBox::new(),
        }
    }

    /// The layouts of the outputs.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = Layout> {
        let others = self.several.as_ref().map_or(&[][..], |several| &several.others);
        std::iter::once(self.output).chain(others.iter().copied())
    }

    /// The layout of the only output. If there are several, fails with an error that names the function to call
    /// `instead`.
    pub(crate) fn only_output(&self, instead: &'static str) -> Result<Layout, Error> {
        match self.outputs().count() {
            1 => Ok(self.output),
            outputs => Err(Error::SeveralOutputs { outputs, instead }),
        }
    }

    /// The formula of each kernel, and the numbers of the outputs that it computes, in the order in which kernels run.
    /// Reductions come before elementwise outputs, which may overwrite inputs.
    pub(crate) fn kernels(&self) -> impl Iterator<Item = (&Formula, &[usize])> {
        (0..).map_while(|number| self.kernel_of(number))
    }

    /// The formula and the outputs of kernel `number`, if there is one.
    #[inline(never)]
    pub(super) fn kernel_of(&self, number: usize) -> Option<(&Formula, &[usize])> {
        match self.several.as_deref() {
            Some(Several { kernels, .. }) if !kernels.is_empty() => {
                kernels.get(number).map(|(formula, outputs)| (formula, &outputs[..]))
            }
            several => {
                let count = 1 + several.map_or(0, |several| several.others.len());
                (number == 0).then(|| (self, &OUTPUTS[..count]))
            }
        }
    }

    /// True if the host computes an output from several sums.
    pub(crate) fn has_moments(&self) -> bool {
        let kernels = self.several.as_ref().map_or(&[][..], |several| &several.kernels);
        kernels.iter().any(|(formula, _)| formula.state_offset > 0)
    }

    /// True if there are several kernels: one for each reduction, and one for all elementwise outputs.
    pub(crate) fn has_several_kernels(&self) -> bool {
        self.several.as_ref().is_some_and(|several| !several.kernels.is_empty())
    }

    /// True for an exact sum, and for a result computed from one.
    pub(crate) fn is_exact(&self) -> bool {
        use Reduction::{Dot, Mean, Norm, Sum};
        matches!(self.reduction, Some((Sum | Mean | Dot | Norm, Type::F32 | Type::F64)))
    }

    /// True if a result is the index of an element.
    pub(crate) fn is_indexed(&self) -> bool {
        let outputs = self.program().outputs().iter();
        outputs
            .filter_map(Output::reduction)
            .any(|reduction| matches!(reduction, Reduction::ArgMin | Reduction::ArgMax))
    }

    pub(crate) fn program(&self) -> &Program {
        self.program.get_or_init(|| {
            let op = self.op.expect("an expression has its program from the beginning");
            Box::new(op.program())
        })
    }

    /// The kernel that computes the formula. `text` returns the text of an image. If several threads need the kernel
    /// for the first time, each of them writes it, and all but one drop theirs.
    pub(crate) fn kernel(
        &self, text: impl FnOnce(&'static str) -> Result<&'static str, Error>,
    ) -> Result<&Kernel, Error> {
        self.kernel.get_or_try_init(|| {
            if !memory::is_left() {
                let bytes = memory::NEEDED_BYTES;
                return Err(Error::OutOfHostMemory {
                    bytes,
                    purpose: "the program of an operation",
                });
            }
            let program = self.program();
            let template = gpuvec_ptx::template(program).map_or(Ok(""), text)?;
            refuse_without_memory(program, template)?;
            let name = self.op.map_or(gpuvec_ptx::NAME, Op::kernel);
            Ok(Box::new(Kernel::new(name, program, template)))
        })
    }

    /// Writes a variant of the formula's kernel for arrays of any strides.
    pub(crate) fn variant(&self, kernel: &Kernel, variant: Variant) -> Result<Kernel, Error> {
        let program = self.program();
        refuse_without_memory(program, "")?;
        Ok(kernel.strided(program, variant, Limits::USUAL))
    }

    /// Writes the kernel of a formula's reduction along axes. `text` returns the text of an image.
    pub(crate) fn along_axes(
        &self, axes: AxisReduction, text: impl FnOnce(&str) -> Result<&'static str, Error>,
    ) -> Result<Kernel, Error> {
        const NO_REDUCTION: Error = Error::Internal { text: "no reduction along axes" };
        let program = self.program();
        let template = text(&gpuvec_ptx::axes_template(program).ok_or(NO_REDUCTION)?)?;
        refuse_without_memory(program, template)?;
        let name = gpuvec_ptx::NAME;
        Kernel::along_axes(name, program, template, axes, Limits::USUAL).ok_or(NO_REDUCTION)
    }
}

/// Fails if there is too little memory for the kernel of a program, which contains the text of its template.
fn refuse_without_memory(program: &Program, template: &str) -> Result<(), Error> {
    let nodes: usize = program.nodes().iter().map(bytes_of).sum();
    let bytes = memory::NEEDED_BYTES + 2 * template.len() + nodes.min(MOST_BYTES);
    match memory::is_left_for(bytes) {
        true => Ok(()),
        false => Err(Error::OutOfHostMemory { bytes, purpose: "the kernel of a formula" }),
    }
}

/// The most memory for the kernel of any program. (The kernel of a large program contains each function once.)
const MOST_BYTES: usize = 4 << 20;

/// The most memory for a node's instructions, which are written for each of a thread's elements. A tangent of f64 is 14
/// KB of text, and a text that grows is copied.
const fn bytes_of(node: &Node) -> usize {
    match node.source {
        Source::Op(op) if matches!(op.rule(), Rule::Float | Rule::FloatOnly) => 384 << 10,
        _ => 4 << 10,
    }
}

/// The argument that a call binds to a declared input.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Binding {
    /// The next of the call's input arrays.
    Array,
    /// A scalar with these bits.
    Scalar(u64),
    /// No argument, since the formula does not use the input.
    Unused,
}

/// A formula, and the arguments that a call binds to its inputs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evaluation<'a> {
    pub(crate) formula: &'a Formula,
    /// In the order of the declaration.
    pub(crate) bindings: &'a [Binding],
    /// The number of groups of a task by key, otherwise 0.
    pub(crate) groups: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuvec_expr::{Element, Form, Input, compile};

    #[test]
    fn a_child_forked_while_a_kernel_is_written_writes_its_own() {
        const SECONDS: u32 = 20;
        let template = |_| Ok(include_str!("../../kernels/ptx/fold.ptx"));
        let input = Input { name: "a", element: Element::F32, form: Form::Array };
        let program = compile("min(a)", &[input]).unwrap();
        let formula = Formula::new(0, program, 1, Some((8, false)));
        let mut status = -1;
        let forking = |name| {
            // SAFETY: the child writes a kernel and ends, or is ended by the signal.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: sets a timer for the process.
                unsafe { libc::alarm(SECONDS) };
                let is_written = formula.kernel(template).is_ok();
                // SAFETY: ends this process.
                unsafe { libc::_exit(i32::from(!is_written)) };
            }
            // SAFETY: the child is this process's own.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            template(name)
        };
        assert!(formula.kernel(forking).is_ok());
        assert_eq!(status, 0);
    }
}
