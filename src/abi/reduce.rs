//! # Reductions
//!
//! `gpuvec_<operation>_<type>(inputs…, out, n, stream)` stores one value of all elements of the inputs in
//! `out[0]`. The types are f32 (`float`), f64 (`double`), i32 (`int32_t`) and i64 (`int64_t`).
//!
//! `dot` and `sum` of floats are exact: the sum of all elements or exact products is rounded once, to the type
//! of `out` (see "Results"). A NaN is stored as 0x7FC00000 (`float`) or 0x7FF8000000000000 (`double`); an exact
//! zero, and the result for `n == 0`, is +0. `dot` and `sum` of integers are an `int64_t` that wraps around; the
//! result for `n == 0` is 0. Accumulators compute exact sums in parts.
//!
//! `min` and `max` of floats follow IEEE 754-2019's minimum and maximum: -0 is less than +0, and a NaN among
//! the elements makes the result the NaN above. So the result has the same bits for any number of threads, on
//! the CPU and on any GPU. No elements have no minimum and no maximum: for `n == 0` the call returns
//! `GPUVEC_ERROR_EMPTY` and writes nothing.
//!
//! `out` is one element. It may be the first element of an input of the same type, and otherwise lies outside
//! the inputs. With a NULL `stream` the call waits for the result (see "Streams"). The functions return
//! `GPUVEC_OK` or an error.
//!
//! ```c
//! float x[4] = {1e30f, 1, -1e30f, 2}, sum;
//! if (gpuvec_sum_f32(x, &sum, 4, NULL) == GPUVEC_OK) {
//!     printf("%g\n", sum); // 3
//! }
//! ```

use super::{Status, guard, operation};
use crate::objects::stream::gpuvec_stream;
use gpuvec_ops::{
    DotF32, DotF64, DotI32, DotI64, MaxF32, MaxF64, MaxI32, MaxI64, MinF32, MinF64, MinI32, MinI64,
    SumF32, SumF64, SumI32, SumI64,
};

/// Dot product: `out[0] = a[0]*b[0] + … + a[n-1]*b[n-1]`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_dot_f32(
    a: *const f32, b: *const f32, out: *mut f32, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(DotF32, [a, b], out, n, stream) })
}

/// Dot product: `out[0] = a[0]*b[0] + … + a[n-1]*b[n-1]`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_dot_f64(
    a: *const f64, b: *const f64, out: *mut f64, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(DotF64, [a, b], out, n, stream) })
}

/// Dot product: `out[0] = a[0]*b[0] + … + a[n-1]*b[n-1]`. Products are exact.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_dot_i32(
    a: *const i32, b: *const i32, out: *mut i64, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(DotI32, [a, b], out, n, stream) })
}

/// Dot product: `out[0] = a[0]*b[0] + … + a[n-1]*b[n-1]`. Products wrap around, too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_dot_i64(
    a: *const i64, b: *const i64, out: *mut i64, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(DotI64, [a, b], out, n, stream) })
}

/// Sum: `out[0] = a[0] + … + a[n-1]`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_sum_f32(
    a: *const f32, out: *mut f32, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(SumF32, [a], out, n, stream) })
}

/// Sum: `out[0] = a[0] + … + a[n-1]`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_sum_f64(
    a: *const f64, out: *mut f64, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(SumF64, [a], out, n, stream) })
}

/// Sum: `out[0] = a[0] + … + a[n-1]`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_sum_i32(
    a: *const i32, out: *mut i64, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(SumI32, [a], out, n, stream) })
}

/// Sum: `out[0] = a[0] + … + a[n-1]`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_sum_i64(
    a: *const i64, out: *mut i64, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(SumI64, [a], out, n, stream) })
}

/// Minimum: `out[0]` is the smallest `a[i]`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_min_f32(
    a: *const f32, out: *mut f32, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(MinF32, [a], out, n, stream) })
}

/// Minimum: `out[0]` is the smallest `a[i]`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_min_f64(
    a: *const f64, out: *mut f64, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(MinF64, [a], out, n, stream) })
}

/// Minimum: `out[0]` is the smallest `a[i]`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_min_i32(
    a: *const i32, out: *mut i32, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(MinI32, [a], out, n, stream) })
}

/// Minimum: `out[0]` is the smallest `a[i]`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_min_i64(
    a: *const i64, out: *mut i64, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(MinI64, [a], out, n, stream) })
}

/// Maximum: `out[0]` is the largest `a[i]`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_max_f32(
    a: *const f32, out: *mut f32, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(MaxF32, [a], out, n, stream) })
}

/// Maximum: `out[0]` is the largest `a[i]`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_max_f64(
    a: *const f64, out: *mut f64, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(MaxF64, [a], out, n, stream) })
}

/// Maximum: `out[0]` is the largest `a[i]`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_max_i32(
    a: *const i32, out: *mut i32, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(MaxI32, [a], out, n, stream) })
}

/// Maximum: `out[0]` is the largest `a[i]`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_max_i64(
    a: *const i64, out: *mut i64, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(MaxI64, [a], out, n, stream) })
}
