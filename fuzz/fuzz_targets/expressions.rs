//! Any bytes as the text of an expression, and any parts of texts, of inputs of any types: a text is
//! refused with a reason, or it runs, and gives the same bits again.

#![no_main]

mod parts;

use gpuvec::abi::errors::gpuvec_last_error;
use gpuvec::abi::expr::*;
use gpuvec::gpuvec_status::*;
use gpuvec::{GPUVEC_NUMBER, GPUVEC_SCALAR, gpuvec_type};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use std::ffi::{CStr, CString, c_void};

/// Elements, and room for the widest ones.
const N: usize = 100;
const WORDS: usize = N;

#[derive(Arbitrary, Debug)]
struct Case<'a> {
    types: [u8; 4],
    elements: [u64; 8],
    text: &'a [u8],
}

fuzz_target!(|case: Case<'_>| {
    run(&case, case.text);
    run(&case, parts::joined(case.text).as_bytes());
});

fn run(case: &Case<'_>, text: &[u8]) {
    let Ok(text) = CString::new(text) else { return };
    let names = parts::NAMES.map(|name| CString::new(name).expect("a name"));
    let names = names.each_ref().map(|name| name.as_ptr());
    // The last one is a scalar or a number.
    let mut types = case.types.map(|ty| i32::from(ty % 10) + 1);
    types[3] = match case.types[3] {
        ..128 => types[3] | GPUVEC_SCALAR,
        _ => 8 + 2 * (types[3] % 2) | GPUVEC_NUMBER,
    };
    let is_integer = types[3] == gpuvec_type::GPUVEC_I64 as i32 | GPUVEC_NUMBER;
    let mut expr = std::ptr::null_mut();
    // SAFETY: a C string, and four names and types.
    let status = unsafe {
        gpuvec_expr_compile(text.as_ptr(), names.as_ptr(), types.as_ptr(), 4, &raw mut expr)
    };
    if status != 0 {
        assert_eq!(status, GPUVEC_ERROR_EXPRESSION as i32);
        // SAFETY: a C string of this thread's.
        assert!(!unsafe { CStr::from_ptr(gpuvec_last_error()) }.is_empty() && expr.is_null());
        return;
    }
    let arrays: Vec<[u64; WORDS]> = (0..4).map(|i| elements(case, i)).collect();
    let inputs: Vec<*const c_void> = arrays.iter().map(|array| array.as_ptr().cast()).collect();
    let mut outs = [[0_u64; WORDS]; 2];
    let statuses = outs.each_mut().map(|out| {
        let out = out.as_mut_ptr().cast();
        // SAFETY: each array has room for the elements of any type.
        unsafe { gpuvec_expr_run(expr, inputs.as_ptr(), out, N, std::ptr::null_mut()) }
    });
    // Integers that are computed from such a number alone may not fit.
    let is_refused = is_integer && statuses[0] == GPUVEC_ERROR_VALUE as i32;
    assert!(statuses[0] == 0 || is_refused, "{}", statuses[0]);
    assert!(!is_refused || outs[0] == [0; WORDS], "a refused call has written");
    assert_eq!((statuses[0], outs[0]), (statuses[1], outs[1]));
    assert_eq!(gpuvec_expr_destroy(expr), 0);
    assert_eq!(gpuvec_expr_destroy(expr), GPUVEC_ERROR_HANDLE as i32);
}

/// The words of an array.
fn elements(case: &Case<'_>, array: usize) -> [u64; WORDS] {
    std::array::from_fn(|i| case.elements[(i + array) % 8].rotate_left((i / 8) as u32))
}
