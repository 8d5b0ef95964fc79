//! The family's reductions: one value from all elements of the inputs, one function for each
//! operation and type of element.

use super::{guard, operation};
use crate::objects::stream::gpuvec_stream;
use crate::ops::{
    DotF32, DotF64, DotI32, DotI64, MaxF32, MaxF64, MaxI32, MaxI64, MinF32, MinF64, MinI32, MinI64,
    SumF32, SumF64, SumI32, SumI64,
};

/// The dot product of two `float` arrays: `out[0] = a[0]*b[0] + … + a[n-1]*b[n-1]`.
///
/// Products are exact and summed in `double`, in an order that depends on nothing but `n`; the sum
/// is rounded once. So the result has the same bits on any number of threads, on the CPU and on any
/// GPU. A NaN is stored as the quiet one; a sum of nothing (`n == 0`) and an exact zero are +0.
///
/// `out` is one value; it may be `a[0]` or `b[0]`, and otherwise lies outside of both arrays.
///
/// Returns `GPUVEC_OK`, or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_dot_f32(
    a: *const f32,
    b: *const f32,
    out: *mut f32,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(DotF32, [a, b], out, n, stream) })
}

/// The dot product of two `double` arrays: each product is rounded, and they are summed in `double`
/// in an order that depends on nothing but `n`. Otherwise as `gpuvec_dot_f32`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_dot_f64(
    a: *const f64,
    b: *const f64,
    out: *mut f64,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(DotF64, [a, b], out, n, stream) })
}

/// The dot product of two `int32_t` arrays: products are exact, their sum wraps around in
/// `int64_t`. `out` lies outside of both arrays. Otherwise as `gpuvec_dot_f32`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_dot_i32(
    a: *const i32,
    b: *const i32,
    out: *mut i64,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(DotI32, [a, b], out, n, stream) })
}

/// The dot product of two `int64_t` arrays; products and their sum wrap around. Otherwise as
/// `gpuvec_dot_f32`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_dot_i64(
    a: *const i64,
    b: *const i64,
    out: *mut i64,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(DotI64, [a, b], out, n, stream) })
}

/// The sum of a `float` array: `out[0] = a[0] + … + a[n-1]`, summed in `double` and rounded once.
/// Otherwise as `gpuvec_dot_f32`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_sum_f32(
    a: *const f32,
    out: *mut f32,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(SumF32, [a], out, n, stream) })
}

/// The sum of a `double` array, in an order that depends on nothing but `n`. Otherwise as
/// `gpuvec_dot_f32`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_sum_f64(
    a: *const f64,
    out: *mut f64,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(SumF64, [a], out, n, stream) })
}

/// The sum of an `int32_t` array, which wraps around in `int64_t`. `out` lies outside of the array.
/// Otherwise as `gpuvec_dot_f32`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_sum_i32(
    a: *const i32,
    out: *mut i64,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(SumI32, [a], out, n, stream) })
}

/// The sum of an `int64_t` array, which wraps around. Otherwise as `gpuvec_dot_f32`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_sum_i64(
    a: *const i64,
    out: *mut i64,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(SumI64, [a], out, n, stream) })
}

/// Stores the smallest element of a `float` array in `out[0]`.
///
/// As IEEE 754-2019's minimum (section 9.6): a NaN among the elements makes the result the quiet NaN,
/// and -0 is below +0.
/// The result has the same bits on any number of threads, on the CPU and on any GPU. With `n == 0` there
/// is no result: the function fails with `GPUVEC_ERROR_EMPTY` and writes nothing.
///
/// `out` is one `float`; it may be `a[0]`, and otherwise lies outside of the array. `stream` is where the
/// work is queued; with NULL the function returns when the work is done.
///
/// Returns `GPUVEC_OK`, or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_min_f32(
    a: *const f32,
    out: *mut f32,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(MinF32, [a], out, n, stream) })
}

/// Stores the smallest element of a `double` array in `out[0]`.
///
/// As IEEE 754-2019's minimum (section 9.6): a NaN among the elements makes the result the quiet NaN,
/// and -0 is below +0.
/// The result has the same bits on any number of threads, on the CPU and on any GPU. With `n == 0` there
/// is no result: the function fails with `GPUVEC_ERROR_EMPTY` and writes nothing.
///
/// `out` is one `double`; it may be `a[0]`, and otherwise lies outside of the array. `stream` is where the
/// work is queued; with NULL the function returns when the work is done.
///
/// Returns `GPUVEC_OK`, or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_min_f64(
    a: *const f64,
    out: *mut f64,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(MinF64, [a], out, n, stream) })
}

/// Stores the smallest element of a `int32_t` array in `out[0]`.
///
/// The result has the same bits on any number of threads, on the CPU and on any GPU. With `n == 0` there
/// is no result: the function fails with `GPUVEC_ERROR_EMPTY` and writes nothing.
///
/// `out` is one `int32_t`; it may be `a[0]`, and otherwise lies outside of the array. `stream` is where the
/// work is queued; with NULL the function returns when the work is done.
///
/// Returns `GPUVEC_OK`, or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_min_i32(
    a: *const i32,
    out: *mut i32,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(MinI32, [a], out, n, stream) })
}

/// Stores the smallest element of a `int64_t` array in `out[0]`.
///
/// The result has the same bits on any number of threads, on the CPU and on any GPU. With `n == 0` there
/// is no result: the function fails with `GPUVEC_ERROR_EMPTY` and writes nothing.
///
/// `out` is one `int64_t`; it may be `a[0]`, and otherwise lies outside of the array. `stream` is where the
/// work is queued; with NULL the function returns when the work is done.
///
/// Returns `GPUVEC_OK`, or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_min_i64(
    a: *const i64,
    out: *mut i64,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(MinI64, [a], out, n, stream) })
}

/// Stores the largest element of a `float` array in `out[0]`.
///
/// As IEEE 754-2019's maximum (section 9.6): a NaN among the elements makes the result the quiet NaN,
/// and -0 is below +0.
/// The result has the same bits on any number of threads, on the CPU and on any GPU. With `n == 0` there
/// is no result: the function fails with `GPUVEC_ERROR_EMPTY` and writes nothing.
///
/// `out` is one `float`; it may be `a[0]`, and otherwise lies outside of the array. `stream` is where the
/// work is queued; with NULL the function returns when the work is done.
///
/// Returns `GPUVEC_OK`, or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_max_f32(
    a: *const f32,
    out: *mut f32,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(MaxF32, [a], out, n, stream) })
}

/// Stores the largest element of a `double` array in `out[0]`.
///
/// As IEEE 754-2019's maximum (section 9.6): a NaN among the elements makes the result the quiet NaN,
/// and -0 is below +0.
/// The result has the same bits on any number of threads, on the CPU and on any GPU. With `n == 0` there
/// is no result: the function fails with `GPUVEC_ERROR_EMPTY` and writes nothing.
///
/// `out` is one `double`; it may be `a[0]`, and otherwise lies outside of the array. `stream` is where the
/// work is queued; with NULL the function returns when the work is done.
///
/// Returns `GPUVEC_OK`, or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_max_f64(
    a: *const f64,
    out: *mut f64,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(MaxF64, [a], out, n, stream) })
}

/// Stores the largest element of a `int32_t` array in `out[0]`.
///
/// The result has the same bits on any number of threads, on the CPU and on any GPU. With `n == 0` there
/// is no result: the function fails with `GPUVEC_ERROR_EMPTY` and writes nothing.
///
/// `out` is one `int32_t`; it may be `a[0]`, and otherwise lies outside of the array. `stream` is where the
/// work is queued; with NULL the function returns when the work is done.
///
/// Returns `GPUVEC_OK`, or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_max_i32(
    a: *const i32,
    out: *mut i32,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(MaxI32, [a], out, n, stream) })
}

/// Stores the largest element of a `int64_t` array in `out[0]`.
///
/// The result has the same bits on any number of threads, on the CPU and on any GPU. With `n == 0` there
/// is no result: the function fails with `GPUVEC_ERROR_EMPTY` and writes nothing.
///
/// `out` is one `int64_t`; it may be `a[0]`, and otherwise lies outside of the array. `stream` is where the
/// work is queued; with NULL the function returns when the work is done.
///
/// Returns `GPUVEC_OK`, or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_max_i64(
    a: *const i64,
    out: *mut i64,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(MaxI64, [a], out, n, stream) })
}
