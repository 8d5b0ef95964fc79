//! The classic functions, which have short names: operations without a stream, and pinned memory.

use super::{Status, guard, operation};
use crate::objects::allocation::{self, PINNED};
use crate::objects::stream::gpuvec_stream;
use gpuvec_ops::{AddF32, AddI32, DotF32};
use std::ffi::c_void;

const NO_STREAM: *mut gpuvec_stream = std::ptr::null_mut();

/// == Classic functions ==
///
/// Adds two `float` arrays: `out[i] = a[i] + b[i]` for `i` from 0 to `n - 1`.
///
/// Each element is rounded to nearest (IEEE 754), subnormals included; a NaN is stored as
/// 0x7FC00000. `out` may be `a` or `b` (in place); any other overlap with them is an error.
/// `n == 0` does nothing. Returns `GPUVEC_OK` when `out` holds the result, or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vector_add(
    a: *const f32, b: *const f32, out: *mut f32, n: usize,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(AddF32, [a, b], out, n, NO_STREAM) })
}

/// Adds two `int32_t` arrays: `out[i] = a[i] + b[i]` for `i` from 0 to `n - 1`.
///
/// Sums wrap around (two's complement). `out` may be `a` or `b` (in place); any other overlap with
/// them is an error. `n == 0` does nothing. Returns `GPUVEC_OK` when `out` holds the result, or an
/// error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn add_arrays(
    a: *const i32, b: *const i32, out: *mut i32, n: usize,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(AddI32, [a, b], out, n, NO_STREAM) })
}

/// Computes the dot product of two `float` arrays: `out[0] = a[0]*b[0] + … + a[n-1]*b[n-1]`.
///
/// The exact sum of the exact products is rounded once, to `float` (see "Results"). A NaN is stored
/// as 0x7FC00000; an exact zero, and the result for `n == 0`, is +0. `out` is one `float`; it may
/// be `a[0]` or `b[0]`, and otherwise lies outside both arrays. Returns `GPUVEC_OK` when `out`
/// holds the result, or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dot_product(
    a: *const f32, b: *const f32, out: *mut f32, n: usize,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(DotF32, [a, b], out, n, NO_STREAM) })
}

/// Allocates pinned memory: `gpuvec_pinned_alloc`.
#[unsafe(no_mangle)]
pub extern "C" fn pinned_alloc(bytes: usize) -> *mut c_void {
    guard::call(|| allocation::pinned_alloc(bytes).map(|address| address.as_ptr()))
}

/// Frees pinned memory: `gpuvec_pinned_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinned_free(ptr: *mut c_void) -> Status {
    // SAFETY: the caller promises that nothing uses the memory any more.
    guard::call(|| unsafe { allocation::free(ptr, PINNED) }.map(|()| 0))
}
