//! Memory that GPUs reach directly.

use super::guard;
use crate::memory;
use std::ffi::c_void;

/// Allocates page-locked host memory, which a GPU reads and writes directly: arrays in it are not
/// copied on the host first, and calls on them are faster.
///
/// `bytes` is rounded up to whole pages, of 4,096 bytes; the memory begins with a page. Its content
/// is not defined. Where there is no usable GPU, or with placement `cpu`, it is ordinary memory,
/// and everything works the same. A child made by `fork` must not use memory that its parent
/// page-locked.
///
/// Returns NULL on failure; `gpuvec_last_error()` says why. Give the memory back with
/// `pinned_free`.
#[unsafe(no_mangle)]
pub extern "C" fn pinned_alloc(bytes: usize) -> *mut c_void {
    guard::call(|| memory::pinned_alloc(bytes).map(|address| address.as_ptr()))
}

/// Gives back what `pinned_alloc` returned; NULL is fine and does nothing.
///
/// Returns `GPUVEC_OK`, or `GPUVEC_ERROR_POINTER` for a pointer that `pinned_alloc` did not give or
/// that was freed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinned_free(ptr: *mut c_void) -> i32 {
    // SAFETY: the caller promises that nobody uses the memory any more.
    guard::call(|| unsafe { memory::pinned_free(ptr) }.map(|()| 0))
}
