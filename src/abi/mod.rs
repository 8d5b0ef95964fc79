//! The exported functions. Each is written out by hand, since the header is made from it: a
//! signature, its contract, and one call through the `guard`. No logic is here.
//!
//! # Safety
//! Every function trusts its caller for what no library can check: that a pointer leads to `n`
//! elements of its type (`out` writable), of host memory or of memory that the driver knows, and
//! that nobody changes or frees them during the call. Everything else is checked.

#![expect(clippy::missing_safety_doc, reason = "the header says it once, for all functions")]

// In the header's order.
pub mod errors;

pub mod classic;

pub mod elementwise;

pub mod reduce;

pub mod memory;

pub mod stream;

pub mod library;

mod guard;

use crate::check::Inputs;
use crate::error::Error;
use crate::op::{Elementwise, Reduction};
use crate::settings::Placement;
use crate::stream::{Stream, given, gpuvec_stream};
use crate::{check, run, settings};
use std::ffi::c_void;
use std::sync::Arc;

/// The input array of an operation that has one.
fn one<T>(a: *const T) -> [Option<*const T>; 2] {
    [Some(a), None]
}

/// The input arrays of an operation that has two.
fn two<T>(a: *const T, b: *const T) -> [Option<*const T>; 2] {
    [Some(a), Some(b)]
}

/// Where a call is to run: the placement in force, and the stream that the caller gave.
#[inline(never)]
fn chosen(stream: *mut gpuvec_stream) -> Result<(Placement, Option<Arc<Stream>>), Error> {
    Ok((settings::placement()?, given(stream)?))
}

/// # Safety
/// As for every function of this module.
unsafe fn elementwise<O: Elementwise>(
    op: O,
    inputs: Inputs<O>,
    out: *mut O::Element,
    n: usize,
    stream: *mut gpuvec_stream,
) -> Result<(), Error> {
    let (placement, stream) = chosen(stream)?;
    if n == 0 {
        return Ok(());
    }
    let call = check::elementwise(op, placement, inputs, out, n)?;
    // SAFETY: this function's promise.
    unsafe { run::elementwise(op, placement, stream.as_deref(), &call) }
}

/// # Safety
/// As for every function of this module.
unsafe fn reduction<O: Reduction>(
    op: O,
    inputs: Inputs<O>,
    out: *mut O::Output,
    n: usize,
    stream: *mut gpuvec_stream,
) -> Result<(), Error> {
    let (placement, stream) = chosen(stream)?;
    if n > 0 {
        let call = check::reduction(op, placement, inputs, out, n)?;
        // SAFETY: this function's promise.
        return unsafe { run::reduction(op, placement, stream.as_deref(), &call) };
    }
    match check::empty_reduction(placement, out)? {
        // SAFETY: this function's promise.
        Some(output) => unsafe { run::empty_reduction(op, stream.as_deref(), &output) },
        None => Ok(()),
    }
}

/// # Safety
/// As for every function of this module.
unsafe fn copy(
    dst: *mut c_void,
    src: *const c_void,
    bytes: usize,
    stream: *mut gpuvec_stream,
) -> Result<(), Error> {
    let (placement, stream) = chosen(stream)?;
    match check::copy(placement, dst, src, bytes)? {
        // SAFETY: this function's promise.
        Some(call) => unsafe { run::copy(placement, stream.as_deref(), &call) },
        None => Ok(()),
    }
}
