//! Any bytes as the text of expressions, and any parts of texts, of inputs of any types: a text is refused with a
//! reason, or it runs: each formula gives the bits that it has alone, and nothing around its output is written.

#![no_main]

mod parts;

use gpuvec::abi::errors::gpuvec_last_error;
use gpuvec::abi::expr::*;
use gpuvec::gpuvec_status::*;
use gpuvec::{GPUVEC_NUMBER, GPUVEC_SCALAR, gpuvec_expr, gpuvec_type};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use std::ffi::{CStr, CString, c_void};

/// Numbers of elements, and room for the widest ones.
const LENGTHS: [usize; 4] = [0, 1, 7, WORDS];
const WORDS: usize = 100;

/// The bytes around outputs.
const GUARD: u64 = 0xA5A5_A5A5_A5A5_A5A5;

#[derive(Arbitrary, Debug)]
struct Case<'a> {
    types: [u8; 4],
    elements: [u64; 8],
    length: u8,
    text: &'a [u8],
}

fuzz_target!(|case: Case<'_>| {
    run(&case, case.text);
    run(&case, parts::joined(case.text).as_bytes());
});

/// The output of a formula: whether it is one value, its type, and its memory between guards.
type Out = (i32, i32, [u64; WORDS + 2]);

fn run(case: &Case<'_>, text: &[u8]) {
    if text.contains(&0) {
        return;
    }
    let Some(expr) = compiled(case, text) else {
        // SAFETY: a C string of this thread's.
        assert!(!unsafe { CStr::from_ptr(gpuvec_last_error()) }.is_empty());
        return;
    };
    let (status, outs) = evaluated(case, expr);
    let (mut alone_status, mut alone) = (0, Vec::new());
    for formula in text.split(|&byte| byte == b';') {
        let expr = compiled(case, formula).expect("a formula of several");
        let (status, outs) = evaluated(case, expr);
        alone_status = if alone_status == 0 { status } else { alone_status };
        alone.extend(outs);
    }
    assert_eq!((status == 0, outs), (alone_status == 0, alone));
}

/// The types of the inputs: the last one is a scalar or a number.
fn types(case: &Case<'_>) -> [i32; 4] {
    let mut types = case.types.map(|ty| i32::from(ty % 13) + 1);
    types[3] = match case.types[3] {
        ..128 => types[3] | GPUVEC_SCALAR,
        _ => 8 + 2 * (types[3] % 2) | GPUVEC_NUMBER,
    };
    types
}

fn compiled(case: &Case<'_>, text: &[u8]) -> Option<*mut gpuvec_expr> {
    let text = CString::new(text).expect("a text without 0");
    let names = parts::NAMES.map(|name| CString::new(name).expect("a name"));
    let names = names.each_ref().map(|name| name.as_ptr());
    let types = types(case);
    let mut expr = std::ptr::null_mut();
    // SAFETY: a C string, and four names and types.
    let status = unsafe {
        gpuvec_expr_compile(text.as_ptr(), names.as_ptr(), types.as_ptr(), 4, &raw mut expr)
    };
    assert!(status == 0 || status == GPUVEC_ERROR_EXPRESSION as i32 && expr.is_null(), "{status}");
    (status == 0).then_some(expr)
}

/// The status of a call and, if it succeeds, the outputs. Destroys the expression.
fn evaluated(case: &Case<'_>, expr: *mut gpuvec_expr) -> (i32, Vec<Out>) {
    let n = LENGTHS[usize::from(case.length) % LENGTHS.len()];
    let arrays: Vec<[u64; WORDS]> = (0..4).map(|i| elements(case, i)).collect();
    let inputs: Vec<*const c_void> = arrays.iter().map(|array| array.as_ptr().cast()).collect();
    let out = |index| {
        let kind = gpuvec_expr_is_reduction_at(expr, index);
        (kind, gpuvec_expr_output_type_at(expr, index), [GUARD; WORDS + 2])
    };
    let count = gpuvec_expr_num_outputs(expr) as usize;
    let mut outs: Vec<Out> = (0..count).map(out).collect();
    let places: Vec<*mut c_void> =
        outs.iter_mut().map(|(_, _, words)| words[1..].as_mut_ptr().cast()).collect();
    let stream = std::ptr::null_mut();
    // SAFETY: each array has room for the elements of any type.
    let status = unsafe {
        gpuvec_expr_run_outputs(expr, inputs.as_ptr(), places.as_ptr(), count, n, stream)
    };
    assert_eq!(gpuvec_expr_destroy(expr), 0);
    assert_eq!(gpuvec_expr_destroy(expr), GPUVEC_ERROR_HANDLE as i32);
    // Integers that are computed from such a number alone may not fit.
    let is_integer = types(case)[3] == gpuvec_type::GPUVEC_I64 as i32 | GPUVEC_NUMBER;
    let is_refused = is_integer && status == GPUVEC_ERROR_VALUE as i32
        || n == 0 && status == GPUVEC_ERROR_EMPTY as i32;
    assert!(status == 0 || is_refused, "{status}");
    for (kind, ty, words) in &outs {
        let written = if is_refused { 0 } else if *kind == 1 { 1 } else { n };
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let (before, rest) = bytes.split_at(8);
        let around = before.iter().chain(&rest[written * bytes_of(*ty)..]);
        assert!(around.into_iter().all(|byte| *byte == GUARD as u8), "{written} {words:?}");
    }
    (status, if status == 0 { outs } else { Vec::new() })
}

/// The bytes of a `gpuvec_type`.
fn bytes_of(ty: i32) -> usize {
    [1, 1, 1, 2, 2, 4, 4, 8, 4, 8, 2, 2, 8][ty as usize - 1]
}

/// The words of an array.
fn elements(case: &Case<'_>, array: usize) -> [u64; WORDS] {
    std::array::from_fn(|i| case.elements[(i + array) % 8].rotate_left((i / 8) as u32))
}
