//! Expressions, as far as checks, plans and kernels need to know them.

use crate::error::Error;
use crate::process::memory;
use gpuvec_cost::BreakEven;
use gpuvec_expr::{Node, Program, Rule, Source};
use gpuvec_ops::Shape;
use gpuvec_ptx::Kernel;
use once_cell::race::OnceBox;

/// What a compiled expression computes, and what that costs.
#[derive(Debug)]
pub(crate) struct Formula {
    /// Tells the formulas of a process apart.
    pub(crate) id: u64,
    pub(crate) program: Program,
    pub(crate) shape: Shape,
    /// The size of an element of the output.
    pub(crate) output_bytes: usize,
    /// The size of a reduction's state as its kernel writes it.
    pub(crate) state_bytes: usize,
    /// Says whether the formula is defined for no elements.
    pub(crate) has_empty_result: bool,
    /// The time of a core for an element, in picoseconds.
    pub(crate) cost: usize,
    /// What calls lost for lack of a compiled kernel.
    pub(crate) compiling: BreakEven,
    /// Written when a device or a caller first needs it. No lock: a child forked while another thread
    /// writes the kernel writes its own.
    kernel: OnceBox<Kernel>,
}

impl Formula {
    /// Makes the formula of a program, which costs a core so many picoseconds for an element. `state` has
    /// the size of a reduction's state, and says whether no elements have a result.
    pub(crate) fn new(
        id: u64, program: Program, cost: usize, state: Option<(usize, bool)>,
    ) -> Self {
        let (state_bytes, has_empty_result) = state.unwrap_or((0, true));
        Formula {
            id,
            shape: if state.is_some() { Shape::Reduction } else { Shape::Elementwise },
            output_bytes: program.output().bytes(),
            state_bytes,
            has_empty_result,
            cost,
            compiling: BreakEven::new(),
            kernel: OnceBox::new(),
            program,
        }
    }

    /// The image of the compiled kernel that a reduction's is made of.
    pub(crate) fn frame(&self) -> Option<&'static str> {
        gpuvec_ptx::frame(&self.program)
    }

    /// The kernel that computes the formula; `text` gives that of an image. Threads that need it for the
    /// first time concurrently each write it, in memory that they ask for, and all but one drop theirs.
    pub(crate) fn kernel(
        &self, text: impl FnOnce(&'static str) -> Result<&'static str, Error>,
    ) -> Result<&Kernel, Error> {
        self.kernel.get_or_try_init(|| {
            let frame = self.frame().map_or(Ok(""), text)?;
            let nodes: usize = self.program.nodes().iter().map(bytes_of).sum();
            let bytes = memory::NEEDED_BYTES + 2 * frame.len() + nodes.min(MOST_BYTES);
            if !memory::is_left_for(bytes) {
                return Err(Error::OutOfHostMemory {
                    bytes,
                    purpose: "the kernel of an expression",
                });
            }
            Ok(Box::new(Kernel::new(&self.program, frame)))
        })
    }

    /// The number of elements that a thread of an elementwise kernel works on at once, and how many such
    /// packs a thread of a large grid takes.
    pub(super) fn packs(&self) -> [usize; 2] {
        self.kernel(|_| Ok("")).map_or([1; 2], |kernel| [kernel.pack(), kernel.packs_per_thread()])
    }
}

/// Memory that the kernel of a program of any size may take: that of a large one has each function once.
const MOST_BYTES: usize = 4 << 20;

/// Memory that a node may take when its instructions are written, for each of a thread's elements: a
/// tangent of f64 is 14 KB of text, and texts grow by copies.
const fn bytes_of(node: &Node) -> usize {
    match node.source {
        Source::Op(op) if matches!(op.rule(), Rule::Float | Rule::FloatOnly) => 384 << 10,
        _ => 4 << 10,
    }
}

/// A declared input, as a call has it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operand {
    /// The next of the call's input arrays.
    Array,
    /// The bits of a scalar, in its own type.
    Scalar(u64),
    /// Nothing: the formula does not use the input.
    Unused,
}

/// A formula with the inputs that a call gives it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evaluation<'a> {
    pub(crate) formula: &'a Formula,
    /// In the order of the declaration.
    pub(crate) operands: &'a [Operand],
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuvec_expr::{Element, Input, Shape, compile};

    #[test]
    fn a_child_forked_while_a_kernel_is_written_writes_its_own() {
        const SECONDS: u32 = 20;
        let frame = |_| Ok(include_str!("../../kernels/ptx/expression_fold.ptx"));
        let input = Input { name: "a", element: Element::F32, shape: Shape::Array };
        let program = compile("min(a)", &[input]).unwrap();
        let formula = Formula::new(0, program, 1, Some((8, false)));
        let mut status = -1;
        let forking = |name| {
            // SAFETY: the child writes a kernel and ends, or is ended by the signal.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: sets a timer for the process.
                unsafe { libc::alarm(SECONDS) };
                let is_written = formula.kernel(frame).is_ok();
                // SAFETY: ends this process.
                unsafe { libc::_exit(i32::from(!is_written)) };
            }
            // SAFETY: the child is this process's own.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            frame(name)
        };
        assert!(formula.kernel(forking).is_ok());
        assert_eq!(status, 0);
    }
}
