//! The family's reductions: one value from all elements of the inputs, one function for each
//! operation and type of element.

use super::{guard, one, reduction, two};
use crate::op::{DotF32, DotF64, DotI32, DotI64, SumF32, SumF64, SumI32, SumI64};
use crate::stream::gpuvec_stream;

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
    guard::operation(|| unsafe { reduction(DotF32, two(a, b), out, n, stream) })
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
    guard::operation(|| unsafe { reduction(DotF64, two(a, b), out, n, stream) })
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
    guard::operation(|| unsafe { reduction(DotI32, two(a, b), out, n, stream) })
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
    guard::operation(|| unsafe { reduction(DotI64, two(a, b), out, n, stream) })
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
    guard::operation(|| unsafe { reduction(SumF32, one(a), out, n, stream) })
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
    guard::operation(|| unsafe { reduction(SumF64, one(a), out, n, stream) })
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
    guard::operation(|| unsafe { reduction(SumI32, one(a), out, n, stream) })
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
    guard::operation(|| unsafe { reduction(SumI64, one(a), out, n, stream) })
}
