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
#[expect(missing_docs, reason = "the texts tell what the fields are")]
pub enum Error {
    /// There are more than [`MAX_RANK`] axes.
    #[error("ndim is {axes}: pass at most {MAX_RANK} axes")]
    TooManyAxes { axes: usize },

    /// A length is negative.
    #[error("shape[{axis}] is {length}: pass a length of 0 or more")]
    NegativeLength { axis: usize, length: i64 },

    /// The lengths' product is 2^63 or more.
    #[error("shape has 2^63 elements or more: split the call along an axis")]
    TooManyElements,

    /// A bit of the reduced axes stands for an axis that the shape does not have.
    #[error("reduced_axes is {mask:#x}, and ndim is {axes}: set only the lowest {axes} bits")]
    NoSuchAxis { mask: u64, axes: usize },

    /// An array with elements has no address.
    #[error("{array} is NULL, but it has {elements} elements: pass an array of that shape")]
    Null { array: Name, elements: usize },

    /// An array's address is not a multiple of its elements' size.
    #[error(
        "{array} is {address:#x}, which is not a multiple of {alignment}, its element size: pass an \
         aligned array"
    )]
    Misaligned { array: Name, address: usize, alignment: usize },

    /// A stride is not a multiple of the elements' size.
    #[error(
        "{array} has strides[{axis}] of {stride} bytes, which is not a multiple of {alignment}, its \
         element size: pass an aligned array"
    )]
    MisalignedStride { array: Name, axis: usize, stride: i64, alignment: usize },

    /// An array's elements reach beyond the address space.
    #[error(
        "{array} at {address:#x} with this shape and these strides leaves the address space: pass the \
         strides in bytes of an array that exists"
    )]
    OutsideMemory { array: Name, address: usize },

    /// An output has one element for several results.
    #[error(
        "outputs[{output}] has strides[{axis}] of 0, but shape[{axis}] is {length}: pass an output with \
         an element for each result"
    )]
    BroadcastOutput { output: usize, axis: usize, length: usize },

    /// Elements of an output may share memory.
    #[error(
        "outputs[{output}] overlaps itself, by its strides: pass an output whose elements are apart"
    )]
    OverlapsItself { output: usize },

    /// An output shares memory with an earlier one.
    #[error("outputs[{output}] overlaps outputs[{other}]: pass outputs that do not overlap")]
    OutputsOverlap { output: usize, other: usize },

    /// An output shares memory with an input, and is not that input.
    #[error(
        "outputs[{output}] partly overlaps inputs[{input}]: pass the same array (in place) or arrays that \
         do not overlap"
    )]
    Overlap { output: usize, input: usize },

    /// More than [`MAX_AXES`] axes are left after merging.
    #[error(
        "{axes} axes remain after merging those that are adjacent in the memory of all arrays: pass arrays \
         that need at most {MAX_AXES}, such as C-ordered copies"
    )]
    TooManyMergedAxes { axes: usize },
}
