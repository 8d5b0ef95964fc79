//! Checks N-dimensional array arguments, and reduces their axes to as few as possible. Pure: reads no array, allocates
//! nothing, and knows neither types nor devices.
//!
//! All arguments of a call have one common shape. A stride of 0 broadcasts. [`Axes::new`] checks the arguments and
//! then, for all of them alike,
//! 1. drops axes of length 1;
//! 2. flips axes that no argument walks forwards, as NumPy's iterator does;
//! 3. sorts axes by the magnitudes of their strides, as PyTorch's TensorIterator does: the outputs' strides rank
//!    before the inputs', and a stride of 0 is ignored;
//! 4. merges neighbouring axes that every argument walks like one axis.
//!
//! The reduced axes of a call are sorted and merged separately from its kept axes. An operation on arrays that are all
//! C-ordered, all Fortran-ordered or all reversed is left with one axis of unit stride.
//!
//! Strides are signed and in bytes. Axes are ordered from the outermost to the innermost.

#![forbid(unsafe_code)]

mod arguments;
mod axes;
mod blocks;
mod divisor;
mod error;
mod group;
mod overlap;
mod shape;
mod space;

pub use arguments::{Argument, Arguments, Stride, c_order};
pub use axes::{Axes, View};
pub use blocks::{Block, Blocks};
pub use divisor::Divisor;
pub use error::{Error, Name};
pub use space::{Access, Inner, Space, are_columns};

/// The most axes of a call's arguments.
pub const MAX_RANK: usize = 32;

/// The most axes that are left after merging, kept and reduced ones together.
pub const MAX_AXES: usize = 8;

// An address, a length and a stride are words of the same size.
const _: () = assert!(size_of::<usize>() == size_of::<i64>());
