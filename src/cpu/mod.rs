//! The CPU's backend: the same operations, with the same bits, on the cores.

mod elementwise;
mod float_env;
mod reduce;

pub(crate) use elementwise::elementwise;
pub(crate) use float_env::with_ieee;
pub(crate) use reduce::reduce;
