//! The arguments of a call, as the caller passed them.

use crate::MAX_RANK;

/// A stride in bytes, by the bytes of an `i64`: it is read where the caller has it, which may be any address.
pub type Stride = [u8; size_of::<i64>()];

/// An array argument.
#[derive(Clone, Copy, Debug)]
pub struct Argument<'a> {
    /// The address of the element all of whose indexes are 0.
    pub address: usize,
    /// The bytes of an element, a power of two.
    pub element_bytes: usize,
    /// The distance from an element to the next along each axis, in bytes; `None` for C order. Those of axes of
    /// length 1, and of the reduced axes of an output that is not whole, are ignored.
    pub strides: Option<&'a [Stride]>,
}

/// The array arguments of a call.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a> {
    /// The length of each axis, that of all inputs.
    pub shape: &'a [i64],
    /// The arrays that are read.
    pub inputs: &'a [Argument<'a>],
    /// The arrays that are written. Those in C order are so without the reduced axes, unless they are whole.
    pub outputs: &'a [Argument<'a>],
    /// The outputs that are whole, a bit each: they have the reduced axes, too, and an element for each of an
    /// input's.
    pub whole_outputs: u64,
    /// The axes that the call reduces: a bit each, the lowest for the first axis.
    pub reduced_axes: u64,
    /// Says that the elements of each result are walked in C order, so that they can be numbered: the reduced axes
    /// are merged, but neither flipped nor sorted.
    pub is_indexed: bool,
}

impl<'a> Arguments<'a> {
    /// Says whether an output has an element for each of an input's.
    pub(crate) fn is_whole(&self, output: usize) -> bool {
        self.whole_outputs >> output & 1 != 0
    }
}

/// Writes the strides, in bytes, of an array in C order to the first elements of `strides`, which it returns.
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

/// The C order of the axes in `mask`: the number of elements from one to the next along each.
pub(crate) fn weights(shape: &[i64], mask: u64) -> [i64; MAX_RANK] {
    let (mut weights, mut weight) = ([0; MAX_RANK], 1i64);
    for (axis, length) in shape.iter().enumerate().rev().filter(|(axis, _)| mask >> axis & 1 != 0) {
        weights[axis] = weight;
        weight = weight.wrapping_mul(*length);
    }
    weights
}
