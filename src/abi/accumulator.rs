//! # Accumulators
//!
//! An accumulator is an exact sum, or dot product, that continues from call to call:
//!
//! ```c
//! double x[4] = {1e100, 1, -1e100, 2}, value;
//! gpuvec_accumulator *sum = gpuvec_accumulator_create(GPUVEC_ACCUMULATOR_SUM_F64);
//! for (int i = 0; i < 4; i += 2) {
//!     gpuvec_accumulator_add(sum, x + i, NULL, 2, NULL); // two elements at a time
//! }
//! if (gpuvec_accumulator_value(sum, &value) == GPUVEC_OK) {
//!     printf("%g\n", value); // 3
//! }
//! gpuvec_accumulator_destroy(sum);
//! ```
//!
//! Its value depends only on the elements that were added, not on how they were split or ordered: it has the
//! bits that `gpuvec_sum_f32`, `gpuvec_dot_f32`, `gpuvec_sum_f64` or `gpuvec_dot_f64` returns for all of them.
//! Accumulators of several threads, processes or machines merge without rounding: by
//! `gpuvec_accumulator_merge`, or, once serialized, by adding the integers of their states, as `MPI_SUM` does.
//!
//! `gpuvec_accumulator_create_nd` creates an accumulator with a shape: an array of such sums.
//! `gpuvec_accumulator_add_nd` adds the elements of arrays of any strides to them, along axes, and
//! `gpuvec_accumulator_add_by` adds the elements of each key to a sum of their own.
//!
//! Several threads may use one accumulator at the same time: each call adds all of its elements at once, or
//! none. A child made by `fork` continues with its own copy. Each sum takes fewer than 2^63 elements.
//!
//! Functions that create an accumulator return NULL on failure; `gpuvec_last_error()` says why. Destroy
//! accumulators with `gpuvec_accumulator_destroy`.

use super::{Status, guard, read_shape, values};
use crate::call::{Argument, Layout};
use crate::error::Error;
use crate::objects::accumulator::{self, Shape, gpuvec_accumulator};
use crate::objects::expression::{self, GPUVEC_IGNORE_OUTSIDE};
use crate::objects::stream::gpuvec_stream;
use crate::run::log::{self, Subject};
use crate::run::{INPUT_NAMES, accumulate, accumulate_by_key, gpuvec_array};
use arrayvec::ArrayVec;
use gpuvec_expr::Element;
use std::ffi::c_void;
use std::slice::from_raw_parts;

/// Creates an accumulator without elements. `kind` is a `gpuvec_accumulator_kind`.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_accumulator_create(kind: i32) -> *mut gpuvec_accumulator {
    guard::call(|| accumulator::create(kind, Shape::new()))
}

/// Creates an accumulator with a shape. Each of its elements is an exact sum or dot product of its own, for
/// arrays that are added along axes.
///
/// `shape` points to the lengths of the `ndim` axes, at most 32. With 0 axes the accumulator is one that
/// `gpuvec_accumulator_create` creates. The state of each element takes 120 (`SUM_F32`), 192 (`DOT_F32`), 576
/// (`SUM_F64`) or 1,104 (`DOT_F64`) bytes of host memory. Fails with `GPUVEC_ERROR_OUT_OF_MEMORY` if memory for
/// the states runs out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_accumulator_create_nd(
    kind: i32, ndim: i32, shape: *const i64,
) -> *mut gpuvec_accumulator {
    // SAFETY: the caller's promise, as the header says.
    guard::call(|| accumulator::create(kind, unsafe { read_shape(ndim, shape)? }))
}

/// Adds `n` elements of `a`, or `n` products `a[i] * b[i]`. An accumulator of a sum adds elements, and one of a
/// dot product adds products.
///
/// `a` and `b` are arrays of the accumulator's type, in memory of any kind; `b` is NULL for a sum. With a stream
/// the call first waits for the stream's earlier work. All elements have been added when the call returns; after
/// an error none has. Returns `GPUVEC_OK`; `GPUVEC_ERROR_VALUE` for an accumulator with a shape; or another
/// error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_accumulator_add(
    accumulator: *mut gpuvec_accumulator, a: *const c_void, b: *const c_void, n: usize,
    stream: *mut gpuvec_stream,
) -> Status {
    guard::operation(|| {
        log::begin(Subject::Accumulator(None), n);
        let accumulator = accumulator::given("accumulator", accumulator)?;
        if !accumulator.shape().is_empty() {
            return Err(Error::HasShape);
        }
        let op = accumulator.op();
        if op.inputs() == 1 && !b.is_null() {
            return Err(Error::SecondInput { address: b.addr() });
        }
        let layout = Layout::contiguous(op.element_bytes());
        // SAFETY: the caller's promise, as the header says.
        let inputs = [("a", a), ("b", b)]
            .map(|(name, pointer)| unsafe { Argument::new(name, pointer, layout, None) });
        let length = i64::try_from(n)
            .map_err(|_| Error::TooLong { n, element_bytes: op.element_bytes() })?;
        accumulate(&accumulator, &[length], 1, &inputs[..op.inputs()], stream)
    })
}

/// Adds the elements of arrays of any strides, along axes. The arrays have one common shape. Each sum of the
/// accumulator receives the elements that have its index along the axes that are not reduced.
///
/// `shape` points to the lengths of the arrays' `ndim` axes, and `inputs` to the array of a sum or to the two
/// arrays of a dot product. `reduced_axes` has a bit for each axis that is reduced; the lowest bit is for the
/// first axis. These arguments are as for `gpuvec_expr_run_nd`: strides are in bytes, NULL for C order, and 0
/// along an axis for broadcasting. The lengths of the axes that are not reduced, in their order, must be the
/// shape of the accumulator. For an accumulator without a shape, all axes must be reduced.
///
/// Each value has the bits of the exact sum of all its elements, rounded once, whatever the chunks, their order
/// and the strides. The elements of a call have been added to all sums when the call returns; after an error
/// none has. During the call the library needs memory for a second copy of the accumulator's states. With a
/// stream the call first waits for the stream's earlier work.
///
/// Cores add the elements of arrays in host memory. Arrays in the memory of one GPU, and all arrays with
/// placement `gpu`, are added on the GPU if the elements of each sum have at least as many bytes as a state; the
/// states are then copied to the host. Otherwise, and for arrays in the memory of two GPUs, cores add the
/// elements: device memory is copied to host memory in chunks, and `gpuvec_last_run` then describes the addition
/// of the last chunk. With placement `gpu` the call fails unless a GPU is usable. Contiguous arrays that are
/// reduced to one sum are added as by `gpuvec_accumulator_add`.
///
/// Returns `GPUVEC_OK`; `GPUVEC_ERROR_VALUE` also if the lengths are not the accumulator's, or if more than 8
/// axes remain after adjacent axes that are contiguous in all arrays have been merged; `GPUVEC_ERROR_SIZE` if a
/// sum would have 2^63 elements; `GPUVEC_ERROR_PLACEMENT` for device memory with placement `cpu`; or another
/// error. Errors name an array `inputs[i]`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_accumulator_add_nd(
    accumulator: *mut gpuvec_accumulator, ndim: i32, shape: *const i64,
    inputs: *const gpuvec_array, reduced_axes: u64, stream: *mut gpuvec_stream,
) -> Status {
    guard::operation(|| {
        log::begin(Subject::Accumulator(None), 0);
        let accumulator = accumulator::given("accumulator", accumulator)?;
        // SAFETY: the caller's promise, as the header says.
        let shape = unsafe { read_shape(ndim, shape)? };
        let op = accumulator.op();
        let count = if shape.contains(&0) { 0 } else { op.inputs() };
        // SAFETY: the caller's promise, as the header says.
        let argument = |(name, array)| unsafe { argument(name, array, op.element_bytes(), &shape) };
        // SAFETY: the caller's promise, as the header says.
        let inputs = unsafe { values("inputs", inputs, count)? };
        let inputs: ArrayVec<_, 2> = INPUT_NAMES.into_iter().zip(inputs).map(argument).collect();
        accumulate(&accumulator, &shape, reduced_axes, &inputs, stream)
    })
}

/// Adds the elements of each key to a sum of their own.
///
/// The accumulator's shape has the axes that are not reduced, and an axis for the keys in the place of the first reduced
/// axis, as the outputs of `gpuvec_expr_run_by`. `keys` points to an array of integers of the `gpuvec_type` `key_type`,
/// one for each element, of the same shape as the inputs: from 0 to the length of that axis less 1. With the flag
/// `GPUVEC_IGNORE_OUTSIDE` elements with other keys are left out. The other arguments are as for
/// `gpuvec_accumulator_add_nd`; at least one axis is reduced.
///
/// Cores add the elements. Arrays in device memory are copied to host memory.
///
/// Returns `GPUVEC_OK`; `GPUVEC_ERROR_VALUE` also if a key is outside the groups, and then adds nothing; or another
/// error of `gpuvec_accumulator_add_nd`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_accumulator_add_by(
    accumulator: *mut gpuvec_accumulator, ndim: i32, shape: *const i64,
    inputs: *const gpuvec_array, keys: *const gpuvec_array, key_type: i32, reduced_axes: u64,
    flags: i32, stream: *mut gpuvec_stream,
) -> Status {
    guard::operation(|| {
        log::begin(Subject::Accumulator(None), 0);
        let accumulator = accumulator::given("accumulator", accumulator)?;
        // SAFETY: the caller's promise, as the header says.
        let shape = unsafe { read_shape(ndim, shape)? };
        let key = expression::element(key_type).filter(|element| is_key(*element));
        let key = key.ok_or(Error::Value {
            argument: "key_type",
            value: key_type.into(),
            expected: "pass the gpuvec_type of integers",
        })?;
        let op = accumulator.op();
        let (count, keys_count) = if shape.contains(&0) { (0, 0) } else { (op.inputs(), 1) };
        // SAFETY: the caller's promise, as the header says.
        let (inputs, keys) =
            unsafe { (values("inputs", inputs, count)?, values("keys", keys, keys_count)?) };
        let inputs = INPUT_NAMES.into_iter().zip(inputs).map(|of| (of, op.element_bytes()));
        let keys = keys.map(|keys| (("keys", keys), key.bytes()));
        // SAFETY: the caller's promise, as the header says.
        let argument = |((name, array), bytes)| unsafe { argument(name, array, bytes, &shape) };
        let arrays: ArrayVec<_, 3> = inputs.chain(keys).map(argument).collect();
        let ignores_outside = flags & GPUVEC_IGNORE_OUTSIDE != 0;
        accumulate_by_key(&accumulator, &shape, reduced_axes, &arrays, key, ignores_outside, stream)
    })
}

/// True for the types of keys.
fn is_key(element: Element) -> bool {
    use Element::{I8, I16, I32, I64, U8, U16, U32, U64};
    matches!(element, I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64)
}

/// Adds all elements of another accumulator. `other` has the same kind and shape, and does not change.
///
/// `other` may be `accumulator` itself. Its elements then count twice. Returns `GPUVEC_OK`;
/// `GPUVEC_ERROR_VALUE` for accumulators of two kinds or shapes; `GPUVEC_ERROR_SIZE` if there would be 2^63
/// elements; or another error.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_accumulator_merge(
    accumulator: *mut gpuvec_accumulator, other: *mut gpuvec_accumulator,
) -> Status {
    guard::call(|| {
        let accumulator = accumulator::given("accumulator", accumulator)?;
        accumulator.merge(&*accumulator::given("other", other)?).map(|()| 0)
    })
}

/// Stores the sum so far: exact, rounded once. `value` points to a `float` or `double` in host memory or, for an
/// accumulator with a shape, to one for each of its elements, in C order. More elements may be added afterwards.
///
/// Returns `GPUVEC_OK` or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_accumulator_value(
    accumulator: *mut gpuvec_accumulator, value: *mut c_void,
) -> Status {
    guard::call(|| {
        let accumulator = accumulator::given("accumulator", accumulator)?;
        refuse_null("value", value, accumulator.shape())?;
        let mut place = value.cast::<u8>();
        // SAFETY: the caller's promise, as the header says.
        accumulator.values(&mut |bytes| place = unsafe { append(place, bytes) });
        Ok(0)
    })
}

/// Returns the size of a serialized accumulator in bytes. The sizes are 152 for `SUM_F32`, 224 for `DOT_F32`,
/// 608 for `SUM_F64` and 1,136 for `DOT_F64`. Returns 0 for an unknown kind.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_accumulator_bytes(kind: i32) -> usize {
    guard::constant(0, || accumulator::bytes(kind))
}

/// Serializes an accumulator into `bytes`. Another process or machine, or a later run, can deserialize it.
/// `bytes` is in host memory. `size` is the size that `gpuvec_accumulator_bytes` returns. For an accumulator
/// with a shape, it is that size times the number of elements: their states are stored one after the other in C
/// order.
///
/// The bytes are signed little-endian integers of 64 bits. Adding these integers, as `MPI_SUM` of `MPI_INT64_T`
/// and NCCL do, merges the states of up to 2^30 accumulators of one kind, in any grouping. Returns `GPUVEC_OK`
/// or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_accumulator_serialize(
    accumulator: *mut gpuvec_accumulator, bytes: *mut c_void, size: usize,
) -> Status {
    guard::call(|| {
        let accumulator = accumulator::given("accumulator", accumulator)?;
        refuse_null("bytes", bytes, accumulator.shape())?;
        let mut place = bytes.cast::<u8>();
        // SAFETY: the caller promises `size` writable bytes; `serialize` fails if the states have another size.
        accumulator.serialize(size, &mut |state| place = unsafe { append(place, state) })?;
        Ok(0)
    })
}

/// Creates an accumulator from a serialized state. The `size` bytes were stored by
/// `gpuvec_accumulator_serialize`, or are the sum of several such states as integers. The bytes contain the
/// kind.
///
/// Fails with `GPUVEC_ERROR_SIZE` for the sum of more than 2^30 states or of 2^63 or more elements, and with
/// `GPUVEC_ERROR_STATE` for bytes that are damaged, incomplete or not an accumulator state.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_accumulator_deserialize(
    bytes: *const c_void, size: usize,
) -> *mut gpuvec_accumulator {
    guard::call(|| {
        if bytes.is_null() {
            return Err(Error::Null { argument: "bytes", n: size });
        }
        // SAFETY: the caller's promise, as the header says.
        accumulator::deserialize(unsafe { readable(bytes, size)? })
    })
}

/// Creates an accumulator with a shape from its serialized states. The `size` bytes were stored by
/// `gpuvec_accumulator_serialize`, one state after the other in C order, or are the sum of several such states
/// as integers.
///
/// `kind` is a `gpuvec_accumulator_kind`, and `shape` points to the lengths of the `ndim` axes. Fails as
/// `gpuvec_accumulator_deserialize` does, and with `GPUVEC_ERROR_VALUE` if `size` is not the size of the states.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_accumulator_deserialize_nd(
    kind: i32, ndim: i32, shape: *const i64, bytes: *const c_void, size: usize,
) -> *mut gpuvec_accumulator {
    guard::call(|| {
        // SAFETY: the caller's promise, as the header says.
        let shape = unsafe { read_shape(ndim, shape)? };
        if bytes.is_null() && size > 0 {
            return Err(Error::Null { argument: "bytes", n: size });
        }
        // SAFETY: the caller's promise, as the header says.
        accumulator::deserialize_nd(kind, shape, unsafe { readable(bytes, size)? })
    })
}

/// Destroys an accumulator; NULL does nothing.
///
/// Returns `GPUVEC_OK` or `GPUVEC_ERROR_HANDLE`.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_accumulator_destroy(accumulator: *mut gpuvec_accumulator) -> Status {
    guard::call(|| accumulator::destroy(accumulator).map(|()| 0))
}

/// An array of a call.
///
/// # Safety
/// As [`Argument::new`]; unless they are NULL, the strides have a number for each axis of the shape, and live as long as
/// the argument.
unsafe fn argument<'a>(
    name: &'static str, array: gpuvec_array, element_bytes: usize, shape: &[i64],
) -> Argument<'a> {
    let first = array.strides.cast::<[u8; size_of::<i64>()]>();
    // SAFETY: this function's promise.
    unsafe {
        let strides = (!first.is_null()).then(|| from_raw_parts(first, shape.len()));
        Argument::new(name, array.data, Layout::contiguous(element_bytes), strides)
    }
}

/// Fails if the address for the results is NULL although an accumulator of this shape has results.
fn refuse_null(argument: &'static str, place: *mut c_void, shape: &[i64]) -> Result<(), Error> {
    if place.is_null() && !shape.contains(&0) {
        return Err(Error::NullResult { argument });
    }
    Ok(())
}

/// Copies bytes to a place. Returns the address after them.
///
/// # Safety
/// The place has room for the bytes.
unsafe fn append(place: *mut u8, bytes: &[u8]) -> *mut u8 {
    // SAFETY: this function's promise.
    unsafe {
        place.copy_from(bytes.as_ptr(), bytes.len());
        place.add(bytes.len())
    }
}

/// Returns the bytes that a caller passes. `bytes` may be NULL if `size` is 0.
///
/// # Safety
/// There are `size` readable bytes, which no thread changes for the lifetime.
unsafe fn readable<'a>(bytes: *const c_void, size: usize) -> Result<&'a [u8], Error> {
    if size == 0 {
        return Ok(&[]);
    }
    if bytes.addr().checked_add(size).is_none_or(|end| isize::try_from(end).is_err()) {
        return Err(Error::TooManyBytes { argument: "size", bytes: size });
    }
    // SAFETY: this function's promise.
    Ok(unsafe { std::slice::from_raw_parts(bytes.cast(), size) })
}
