//! Expressions on one core: a block interpreter.
//!
//! A [`BlockProgram`] is a list of steps, each a loop over a block of elements (`loops.rs`). A block's
//! values are in registers: buffers of a few KiB, which the next blocks use again, so that values
//! between steps do not leave the core's caches. Steps read arrays where they are, and the last one writes
//! to the output, except for types that are widened when they are loaded.
//!
//! Values that are the same for all elements, constants and scalars and what is computed from
//! them, are computed once, as the few elements that a loop reads at a time.
//!
//! NaNs: a result is stored with the one quiet, positive NaN, by the loop that writes the output
//! (`loops.rs`). Before that the sign and the payload of a NaN depend on the processor, so no operation
//! lets them show: `copysign` takes a NaN's sign as positive.

mod compile;
mod erased;
mod fast;
#[cfg(test)]
mod fast_tests;
mod functions;
mod fuse;
mod loops;
mod moments;
mod operations;
mod output_states;
mod reduce;
mod run;
mod slab;
#[cfg(test)]
mod tests;
mod two_parts;
mod value;

pub(crate) use compile::BlockProgram;
pub(crate) use erased::{ErasedStates, Groups, begun_states};
pub(crate) use loops::GRAIN;
pub(crate) use output_states::{MOST_SUMS, OutputStates};
pub(crate) use reduce::{
    Add, AddValues, BlockReduction, Exact, Reducer, ReductionVisitor, ResultOf, States,
    ValueColumns, Values, visit,
};
pub(crate) use run::{Range, Scratch};
