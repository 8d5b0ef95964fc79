//! The last error.

use gpuvec::abi::errors::gpuvec_last_error;
use std::ffi::CStr;

/// Returns this thread's last error; empty after a success.
pub(crate) fn last_error() -> String {
    // SAFETY: never NULL, and valid until this thread's next call.
    unsafe { CStr::from_ptr(gpuvec_last_error()) }.to_str().expect("UTF-8").to_owned()
}
