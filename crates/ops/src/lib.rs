//! The operations: what each computes, on which element types, and how a reduction accumulates.
//!
//! A crate of its own, which knows nothing of the rest: the tests' fake driver runs the same table in
//! the place of the kernels.

mod accumulator;
mod element;
mod table;

pub use accumulator::{
    Accumulator, All, Any, ArgMax, ArgMin, Indexed, Max, Mean, Min, Norm, WrappingProduct,
    WrappingSum,
};
pub use element::Element;
pub use table::*;
