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
//! Up to 8 formulas with `;` between them, such as `"x + dt*v; v - dt*k*x; sum(v*v)"`, are one expression with
//! an output for each, which is run by `gpuvec_expr_run_outputs`. The language is Python's syntax with the types
//! and the functions of NumPy; the page "The language of expressions" of gpuvec's documentation describes it.
//!
//! A reduction inside a formula, such as `"x / sum(x)"`, is computed in an earlier pass, of all elements. A call with
//! a stream waits for all passes but the last one. Other reductions of such a text reduce all axes. A formula that has
//! arrays only inside reductions, such as `"sum(x) / 2"`, is one value: `gpuvec_expr_is_reduction_at` returns 1.
//!
//! Expressions never change, and any number of threads may run one at the same time. All that this header says
//! of operations holds for `gpuvec_expr_run`, too. Errors name an input `inputs[i]`, and one of several outputs
//! `outputs[i]`.

use super::{Status, guard};
use crate::call::{Formula, Output};
use crate::error::Error;
use crate::objects::expression::{self, Refused, gpuvec_expr};
use crate::objects::stream::gpuvec_stream;
use crate::run::log::{self, Subject};
use crate::run::{
    OUTPUT_NAMES, Strided, evaluate, evaluate_strided, evaluate_tensors, gpuvec_array, prepare,
    read_shape,
};
use ::gpuvec_expr::{Input, MAX_INPUTS, MAX_OUTPUTS};
use arrayvec::ArrayVec;
use std::ffi::{CStr, c_char, c_void};

/// Compiles an expression and stores its handle in `expr`.
///
/// `text` is a C string in UTF-8, in the language of expressions. The expression has `count`
/// inputs, at most 32: `names` points to their names, C strings, and `types` to their types: a `gpuvec_type` is an
/// array with elements of that type, and `gpuvec_type | GPUVEC_SCALAR` one value, which is read at each call.
/// `GPUVEC_F64 | GPUVEC_NUMBER` and `GPUVEC_I64 | GPUVEC_NUMBER` are such a value, too, which takes the type of
/// its partner, as a number in the text does. No memory of the caller's is used after the call.
///
/// A text that was compiled with the same names and types before is likely to be found among those that the
/// library remembers. Destroy it with `gpuvec_expr_destroy`.
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
    guard::call(|| unsafe { compile(text, names, types, count, expr) })
}

/// Evaluates an expression of `n` elements, or reduces them.
///
/// `inputs` points to a pointer for each input, in the order of `gpuvec_expr_compile`: to an array of `n`
/// elements, in memory of any kind, or to the value of a scalar, in host memory at any address. A scalar is
/// read before the call returns. The pointer of an input that the text does not use may be anything. `out` is
/// an array of `n` elements of the type `gpuvec_expr_output_type(expr)`, or of one if the expression is a
/// reduction. It may be exactly one of the input arrays if the elements of both have the same size. A reduction
/// that reads no array reduces `n` equal elements: the calling core does it, with every placement, in some
/// microseconds, whatever `n` is. A call that computes a `var` or `std` is done when it returns, also with a
/// stream, since the host computes the result from several sums.
///
/// The GPU's driver compiles an expression when a device first runs it, in some 10 to 100 ms. With placement
/// `auto`, calls on host arrays run on the cores until the expression is compiled: by `gpuvec_expr_prepare`, by
/// a call that needs a GPU, or by the one with which calls have lost as much time on the cores as the driver is
/// expected to take.
///
/// Returns `GPUVEC_OK`; `GPUVEC_ERROR_VALUE` if a `GPUVEC_I64 | GPUVEC_NUMBER`, or an integer that is computed
/// from such numbers alone, does not fit into 64 bits or the type of its partner, or if the expression has
/// several outputs; or another error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_expr_run(
    expr: *mut gpuvec_expr, inputs: *const *const c_void, out: *mut c_void, n: usize,
    stream: *mut gpuvec_stream,
) -> Status {
    guard::operation(|| {
        log::begin(Subject::Expression(None), n);
        let expression = expression::given(expr)?;
        let layout = expression.formula.only_output("gpuvec_expr_run_outputs")?;
        let outputs = [Output { name: "out", pointer: out, layout }];
        // SAFETY: the caller's promise, as the header says.
        unsafe { evaluate(&expression, inputs, &outputs, n, stream) }
    })
}

/// Evaluates an expression of several outputs in one pass. It does so as `gpuvec_expr_run`.
///
/// `outputs` points to a pointer for each output, in the order of the formulas: to an array of `n` elements of
/// the type `gpuvec_expr_output_type_at(expr, index)`, or of one element where
/// `gpuvec_expr_is_reduction_at(expr, index)`. `num_outputs` is their number, `gpuvec_expr_num_outputs(expr)`.
///
/// All formulas use the inputs as they are before the call. Each output may be exactly one of the input arrays,
/// whose elements have the same size, also that of another formula: `"y; x"` into `x` and `y` swaps them. It
/// must not overlap an input in any other way, nor another output; the result of a reduction may be the first
/// element of an input. After an error any of the outputs may have been written in part.
///
/// Without elements, with `n` 0, arrays are left alone, and reductions have their results for no elements; if
/// one has none, as `min`, the call fails. A call with a stream waits for its work, if the result of one
/// reduction of several outputs is to be in an input array, or if one is a `var` or `std`.
///
/// Returns `GPUVEC_OK`; `GPUVEC_ERROR_VALUE` if `num_outputs` is another number, or as `gpuvec_expr_run`; or
/// another error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_expr_run_outputs(
    expr: *mut gpuvec_expr, inputs: *const *const c_void, outputs: *const *mut c_void,
    num_outputs: usize, n: usize, stream: *mut gpuvec_stream,
) -> Status {
    guard::operation(|| {
        log::begin(Subject::Expression(None), n);
        let expression = expression::given(expr)?;
        // SAFETY: the caller's promise, as the header says.
        unsafe {
            let outputs = given_outputs(&expression.formula, outputs, num_outputs)?;
            evaluate(&expression, inputs, &outputs, n, stream)
        }
    })
}

/// Evaluates an expression of arrays of any strides. The arrays have one common shape. The call evaluates the
/// expression for each of their elements, or reduces them along axes, or does both in one pass.
///
/// `shape` points to the lengths of the `ndim` axes, at most 32; 0 axes are one element. `inputs` points to an
/// array for each input, in the order of `gpuvec_expr_compile`, and `outputs` to one for each output, as many
/// as `gpuvec_expr_num_outputs(expr)`. The strides of an array, in bytes, are the distances between elements
/// along the axes. An input with a stride of 0 is the same along that axis (broadcasting). NULL strides stand
/// for C order. Strides along axes of length 1 are ignored, and so are those of scalars, and those of the
/// results of reductions along the reduced axes. Addresses and strides are multiples of the elements' size.
///
/// `reduced_axes` has a bit for each axis that reductions reduce, the lowest for the first axis; it is 0 for an
/// expression without reductions. The result for each index of the other axes is that of `gpuvec_expr_run` for
/// the elements with this index, with the same bits, whatever the strides. `argmin` and `argmax` count the
/// elements in C order of the reduced axes. Results of no elements are those of `n` = 0: of `min`, `max`, `argmin`
/// and `argmax`, a reduced axis of length 0 is `GPUVEC_ERROR_EMPTY`, also where the other axes leave no results.
///
/// Beside reductions, outputs that are not reductions have all axes, the reduced ones, too. All formulas use
/// the inputs as they are before the call, as those of `gpuvec_expr_run_outputs`.
///
/// An output may be exactly one of the inputs, with the same address and strides, if the elements of both have
/// the same size; the result of a reduction of all elements may be where the first one is. Otherwise, an output
/// overlaps neither an input, nor itself or another output. Arrays that interleave, such as fields of the same
/// records, or blocks of columns of the same matrix, do not overlap; of arrays with unusual strides it may not
/// be found out that they do not, and they are refused.
///
/// If all arrays are contiguous, in the same order of axes, and all axes are reduced or none, the call is done
/// as `gpuvec_expr_run` does it. Other calls run on the same processors, but not on cores and GPUs together. A
/// GPU uses arrays that it reaches in place, and the elements of pageable ones are gathered and scattered on
/// the way. A stream of a GPU that reaches all arrays takes the call, as that of `gpuvec_expr_run`, unless a
/// result has more than 2^30 elements, one reduction is a `var` or `std`, or the result of one of several outputs
/// is to be in an input; with any other stream the call waits for the stream's work, and is done when it returns.
///
/// Returns `GPUVEC_OK`; `GPUVEC_ERROR_OVERLAP`; `GPUVEC_ERROR_PLACEMENT` also if arrays that are not contiguous
/// are in the memory of different devices; `GPUVEC_ERROR_VALUE` if more than 8 axes are left after those that
/// follow each other in all arrays were merged; or as `gpuvec_expr_run`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_expr_run_nd(
    expr: *mut gpuvec_expr, ndim: i32, shape: *const i64, inputs: *const gpuvec_array,
    outputs: *const gpuvec_array, reduced_axes: u64, stream: *mut gpuvec_stream,
) -> Status {
    guard::operation(|| {
        log::begin(Subject::Expression(None), 0);
        let expression = expression::given(expr)?;
        // SAFETY: the caller's promise, as the header says.
        unsafe {
            let shape = &*read_shape(ndim, shape)?;
            let strided = Strided::new(shape, inputs, outputs, reduced_axes);
            evaluate_strided(&expression, &strided, stream)
        }
    })
}

/// Evaluates an expression of tensors of DLPack. It does so, or reduces them along axes, as
/// `gpuvec_expr_run_nd`.
///
/// `inputs` points to the address of a `DLTensor`, which DLPack's dlpack.h defines, for each input, in the
/// order of `gpuvec_expr_compile`, and `outputs` to that of one for each output. The tensors, which are only
/// read and not kept, are in host memory, in pinned or managed memory, or on a CUDA device; their elements have
/// the types that the expression declares, in one lane. A scalar is a tensor of one element that the host can
/// read. Inputs that the expression does not use may be NULL.
///
/// The shapes of the inputs that are arrays are broadcast, as NumPy does it: to the shape of the outputs that
/// are not reductions, which is one for all; or, if all are reductions, to their common shape. `reduced_axes`
/// has a bit for each axis of this shape. A reduction's output has the axes that are not reduced, or all, with
/// the length 1 where they are reduced.
///
/// Returns as `gpuvec_expr_run_nd`; `GPUVEC_ERROR_VALUE` also for other types, devices or shapes.
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

/// Makes a GPU's driver compile an expression. Unless it has done so before, it does it now: the next calls on
/// contiguous arrays run there at once. The driver keeps what it compiled in a cache on disk, from process to
/// process.
///
/// `device` counts from 0. Does nothing where no GPU is usable, and with placement `cpu`; `device` is then 0.
/// Returns `GPUVEC_OK` or an error.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_expr_prepare(expr: *mut gpuvec_expr, device: i32) -> Status {
    guard::call(|| prepare(&*expression::given(expr)?, device).map(|()| 0))
}

/// Returns the number of outputs. It is that of the formulas in the text, 1 to 8; or an error, a
/// `gpuvec_status`, which is above 8.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_expr_num_outputs(expr: *mut gpuvec_expr) -> i32 {
    guard::call(|| Ok(expression::given(expr)?.formula.outputs().count() as i32))
}

/// Returns the type of the output's elements. It is a `gpuvec_type`; or an error, a `gpuvec_status`:
/// `GPUVEC_ERROR_VALUE` if there are several outputs.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_expr_output_type(expr: *mut gpuvec_expr) -> i32 {
    guard::call(|| {
        let expression = expression::given(expr)?;
        expression.formula.only_output("gpuvec_expr_output_type_at")?;
        expression.output_type(0)
    })
}

/// Tells if the expression is a reduction. Returns 1 if it is, and so its output one value, 0 if it is not; or
/// an error, a `gpuvec_status`: `GPUVEC_ERROR_VALUE` if there are several outputs.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_expr_is_reduction(expr: *mut gpuvec_expr) -> i32 {
    guard::call(|| {
        let expression = expression::given(expr)?;
        expression.formula.only_output("gpuvec_expr_is_reduction_at")?;
        expression.has_result(0)
    })
}

/// Returns the type of the elements of one of the outputs. It is a `gpuvec_type`; or an error, a
/// `gpuvec_status`. `index` counts outputs from 0.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_expr_output_type_at(expr: *mut gpuvec_expr, index: usize) -> i32 {
    guard::call(|| expression::given(expr)?.output_type(index))
}

/// Tells if one of the outputs is that of a reduction. Returns 1 if it is, and so the output one value, 0 if it
/// is not; or an error, a `gpuvec_status`. `index` counts outputs from 0.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_expr_is_reduction_at(expr: *mut gpuvec_expr, index: usize) -> i32 {
    guard::call(|| expression::given(expr)?.has_result(index))
}

/// Stores an expression's program or PTX as text. `buffer` is in host memory, and the PTX is that for the GPU's
/// driver. `form` is a `gpuvec_expr_form`.
///
/// At most `size` bytes are written, and the text always ends with a NUL; `buffer` may be NULL if `size` is 0.
/// Unless `needed` is NULL, the size that holds all of the text is stored there. The texts are for people: they
/// may change with every version. Returns `GPUVEC_OK` or an error.
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

/// Compiles the text of a C string.
///
/// # Safety
/// As for every function of this module.
unsafe fn compile(
    text: *const c_char, names: *const *const c_char, types: *const i32, count: usize,
    expr: *mut *mut gpuvec_expr,
) -> Result<Status, Error> {
    if expr.is_null() {
        return Err(Error::NullResult { argument: "expr" });
    }
    // SAFETY: this function's promise.
    unsafe {
        expr.write_unaligned(std::ptr::null_mut());
        let text = c_str("text", text)?;
        let inputs = declared(names, types, count)?;
        let handle = expression::compile(text, &inputs).map_err(|refused| match refused {
            Refused::Expression(error) => guard::refuse(&error),
            Refused::Other(error) => error,
        })?;
        expr.write_unaligned(handle);
    }
    Ok(0)
}

/// The inputs that a caller declares.
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
    for (argument, is_null) in [("names", names.is_null()), ("types", types.is_null())] {
        if is_null && count > 0 {
            return Err(Error::Null { argument, n: count });
        }
    }
    let input = |i| {
        // SAFETY: this function's promise.
        let (name, declared) = unsafe {
            let name = names.add(i).read_unaligned();
            (c_str("an element of names", name)?, types.add(i).read_unaligned())
        };
        let (element, form) = expression::declaration(declared)?;
        Ok(Input { name, element, form })
    };
    (0..count).map(input).collect()
}

/// The outputs that a caller gives to a formula.
///
/// # Safety
/// `outputs` points to `count` pointers.
unsafe fn given_outputs(
    formula: &Formula, outputs: *const *mut c_void, count: usize,
) -> Result<ArrayVec<Output, MAX_OUTPUTS>, Error> {
    if count != formula.outputs().count() {
        return Err(Error::Value {
            argument: "num_outputs",
            value: i64::try_from(count).unwrap_or(i64::MAX),
            expected: "pass gpuvec_expr_num_outputs(expr)",
        });
    }
    if outputs.is_null() {
        return Err(Error::Null { argument: "outputs", n: count });
    }
    let output = |(i, (name, layout))| {
        // SAFETY: this function's promise.
        let pointer = unsafe { outputs.add(i).read_unaligned() };
        Output { name, pointer, layout }
    };
    Ok(OUTPUT_NAMES.into_iter().zip(formula.outputs()).enumerate().map(output).collect())
}

/// The text of a C string.
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

/// Stores a text as far as it fits, and the size that all of it needs.
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
