//! Reductions: one value from all elements of the inputs, one function for each operation and
//! element type.

use super::{guard, one, reduction, two};
use crate::op::{DotF32, DotF64, DotI32, DotI64, SumF32, SumF64, SumI32, SumI64};
use crate::stream::gpuvec_stream;

/// == Reductions ==
///
/// Computes the dot product of two `float` arrays: `out[0] = a[0]*b[0] + … + a[n-1]*b[n-1]`.
///
/// Products are exact. They are summed in `double`, in an order that depends only on `n`, and the
/// sum is rounded once, to `float`. So the result has the same bits for any number of threads, on
/// the CPU and on any GPU. A NaN is stored as 0x7FC00000; an exact zero, and the result for
/// `n == 0`, is +0. `out` is one `float`; it may be `a[0]` or `b[0]`, and otherwise lies outside
/// both arrays.
///
/// With a NULL `stream` the call waits for the result; otherwise see "Streams" above.
///
/// Returns `GPUVEC_OK` or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_dot_f32(
    a: *const f32,
    b: *const f32,
    out: *mut f32,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { reduction(DotF32, two(a, b), out, n, stream) })
}

/// Computes the dot product of two `double` arrays: `out[0] = a[0]*b[0] + … + a[n-1]*b[n-1]`.
///
/// Each product is rounded to `double`. The products are summed in `double`, in an order that
/// depends only on `n`. So the result has the same bits for any number of threads, on the CPU and
/// on any GPU. A NaN is stored as 0x7FF8000000000000; an exact zero, and the result for `n == 0`,
/// is +0. `out` is one `double`; it may be `a[0]` or `b[0]`, and otherwise lies outside both
/// arrays.
///
/// With a NULL `stream` the call waits for the result; otherwise see "Streams" above.
///
/// Returns `GPUVEC_OK` or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_dot_f64(
    a: *const f64,
    b: *const f64,
    out: *mut f64,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { reduction(DotF64, two(a, b), out, n, stream) })
}

/// Computes the dot product of two `int32_t` arrays: `out[0] = a[0]*b[0] + … + a[n-1]*b[n-1]`.
///
/// Products are exact; their sum wraps around in `int64_t`. The result for `n == 0` is 0. `out` is
/// one `int64_t` outside both arrays.
///
/// With a NULL `stream` the call waits for the result; otherwise see "Streams" above.
///
/// Returns `GPUVEC_OK` or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_dot_i32(
    a: *const i32,
    b: *const i32,
    out: *mut i64,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { reduction(DotI32, two(a, b), out, n, stream) })
}

/// Computes the dot product of two `int64_t` arrays: `out[0] = a[0]*b[0] + … + a[n-1]*b[n-1]`.
///
/// Products and their sum wrap around. The result for `n == 0` is 0. `out` is one `int64_t`; it may
/// be `a[0]` or `b[0]`, and otherwise lies outside both arrays.
///
/// With a NULL `stream` the call waits for the result; otherwise see "Streams" above.
///
/// Returns `GPUVEC_OK` or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_dot_i64(
    a: *const i64,
    b: *const i64,
    out: *mut i64,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { reduction(DotI64, two(a, b), out, n, stream) })
}

/// Sums a `float` array: `out[0] = a[0] + … + a[n-1]`.
///
/// Elements are summed in `double`, in an order that depends only on `n`, and the sum is rounded
/// once, to `float`. So the result has the same bits for any number of threads, on the CPU and on
/// any GPU. A NaN is stored as 0x7FC00000; an exact zero, and the result for `n == 0`, is +0. `out`
/// is one `float`; it may be `a[0]`, and otherwise lies outside the array.
///
/// With a NULL `stream` the call waits for the result; otherwise see "Streams" above.
///
/// Returns `GPUVEC_OK` or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_sum_f32(
    a: *const f32,
    out: *mut f32,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { reduction(SumF32, one(a), out, n, stream) })
}

/// Sums a `double` array: `out[0] = a[0] + … + a[n-1]`.
///
/// Elements are summed in `double`, in an order that depends only on `n`. So the result has the
/// same bits for any number of threads, on the CPU and on any GPU. A NaN is stored as
/// 0x7FF8000000000000; an exact zero, and the result for `n == 0`, is +0. `out` is one `double`; it
/// may be `a[0]`, and otherwise lies outside the array.
///
/// With a NULL `stream` the call waits for the result; otherwise see "Streams" above.
///
/// Returns `GPUVEC_OK` or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_sum_f64(
    a: *const f64,
    out: *mut f64,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { reduction(SumF64, one(a), out, n, stream) })
}

/// Sums an `int32_t` array: `out[0] = a[0] + … + a[n-1]`.
///
/// The sum wraps around in `int64_t`. The result for `n == 0` is 0. `out` is one `int64_t` outside
/// the array.
///
/// With a NULL `stream` the call waits for the result; otherwise see "Streams" above.
///
/// Returns `GPUVEC_OK` or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_sum_i32(
    a: *const i32,
    out: *mut i64,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { reduction(SumI32, one(a), out, n, stream) })
}

/// Sums an `int64_t` array: `out[0] = a[0] + … + a[n-1]`.
///
/// The sum wraps around. The result for `n == 0` is 0. `out` is one `int64_t`; it may be `a[0]`,
/// and otherwise lies outside the array.
///
/// With a NULL `stream` the call waits for the result; otherwise see "Streams" above.
///
/// Returns `GPUVEC_OK` or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_sum_i64(
    a: *const i64,
    out: *mut i64,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { reduction(SumI64, one(a), out, n, stream) })
}
