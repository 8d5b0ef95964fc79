//! The operations: their formulas, their element types, and the accumulators of reductions.
//!
//! The crate depends on nothing that runs operations, so that the tests' fake driver can run the same table in place of
//! the kernels.

mod accumulator;
mod element;
mod table;

pub use accumulator::{
    Accumulator, All, Any, ArgMax, ArgMin, Indexed, Max, Mean, Min, Norm, WrappingProduct,
    WrappingSum,
};
pub use element::Element;
pub use table::*;
