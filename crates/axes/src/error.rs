//! Errors in the arguments of a call.

use crate::{MAX_AXES, MAX_RANK};
use std::fmt;

/// An array argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// The input of this number.
    Input(usize),
    /// The output of this number.
    Output(usize),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Input(number) => write!(f, "inputs[{number}]"),
            Name::Output(number) => write!(f, "outputs[{number}]"),
        }
    }
}

/// The reason why arguments are refused. The text names the argument, its value and what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There are more than [`MAX_RANK`] axes.
    #[error("ndim is {axes}: pass at most {MAX_RANK} axes")]
    TooManyAxes {
        /// The number of axes.
        axes: usize,
    },

    /// A length is negative.
    #[error("shape[{axis}] is {length}: pass a length of 0 or more")]
    NegativeLength {
        /// The axis.
        axis: usize,
        /// Its length.
        length: i64,
    },

    /// The lengths' product is 2^63 or more.
    #[error("shape has 2^63 elements or more: split the call along an axis")]
    TooManyElements,

    /// A bit of the reduced axes stands for an axis that the shape does not have.
    #[error("reduced_axes is {mask:#x}, and ndim is {axes}: set only the lowest {axes} bits")]
    NoSuchAxis {
        /// The reduced axes.
        mask: u64,
        /// The number of axes.
        axes: usize,
    },

    /// An array with elements has no address.
    #[error("{array} is NULL, but it has {elements} elements: pass an array of that shape")]
    Null {
        /// The array.
        array: Name,
        /// Its elements.
        elements: usize,
    },

    /// An array's address is not a multiple of its elements' size.
    #[error(
        "{array} is {address:#x}, which is not a multiple of {alignment}, its element size: pass an \
         aligned array"
    )]
    Misaligned {
        /// The array.
        array: Name,
        /// Its address.
        address: usize,
        /// The bytes of an element.
        alignment: usize,
    },

    /// A stride is not a multiple of the elements' size.
    #[error(
        "{array} has strides[{axis}] of {stride} bytes, which is not a multiple of {alignment}, its \
         element size: pass an aligned array"
    )]
    MisalignedStride {
        /// The array.
        array: Name,
        /// The axis.
        axis: usize,
        /// Its stride.
        stride: i64,
        /// The bytes of an element.
        alignment: usize,
    },

    /// An array's elements reach beyond the address space.
    #[error(
        "{array} at {address:#x} with this shape and these strides leaves the address space: pass the \
         strides in bytes of an array that exists"
    )]
    OutsideMemory {
        /// The array.
        array: Name,
        /// Its address.
        address: usize,
    },

    /// An output has one element for several results.
    #[error(
        "outputs[{output}] has strides[{axis}] of 0, but shape[{axis}] is {length}: pass an output with \
         an element for each result"
    )]
    BroadcastOutput {
        /// The output.
        output: usize,
        /// The axis.
        axis: usize,
        /// Its length.
        length: usize,
    },

    /// Elements of an output may share memory.
    #[error(
        "outputs[{output}] overlaps itself, by its strides: pass an output whose elements are apart"
    )]
    OverlapsItself {
        /// The output.
        output: usize,
    },

    /// An output shares memory with an earlier one.
    #[error("outputs[{output}] overlaps outputs[{other}]: pass outputs that do not overlap")]
    OutputsOverlap {
        /// The output.
        output: usize,
        /// The earlier one.
        other: usize,
    },

    /// An output shares memory with an input, and is not that input.
    #[error(
        "outputs[{output}] partly overlaps inputs[{input}]: pass the same array (in place) or arrays that \
         do not overlap"
    )]
    Overlap {
        /// The output.
        output: usize,
        /// The input.
        input: usize,
    },

    /// More than [`MAX_AXES`] axes are left after merging.
    #[error(
        "{axes} axes remain after merging those that are adjacent in the memory of all arrays: pass arrays \
         that need at most {MAX_AXES}, such as C-ordered copies"
    )]
    TooManyMergedAxes {
        /// The axes that are left.
        axes: usize,
    },
}
