//! The family's elementwise operations: `out[i]` from the inputs' elements `i`, one function for
//! each operation and type of element.

use super::{guard, operation};
use crate::objects::stream::gpuvec_stream;
use crate::ops::{
    AddF32, AddF64, AddI32, AddI64, AxpyF32, AxpyF64, DivF32, DivF64, MulF32, MulF64, MulI32,
    MulI64, ScaleF32, ScaleF64, SubF32, SubF64, SubI32, SubI64,
};

/// Adds two arrays: `out[i] = a[i] + b[i]` for `i` from 0 to `n - 1`, of `float`.
///
/// Rounded to nearest as IEEE-754 says, subnormals kept; every NaN is stored as the quiet one.
///
/// `out` may be `a` or `b` (in place), and otherwise overlaps neither. `stream` is where the work
/// is queued; with NULL it is done when the function returns. (So for the whole family.)
///
/// Returns `GPUVEC_OK`, or an error. `n == 0` does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_add_f32(
    a: *const f32,
    b: *const f32,
    out: *mut f32,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(AddF32, [a, b], out, n, stream) })
}

/// `out[i] = a[i] + b[i]` for `i` from 0 to `n - 1`, of `double`: as `gpuvec_add_f32`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_add_f64(
    a: *const f64,
    b: *const f64,
    out: *mut f64,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(AddF64, [a, b], out, n, stream) })
}

/// `out[i] = a[i] + b[i]` for `i` from 0 to `n - 1`, of `int32_t`, wrapping around: otherwise as
/// `gpuvec_add_f32`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_add_i32(
    a: *const i32,
    b: *const i32,
    out: *mut i32,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(AddI32, [a, b], out, n, stream) })
}

/// `out[i] = a[i] + b[i]` for `i` from 0 to `n - 1`, of `int64_t`, wrapping around: otherwise as
/// `gpuvec_add_f32`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_add_i64(
    a: *const i64,
    b: *const i64,
    out: *mut i64,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(AddI64, [a, b], out, n, stream) })
}

/// `out[i] = a[i] - b[i]` for `i` from 0 to `n - 1`, of `float`: as `gpuvec_add_f32`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_sub_f32(
    a: *const f32,
    b: *const f32,
    out: *mut f32,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(SubF32, [a, b], out, n, stream) })
}

/// `out[i] = a[i] - b[i]` for `i` from 0 to `n - 1`, of `double`: as `gpuvec_add_f32`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_sub_f64(
    a: *const f64,
    b: *const f64,
    out: *mut f64,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(SubF64, [a, b], out, n, stream) })
}

/// `out[i] = a[i] - b[i]` for `i` from 0 to `n - 1`, of `int32_t`, wrapping around: otherwise as
/// `gpuvec_add_f32`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_sub_i32(
    a: *const i32,
    b: *const i32,
    out: *mut i32,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(SubI32, [a, b], out, n, stream) })
}

/// `out[i] = a[i] - b[i]` for `i` from 0 to `n - 1`, of `int64_t`, wrapping around: otherwise as
/// `gpuvec_add_f32`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_sub_i64(
    a: *const i64,
    b: *const i64,
    out: *mut i64,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(SubI64, [a, b], out, n, stream) })
}

/// `out[i] = a[i] * b[i]` for `i` from 0 to `n - 1`, of `float`: as `gpuvec_add_f32`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_mul_f32(
    a: *const f32,
    b: *const f32,
    out: *mut f32,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(MulF32, [a, b], out, n, stream) })
}

/// `out[i] = a[i] * b[i]` for `i` from 0 to `n - 1`, of `double`: as `gpuvec_add_f32`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_mul_f64(
    a: *const f64,
    b: *const f64,
    out: *mut f64,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(MulF64, [a, b], out, n, stream) })
}

/// `out[i] = a[i] * b[i]` for `i` from 0 to `n - 1`, of `int32_t`, wrapping around: otherwise as
/// `gpuvec_add_f32`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_mul_i32(
    a: *const i32,
    b: *const i32,
    out: *mut i32,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(MulI32, [a, b], out, n, stream) })
}

/// `out[i] = a[i] * b[i]` for `i` from 0 to `n - 1`, of `int64_t`, wrapping around: otherwise as
/// `gpuvec_add_f32`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_mul_i64(
    a: *const i64,
    b: *const i64,
    out: *mut i64,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(MulI64, [a, b], out, n, stream) })
}

/// `out[i] = a[i] / b[i]` for `i` from 0 to `n - 1`, of `float`: as `gpuvec_add_f32`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_div_f32(
    a: *const f32,
    b: *const f32,
    out: *mut f32,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(DivF32, [a, b], out, n, stream) })
}

/// `out[i] = a[i] / b[i]` for `i` from 0 to `n - 1`, of `double`: as `gpuvec_add_f32`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_div_f64(
    a: *const f64,
    b: *const f64,
    out: *mut f64,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(DivF64, [a, b], out, n, stream) })
}

/// `out[i] = alpha * a[i]` for `i` from 0 to `n - 1`, of `float`: as `gpuvec_add_f32`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_scale_f32(
    alpha: f32,
    a: *const f32,
    out: *mut f32,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(ScaleF32(alpha), [a], out, n, stream) })
}

/// `out[i] = alpha * a[i]` for `i` from 0 to `n - 1`, of `double`: as `gpuvec_add_f32`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_scale_f64(
    alpha: f64,
    a: *const f64,
    out: *mut f64,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(ScaleF64(alpha), [a], out, n, stream) })
}

/// `out[i] = alpha * a[i] + b[i]` for `i` from 0 to `n - 1`, of `float`, rounded once (`fma`):
/// otherwise as `gpuvec_add_f32`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_axpy_f32(
    alpha: f32,
    a: *const f32,
    b: *const f32,
    out: *mut f32,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(AxpyF32(alpha), [a, b], out, n, stream) })
}

/// `out[i] = alpha * a[i] + b[i]` for `i` from 0 to `n - 1`, of `double`, rounded once (`fma`):
/// otherwise as `gpuvec_add_f32`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_axpy_f64(
    alpha: f64,
    a: *const f64,
    b: *const f64,
    out: *mut f64,
    n: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(AxpyF64(alpha), [a, b], out, n, stream) })
}
