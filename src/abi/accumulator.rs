//! Accumulators: exact sums in pieces, which merge.

use super::{Status, guard, named};
use crate::error::Error;
use crate::objects::accumulator::{self, Accumulator, gpuvec_accumulator};
use crate::objects::stream::gpuvec_stream;
use crate::run::accumulate;
use crate::run::log::{self, Subject};
use gpuvec_exact::{Code, State};
use gpuvec_ops::{DotF32, DotF64, Exact, SumF32, SumF64};
use std::ffi::c_void;

/// == Accumulators ==
///
/// Creates an accumulator: an exact sum, or dot product, whose elements are added piece by piece.
///
/// `kind` is a `gpuvec_accumulator_kind`. The value of an accumulator depends only on the elements
/// that were added, not on the pieces or their order: it has the bits that `gpuvec_sum_f32`,
/// `gpuvec_dot_f32`, `gpuvec_sum_f64` or `gpuvec_dot_f64` gives for all of them. Returns NULL on
/// failure; `gpuvec_last_error()` tells why. Destroy the accumulator with
/// `gpuvec_accumulator_destroy`.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_accumulator_create(kind: i32) -> *mut gpuvec_accumulator {
    guard::call(|| accumulator::create(kind))
}

/// Adds `n` elements of `a`, or for a dot product the products `a[0]*b[0]`, …, `a[n-1]*b[n-1]`.
///
/// `a` and `b` are arrays of the accumulator's type, in memory of any kind; `b` is NULL for a sum.
/// With a stream the call first waits for the stream's earlier work. The elements are added when
/// the call returns; after an error none is. An accumulator takes fewer than 2^63 elements. Returns
/// `GPUVEC_OK` or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_accumulator_add(
    accumulator: *mut gpuvec_accumulator, a: *const c_void, b: *const c_void, n: usize,
    stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { add(accumulator, a, b, n, stream) })
}

/// Adds all elements of another accumulator of the same kind, `other`, which stays as it is.
///
/// `other` may be `accumulator` itself, whose elements then count twice. Returns `GPUVEC_OK`;
/// `GPUVEC_ERROR_VALUE` for accumulators of two kinds; `GPUVEC_ERROR_SIZE` if there would be 2^63
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

/// Stores the exact sum of all elements so far, rounded once, in `value`: a `float` or `double` in
/// host memory. More elements may be added afterwards.
///
/// Returns `GPUVEC_OK` or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_accumulator_value(
    accumulator: *mut gpuvec_accumulator, value: *mut c_void,
) -> Status {
    guard::call(|| {
        let accumulator = accumulator::given("accumulator", accumulator)?;
        if value.is_null() {
            return Err(Error::NullResult { argument: "value" });
        }
        let (bytes, len) = accumulator.value_bytes();
        // SAFETY: the caller's promise, as the header says.
        unsafe { value.cast::<u8>().copy_from(bytes.as_ptr(), len) };
        Ok(0)
    })
}

/// Returns the size of a serialized accumulator of this kind: 152, 224, 608 or 1,136 bytes. Returns 0
/// for an unknown kind.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_accumulator_bytes(kind: i32) -> usize {
    guard::constant(0, || accumulator::bytes(kind))
}

/// Stores the state of an accumulator in `bytes`, in host memory, for another process or machine,
/// or for later. `size` is what `gpuvec_accumulator_bytes` returns.
///
/// The bytes are signed, little-endian integers of 64 bits. The states of up to 2^30 accumulators
/// of one kind merge by plain addition of these integers, as `MPI_SUM` of `MPI_INT64_T` and NCCL
/// do it, in any grouping: the sums are the state of all their elements. Returns `GPUVEC_OK` or an
/// error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_accumulator_serialize(
    accumulator: *mut gpuvec_accumulator, bytes: *mut c_void, size: usize,
) -> Status {
    guard::call(|| {
        let accumulator = accumulator::given("accumulator", accumulator)?;
        if bytes.is_null() {
            return Err(Error::NullResult { argument: "bytes" });
        }
        let state = accumulator.serialize(size)?;
        // SAFETY: the caller promises `size` writable bytes, as many as there are.
        unsafe { bytes.cast::<u8>().copy_from(state.as_ptr(), state.len()) };
        Ok(0)
    })
}

/// Creates an accumulator from `size` bytes that `gpuvec_accumulator_serialize` stored, or from the
/// sums of several. Its kind is in the bytes.
///
/// Returns NULL on failure, with `GPUVEC_ERROR_SIZE` for a sum of more than 2^30 states or of 2^63
/// elements or more, and with `GPUVEC_ERROR_STATE` for bytes that are damaged, incomplete or from
/// somewhere else; `gpuvec_last_error()` tells why. Destroy the accumulator with
/// `gpuvec_accumulator_destroy`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_accumulator_deserialize(
    bytes: *const c_void, size: usize,
) -> *mut gpuvec_accumulator {
    guard::call(|| {
        if bytes.is_null() {
            return Err(Error::Null { argument: "bytes", n: size });
        }
        if bytes.addr().checked_add(size).is_none_or(|end| isize::try_from(end).is_err()) {
            return Err(Error::TooManyBytes { argument: "size", bytes: size });
        }
        // SAFETY: the caller promises `size` readable bytes, which no thread changes meanwhile.
        accumulator::deserialize(unsafe { std::slice::from_raw_parts(bytes.cast(), size) })
    })
}

/// Destroys an accumulator; NULL does nothing.
///
/// Returns `GPUVEC_OK` or `GPUVEC_ERROR_HANDLE`.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_accumulator_destroy(accumulator: *mut gpuvec_accumulator) -> Status {
    guard::call(|| accumulator::destroy(accumulator).map(|()| 0))
}

/// Adds terms to an accumulator of any kind.
///
/// # Safety
/// As for every function of this module.
unsafe fn add(
    accumulator: *mut gpuvec_accumulator, a: *const c_void, b: *const c_void, n: usize,
    stream: *mut gpuvec_stream,
) -> Result<(), Error> {
    log::begin(Subject::Accumulator(None), n);
    let accumulator = accumulator::given("accumulator", accumulator)?;
    let code = accumulator.code();
    if matches!(code, Code::SumF32 | Code::SumF64) && !b.is_null() {
        return Err(Error::SecondInput { address: b.addr() });
    }
    // SAFETY: this function's promise.
    unsafe {
        match code {
            Code::SumF32 => add_terms::<SumF32, 1>(&accumulator, [a], n, stream),
            Code::DotF32 => add_terms::<DotF32, 2>(&accumulator, [a, b], n, stream),
            Code::SumF64 => add_terms::<SumF64, 1>(&accumulator, [a], n, stream),
            Code::DotF64 => add_terms::<DotF64, 2>(&accumulator, [a, b], n, stream),
        }
    }
}

/// Adds the terms of an operation to an accumulator of its kind, at once.
///
/// # Safety
/// As for every function of this module.
unsafe fn add_terms<O: Exact, const COUNT: usize>(
    accumulator: &Accumulator, inputs: [*const c_void; COUNT], n: usize, stream: *mut gpuvec_stream,
) -> Result<(), Error> {
    let mut state = State::<O::Kind>::ZERO;
    // SAFETY: this function's promise.
    unsafe { accumulate::<O>(&named::<O, COUNT>(inputs), n, stream, &mut state)? };
    accumulator.add(state.words().as_ref())
}
