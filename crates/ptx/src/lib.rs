//! Writes the PTX of programs: a kernel for each reduction, and one for all other outputs
//! ([`outputs_of_kernels`]). A kernel computes the program of its outputs ([`Program::of_outputs`]).
//! docs/contributing/kernels.md has the path from a formula to its loaded kernel.
//!
//! A kernel's parameters have 64 bits each:
//!
//! | parameters | hold |
//! |---|---|
//! | one for each declared input, in order | an array's address, or a scalar's bits in the low end |
//! | then, for each output | its address |
//! | then | the number of elements |
//! | | the address of the warps' completion flags, or 0 (kernels/common.cuh) |
//! | for reductions | the address of the scratch memory (kernels/reduce.cuh) |
//! | | the address of the result, or 0: then the output is the state (crates/ops/src/accumulator.rs) |
//! | | how to add up (kernels/exact.cuh), or for argmin and argmax the index of the first element |
//!
//! Arrays begin at any element. An output may be an input whose elements have the same size, since the thread that writes
//! an element has read it before. A kernel runs with blocks of [`BLOCK_THREADS`] threads, and any number of them; a thread
//! of a large grid computes [`Kernel::items_per_thread`] elements [`Kernel::tiles_per_thread`] times. Reductions by key
//! have other parameters (`by_key.rs`), and larger blocks ([`Kernel::threads`]).
//!
//! Elementwise programs have further kernels, for arrays of any strides ([`Variant`]). Reductions have templates:
//! compiled kernels, of kernels/reduction.cu and, along axes, of kernels/axes.cu, with placeholders for the instructions
//! that depend on the program. Kernels along axes have other parameters (`axis_reduction.rs`).
//!
//! The text says all that IEEE 754 leaves open: each operation rounds to nearest by itself (`.rn`), none flushes
//! subnormals, and a NaN's sign and payload never reach a result.
//!
//! The modules are listed in their order: each uses only those before it (`tests/ptx/modules.rs`).

#![forbid(unsafe_code)]

// The language, and the sizes of what is written in it.
mod policy;

mod placeholder;
mod writer;

// Values in registers.
mod halves;

mod function;

mod operation;

// Arrays, and the elements of a program.
mod array;

mod partitioned;

mod elements;

// The parts of kernels.
mod kernel;

mod grid;

mod vectors;

mod deferred;

mod fast_loop;

// The kernels.
mod elementwise;

mod strided_loop;

mod shared_tile;

mod strided_kernel;

mod fold;

mod axis_reduction;

mod reduction;

mod by_key;

pub use axis_reduction::AxisReduction;
pub use kernel::Kernel;
pub use placeholder::check_template;
pub use policy::{BLOCK_THREADS, Limits, MAX_ITEMS_APART};
pub use shared_tile::tile_side;
pub use strided_loop::{Order, Variant, vector_bytes};

use fold::Fold;
use gpuvec_expr::{OutputKind, Program};
use partitioned::PartitionedProgram;

/// The name of the compiled template that a program's reduction needs: an image of kernels/ptx. Reductions by key have
/// one template for all arrays (`by_key.rs`); argmin and argmax by key have none, and run on cores.
#[must_use]
pub fn template(program: &Program) -> Option<&'static str> {
    by_key::template(program).or_else(|| reduction::template(program))
}

/// The name of the compiled template of a program's reduction along axes.
#[must_use]
pub fn axes_template(program: &Program) -> Option<String> {
    by_key::template(program).map(str::to_owned).or_else(|| reduction::axes_template(program))
}

/// The name of the kernels of expressions. Kernels of operations have the operations' names.
pub const NAME: &str = "expression";

/// The outputs that each kernel of a program computes, in the order in which kernels run: the outputs that are
/// stored come last, since they may be inputs.
#[must_use]
pub fn outputs_of_kernels(program: &Program) -> Vec<Vec<usize>> {
    let (mut kernels, mut stored) = (Vec::new(), Vec::new());
    for (number, output) in program.outputs().iter().enumerate() {
        match output.kind {
            OutputKind::Elementwise => stored.push(number),
            OutputKind::Reduced { .. } | OutputKind::Grouped { .. } | OutputKind::Single => {
                kernels.push(vec![number]);
            }
        }
    }
    kernels.extend((!stored.is_empty()).then_some(stored));
    kernels
}

impl Kernel {
    /// Writes the kernel of a program under a name, for a reduction with the text of its [`template`]. The program
    /// has at most one reduction.
    pub fn new(name: &str, program: &Program, template: &str) -> Kernel {
        Kernel::with_limits(name, program, template, Limits::USUAL)
    }

    /// Writes the kernel of a program, in parts if it exceeds a limit.
    pub fn with_limits(name: &str, program: &Program, template: &str, limits: Limits) -> Kernel {
        debug_assert_eq!(outputs_of_kernels(program).len(), 1, "a program of one kernel");
        let partitioned = PartitionedProgram::of(program, limits);
        match Fold::of(program) {
            Some(fold) => {
                Kernel::of_fold(name, program, fold, template, partitioned.as_ref(), None)
            }
            None => elementwise::kernel(name, program, partitioned.as_ref()),
        }
    }

    /// Writes the variant for arrays of any strides of this kernel of an elementwise program. `strided_kernel.rs` lists its
    /// parameters.
    #[must_use]
    pub fn strided(&self, program: &Program, variant: Variant, limits: Limits) -> Kernel {
        let partitioned = PartitionedProgram::of(program, limits);
        let name = self.name().to_str().unwrap_or(NAME);
        strided_kernel::kernel(
            name,
            program,
            variant,
            self.tiles_per_thread(),
            partitioned.as_ref(),
        )
    }

    /// Writes the kernel of a program's reduction along axes, with the text of its [`axes_template`].
    /// `axis_reduction.rs` lists its parameters. None if the program has no reduction.
    #[must_use]
    pub fn along_axes(
        name: &str, program: &Program, template: &str, axes: AxisReduction, limits: Limits,
    ) -> Option<Kernel> {
        let (partitioned, fold) = (PartitionedProgram::of(program, limits), Fold::of(program)?);
        let partitioned = partitioned.as_ref();
        Some(Kernel::of_fold(name, program, fold, template, partitioned, Some(axes)))
    }

    fn of_fold(
        name: &str, program: &Program, fold: Fold, template: &str,
        partitioned: Option<&PartitionedProgram<'_>>, axes: Option<AxisReduction>,
    ) -> Kernel {
        let kernel = match by_key::template(program) {
            Some(_) => by_key::kernel,
            None => reduction::kernel,
        };
        kernel(name, program, fold, template, partitioned, axes)
    }
}
