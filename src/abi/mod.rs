//! The exported functions. Each is a signature, its contract, and one call through the `guard`; there is no logic here.
//! The header is made from them. build.rs writes the functions of operations, and the others are written by hand, since
//! cbindgen does not expand macros.
//!
//! # Safety
//! Every function trusts its caller for what no library can check: that a pointer points to `n` elements of its type
//! (writable for `out`), in host memory or in memory that the driver knows, and that no other code changes or frees them
//! before the work is done. Everything else is checked.

#![expect(clippy::missing_safety_doc, reason = "the header says it once, for all functions")]

// The header's sections, in their order.
pub mod classic;

pub mod elementwise;

pub mod reduce;

pub mod accumulator;

pub mod expr;

pub mod memory;

pub mod stream;

pub mod library;

pub mod errors;

mod guard;

use crate::error::Error;
use crate::objects::accumulator::Shape;
use crate::objects::stream::gpuvec_stream;
use crate::run;
use gpuvec_axes::MAX_RANK;
use gpuvec_ops::Operation;

/// A status as C receives it. The header calls it `gpuvec_status`.
pub type Status = i32;

/// Stores a structure to which later versions may append fields. Stores as much of it as fits into the caller's `size`
/// bytes, and fills the rest of the bytes with zeros.
///
/// # Safety
/// There is room for `size` bytes, unless `place` is NULL.
unsafe fn store<T>(
    argument: &'static str, place: *mut T, size: usize, value: impl FnOnce() -> Result<T, Error>,
) -> Result<(), Error> {
    if place.is_null() {
        return Err(Error::NullResult { argument });
    }
    let (value, place) = (value()?, place.cast::<u8>());
    let known = size.min(size_of::<T>());
    // SAFETY: this function's promise; the value has at least `known` bytes.
    unsafe {
        place.copy_from_nonoverlapping((&raw const value).cast(), known);
        place.add(known).write_bytes(0, size - known);
    }
    Ok(())
}

/// Returns the values that a caller passes. They need not be aligned.
///
/// # Safety
/// Unless it is NULL, `first` points to `n` values, which no thread changes for the lifetime.
unsafe fn values<'a, T: Copy + 'a>(
    argument: &'static str, first: *const T, n: usize,
) -> Result<impl ExactSizeIterator<Item = T> + 'a, Error> {
    if first.is_null() && n > 0 {
        return Err(Error::Null { argument, n });
    }
    // SAFETY: this function's promise.
    Ok((0..n).map(move |number| unsafe { first.add(number).read_unaligned() }))
}

/// Returns the lengths of a caller's axes.
///
/// # Safety
/// `shape` points to `ndim` lengths.
unsafe fn read_shape(ndim: i32, shape: *const i64) -> Result<Shape, Error> {
    let axes = usize::try_from(ndim).ok().filter(|axes| *axes <= MAX_RANK);
    let expected = "pass 0 to 32 axes";
    let axes = axes.ok_or(Error::Value { argument: "ndim", value: ndim.into(), expected })?;
    // SAFETY: this function's promise.
    Ok(unsafe { values("shape", shape, axes)? }.collect())
}

/// Runs an operation on its input arrays.
///
/// # Safety
/// As for every function of this module.
unsafe fn operation<O: Operation, const COUNT: usize>(
    op: O, inputs: [*const O::Element; COUNT], out: *mut O::Output, n: usize,
    stream: *mut gpuvec_stream,
) -> Result<(), Error> {
    let inputs = inputs.map(|input| input.cast());
    // SAFETY: this function's promise.
    unsafe { run::operation(O::OP, op.alpha(), inputs, out.cast(), n, stream) }
}
