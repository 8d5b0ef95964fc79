//! # Expressions
//!
//! An expression is a formula as text, which runs in one pass over the arrays:
//!
//! ```c
//! float a[3] = {3, 5, 8}, b[3] = {4, 12, 15}, out[3];
//! const char *names[] = {"a", "b"};
//! const int32_t types[] = {GPUVEC_F32, GPUVEC_F32};
//! const void *inputs[] = {a, b};
//! gpuvec_expr *expr;
//! if (gpuvec_expr_compile("sqrt(a*a + b*b)", names, types, 2, &expr) == GPUVEC_OK) {
//!     if (gpuvec_expr_run(expr, inputs, out, 3, NULL) == GPUVEC_OK) {
//!         printf("%g %g %g\n", out[0], out[1], out[2]); // 5 13 17
//!     }
//!     gpuvec_expr_destroy(expr);
//! }
//! ```
//!
//! Up to 8 formulas with `;` between them, such as `"x + dt*v; v - dt*k*x; sum(v*v)"`, form one expression with
//! an output for each formula. Run it with `gpuvec_expr_run_outputs`. The language is Python's syntax with the
//! types and the functions of NumPy; the page "The language of expressions" of gpuvec's documentation describes
//! it.
//!
//! A reduction inside a formula, such as `"x / sum(x)"`, is computed over all elements in an earlier pass. A
//! call with a stream waits for all passes but the last one. All other reductions in such a text reduce all
//! axes, too. A formula that has arrays only inside reductions, such as `"sum(x) / 2"`, is one value:
//! `gpuvec_expr_is_reduction_at` returns 1.
//!
//! Expressions never change, and any number of threads may run one at the same time. Everything that this
//! header says about operations also applies to `gpuvec_expr_run`. Errors name an input `inputs[i]`, and one of
//! several outputs `outputs[i]`.

use super::{Status, guard, read_shape, values};
use crate::error::Error;
use crate::objects::expression::{self, Expression, GPUVEC_IGNORE_OUTSIDE, Refused, gpuvec_expr};
use crate::objects::stream::gpuvec_stream;
use crate::run::log::{self, Subject};
use crate::run::{
    Given, Groups, OUTPUT_NAMES, Pointers, evaluate, evaluate_by_key, evaluate_tensors,
    gpuvec_array, prepare,
};
use ::gpuvec_expr::{Input, MAX_INPUTS};
use arrayvec::ArrayVec;
use std::ffi::{CStr, c_char, c_void};

/// Compiles an expression and stores its handle in `expr`.
///
/// `text` is a C string in UTF-8, in the language of expressions. The expression has `count` inputs, at most
/// 32: `names` points to their names, which are C strings, and `types` to their types. A `gpuvec_type` declares
/// an array with elements of that type, and `gpuvec_type | GPUVEC_SCALAR` declares one value, which is read at
/// each call. `GPUVEC_F64 | GPUVEC_NUMBER` and `GPUVEC_I64 | GPUVEC_NUMBER` also declare one value, which takes
/// the type of the other operand, as a number in the text does. The library does not use the caller's memory
/// after the call.
///
/// Compiling a text again with the same names and types is usually quick: the library remembers recent ones.
/// Destroy the handle with `gpuvec_expr_destroy`.
///
/// Returns `GPUVEC_OK`; `GPUVEC_ERROR_EXPRESSION` if the text or a name is wrong, or an operation does not take the
/// types of its operands, and `gpuvec_last_error()` then shows the place; `GPUVEC_ERROR_VALUE` if an element of
/// `types` is not a declaration as above, or there are too many inputs; or another error. After an error `*expr` is
/// NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_expr_compile(
    text: *const c_char, names: *const *const c_char, types: *const i32, count: usize,
    expr: *mut *mut gpuvec_expr,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::call(|| unsafe { compile(text, None, [names.cast(), types.cast()], count, expr) })
}

/// Compiles reductions by key and stores their handle in `expr`.
///
/// Each formula of `text` is one reduction, such as `"sum(x*w); max(x)"`. `by` is a formula of the same inputs, whose
/// values are integers: each element's key, such as `"k"` for an array of keys, or `"i64(floor((x - low) * scale))"`
/// for a histogram. Run the expression with `gpuvec_expr_run_by`. Otherwise as `gpuvec_expr_compile`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_expr_compile_by(
    text: *const c_char, by: *const c_char, names: *const *const c_char, types: *const i32,
    count: usize, expr: *mut *mut gpuvec_expr,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::call(|| unsafe { compile(text, Some(by), [names.cast(), types.cast()], count, expr) })
}

/// Reduces the elements of each key.
///
/// `shape` points to the lengths of the `ndim` axes of the inputs, as for `gpuvec_expr_run_nd`, and `reduced_axes` has
/// a bit for each axis along which elements with the same key are combined, at least one. `groups` is the number of
/// keys, which are from 0 to `groups - 1`. Each output has the axes that are not reduced, and an axis of length
/// `groups` in the place of the first reduced one; its strides are along these axes. It overlaps no input and no other
/// output.
///
/// With the flag `GPUVEC_IGNORE_OUTSIDE`, elements with other keys are left out. A group without elements has the result
/// of no elements: 0 for a sum, NaN for a mean.
///
/// Returns `GPUVEC_OK`; `GPUVEC_ERROR_VALUE` if a key is outside the groups; `GPUVEC_ERROR_EMPTY` if there is a minimum,
/// a maximum or its index, and a group has no elements; or another error of `gpuvec_expr_run_nd`. After the first two
/// errors nothing is written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_expr_run_by(
    expr: *mut gpuvec_expr, ndim: i32, shape: *const i64, inputs: *const gpuvec_array,
    outputs: *const gpuvec_array, reduced_axes: u64, groups: usize, flags: i32,
    stream: *mut gpuvec_stream,
) -> Status {
    guard::operation(|| {
        log::begin(Subject::Expression(None), 0);
        let expression = expression::given(expr)?;
        let [inputs, outputs] = [inputs, outputs].map(Pointers::Strided);
        // SAFETY: the caller's promise, as the header says.
        let shape = unsafe { read_shape(ndim, shape)? };
        // SAFETY: the caller's promise, as the header says.
        let given = unsafe {
            Given::new(&expression, &shape, reduced_axes, inputs, outputs, &OUTPUT_NAMES)
        };
        let ignores_outside = flags & GPUVEC_IGNORE_OUTSIDE != 0;
        evaluate_by_key(&given, Groups { count: groups, ignores_outside }, stream)
    })
}

/// Compiles an expression, with keys if `by` is given, and stores its handle.
///
/// # Safety
/// As [`gpuvec_expr_compile`], of the names and the types in this order.
unsafe fn compile(
    text: *const c_char, by: Option<*const c_char>, [names, types]: [*const c_void; 2],
    count: usize, expr: *mut *mut gpuvec_expr,
) -> Result<i32, Error> {
    if expr.is_null() {
        return Err(Error::NullResult { argument: "expr" });
    }
    // SAFETY: this function's promise.
    unsafe {
        expr.write_unaligned(std::ptr::null_mut());
        let text = c_str("text", text)?;
        let by = by.map(|by| c_str("by", by)).transpose()?;
        let inputs = declared(names.cast(), types.cast(), count)?;
        let handle = expression::compile(text, by, &inputs).map_err(|refused| match refused {
            Refused::Expression(error) => guard::refuse(&error),
            Refused::Other(error) => error,
        })?;
        expr.write_unaligned(handle);
    }
    Ok(0)
}

/// Evaluates an expression for each of `n` elements, or reduces them.
///
/// `inputs` points to a pointer for each input, in the order of `gpuvec_expr_compile`: to an array of `n`
/// elements, in memory of any kind, or to the value of a scalar, in host memory at any address. Scalars are read
/// before the call returns. The pointer of an input that the text does not use is ignored. `out` is an array of
/// `n` elements of the type `gpuvec_expr_output_type(expr)`, or one element if the expression is a reduction. It
/// may be exactly one of the input arrays if the elements of both have the same size. A reduction that reads no
/// array reduces `n` equal elements: the calling core computes it in some microseconds, with every placement,
/// whatever `n` is. A call that computes a `var` or `std` returns when its work is done, even with a stream,
/// since the host computes the result from several sums.
///
/// The GPU's driver compiles an expression when a device first runs it, in some 10 to 100 ms. With placement
/// `auto`, calls on host arrays run on the cores until the expression is compiled for a GPU: by
/// `gpuvec_expr_prepare`, by a call that needs a GPU, or once calls have lost as much time on the cores as the
/// driver is expected to take.
///
/// Returns `GPUVEC_OK`; `GPUVEC_ERROR_VALUE` if the value of a `GPUVEC_I64 | GPUVEC_NUMBER`, or an integer that
/// is computed from such values alone, does not fit into 64 bits or into the type of the other operand, or if
/// the expression has several outputs; or another error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_expr_run(
    expr: *mut gpuvec_expr, inputs: *const *const c_void, out: *mut c_void, n: usize,
    stream: *mut gpuvec_stream,
) -> Status {
    guard::operation(|| {
        log::begin(Subject::Expression(None), n);
        let expression = expression::given(expr)?;
        expression.formula.only_output("gpuvec_expr_run_outputs")?;
        let outputs = &raw const out;
        let shape = length(&expression, n)?;
        let [inputs, outputs] = [inputs, outputs.cast()].map(Pointers::Contiguous);
        let reduced_axes = expression.formula.kind.reduced_axes(1);
        // SAFETY: the caller's promise, as the header says.
        let given =
            unsafe { Given::new(&expression, &shape, reduced_axes, inputs, outputs, &["out"]) };
        evaluate(&given, stream)
    })
}

/// Evaluates an expression with several outputs in one pass. Otherwise as `gpuvec_expr_run`.
///
/// `outputs` points to a pointer for each output, in the order of the formulas: to an array of `n` elements of
/// the type `gpuvec_expr_output_type_at(expr, index)`, or of one element if
/// `gpuvec_expr_is_reduction_at(expr, index)` returns 1. `num_outputs` is their number,
/// `gpuvec_expr_num_outputs(expr)`.
///
/// All formulas read the inputs as they are before the call. Each output may be exactly one of the input arrays
/// with elements of the same size, even if another formula reads this array: `"y; x"` into `x` and `y` swaps
/// them. An output must not overlap an input in any other way, nor another output. The result of a reduction may
/// be the first element of an input. After an error any of the outputs may have been written in part.
///
/// If `n` is 0, output arrays are not written, and reductions store their results for no elements; the call
/// fails if a reduction has none, such as `min`. A call with a stream waits for its work if one of its outputs
/// is a `var` or `std`, or if it has several outputs and the result of a reduction is to be stored in an input
/// array.
///
/// Returns `GPUVEC_OK`; `GPUVEC_ERROR_VALUE` if `num_outputs` is not the number of outputs, and for the reasons
/// of `gpuvec_expr_run`; or another error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_expr_run_outputs(
    expr: *mut gpuvec_expr, inputs: *const *const c_void, outputs: *const *mut c_void,
    num_outputs: usize, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    guard::operation(|| {
        log::begin(Subject::Expression(None), n);
        let expression = expression::given(expr)?;
        let count = expression.formula.outputs().count();
        if num_outputs != count {
            return Err(Error::Value {
                argument: "num_outputs",
                value: i64::try_from(num_outputs).unwrap_or(i64::MAX),
                expected: "pass gpuvec_expr_num_outputs(expr)",
            });
        }
        if outputs.is_null() {
            return Err(Error::Null { argument: "outputs", n: count });
        }
        let shape = length(&expression, n)?;
        let [inputs, outputs] = [inputs, outputs.cast()].map(Pointers::Contiguous);
        let reduced_axes = expression.formula.kind.reduced_axes(1);
        // SAFETY: the caller's promise, as the header says.
        let given = unsafe {
            Given::new(&expression, &shape, reduced_axes, inputs, outputs, &OUTPUT_NAMES)
        };
        evaluate(&given, stream)
    })
}

/// Evaluates an expression on arrays of any strides. The arrays have one common shape. The call evaluates the
/// expression for each element, or reduces the elements along axes, or does both in one pass.
///
/// `shape` points to the lengths of the `ndim` axes, at most 32; 0 axes stand for one element. `inputs` points
/// to an array for each input, in the order of `gpuvec_expr_compile`, and `outputs` to an array for each of the
/// `gpuvec_expr_num_outputs(expr)` outputs. The strides of an array are the distances in bytes between elements
/// along the axes. A stride of 0 repeats an input along that axis (broadcasting). NULL strides stand for C
/// order. Strides along axes of length 1 are ignored, and so are the strides of scalars, and the strides of
/// reductions' results along the reduced axes. Addresses and strides are multiples of the element size.
///
/// `reduced_axes` has a bit for each axis along which reductions reduce, the lowest bit for the first axis; it
/// is 0 for an expression without reductions. For each index of the other axes, the result has the bits that
/// `gpuvec_expr_run` computes from the elements with this index, whatever the strides. `argmin` and `argmax`
/// count the elements in C order of the reduced axes. If a reduced axis has length 0, each result is the result
/// of no elements; `min`, `max`, `argmin` and `argmax` then return `GPUVEC_ERROR_EMPTY`, even if another axis
/// has length 0 as well.
///
/// An output that is not a reduction has all axes, even if other outputs are reductions. All formulas read the
/// inputs as they are before the call.
///
/// An output may be exactly one of the inputs, with the same address and strides, if the elements of both have
/// the same size; the result of a reduction of all elements may be stored in the first one. Otherwise an output
/// must not overlap an input, another output, or itself. Interleaved arrays, such as fields of the same records
/// or blocks of columns of the same matrix, do not overlap. Arrays with unusual strides may be refused although
/// they do not overlap, if proving it would take too long.
///
/// If all arrays are contiguous, with the same order of axes, and either all axes are reduced or none is, the
/// call runs as `gpuvec_expr_run` does. Other calls run on the same processors, but never on cores and GPUs
/// together. A GPU uses the arrays that it can access in place; the elements of pageable arrays are gathered and
/// scattered on the way. If the stream's GPU can access all arrays, the call is queued there, as by
/// `gpuvec_expr_run`, unless a result has more than 2^30 elements, an output is a `var` or `std`, or there are
/// several outputs and a reduction's result is to be stored in an input. Otherwise the call waits for the
/// stream's work and returns when its own is done.
///
/// Returns `GPUVEC_OK`; `GPUVEC_ERROR_OVERLAP`; `GPUVEC_ERROR_PLACEMENT` also if arrays that are not contiguous
/// are in the memory of different devices; `GPUVEC_ERROR_VALUE` also if more than 8 axes remain after adjacent
/// axes that are contiguous in all arrays have been merged; or another error of `gpuvec_expr_run`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_expr_run_nd(
    expr: *mut gpuvec_expr, ndim: i32, shape: *const i64, inputs: *const gpuvec_array,
    outputs: *const gpuvec_array, reduced_axes: u64, stream: *mut gpuvec_stream,
) -> Status {
    guard::operation(|| {
        log::begin(Subject::Expression(None), 0);
        let expression = expression::given(expr)?;
        let [inputs, outputs] = [inputs, outputs].map(Pointers::Strided);
        // SAFETY: the caller's promise, as the header says.
        let shape = unsafe { read_shape(ndim, shape)? };
        // SAFETY: the caller's promise, as the header says.
        let given = unsafe {
            Given::new(&expression, &shape, reduced_axes, inputs, outputs, &OUTPUT_NAMES)
        };
        evaluate(&given, stream)
    })
}

/// Evaluates an expression on DLPack tensors. Otherwise as `gpuvec_expr_run_nd`.
///
/// `inputs` points to the address of a `DLTensor` (see DLPack's dlpack.h) for each input, in the order of
/// `gpuvec_expr_compile`, and `outputs` to the address of one for each output. The library only reads these
/// structures, and does not keep them. The tensors are in host memory, pinned or managed memory, or on a CUDA
/// device. Their elements have the types that the expression declares, with one lane. A scalar is a tensor of
/// one element that the host can read. Inputs that the expression does not use may be NULL.
///
/// The shapes of the input arrays are broadcast as in NumPy: to the shape of the outputs that are not
/// reductions, which must all have the same one, or, if all outputs are reductions, to their common shape.
/// `reduced_axes` has a bit for each axis of this shape. The output of a reduction has only the axes that are
/// not reduced, or all of them, with length 1 along the reduced ones.
///
/// Returns what `gpuvec_expr_run_nd` returns; `GPUVEC_ERROR_VALUE` also for wrong types, devices or shapes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_expr_run_dlpack(
    expr: *mut gpuvec_expr, inputs: *const *const c_void, outputs: *const *const c_void,
    reduced_axes: u64, stream: *mut gpuvec_stream,
) -> Status {
    guard::operation(|| {
        log::begin(Subject::Expression(None), 0);
        let expression = expression::given(expr)?;
        // SAFETY: the caller's promise, as the header says.
        unsafe { evaluate_tensors(&expression, inputs, outputs, reduced_axes, stream) }
    })
}

/// Compiles an expression for a GPU in advance. Afterwards, calls on contiguous arrays run on this GPU without
/// waiting for the driver's compiler. Does nothing if the expression is already compiled for it. The driver
/// caches compiled expressions on disk, across processes.
///
/// `device` counts from 0. Without a usable GPU, or with placement `cpu`, the function does nothing, and
/// `device` must be 0. Returns `GPUVEC_OK` or an error.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_expr_prepare(expr: *mut gpuvec_expr, device: i32) -> Status {
    guard::call(|| prepare(&*expression::given(expr)?, device).map(|()| 0))
}

/// Returns the number of outputs. This is the number of formulas in the text, 1 to 8. On failure returns a
/// `gpuvec_status`, which is greater than 8.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_expr_num_outputs(expr: *mut gpuvec_expr) -> i32 {
    guard::call(|| Ok(expression::given(expr)?.formula.outputs().count() as i32))
}

/// Returns the `gpuvec_type` of the output's elements. On failure returns a `gpuvec_status`:
/// `GPUVEC_ERROR_VALUE` if there are several outputs.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_expr_output_type(expr: *mut gpuvec_expr) -> i32 {
    guard::call(|| {
        let expression = expression::given(expr)?;
        expression.formula.only_output("gpuvec_expr_output_type_at")?;
        expression.output_type(0)
    })
}

/// Returns 1 if the expression is a reduction, and 0 if not. The output of a reduction is one value. On failure
/// returns a `gpuvec_status`: `GPUVEC_ERROR_VALUE` if there are several outputs.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_expr_is_reduction(expr: *mut gpuvec_expr) -> i32 {
    guard::call(|| {
        let expression = expression::given(expr)?;
        expression.formula.only_output("gpuvec_expr_is_reduction_at")?;
        expression.has_result(0)
    })
}

/// Returns the `gpuvec_type` of the elements of one output. `index` counts outputs from 0. On failure returns a
/// `gpuvec_status`.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_expr_output_type_at(expr: *mut gpuvec_expr, index: usize) -> i32 {
    guard::call(|| expression::given(expr)?.output_type(index))
}

/// Returns 1 if one output is a reduction, and 0 if not. The output of a reduction is one value. `index` counts
/// outputs from 0. On failure returns a `gpuvec_status`.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_expr_is_reduction_at(expr: *mut gpuvec_expr, index: usize) -> i32 {
    guard::call(|| expression::given(expr)?.has_result(index))
}

/// Stores an expression's program or its PTX as text. `form` is a `gpuvec_expr_form`: the PTX is the text for
/// the GPU's driver. `buffer` is in host memory.
///
/// Writes at most `size` bytes, and always ends the text with a NUL; `buffer` may be NULL if `size` is 0. Unless
/// `needed` is NULL, stores the size of the whole text there, with its NUL. The texts are for people, and may
/// change with every version. Returns `GPUVEC_OK` or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_expr_text(
    expr: *mut gpuvec_expr, form: i32, buffer: *mut c_char, size: usize, needed: *mut usize,
) -> Status {
    guard::call(|| {
        let text = expression::given(expr)?.text(form)?;
        if buffer.is_null() && size > 0 {
            return Err(Error::NullResult { argument: "buffer" });
        }
        // SAFETY: the caller's promise, as the header says.
        unsafe { store(&text, buffer.cast(), size, needed) };
        Ok(0)
    })
}

/// Destroys an expression; NULL does nothing. Calls in progress and queued work still finish.
///
/// Returns `GPUVEC_OK` or `GPUVEC_ERROR_HANDLE`.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_expr_destroy(expr: *mut gpuvec_expr) -> Status {
    guard::call(|| expression::destroy(expr).map(|()| 0))
}

/// The shape of contiguous arrays of `n` elements.
fn length(expression: &Expression, n: usize) -> Result<[i64; 1], Error> {
    let element_bytes = expression.formula.output.element_bytes;
    i64::try_from(n).map(|n| [n]).map_err(|_| Error::TooLong { n, element_bytes })
}

/// Returns the inputs that a caller declares.
///
/// # Safety
/// `names` and `types` point to `count` elements that live as long as the result.
unsafe fn declared<'a>(
    names: *const *const c_char, types: *const i32, count: usize,
) -> Result<ArrayVec<Input<'a>, MAX_INPUTS>, Error> {
    if count > MAX_INPUTS {
        let value = i64::try_from(count).unwrap_or(i64::MAX);
        return Err(Error::Value { argument: "count", value, expected: "pass at most 32 inputs" });
    }
    // SAFETY: this function's promise.
    let (names, types) =
        unsafe { (values("names", names, count)?, values("types", types, count)?) };
    let input = |(name, declared)| {
        // SAFETY: this function's promise.
        let name = unsafe { c_str("an element of names", name)? };
        let (element, form) = expression::declaration(declared)?;
        Ok(Input { name, element, form })
    };
    names.zip(types).map(input).collect()
}

/// Returns the text of a C string.
///
/// # Safety
/// It lives as long as the result.
unsafe fn c_str<'a>(argument: &'static str, text: *const c_char) -> Result<&'a str, Error> {
    if text.is_null() {
        return Err(Error::NullText { argument });
    }
    // SAFETY: this function's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|error| Error::NotUtf8 { argument, place: error.valid_up_to() })
}

/// Stores as much of a text as fits, and the size of the whole text.
///
/// # Safety
/// There is room for `size` bytes, and for the size, unless `needed` is NULL.
unsafe fn store(text: &str, buffer: *mut u8, size: usize, needed: *mut usize) {
    // SAFETY: this function's promise.
    unsafe {
        if let Some(fits) = size.checked_sub(1) {
            let fits = text.floor_char_boundary(fits);
            buffer.copy_from(text.as_ptr(), fits);
            buffer.add(fits).write_unaligned(0);
        }
        if !needed.is_null() {
            needed.write_unaligned(text.len() + 1);
        }
    }
}
