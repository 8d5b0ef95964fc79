//! Programs of expressions become PTX text: one kernel each, `expression`.
//!
//! Its parameters have 64 bits each:
//!
//! | parameters | hold |
//! |---|---|
//! | one for each declared input, in order | an array's address, or a scalar's bits in the low end |
//! | then | the output's address |
//! | | the number of elements |
//! | | the address of the warps' completion flags, or 0 (kernels/common.cuh) |
//!
//! Arrays begin at any element. The output may be an input whose elements have the same size: each
//! element is read before it is written, by the same thread. The kernel takes blocks of
//! [`BLOCK_THREADS`] threads and any number of blocks; a thread of a large grid takes
//! [`Kernel::elements_per_thread`] elements.
//!
//! The text says all that IEEE 754 leaves open: each operation rounds to nearest by itself (`.rn`),
//! none flushes subnormals, and a NaN's sign and payload never reach a result.

#![forbid(unsafe_code)]

mod elements;
mod elementwise;
mod grid;
mod machine;
mod operation;
mod writer;

use gpuvec_expr::{Op, Program, Type};
use std::ffi::{CStr, CString};
use std::fmt;
use writer::Writer;

/// The name of every kernel.
pub const NAME: &CStr = c"expression";

/// Threads of a block.
pub const BLOCK_THREADS: u32 = 256;

/// A program's kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    text: CString,
    elements_per_thread: usize,
}

impl Kernel {
    /// Writes the kernel of a program.
    pub fn new(program: &Program) -> Result<Kernel, Unsupported> {
        elementwise::kernel(program)
    }

    /// The kernel that a writer has written, with some parameters of 64 bits.
    fn of(writer: Writer, parameters: usize, elements_per_thread: usize) -> Kernel {
        let mut head = String::with_capacity(1024);
        head.push_str(
            ".version 8.0\n.target sm_60\n.address_size 64\n.visible .entry expression(\n",
        );
        for i in 0..parameters {
            let separator = if i + 1 < parameters { "," } else { "" };
            head.push_str(&format!(".param .u64 p{i}{separator}\n"));
        }
        head.push_str(&format!(")\n.reqntid {BLOCK_THREADS}\n{{\n"));
        let text = writer.finish(&head);
        let text = CString::new(text).unwrap_or_default();
        Kernel { text, elements_per_thread }
    }

    /// The kernel's PTX, as a driver takes it.
    #[must_use]
    pub fn image(&self) -> &CStr {
        &self.text
    }

    /// The elements that a thread takes at once.
    #[must_use]
    pub const fn elements_per_thread(&self) -> usize {
        self.elements_per_thread
    }
}

/// A function that GPUs cannot compute yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The function.
    pub op: Op,
    /// The type of its operands.
    pub ty: Type,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} has no implementation for GPUs yet", self.op.spelling(), self.ty)
    }
}

impl std::error::Error for Unsupported {}
