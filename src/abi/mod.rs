//! The exported functions. Each is written out by hand, since the header is made from it: a
//! signature, its contract, and one call through the `guard`. No logic is here.
//!
//! # Safety
//! Every function trusts its caller for what no library can check: that a pointer leads to `n`
//! elements of its type (`out` writable), of host memory or of memory that the driver knows, and
//! that nobody changes or frees them during the call. Everything else is checked.

#![expect(clippy::missing_safety_doc, reason = "the header says it once, for all functions")]

// In the order that the header has them.
pub mod classic;

pub mod memory;

pub mod library;

mod guard;

use crate::error::Error;
use crate::op::{Elementwise, Reduction};
use crate::{check, run, settings};

/// # Safety
/// As for every function of this module.
unsafe fn elementwise<O: Elementwise>(
    op: O,
    a: *const O::Element,
    b: *const O::Element,
    out: *mut O::Element,
    n: usize,
) -> Result<(), Error> {
    let placement = settings::checked_placement()?;
    match check::elementwise::<O>(placement, a, b, out, n)? {
        // SAFETY: this function's promise.
        Some(call) => unsafe { run::elementwise(op, placement, &call) },
        None => Ok(()),
    }
}

/// # Safety
/// As for every function of this module.
unsafe fn reduction<O: Reduction>(
    op: O,
    a: *const O::Element,
    b: *const O::Element,
    out: *mut O::Element,
    n: usize,
) -> Result<(), Error> {
    let placement = settings::checked_placement()?;
    if n > 0 {
        let call = check::reduction::<O>(placement, a, b, out, n)?;
        // SAFETY: this function's promise.
        return unsafe { run::reduction(op, placement, &call) };
    }
    match check::empty_reduction(placement, out)? {
        // SAFETY: this function's promise.
        Some(output) => unsafe { run::empty_reduction(op, &output) },
        None => Ok(()),
    }
}
