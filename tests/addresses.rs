//! All that callers pass but arrays may be at any address. Miri, and builds with debug assertions, stop at
//! an access that expects another one.

use gpuvec::abi::accumulator::*;
use gpuvec::abi::expr::*;
use gpuvec::abi::library::{gpuvec_last_run, gpuvec_set_placement};
use gpuvec::abi::stream::*;
use gpuvec::gpuvec_accumulator_kind::*;
use gpuvec::gpuvec_expr_form::GPUVEC_EXPR_PROGRAM;
use gpuvec::gpuvec_status::GPUVEC_ERROR_EXPRESSION;
use gpuvec::last_run::{GPUVEC_PATH_CALLING_CORE, Run};
use gpuvec::{GPUVEC_NUMBER, GPUVEC_SCALAR, Placement, gpuvec_expr, gpuvec_type::*};
use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

/// A value behind one byte.
#[repr(C, packed)]
struct Packed<T> {
    before: u8,
    value: T,
}

/// A structure that is aligned as much as any value, so that a packed value in it is not.
#[repr(C, align(16))]
struct Odd<T>(Packed<T>);

impl<T: Copy> Odd<T> {
    fn new(value: T) -> Self {
        Odd(Packed { before: 0xA5, value })
    }

    fn at(&mut self) -> *mut T {
        &raw mut self.0.value
    }

    /// Returns the value. The byte before it is as it was.
    fn get(&self) -> T {
        assert_eq!(self.0.before, 0xA5);
        self.0.value
    }
}

/// `gpuvec_array`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Array {
    data: *const c_void,
    strides: *const i64,
}

/// Does its work on the calling core, which takes no driver.
fn on_cpu() {
    assert_eq!(gpuvec_set_placement(Placement::Cpu as i32), 0);
}

/// Compiles `a*k + w`, where `w` is a number.
fn compiled() -> *mut gpuvec_expr {
    let mut names = Odd::new([c"a", c"k", c"w"].map(CStr::as_ptr));
    let types = [GPUVEC_F32 as i32, GPUVEC_F32 as i32 | GPUVEC_SCALAR];
    let mut types = Odd::new([types[0], types[1], GPUVEC_F64 as i32 | GPUVEC_NUMBER]);
    let mut expr = Odd::new(null_mut());
    let [names, types] = [names.at().cast::<c_void>(), types.at().cast()];
    // SAFETY: three C strings and three types.
    let status = unsafe {
        gpuvec_expr_compile(c"a*k + w".as_ptr(), names.cast(), types.cast(), 3, expr.at())
    };
    assert_eq!(status, 0);
    expr.get()
}

#[test]
fn expressions_and_their_texts() {
    let expr = compiled();
    assert_eq!(
        (gpuvec_expr_output_type(expr), gpuvec_expr_is_reduction(expr)),
        (GPUVEC_F32 as i32, 0)
    );
    let (mut text, mut needed) = (Odd::new([0; 512]), Odd::new(0));
    let buffer = text.at().cast::<c_char>();
    // SAFETY: room for 512 bytes, and for the size.
    let status =
        unsafe { gpuvec_expr_text(expr, GPUVEC_EXPR_PROGRAM as i32, buffer, 512, needed.at()) };
    assert_eq!(status, 0);
    let text: Vec<u8> = text.get().to_vec();
    let text = CStr::from_bytes_until_nul(&text).expect("a NUL").to_str().expect("UTF-8");
    assert!(text.contains("output: f32"), "{text}");
    assert_eq!(needed.get(), text.len() + 1);
    assert_eq!(gpuvec_expr_destroy(expr), 0);
}

#[test]
fn errors_of_expressions() {
    let mut expr = Odd::new(null_mut::<gpuvec_expr>().wrapping_byte_add(1));
    // SAFETY: C strings, and no inputs.
    let status = unsafe { gpuvec_expr_compile(c"a +".as_ptr(), null(), null(), 0, expr.at()) };
    assert_eq!(status, GPUVEC_ERROR_EXPRESSION as i32);
    assert!(expr.get().is_null());
}

#[test]
fn inputs_and_scalars_of_a_run() {
    on_cpu();
    let expr = compiled();
    let (array, mut out) = ([1.0_f32, 2.0, 3.0], [0.0_f32; 3]);
    let (mut k, mut w) = (Odd::new(2.5_f32), Odd::new(0.5_f64));
    let pointers = [array.as_ptr().cast::<c_void>(), k.at().cast(), w.at().cast()];
    let mut inputs = Odd::new(pointers);
    let pointers = inputs.at().cast::<*const c_void>();
    // SAFETY: three elements of the arrays, a float and a double.
    let status = unsafe { gpuvec_expr_run(expr, pointers, out.as_mut_ptr().cast(), 3, null_mut()) };
    assert_eq!(status, 0);
    assert_eq!(out, [3.0, 5.5, 8.0]);

    let mut run = Odd::new(Run::default());
    // SAFETY: room for a structure.
    assert_eq!(unsafe { gpuvec_last_run(run.at(), size_of::<Run>()) }, 0);
    let Run { path, threads, .. } = run.get();
    assert_eq!((path, threads), (GPUVEC_PATH_CALLING_CORE, 1));
    assert_eq!(gpuvec_expr_destroy(expr), 0);
}

#[test]
fn the_scalar_of_a_reduction() {
    on_cpu();
    let (mut expr, mut k, mut out) = (Odd::new(null_mut()), Odd::new(-0.5_f32), 0.0_f32);
    let mut name = Odd::new(c"k".as_ptr());
    let mut ty = Odd::new(GPUVEC_F32 as i32 | GPUVEC_SCALAR);
    let mut input = Odd::new(k.at().cast::<c_void>().cast_const());
    // SAFETY: one C string and one type; a float, and room for one.
    unsafe {
        let status = gpuvec_expr_compile(c"sum(k)".as_ptr(), name.at(), ty.at(), 1, expr.at());
        assert_eq!(status, 0);
        let out = (&raw mut out).cast();
        assert_eq!(gpuvec_expr_run(expr.get(), input.at(), out, 1 << 40, null_mut()), 0);
    }
    assert_eq!(out, -549_755_813_888.0);
    assert_eq!(gpuvec_expr_destroy(expr.get()), 0);
}

#[test]
fn values_and_states_of_accumulators() {
    on_cpu();
    let sum = gpuvec_accumulator_create(GPUVEC_ACCUMULATOR_SUM_F64 as i32);
    let elements = [1e300, 0.1, -1e300];
    // SAFETY: three elements.
    let status =
        unsafe { gpuvec_accumulator_add(sum, elements.as_ptr().cast(), null(), 3, null_mut()) };
    assert_eq!(status, 0);
    let mut state = Odd::new([MaybeUninit::<u8>::uninit(); 608]);
    let (bytes, mut value) = (state.at().cast::<c_void>(), Odd::new(0.0_f64));
    // SAFETY: room for 608 bytes, which are read when they are there, and for the value.
    unsafe {
        assert_eq!(gpuvec_accumulator_serialize(sum, bytes, 608), 0);
        let other = gpuvec_accumulator_deserialize(bytes, 608);
        assert_eq!(gpuvec_accumulator_value(other, value.at().cast()), 0);
        assert_eq!(gpuvec_accumulator_destroy(other), 0);
    }
    assert_eq!(value.get(), 0.1);
    assert_eq!(gpuvec_accumulator_destroy(sum), 0);
}

#[test]
fn arrays_and_states_of_accumulators_with_a_shape() {
    on_cpu();
    let kind = GPUVEC_ACCUMULATOR_SUM_F64 as i32;
    let elements = [[1e300, 1.0], [0.1, 2.0], [-1e300, 4.0]];
    let (mut shape, mut rows) = (Odd::new(2_i64), Odd::new([3_i64, 2]));
    let mut strides = Odd::new([16_i64, 8]);
    let data = elements.as_ptr().cast();
    let mut array = Odd::new(Array { data, strides: strides.at().cast() });
    let mut state = Odd::new([MaybeUninit::<u8>::uninit(); 2 * 608]);
    let (bytes, mut values) = (state.at().cast::<c_void>(), Odd::new([0.0_f64; 2]));
    // SAFETY: a shape and strides for two axes, an array of that shape, and room for two states and values.
    unsafe {
        let sums = gpuvec_accumulator_create_nd(kind, 1, shape.at());
        let rows = rows.at().cast();
        assert_eq!(gpuvec_accumulator_add_nd(sums, 2, rows, array.at().cast(), 1, null_mut()), 0);
        assert_eq!(gpuvec_accumulator_serialize(sums, bytes, 2 * 608), 0);
        let other = gpuvec_accumulator_deserialize_nd(kind, 1, shape.at(), bytes, 2 * 608);
        assert_eq!(gpuvec_accumulator_value(other, values.at().cast()), 0);
        assert_eq!([sums, other].map(|handle| gpuvec_accumulator_destroy(handle)), [0; 2]);
    }
    assert_eq!(values.get(), [0.1, 7.0]);
}

#[test]
fn the_time_between_events() {
    on_cpu();
    let events = [(); 2].map(|()| gpuvec_event_create());
    assert_eq!(events.map(|event| gpuvec_event_record(event, null_mut())), [0; 2]);
    let mut milliseconds = Odd::new(-1.0_f32);
    let [start, end] = events;
    // SAFETY: room for the time.
    assert_eq!(unsafe { gpuvec_event_elapsed(start, end, milliseconds.at()) }, 0);
    assert!(milliseconds.get() >= 0.0);
    assert_eq!(events.map(|event| gpuvec_event_destroy(event)), [0; 2]);
}
