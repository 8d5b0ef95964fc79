//! Reductions: one value from all elements of the inputs, one function for each operation and
//! element type.

use super::{Status, guard, operation};
use crate::objects::stream::gpuvec_stream;
use gpuvec_ops::{
    DotF32, DotF64, DotI32, DotI64, MaxF32, MaxF64, MaxI32, MaxI64, MinF32, MinF64, MinI32, MinI64,
    SumF32, SumF64, SumI32, SumI64,
};

/// == Reductions ==
///
/// Computes the dot product of two `float` arrays: `out[0] = a[0]*b[0] + … + a[n-1]*b[n-1]`.
///
/// The exact sum of the exact products is rounded once, to `float` (see "Results"). A NaN is stored
/// as 0x7FC00000; an exact zero, and the result for `n == 0`, is +0. `out` is one `float`; it may
/// be `a[0]` or `b[0]`, and otherwise lies outside both arrays. With a NULL `stream` the call waits
/// for the result (see "Streams"). Returns `GPUVEC_OK` or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_dot_f32(
    a: *const f32, b: *const f32, out: *mut f32, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(DotF32, [a, b], out, n, stream) })
}

/// Computes the dot product of two `double` arrays: `out[0] = a[0]*b[0] + … + a[n-1]*b[n-1]`.
///
/// The exact sum of the exact products is rounded once, to `double` (see "Results"). A NaN is
/// stored as 0x7FF8000000000000; an exact zero, and the result for `n == 0`, is +0. `out` is one
/// `double`; it may be `a[0]` or `b[0]`, and otherwise lies outside both arrays. With a NULL
/// `stream` the call waits for the result (see "Streams"). Returns `GPUVEC_OK` or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_dot_f64(
    a: *const f64, b: *const f64, out: *mut f64, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(DotF64, [a, b], out, n, stream) })
}

/// Computes the dot product of two `int32_t` arrays: `out[0] = a[0]*b[0] + … + a[n-1]*b[n-1]`.
///
/// Products are exact; their sum wraps around in `int64_t`. The result for `n == 0` is 0. `out` is
/// one `int64_t` outside both arrays. With a NULL `stream` the call waits for the result (see
/// "Streams"). Returns `GPUVEC_OK` or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_dot_i32(
    a: *const i32, b: *const i32, out: *mut i64, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(DotI32, [a, b], out, n, stream) })
}

/// Computes the dot product of two `int64_t` arrays: `out[0] = a[0]*b[0] + … + a[n-1]*b[n-1]`.
///
/// Products and their sum wrap around. The result for `n == 0` is 0. `out` is one `int64_t`; it may
/// be `a[0]` or `b[0]`, and otherwise lies outside both arrays. With a NULL `stream` the call waits
/// for the result (see "Streams"). Returns `GPUVEC_OK` or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_dot_i64(
    a: *const i64, b: *const i64, out: *mut i64, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(DotI64, [a, b], out, n, stream) })
}

/// Sums a `float` array: `out[0] = a[0] + … + a[n-1]`.
///
/// The exact sum is rounded once, to `float` (see "Results"). A NaN is stored as 0x7FC00000; an
/// exact zero, and the result for `n == 0`, is +0. `out` is one `float`; it may be `a[0]`, and
/// otherwise lies outside the array. With a NULL `stream` the call waits for the result (see
/// "Streams"). Returns `GPUVEC_OK` or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_sum_f32(
    a: *const f32, out: *mut f32, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(SumF32, [a], out, n, stream) })
}

/// Sums a `double` array: `out[0] = a[0] + … + a[n-1]`.
///
/// The exact sum is rounded once, to `double` (see "Results"). A NaN is stored as
/// 0x7FF8000000000000; an exact zero, and the result for `n == 0`, is +0. `out` is one `double`; it
/// may be `a[0]`, and otherwise lies outside the array. With a NULL `stream` the call waits for the
/// result (see "Streams"). Returns `GPUVEC_OK` or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_sum_f64(
    a: *const f64, out: *mut f64, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(SumF64, [a], out, n, stream) })
}

/// Sums an `int32_t` array: `out[0] = a[0] + … + a[n-1]`.
///
/// The sum wraps around in `int64_t`. The result for `n == 0` is 0. `out` is one `int64_t` outside
/// the array. With a NULL `stream` the call waits for the result (see "Streams"). Returns
/// `GPUVEC_OK` or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_sum_i32(
    a: *const i32, out: *mut i64, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(SumI32, [a], out, n, stream) })
}

/// Sums an `int64_t` array: `out[0] = a[0] + … + a[n-1]`.
///
/// The sum wraps around. The result for `n == 0` is 0. `out` is one `int64_t`; it may be `a[0]`,
/// and otherwise lies outside the array. With a NULL `stream` the call waits for the result (see
/// "Streams"). Returns `GPUVEC_OK` or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_sum_i64(
    a: *const i64, out: *mut i64, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(SumI64, [a], out, n, stream) })
}

/// Stores the smallest element of a `float` array in `out[0]`.
///
/// Follows IEEE 754-2019's minimum: -0 is less than +0, and a NaN among the elements makes the
/// result 0x7FC00000. So the result has the same bits for any number of threads, on the CPU and on
/// any GPU. `out` is one `float`; it may be `a[0]`, and otherwise lies outside the array. No
/// elements have no minimum: for `n == 0` the call returns `GPUVEC_ERROR_EMPTY` and writes nothing.
/// With a NULL `stream` the call waits for the result (see "Streams"). Returns `GPUVEC_OK` or an
/// error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_min_f32(
    a: *const f32, out: *mut f32, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(MinF32, [a], out, n, stream) })
}

/// Stores the smallest element of a `double` array in `out[0]`.
///
/// Follows IEEE 754-2019's minimum: -0 is less than +0, and a NaN among the elements makes the
/// result 0x7FF8000000000000. So the result has the same bits for any number of threads, on the CPU
/// and on any GPU. `out` is one `double`; it may be `a[0]`, and otherwise lies outside the array.
/// No elements have no minimum: for `n == 0` the call returns `GPUVEC_ERROR_EMPTY` and writes
/// nothing. With a NULL `stream` the call waits for the result (see "Streams"). Returns `GPUVEC_OK`
/// or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_min_f64(
    a: *const f64, out: *mut f64, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(MinF64, [a], out, n, stream) })
}

/// Stores the smallest element of an `int32_t` array in `out[0]`.
///
/// `out` is one `int32_t`; it may be `a[0]`, and otherwise lies outside the array. No elements have
/// no minimum: for `n == 0` the call returns `GPUVEC_ERROR_EMPTY` and writes nothing. With a NULL
/// `stream` the call waits for the result (see "Streams"). Returns `GPUVEC_OK` or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_min_i32(
    a: *const i32, out: *mut i32, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(MinI32, [a], out, n, stream) })
}

/// Stores the smallest element of an `int64_t` array in `out[0]`.
///
/// `out` is one `int64_t`; it may be `a[0]`, and otherwise lies outside the array. No elements have
/// no minimum: for `n == 0` the call returns `GPUVEC_ERROR_EMPTY` and writes nothing. With a NULL
/// `stream` the call waits for the result (see "Streams"). Returns `GPUVEC_OK` or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_min_i64(
    a: *const i64, out: *mut i64, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(MinI64, [a], out, n, stream) })
}

/// Stores the largest element of a `float` array in `out[0]`.
///
/// Follows IEEE 754-2019's maximum: -0 is less than +0, and a NaN among the elements makes the
/// result 0x7FC00000. So the result has the same bits for any number of threads, on the CPU and on
/// any GPU. `out` is one `float`; it may be `a[0]`, and otherwise lies outside the array. No
/// elements have no maximum: for `n == 0` the call returns `GPUVEC_ERROR_EMPTY` and writes nothing.
/// With a NULL `stream` the call waits for the result (see "Streams"). Returns `GPUVEC_OK` or an
/// error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_max_f32(
    a: *const f32, out: *mut f32, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(MaxF32, [a], out, n, stream) })
}

/// Stores the largest element of a `double` array in `out[0]`.
///
/// Follows IEEE 754-2019's maximum: -0 is less than +0, and a NaN among the elements makes the
/// result 0x7FF8000000000000. So the result has the same bits for any number of threads, on the CPU
/// and on any GPU. `out` is one `double`; it may be `a[0]`, and otherwise lies outside the array.
/// No elements have no maximum: for `n == 0` the call returns `GPUVEC_ERROR_EMPTY` and writes
/// nothing. With a NULL `stream` the call waits for the result (see "Streams"). Returns `GPUVEC_OK`
/// or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_max_f64(
    a: *const f64, out: *mut f64, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(MaxF64, [a], out, n, stream) })
}

/// Stores the largest element of an `int32_t` array in `out[0]`.
///
/// `out` is one `int32_t`; it may be `a[0]`, and otherwise lies outside the array. No elements have
/// no maximum: for `n == 0` the call returns `GPUVEC_ERROR_EMPTY` and writes nothing. With a NULL
/// `stream` the call waits for the result (see "Streams"). Returns `GPUVEC_OK` or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_max_i32(
    a: *const i32, out: *mut i32, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(MaxI32, [a], out, n, stream) })
}

/// Stores the largest element of an `int64_t` array in `out[0]`.
///
/// `out` is one `int64_t`; it may be `a[0]`, and otherwise lies outside the array. No elements have
/// no maximum: for `n == 0` the call returns `GPUVEC_ERROR_EMPTY` and writes nothing. With a NULL
/// `stream` the call waits for the result (see "Streams"). Returns `GPUVEC_OK` or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_max_i64(
    a: *const i64, out: *mut i64, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(MaxI64, [a], out, n, stream) })
}
