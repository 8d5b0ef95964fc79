//! The classic functions: one operation each, on ordinary arrays, done when they return.

use super::{guard, operation};
use crate::objects::stream::gpuvec_stream;
use crate::ops::{AddF32, AddI32, DotF32};

const NO_STREAM: *mut gpuvec_stream = std::ptr::null_mut();

/// Adds two `float` arrays: `out[i] = a[i] + b[i]` for `i` from 0 to `n - 1`.
///
/// Rounded to nearest as IEEE-754 says, subnormals kept; every NaN is stored as 0x7FC00000. `out`
/// may be `a` or `b` (in place), and otherwise overlaps neither.
///
/// Returns `GPUVEC_OK` when `out` holds the result, or an error. `n == 0` does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vector_add(a: *const f32, b: *const f32, out: *mut f32, n: usize) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(AddF32, [a, b], out, n, NO_STREAM) })
}

/// Adds two `int32_t` arrays: `out[i] = a[i] + b[i]`, wrapping around as two's complement does.
///
/// Otherwise as `vector_add`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn add_arrays(a: *const i32, b: *const i32, out: *mut i32, n: usize) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(AddI32, [a, b], out, n, NO_STREAM) })
}

/// The dot product of two `float` arrays: `out[0] = a[0]*b[0] + … + a[n-1]*b[n-1]`.
///
/// Products are exact and summed in `double`, in an order that depends on nothing but `n`; the sum
/// is rounded once, to `float`. So the result has the same bits on any number of threads, on the
/// CPU and on any GPU. A NaN is stored as 0x7FC00000; a sum of nothing (`n == 0`) and an exact zero
/// are +0.
///
/// `out` is one `float`; it may be `a[0]` or `b[0]`, and otherwise lies outside of both arrays.
///
/// Returns `GPUVEC_OK` when `out` holds the result, or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dot_product(a: *const f32, b: *const f32, out: *mut f32, n: usize) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(DotF32, [a, b], out, n, NO_STREAM) })
}
