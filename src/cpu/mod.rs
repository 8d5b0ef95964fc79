//! The CPU's backend: the same operations, with the same bits, on the cores.

mod elementwise;
mod reduce;

pub(crate) use elementwise::elementwise;
pub(crate) use reduce::reduce;
