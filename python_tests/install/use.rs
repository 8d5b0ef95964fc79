//! Computes 1*4 + 2*5 + 3*6 from Rust, through the declarations that bindgen made, and reads the text
//! of an error.

#[allow(dead_code, non_camel_case_types, non_snake_case, non_upper_case_globals)]
mod gpuvec {
    include!(env!("BINDINGS"));
}

use std::ffi::CStr;
use std::ptr::null_mut;

fn main() {
    let (a, b) = ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]);
    let mut dot = 0.0;
    // SAFETY: three elements each, and one for the result.
    let status = unsafe {
        gpuvec::gpuvec_dot_f32(a.as_ptr(), b.as_ptr(), &mut dot, a.len() as _, null_mut())
    };
    assert_eq!(status, gpuvec::gpuvec_status_GPUVEC_OK);
    println!("{dot}");

    // SAFETY: NULL is an error, not read.
    let status = unsafe {
        gpuvec::gpuvec_dot_f32(a.as_ptr(), null_mut(), &mut dot, a.len() as _, null_mut())
    };
    assert_eq!(status, gpuvec::gpuvec_status_GPUVEC_ERROR_NULL);
    // SAFETY: a C string, until this thread's next call.
    let text = unsafe { CStr::from_ptr(gpuvec::gpuvec_last_error()) };
    println!("{}", &text.to_str().expect("UTF-8")[..6]);
}
