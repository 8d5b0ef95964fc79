//! # Errors
//!
//! The text of a failure, and the meaning of a status.
//!
//! The text and the last status belong to the thread that made the call: read them in that thread, before its
//! next call. A runtime that moves work from thread to thread must not do so in between. In Go, keep the
//! goroutine on its thread with `runtime.LockOSThread`. In Node, call synchronously: koffi runs an asynchronous
//! call on a thread of its pool.
//!
//! ```c
//! float sum;
//! if (gpuvec_sum_f32(NULL, &sum, 3, NULL) != GPUVEC_OK) {
//!     puts(gpuvec_last_error()); // a is NULL, but its length is 3: pass an array of that length
//! }
//! ```

use super::{Status, guard};
use crate::error::{STATUSES, gpuvec_status};
use std::ffi::c_char;

/// Describes the failure of this thread's last call. The text names the argument, its value and what to do, or
/// the driver function that failed and the driver's name for its error.
///
/// The text is empty after a call that succeeded. Functions that only return information (`gpuvec_version`,
/// `gpuvec_status_string`, `gpuvec_why_cpu` and the like) leave it unchanged, and so does `gpuvec_last_run`
/// unless it fails. The string belongs to this thread, is valid until the thread's next call, and is never
/// NULL.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_last_error() -> *const c_char {
    guard::constant(c"".as_ptr(), guard::last_error)
}

/// Returns the status of this thread's last call. It is `GPUVEC_OK`, or the status of the failure that
/// `gpuvec_last_error()` describes.
///
/// Call it to learn why a function returned NULL.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_last_status() -> Status {
    guard::constant(gpuvec_status::GPUVEC_OK as i32, guard::last_status)
}

/// Describes a status: its name, and its meaning in a few words.
///
/// Returns a constant string. For a number that is not a status, the string says so.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_status_string(status: i32) -> *const c_char {
    guard::constant(c"".as_ptr(), || {
        let known = STATUSES.iter().find(|(known, _)| *known as i32 == status);
        known.map_or(c"not a status of gpuvec", |(_, text)| text).as_ptr()
    })
}
