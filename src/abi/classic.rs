//! # Classic functions
//!
//! Short names for operations that return when their work is done, and for pinned memory.
//!
//! A program that has its own functions of these names defines `GPUVEC_NO_SHORT_NAMES` before it includes the
//! header. The macro only omits declarations: the library exports the names. If another shared library calls
//! a function of its own by such a name, link gpuvec after that library (`-lother -lgpuvec`): the dynamic
//! linker takes the first definition that it finds.
//!
//! ```c
//! float a[3] = {1, 2, 3}, b[3] = {10, 20, 30}, dot;
//! if (dot_product(a, b, &dot, 3) == GPUVEC_OK) {
//!     printf("%g\n", dot); // 140
//! }
//! ```

use super::{Status, guard, operation};
use crate::objects::allocation::{self, PINNED};
use crate::objects::stream::gpuvec_stream;
use gpuvec_ops::{AddF32, AddI32, DotF32};
use std::ffi::c_void;

const NO_STREAM: *mut gpuvec_stream = std::ptr::null_mut();

/// Adds arrays of `float`: `out[i] = a[i] + b[i]`. The same as `gpuvec_add_f32` with a NULL `stream`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vector_add(
    a: *const f32, b: *const f32, out: *mut f32, n: usize,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(AddF32, [a, b], out, n, NO_STREAM) })
}

/// Adds arrays of `int32_t`: `out[i] = a[i] + b[i]`. The same as `gpuvec_add_i32` with a NULL `stream`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn add_arrays(
    a: *const i32, b: *const i32, out: *mut i32, n: usize,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(AddI32, [a, b], out, n, NO_STREAM) })
}

/// Dot product of `float`: `out[0] = a[0]*b[0] + … + a[n-1]*b[n-1]`. The same as `gpuvec_dot_f32` with a NULL
/// `stream`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dot_product(
    a: *const f32, b: *const f32, out: *mut f32, n: usize,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { operation(DotF32, [a, b], out, n, NO_STREAM) })
}

/// Allocates pinned memory. The same as `gpuvec_pinned_alloc`.
#[unsafe(no_mangle)]
pub extern "C" fn pinned_alloc(bytes: usize) -> *mut c_void {
    guard::call(|| allocation::pinned_alloc(bytes).map(|address| address.as_ptr()))
}

/// Frees pinned memory. The same as `gpuvec_pinned_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinned_free(ptr: *mut c_void) -> Status {
    // SAFETY: the caller promises that nothing uses the memory any more.
    guard::call(|| unsafe { allocation::free(ptr, PINNED) }.map(|()| 0))
}
