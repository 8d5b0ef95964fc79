//! A kernel, and its text.

use crate::function::Tables;
use crate::partitioned::PartitionedProgram;
use crate::placeholder::{ENTRY, least_blocks};
use crate::policy::BLOCK_THREADS;
use crate::writer::{Writer, decimal};
use gpuvec_expr::Program;
use std::ffi::{CStr, CString};

/// A program's kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    name: CString,
    text: CString,
    items_per_thread: usize,
    tiles_per_thread: usize,
    blocks_per_multiprocessor: u32,
    threads: u32,
}

impl Kernel {
    pub(crate) fn of_text(
        name: &str, text: String, [items_per_thread, tiles_per_thread]: [usize; 2],
        blocks_per_multiprocessor: u32,
    ) -> Kernel {
        // The texts contain none of the caller's names, and so no NUL.
        let c_string = |text: String| CString::new(text).unwrap_or_default();
        let (name, text) = (c_string(name.into()), c_string(text));
        let threads = BLOCK_THREADS;
        Kernel {
            name,
            text,
            items_per_thread,
            tiles_per_thread,
            blocks_per_multiprocessor,
            threads,
        }
    }

    /// The same kernel with another number of threads, as its text says.
    pub(crate) fn with_threads(self, threads: u32) -> Kernel {
        Kernel { threads, ..self }
    }

    /// The kernel's name in its image.
    #[must_use]
    pub fn name(&self) -> &CStr {
        &self.name
    }

    /// The kernel's PTX, as the driver reads it.
    #[must_use]
    pub fn image(&self) -> &CStr {
        &self.text
    }

    /// The elements that a thread computes at once: a block computes a tile of as many for each of its threads.
    #[must_use]
    pub const fn items_per_thread(&self) -> usize {
        self.items_per_thread
    }

    /// The threads of a block.
    #[must_use]
    pub const fn threads(&self) -> u32 {
        self.threads
    }

    /// The blocks that a multiprocessor should hold at once, as the text asks.
    #[must_use]
    pub const fn blocks_per_multiprocessor(&self) -> u32 {
        self.blocks_per_multiprocessor
    }

    /// The tiles in which a thread of a large grid computes elements, one after the other.
    #[must_use]
    pub const fn tiles_per_thread(&self) -> usize {
        self.tiles_per_thread
    }
}

/// Begins a kernel, with the parameters of its inputs, and of the shape of a reduction along axes, before others.
pub(crate) fn entry(text: &mut String, name: &str, inputs: usize, of_shape: usize) {
    text.extend([ENTRY, name, "(\n"]);
    for (letter, count) in [("a", inputs), ("s", of_shape)] {
        (0..count).for_each(|number| parameter(text, letter, number, ",\n"));
    }
}

fn parameter(text: &mut String, letter: &str, number: usize, end: &str) {
    text.extend([".param .u64 ", letter]);
    decimal(text, number as u32);
    text.push_str(end);
}

/// The text of an elementwise kernel with this code and these declarations. Its parameters are the inputs, and
/// `p0` up to the one with the number `last`.
pub(crate) fn elementwise_text(
    name: &str, program: &Program, partitioned: Option<&PartitionedProgram<'_>>, code: &Writer<'_>,
    declarations: &str, last: usize, blocks: u32,
) -> String {
    let mut text = String::with_capacity(32 << 10);
    text.push_str(".version 8.0\n.target sm_60\n.address_size 64\n");
    let tables = Tables::of(program, partitioned.is_some());
    tables.declare(&mut text);
    partitioned.inspect(|partitioned| partitioned.functions(&mut text));
    entry(&mut text, name, program.inputs().len(), 0);
    (0..last).for_each(|number| parameter(&mut text, "p", number, ",\n"));
    parameter(&mut text, "p", last, "\n)\n.reqntid 256\n");
    text.extend([&least_blocks(blocks), "{\n"]);
    tables.copy(&mut text);
    partitioned.inspect(|partitioned| partitioned.declare(&mut text));
    text.push_str(declarations);
    code.finish(&mut text);
    text
}
