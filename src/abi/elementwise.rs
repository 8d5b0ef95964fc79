//! # Elementwise operations
//!
//! `gpuvec_<operation>_<type>(inputs…, out, n, stream)` computes `out[i]` from element `i` of each input, for
//! `i` from 0 to `n - 1`. The types are f32 (`float`), f64 (`double`), i32 (`int32_t`) and i64 (`int64_t`).
//!
//! Floating-point elements are rounded to nearest once (IEEE 754), subnormals included; a NaN is stored as
//! 0x7FC00000 (`float`) or 0x7FF8000000000000 (`double`). Integers wrap around (two's complement).
//!
//! `out` may be exactly one of the inputs (in place); any other overlap with an input is an error. `n == 0`
//! does nothing. With a NULL `stream` the call waits for the result (see "Streams"). The functions return
//! `GPUVEC_OK` or an error.
//!
//! ```c
//! double x[3] = {1, 2, 3}, y[3] = {0.5, 0.5, 0.5};
//! if (gpuvec_axpy_f64(10, x, y, y, 3, NULL) == GPUVEC_OK) { // y = 10 * x + y
//!     printf("%g %g %g\n", y[0], y[1], y[2]); // 10.5 20.5 30.5
//! }
//! ```

use super::{Status, guard, operation};
use crate::objects::stream::gpuvec_stream;
use gpuvec_ops::{
    AddF32, AddF64, AddI32, AddI64, AxpyF32, AxpyF64, DivF32, DivF64, MulF32, MulF64, MulI32,
    MulI64, ScaleF32, ScaleF64, SubF32, SubF64, SubI32, SubI64,
};

/// Adds: `out[i] = a[i] + b[i]`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_add_f32(
    a: *const f32, b: *const f32, out: *mut f32, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(AddF32, [a, b], out, n, stream) })
}

/// Adds: `out[i] = a[i] + b[i]`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_add_f64(
    a: *const f64, b: *const f64, out: *mut f64, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(AddF64, [a, b], out, n, stream) })
}

/// Adds: `out[i] = a[i] + b[i]`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_add_i32(
    a: *const i32, b: *const i32, out: *mut i32, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(AddI32, [a, b], out, n, stream) })
}

/// Adds: `out[i] = a[i] + b[i]`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_add_i64(
    a: *const i64, b: *const i64, out: *mut i64, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(AddI64, [a, b], out, n, stream) })
}

/// Subtracts: `out[i] = a[i] - b[i]`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_sub_f32(
    a: *const f32, b: *const f32, out: *mut f32, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(SubF32, [a, b], out, n, stream) })
}

/// Subtracts: `out[i] = a[i] - b[i]`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_sub_f64(
    a: *const f64, b: *const f64, out: *mut f64, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(SubF64, [a, b], out, n, stream) })
}

/// Subtracts: `out[i] = a[i] - b[i]`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_sub_i32(
    a: *const i32, b: *const i32, out: *mut i32, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(SubI32, [a, b], out, n, stream) })
}

/// Subtracts: `out[i] = a[i] - b[i]`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_sub_i64(
    a: *const i64, b: *const i64, out: *mut i64, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(SubI64, [a, b], out, n, stream) })
}

/// Multiplies: `out[i] = a[i] * b[i]`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_mul_f32(
    a: *const f32, b: *const f32, out: *mut f32, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(MulF32, [a, b], out, n, stream) })
}

/// Multiplies: `out[i] = a[i] * b[i]`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_mul_f64(
    a: *const f64, b: *const f64, out: *mut f64, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(MulF64, [a, b], out, n, stream) })
}

/// Multiplies: `out[i] = a[i] * b[i]`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_mul_i32(
    a: *const i32, b: *const i32, out: *mut i32, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(MulI32, [a, b], out, n, stream) })
}

/// Multiplies: `out[i] = a[i] * b[i]`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_mul_i64(
    a: *const i64, b: *const i64, out: *mut i64, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(MulI64, [a, b], out, n, stream) })
}

/// Divides: `out[i] = a[i] / b[i]`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_div_f32(
    a: *const f32, b: *const f32, out: *mut f32, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(DivF32, [a, b], out, n, stream) })
}

/// Divides: `out[i] = a[i] / b[i]`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_div_f64(
    a: *const f64, b: *const f64, out: *mut f64, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(DivF64, [a, b], out, n, stream) })
}

/// Multiplies by a number: `out[i] = alpha * a[i]`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_scale_f32(
    alpha: f32, a: *const f32, out: *mut f32, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(ScaleF32(alpha), [a], out, n, stream) })
}

/// Multiplies by a number: `out[i] = alpha * a[i]`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_scale_f64(
    alpha: f64, a: *const f64, out: *mut f64, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(ScaleF64(alpha), [a], out, n, stream) })
}

/// Adds a multiple: `out[i] = alpha * a[i] + b[i]`. Each element is rounded once, as by `fma`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_axpy_f32(
    alpha: f32, a: *const f32, b: *const f32, out: *mut f32, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(AxpyF32(alpha), [a, b], out, n, stream) })
}

/// Adds a multiple: `out[i] = alpha * a[i] + b[i]`. Each element is rounded once, as by `fma`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_axpy_f64(
    alpha: f64, a: *const f64, b: *const f64, out: *mut f64, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(AxpyF64(alpha), [a, b], out, n, stream) })
}
