//! The arguments of a call, as the caller passed them.

use crate::MAX_RANK;

/// A stride in bytes: the bytes of an `i64`, because callers may store strides at unaligned addresses.
pub type Stride = [u8; size_of::<i64>()];

/// An array argument.
#[derive(Clone, Copy, Debug)]
pub struct Argument<'a> {
    /// The address of the element at index 0 of every axis.
    pub address: usize,
    /// The bytes of an element, a power of two.
    pub element_bytes: usize,
    /// The distance in bytes between neighbouring elements along each axis; `None` for C order. Strides of axes of
    /// length 1 are ignored, and so are an output's strides along reduced axes, unless the output is whole.
    pub strides: Option<&'a [Stride]>,
}

/// The array arguments of a call.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a> {
    /// The length of each axis, common to all inputs.
    pub shape: &'a [i64],
    /// The arrays that are read.
    pub inputs: &'a [Argument<'a>],
    /// The arrays that are written. C order of an output that is not whole omits the reduced axes.
    pub outputs: &'a [Argument<'a>],
    /// Bit mask of the whole outputs, which keep the reduced axes and have as many elements as the inputs.
    pub whole_outputs: u64,
    /// Bit mask of the axes that the call reduces. The lowest bit is the first axis.
    pub reduced_axes: u64,
    /// True if the elements of each result must be numbered in C order, as argmin needs. The reduced axes are then
    /// merged, but neither flipped nor sorted.
    pub is_indexed: bool,
}

impl<'a> Arguments<'a> {
    /// True if the output keeps the reduced axes.
    pub(crate) fn is_whole(&self, output: usize) -> bool {
        self.whole_outputs >> output & 1 != 0
    }
}

/// Writes the strides in bytes of a C-ordered array to the first elements of `strides`, and returns those elements.
///
/// # Panics
/// If `strides` is shorter than the shape.
pub fn c_order<'a>(shape: &[i64], element_bytes: usize, strides: &'a mut [i64]) -> &'a [i64] {
    let strides = &mut strides[..shape.len()];
    let mut stride = element_bytes as i64;
    for (length, place) in shape.iter().zip(&mut *strides).rev() {
        *place = stride;
        stride = stride.wrapping_mul(*length);
    }
    strides
}

/// The C-order strides of the axes in `mask`, in elements.
pub(crate) fn weights(shape: &[i64], mask: u64) -> [i64; MAX_RANK] {
    let (mut weights, mut weight) = ([0; MAX_RANK], 1i64);
    for (axis, length) in shape.iter().enumerate().rev().filter(|(axis, _)| mask >> axis & 1 != 0) {
        weights[axis] = weight;
        weight = weight.wrapping_mul(*length);
    }
    weights
}
