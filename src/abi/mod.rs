//! The exported functions. Each is a signature, its contract, and one call through the `guard`; there is no logic here.
//! The header is made from them. build.rs writes the functions of operations, and the others are written by hand, since
//! cbindgen does not expand macros.
//!
//! # Safety
//! Every function trusts its caller for what no library can check: that a pointer points to `n`
//! elements of its type (`out` writable), of host memory or of memory that the driver knows, and
//! that no other code changes or frees them before the work is done. Everything else is checked.

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

use crate::call::{Input, Layout};
use crate::error::Error;
use crate::objects::stream::gpuvec_stream;
use crate::run;
use gpuvec_ops::{Op, Operation};
use std::ffi::c_void;

/// A status as C receives it. The header calls it `gpuvec_status`.
pub type Status = i32;

/// Stores a structure to which later versions may append fields. Stores as much of it as the caller's `size` bytes
/// hold, and fills the rest of them with zeros.
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
    // SAFETY: this function's promise; the value has at least as many bytes as are read.
    unsafe {
        place.copy_from_nonoverlapping((&raw const value).cast(), known);
        place.add(known).write_bytes(0, size - known);
    }
    Ok(())
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
    unsafe { operation_of(O::OP, op.alpha(), inputs, out.cast(), n, stream) }
}

/// Runs an operation of any type. Not inlined, to keep the library small.
///
/// # Safety
/// As for every function of this module.
#[inline(never)]
unsafe fn operation_of<const COUNT: usize>(
    op: Op, alpha: u64, inputs: [*const c_void; COUNT], out: *mut c_void, n: usize,
    stream: *mut gpuvec_stream,
) -> Result<(), Error> {
    // SAFETY: this function's promise.
    unsafe { run::operation(op, alpha, &named(op, inputs), out, n, stream) }
}

/// An operation's inputs, with the arguments' names.
fn named<const COUNT: usize>(op: Op, inputs: [*const c_void; COUNT]) -> [Input; COUNT] {
    const NAMES: [&str; 2] = ["a", "b"];
    std::array::from_fn(|i| Input {
        name: NAMES[i],
        pointer: inputs[i],
        layout: Layout::contiguous(op.element_bytes()),
    })
}
