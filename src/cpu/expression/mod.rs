//! Expressions on one core: a block interpreter.
//!
//! A [`BlockProgram`] is a list of steps, each a loop over a block of elements (`loops.rs`). The values between steps
//! are in registers: buffers of a few KiB. All blocks use the same registers, so that these values stay in the core's
//! caches. Steps read the arrays directly, and the last step writes the output directly, except for types that are
//! widened when they are loaded.
//!
//! Constants, scalars and values computed from these alone are uniform: the same for all elements. They are computed
//! once, for as few elements as a loop can run over.
//!
//! NaNs: the loop that writes an output (`loops.rs`) stores every NaN as the one quiet, positive NaN. Before that, the
//! sign and the payload of a NaN depend on the processor. So no operation lets them show: `copysign` takes the sign of
//! a NaN as positive.

mod compile;
mod erased;
mod fast;
#[cfg(test)]
mod fast_tests;
mod functions;
mod fuse;
mod groups;
mod loops;
mod moments;
mod operations;
mod output_states;
mod reduce;
mod run;
mod slab;
mod table;
#[cfg(test)]
mod tests;
mod two_parts;
mod value;

pub(crate) use compile::BlockProgram;
pub(crate) use erased::{ErasedStates, begun_states};
pub(crate) use groups::{GroupStates, Groups};
pub(crate) use loops::GRAIN;
pub(crate) use output_states::{MOST_SUMS, OutputStates};
pub(crate) use reduce::{
    Add, AddValues, BlockReduction, Exact, Reducer, ReductionVisitor, ResultOf, States,
    ValueColumns, Values, visit,
};
pub(crate) use run::{Range, Scratch};
