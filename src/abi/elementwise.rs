//! The family's elementwise operations: `out[i]` from the inputs' elements `i`, one function for
//! each operation and type of element.

use super::{elementwise, guard, one, two};
use crate::op::{
    AddF32, AddF64, AddI32, AddI64, AxpyF32, AxpyF64, DivF32, DivF64, MulF32, MulF64, MulI32,
    MulI64, ScaleF32, ScaleF64, SubF32, SubF64, SubI32, SubI64,
};
use crate::stream::gpuvec_stream;

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
    guard::operation(|| unsafe { elementwise(AddF32, two(a, b), out, n, stream) })
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
    guard::operation(|| unsafe { elementwise(AddF64, two(a, b), out, n, stream) })
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
    guard::operation(|| unsafe { elementwise(AddI32, two(a, b), out, n, stream) })
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
    guard::operation(|| unsafe { elementwise(AddI64, two(a, b), out, n, stream) })
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
    guard::operation(|| unsafe { elementwise(SubF32, two(a, b), out, n, stream) })
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
    guard::operation(|| unsafe { elementwise(SubF64, two(a, b), out, n, stream) })
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
    guard::operation(|| unsafe { elementwise(SubI32, two(a, b), out, n, stream) })
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
    guard::operation(|| unsafe { elementwise(SubI64, two(a, b), out, n, stream) })
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
    guard::operation(|| unsafe { elementwise(MulF32, two(a, b), out, n, stream) })
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
    guard::operation(|| unsafe { elementwise(MulF64, two(a, b), out, n, stream) })
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
    guard::operation(|| unsafe { elementwise(MulI32, two(a, b), out, n, stream) })
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
    guard::operation(|| unsafe { elementwise(MulI64, two(a, b), out, n, stream) })
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
    guard::operation(|| unsafe { elementwise(DivF32, two(a, b), out, n, stream) })
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
    guard::operation(|| unsafe { elementwise(DivF64, two(a, b), out, n, stream) })
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
    guard::operation(|| unsafe { elementwise(ScaleF32(alpha), one(a), out, n, stream) })
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
    guard::operation(|| unsafe { elementwise(ScaleF64(alpha), one(a), out, n, stream) })
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
    guard::operation(|| unsafe { elementwise(AxpyF32(alpha), two(a, b), out, n, stream) })
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
    guard::operation(|| unsafe { elementwise(AxpyF64(alpha), two(a, b), out, n, stream) })
}
