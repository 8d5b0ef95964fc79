//! Programs become PTX text: a kernel for each reduction, and one for all other outputs
//! ([`outputs_of_kernels`]). A kernel is made of the program of its outputs ([`Program::of_outputs`]).
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
//! Arrays begin at any element. An output may be an input whose elements have the same size: each
//! element is read before it is written, by the same thread. The kernel takes blocks of
//! [`BLOCK_THREADS`] threads and any number of blocks; a thread of a large grid takes
//! [`Kernel::packs_per_thread`] packs of [`Kernel::pack`] elements. Reductions have compiled kernels,
//! of kernels/reduction.cu and, along axes, of kernels/axes.cu, in which the instructions for the elements are put.
//! Those along axes have other parameters (crates/ptx/src/axes.rs). Elementwise programs have
//! further kernels, for arrays of any strides ([`Variant`]).
//!
//! The text says all that IEEE 754 leaves open: each operation rounds to nearest by itself (`.rn`),
//! none flushes subnormals, and a NaN's sign and payload never reach a result.

#![forbid(unsafe_code)]

mod axes;
mod deferred;
mod elements;
mod elementwise;
mod fast_loop;
mod fold;
mod function;
mod grid;
mod halves;
mod hooks;
mod large;
mod operation;
mod policy;
mod reduction;
mod strided;
mod tiles;
mod writer;

pub use axes::Along;
pub use hooks::check_frame;
pub use reduction::{axes_frame, frame};
pub use strided::{LANES_APART, Order, Variant, vector_bytes};
pub use tiles::tile_side;

use fold::Fold;
use gpuvec_expr::Program;
use large::Large;
use std::ffi::{CStr, CString};

/// The name of the kernels of expressions; those of operations have their names.
pub const NAME: &str = "expression";

/// The outputs that each kernel of a program computes, in the order in which kernels run: the outputs that are
/// stored come last, since they may be inputs.
#[must_use]
pub fn outputs_of_kernels(program: &Program) -> Vec<Vec<usize>> {
    let (mut kernels, mut stored) = (Vec::new(), Vec::new());
    for (number, output) in program.outputs().iter().enumerate() {
        match output.reduction() {
            Some(_) => kernels.push(vec![number]),
            None => stored.push(number),
        }
    }
    kernels.extend((!stored.is_empty()).then_some(stored));
    kernels
}

/// Threads of a block.
pub const BLOCK_THREADS: u32 = 256;

/// The limits of the text that a driver compiles in one piece.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most instructions for an element. Beyond it a program is computed in parts.
    pub instructions: usize,
    /// The operations of a part.
    pub part: usize,
}

impl Limits {
    /// The limits with which a driver compiles any program in some seconds.
    pub const USUAL: Limits = policy::POLICY.limits;
}

/// A program's kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    name: CString,
    text: CString,
    pack: usize,
    packs_per_thread: usize,
    blocks_per_multiprocessor: u32,
}

impl Kernel {
    /// Writes the kernel of a program under a name, for a reduction with the text of its [`frame`]. The program
    /// has one reduction or none.
    pub fn new(name: &str, program: &Program, frame: &str) -> Kernel {
        Kernel::with_limits(name, program, frame, Limits::USUAL)
    }

    /// Writes the kernel of a program, in parts if it is beyond a limit.
    pub fn with_limits(name: &str, program: &Program, frame: &str, limits: Limits) -> Kernel {
        debug_assert_eq!(outputs_of_kernels(program).len(), 1, "a program of one kernel");
        let large = Large::of(program, limits);
        match Fold::of(program) {
            Some(fold) => reduction::kernel(name, program, fold, frame, large.as_ref(), None),
            None => elementwise::kernel(name, program, large.as_ref()),
        }
    }

    /// Writes a variant of this kernel, that of an elementwise program, for arrays of any strides: its parameters
    /// are those that crates/ptx/src/strided.rs lists.
    #[must_use]
    pub fn strided(&self, program: &Program, variant: Variant, limits: Limits) -> Kernel {
        let large = Large::of(program, limits);
        let name = self.name.to_str().unwrap_or(NAME);
        strided::kernel(name, program, variant, self.packs_per_thread, large.as_ref())
    }

    /// Writes the kernel of a program's reduction along axes, with the text of its [`axes_frame`]: its parameters are
    /// those that crates/ptx/src/axes.rs lists. None if the program has no reduction.
    #[must_use]
    pub fn along_axes(
        name: &str, program: &Program, frame: &str, along: Along, limits: Limits,
    ) -> Option<Kernel> {
        let (large, fold) = (Large::of(program, limits), Fold::of(program)?);
        Some(reduction::kernel(name, program, fold, frame, large.as_ref(), Some(along)))
    }

    fn of_text(
        name: &str, text: String, [pack, packs_per_thread]: [usize; 2],
        blocks_per_multiprocessor: u32,
    ) -> Kernel {
        // The texts contain none of the caller's names, and so no NUL.
        let c_string = |text: String| CString::new(text).unwrap_or_default();
        let (name, text) = (c_string(name.into()), c_string(text));
        Kernel { name, text, pack, packs_per_thread, blocks_per_multiprocessor }
    }

    /// The kernel's name in its image.
    #[must_use]
    pub fn name(&self) -> &CStr {
        &self.name
    }

    /// The kernel's PTX, as a driver takes it.
    #[must_use]
    pub fn image(&self) -> &CStr {
        &self.text
    }

    /// The elements that a thread takes at once.
    #[must_use]
    pub const fn pack(&self) -> usize {
        self.pack
    }

    /// The blocks that a multiprocessor should hold at once, as the text asks.
    #[must_use]
    pub const fn blocks_per_multiprocessor(&self) -> u32 {
        self.blocks_per_multiprocessor
    }

    /// The packs that a thread of a large grid takes, one after the other.
    #[must_use]
    pub const fn packs_per_thread(&self) -> usize {
        self.packs_per_thread
    }
}
