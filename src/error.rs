//! Errors: the status that a caller gets and the text that explains it.
//!
//! Errors are small `Copy` values, and their text is written directly into a buffer of the thread. So it takes no
//! allocation to report one.

use gpuvec_exact::WireError;
use once_cell::race::OnceBox;
use std::ffi::CStr;
use thiserror::Error;

/// The status that functions return. New codes are only ever appended.
///
/// 1xx: an argument is wrong. 2xx: the call cannot run here or as requested. 3xx: a resource ran
/// out. 4xx: the driver or a device failed. 9xx: a defect in gpuvec.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(non_camel_case_types, reason = "the names that C callers see")]
pub enum gpuvec_status {
    /// The work is done.
    GPUVEC_OK = 0,
    /// Not an error: the queried work is not done yet.
    GPUVEC_NOT_READY = 1,
    /// A pointer is NULL where an array with elements, a result or a handle is needed.
    GPUVEC_ERROR_NULL = 101,
    /// A pointer is not a multiple of its element size.
    GPUVEC_ERROR_MISALIGNED = 102,
    /// `n` elements or `bytes` bytes do not fit into the address space.
    GPUVEC_ERROR_SIZE = 103,
    /// The output overlaps an input without being exactly that input.
    GPUVEC_ERROR_OVERLAP = 104,
    /// An array reaches beyond its allocation: device memory, or memory that `gpuvec_pinned_alloc` returned.
    GPUVEC_ERROR_OUT_OF_BOUNDS = 105,
    /// The function does not accept this pointer: for example, its memory was already freed.
    GPUVEC_ERROR_POINTER = 106,
    /// The function does not accept this value.
    GPUVEC_ERROR_VALUE = 107,
    /// The handle does not exist: it was destroyed or never created.
    GPUVEC_ERROR_HANDLE = 108,
    /// There are no elements, but the operation needs one: `min`, `max`, `argmin`, `argmax`.
    GPUVEC_ERROR_EMPTY = 109,
    /// The bytes do not hold an accumulator state: they are damaged, incomplete or something else.
    GPUVEC_ERROR_STATE = 110,
    /// The text of an expression, or the name of an input, is wrong; `gpuvec_last_error()` shows the place.
    GPUVEC_ERROR_EXPRESSION = 111,
    /// The placement is `gpu` but no GPU is usable; `gpuvec_why_cpu()` says why.
    GPUVEC_ERROR_NO_GPU = 201,
    /// The process was forked after the driver was in use, and the call needs it; or a signal
    /// handler that interrupted gpuvec forked the process.
    GPUVEC_ERROR_FORKED = 202,
    /// An environment variable of gpuvec has a wrong value.
    GPUVEC_ERROR_ENVIRONMENT = 203,
    /// The placement cannot access an array's memory, or gpuvec cannot use the stream's context.
    GPUVEC_ERROR_PLACEMENT = 204,
    /// A signal handler made the call while another gpuvec call was in progress in its thread.
    GPUVEC_ERROR_REENTRANT = 205,
    /// Host, pinned or device memory ran out.
    GPUVEC_ERROR_OUT_OF_MEMORY = 301,
    /// A CUDA driver function failed; `gpuvec_last_error()` names it and its error.
    GPUVEC_ERROR_DRIVER = 401,
    /// A device failed and stays unusable until the process ends.
    GPUVEC_ERROR_DEVICE_LOST = 402,
    /// A defect in gpuvec, caught before it reached the caller.
    GPUVEC_ERROR_INTERNAL = 901,
}

use gpuvec_status::*;

const fn text(with_nul: &str) -> &CStr {
    match CStr::from_bytes_with_nul(with_nul.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("a NUL before the end"),
    }
}

macro_rules! statuses {
    ($($status:ident: $meaning:literal,)+) => {
        [$(($status, text(concat!(stringify!($status), ": ", $meaning, "\0")))),+]
    };
}

/// Every status, in ascending order, with its name and meaning for `gpuvec_status_string`.
pub(crate) const STATUSES: &[(gpuvec_status, &CStr)] = &statuses![
    GPUVEC_OK: "done",
    GPUVEC_NOT_READY: "the work is not done yet",
    GPUVEC_ERROR_NULL: "a pointer is NULL",
    GPUVEC_ERROR_MISALIGNED: "a pointer is not a multiple of its element size",
    GPUVEC_ERROR_SIZE: "more bytes than the address space holds",
    GPUVEC_ERROR_OVERLAP: "the output partly overlaps an input",
    GPUVEC_ERROR_OUT_OF_BOUNDS: "an array reaches beyond its allocation",
    GPUVEC_ERROR_POINTER: "the function does not accept this pointer",
    GPUVEC_ERROR_VALUE: "the function does not accept this value",
    GPUVEC_ERROR_HANDLE: "no such stream, event, accumulator or expression",
    GPUVEC_ERROR_EMPTY: "a minimum or maximum of no elements",
    GPUVEC_ERROR_STATE: "the bytes do not hold an accumulator state",
    GPUVEC_ERROR_EXPRESSION: "the expression is wrong",
    GPUVEC_ERROR_NO_GPU: "the placement is gpu but no GPU is usable",
    GPUVEC_ERROR_FORKED: "a forked process cannot use its parent's CUDA state",
    GPUVEC_ERROR_ENVIRONMENT: "an environment variable has a wrong value",
    GPUVEC_ERROR_PLACEMENT: "the placement cannot access an array or a stream",
    GPUVEC_ERROR_REENTRANT: "called by a signal handler during another call",
    GPUVEC_ERROR_OUT_OF_MEMORY: "memory ran out",
    GPUVEC_ERROR_DRIVER: "a CUDA driver function failed",
    GPUVEC_ERROR_DEVICE_LOST: "a device failed and stays unusable",
    GPUVEC_ERROR_INTERNAL: "a defect in gpuvec",
];

/// A failure, with the values that its text names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Error {
    #[error("{argument} is NULL, but its length is {n}: pass an array of that length")]
    Null { argument: &'static str, n: usize },

    #[error("{argument} is NULL: pass a C string")]
    NullText { argument: &'static str },

    #[error("{argument} is NULL, and it is a scalar: pass the address of its value in host memory")]
    NullScalar { argument: &'static str },

    #[error("{argument} is not valid UTF-8 at byte {place}: pass UTF-8")]
    NotUtf8 { argument: &'static str, place: usize },

    #[error("{argument} is NULL: pass the address for the result")]
    NullResult { argument: &'static str },

    #[error(
        "{argument} is {address:#x}, which is not a multiple of {alignment}, its element size: \
         pass an aligned array"
    )]
    Misaligned { argument: &'static str, address: usize, alignment: usize },

    #[error("n is {n}: {n} elements of {element_bytes} bytes do not fit into the address space")]
    TooLong { n: usize, element_bytes: usize },

    #[error("{argument} is {bytes}: more than the address space holds")]
    TooManyBytes { argument: &'static str, bytes: usize },

    #[error(
        "{output} partly overlaps {input}: pass the same array (in place) or arrays that do not \
         overlap"
    )]
    Overlap { output: &'static str, input: &'static str },

    #[error("{output} overlaps {other}: pass outputs that do not overlap")]
    OutputsOverlap { output: &'static str, other: &'static str },

    #[error(
        "{argument} would have {needed} bytes, but its allocation ends after {available}: pass a longer array or a \
         smaller length"
    )]
    OutOfBounds { argument: &'static str, available: usize, needed: usize },

    #[error("{argument} is {address:#x}, which {by} did not return, or which was already freed")]
    NotGivenBy { argument: &'static str, address: usize, by: &'static str },

    #[error(
        "{argument} is {address:#x}, which is not registered: it never was, or it was unregistered as often as \
         gpuvec_host_register was called for it"
    )]
    NotRegisteredHere { argument: &'static str, address: usize },

    #[error("{argument} is NULL: pass a handle from {creator}")]
    NullHandle { argument: &'static str, creator: &'static str },

    #[error(
        "{argument} is {value:#x}, which is not a valid handle: it was destroyed, or never created"
    )]
    NoSuchHandle { argument: &'static str, value: usize },

    #[error("{argument} was never recorded: record it on a stream by gpuvec_event_record")]
    NotRecorded { argument: &'static str },

    #[error("start and end have different clocks: record both on streams of one device")]
    TwoClocks,

    #[error("{argument} is {address:#x}, which is neither host nor device memory: was it freed?")]
    NoMemory { argument: &'static str, address: usize },

    #[error("{argument} is {value}: {expected}")]
    Value { argument: &'static str, value: i64, expected: &'static str },

    #[error("{argument} is NULL, or its shape is NULL: pass a DLTensor")]
    NullTensor { argument: &'static str },

    #[error(
        "{argument} has elements of DLPack's type code {code} with {bits} bits and {lanes} lanes, but {expected} is \
         declared: pass a tensor of this type"
    )]
    TensorType { argument: &'static str, code: u8, bits: u8, lanes: u16, expected: &'static str },

    #[error(
        "{argument} is on a device of DLPack's type {device_type}: pass a tensor in host memory (1), in pinned (3) or \
         managed memory (13), or on a CUDA device (2) if it is not a scalar"
    )]
    TensorDevice { argument: &'static str, device_type: i32 },

    #[error("{argument} has {ndim} axes: pass a tensor with at most {wanted}")]
    TensorAxes { argument: &'static str, ndim: i32, wanted: usize },

    #[error(
        "{argument} has length {length} along its axis {axis}, but the call needs {wanted}: pass tensors whose \
         shapes can be broadcast"
    )]
    TensorShape { argument: &'static str, axis: usize, length: i64, wanted: i64 },

    #[error("{0}")]
    Axes(gpuvec_axes::Error),

    #[error(
        "{argument} is in the memory of device {ordinal}, but this call runs on device {device} and can read arrays with \
         these strides only there: pass a copy on that device, or C-contiguous arrays"
    )]
    StridedOnOtherDevice { argument: &'static str, ordinal: usize, device: usize },

    #[error("expr has {outputs} outputs: call {instead}")]
    SeveralOutputs { outputs: usize, instead: &'static str },

    #[error("other is {found}, but accumulator is {wanted}: merge accumulators of one kind")]
    OtherKind { found: &'static str, wanted: &'static str },

    #[error(
        "other's number of axes is {found}, but accumulator's is {wanted}: merge accumulators of one shape"
    )]
    OtherAxes { found: usize, wanted: usize },

    #[error(
        "other has length {found} along axis {axis}, but accumulator has {wanted}: merge accumulators of one shape"
    )]
    OtherShape { axis: usize, found: i64, wanted: i64 },

    #[error("accumulator has a shape: call gpuvec_accumulator_add_nd")]
    HasShape,

    #[error(
        "the number of axes that are not reduced is {found}, but accumulator's is {wanted}: reduce all others"
    )]
    KeptAxes { found: usize, wanted: usize },

    #[error(
        "shape[{axis}] is {found}, but accumulator has length {wanted} along its axis {own}: pass arrays that have \
         the accumulator's shape along the axes that are not reduced"
    )]
    KeptLength { axis: usize, found: i64, own: usize, wanted: i64 },

    #[error("b is {address:#x}, but accumulator is a sum, which has one input: pass NULL")]
    SecondInput { address: usize },

    #[error("a sum in accumulator would have 2^63 elements or more: start another accumulator")]
    TooManyElements,

    #[error(
        "size is {room}, but the accumulator's states have {needed} bytes: pass this size, which is \
         gpuvec_accumulator_bytes for each state"
    )]
    StateBytes { room: usize, needed: usize },

    #[error("bytes does not hold an accumulator state: {0}")]
    State(WireError),

    #[error("bytes holds the sum of too many states: {0}")]
    TooManyStates(WireError),

    #[error("the state at index {index} of bytes cannot be read: {error}")]
    StateAt { index: usize, error: WireError },

    #[error("there are no elements, but a minimum or maximum needs one: pass at least one element")]
    Empty,

    #[error(
        "group {group} has no elements, but a minimum or maximum needs one: number the groups without gaps, or leave \
         out those without elements"
    )]
    EmptyGroup { group: usize },

    #[error(
        "the key of element {index} is {key}, but there are {groups} groups: pass keys from 0 to one less, or leave \
         such elements out with GPUVEC_IGNORE_OUTSIDE"
    )]
    Key { index: usize, key: i64, groups: usize },

    #[error("the expression is wrong")]
    Expression,

    #[error("no usable GPU: {why}")]
    NoGpu { why: &'static str },

    #[error(
        "this process was forked after its parent began to use CUDA, which a child cannot use: \
         start it with exec (multiprocessing's 'spawn') or use placement auto, cpu or all"
    )]
    Forked,

    #[error(
        "this process was forked by a signal handler that interrupted gpuvec, so threads that do \
         not exist here may hold gpuvec's locks: call exec"
    )]
    ForkedInHandler,

    #[error(
        "a gpuvec call is in progress in this thread: a signal handler cannot make another one"
    )]
    Reentrant,

    #[error(
        "stream is being captured into a CUDA graph, which cannot contain a reduction or a call that \
         waits, such as one on pageable arrays: make the call before or after the capture"
    )]
    Captured,

    #[error(
        "the event was recorded on a stream that was being captured into a CUDA graph, so only the graph \
         can wait for it: record it again after the capture"
    )]
    CapturedEvent,

    #[error("the environment variable {variable} is '{value}': set it to {expected}, or unset it")]
    Environment { variable: &'static str, value: &'static str, expected: &'static str },

    #[error(
        "{argument} is device memory, which placement cpu cannot access: use another placement"
    )]
    DeviceMemoryOnCpu { argument: &'static str },

    #[error(
        "the stream does not belong to the primary context of device {ordinal}: pass a stream that the CUDA runtime \
         created, or one of that context"
    )]
    OtherContext { ordinal: usize },

    #[error("out of host memory: {bytes} bytes for {purpose} could not be allocated")]
    OutOfHostMemory { bytes: usize, purpose: &'static str },

    #[error("{call} failed with {name} ({code}) on device {ordinal}")]
    Driver { call: &'static str, name: &'static str, code: u32, ordinal: usize },

    #[error(
        "device {ordinal} is lost after an earlier failure: restart the process to use it again"
    )]
    DeviceLost { ordinal: usize },

    #[error("a defect in gpuvec: please report it with this text: {text}")]
    Internal { text: &'static str },
}

/// Interns a text, so that errors can refer to it. Repeated failures with the same text allocate no more memory.
pub(crate) fn interned(text: String) -> &'static str {
    // No lock, since another thread could hold it at a fork.
    static FIRST: OnceBox<Interned> = OnceBox::new();
    let mut place = &FIRST;
    loop {
        let here = place.get_or_init(|| {
            Box::new(Interned { text: text.clone().into_boxed_str(), next: OnceBox::new() })
        });
        if *here.text == *text {
            return &here.text;
        }
        place = &here.next;
    }
}

/// A node of the list of all interned texts.
struct Interned {
    text: Box<str>,
    next: OnceBox<Interned>,
}

/// The driver's errors (CUresult) after which every call in the context fails with the same error. The process must
/// then be relaunched, as the driver API's reference says. 999 is an unknown error.
const STICKY: [u32; 16] =
    [214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911, 999];
const CUDA_ERROR_OUT_OF_MEMORY: u32 = 2;

impl Error {
    /// Returns the status that the caller gets.
    pub(crate) fn status(&self) -> gpuvec_status {
        match self {
            Error::Null { .. }
            | Error::NullText { .. }
            | Error::NullScalar { .. }
            | Error::NullTensor { .. }
            | Error::NullResult { .. }
            | Error::NullHandle { .. } => GPUVEC_ERROR_NULL,
            Error::Misaligned { .. } => GPUVEC_ERROR_MISALIGNED,
            Error::TooLong { .. }
            | Error::TooManyBytes { .. }
            | Error::TooManyElements
            | Error::TooManyStates(_)
            | Error::StateAt {
                error: WireError::TooManyStates { .. } | WireError::TooManyElements,
                ..
            } => GPUVEC_ERROR_SIZE,
            Error::Overlap { .. } | Error::OutputsOverlap { .. } => GPUVEC_ERROR_OVERLAP,
            Error::OutOfBounds { .. } => GPUVEC_ERROR_OUT_OF_BOUNDS,
            Error::NotGivenBy { .. } | Error::NotRegisteredHere { .. } | Error::NoMemory { .. } => {
                GPUVEC_ERROR_POINTER
            }
            Error::NoSuchHandle { .. } => GPUVEC_ERROR_HANDLE,
            Error::NotRecorded { .. }
            | Error::TwoClocks
            | Error::Captured
            | Error::CapturedEvent => GPUVEC_ERROR_VALUE,
            Error::Axes(error) => of_axes(error),
            Error::Value { .. }
            | Error::TensorType { .. }
            | Error::TensorDevice { .. }
            | Error::TensorAxes { .. }
            | Error::TensorShape { .. }
            | Error::SeveralOutputs { .. }
            | Error::OtherKind { .. }
            | Error::OtherAxes { .. }
            | Error::OtherShape { .. }
            | Error::HasShape
            | Error::KeptAxes { .. }
            | Error::KeptLength { .. }
            | Error::Key { .. }
            | Error::SecondInput { .. }
            | Error::StateBytes { .. } => GPUVEC_ERROR_VALUE,
            Error::State(_) | Error::StateAt { .. } => GPUVEC_ERROR_STATE,
            Error::Empty | Error::EmptyGroup { .. } => GPUVEC_ERROR_EMPTY,
            Error::Expression | Error::NotUtf8 { .. } => GPUVEC_ERROR_EXPRESSION,
            Error::NoGpu { .. } => GPUVEC_ERROR_NO_GPU,
            Error::Forked | Error::ForkedInHandler => GPUVEC_ERROR_FORKED,
            Error::Reentrant => GPUVEC_ERROR_REENTRANT,
            Error::Environment { .. } => GPUVEC_ERROR_ENVIRONMENT,
            Error::DeviceMemoryOnCpu { .. }
            | Error::StridedOnOtherDevice { .. }
            | Error::OtherContext { .. } => GPUVEC_ERROR_PLACEMENT,
            Error::OutOfHostMemory { .. } => GPUVEC_ERROR_OUT_OF_MEMORY,
            Error::Driver { code: CUDA_ERROR_OUT_OF_MEMORY, .. } => GPUVEC_ERROR_OUT_OF_MEMORY,
            Error::Driver { .. } if self.loses_device() => GPUVEC_ERROR_DEVICE_LOST,
            Error::Driver { .. } => GPUVEC_ERROR_DRIVER,
            Error::DeviceLost { .. } => GPUVEC_ERROR_DEVICE_LOST,
            Error::Internal { .. } => GPUVEC_ERROR_INTERNAL,
        }
    }

    /// True if the error makes the device unusable for the rest of the process.
    pub(crate) fn loses_device(&self) -> bool {
        matches!(self, Error::Driver { code, .. } if STICKY.contains(code))
    }

    /// True if a device is lost, by this or an earlier failure, with its memory and streams.
    pub(crate) fn is_of_lost_device(&self) -> bool {
        self.status() == GPUVEC_ERROR_DEVICE_LOST
    }
}

/// The status for a wrong shape or wrong strides.
fn of_axes(error: &gpuvec_axes::Error) -> gpuvec_status {
    use gpuvec_axes::Error::*;
    match error {
        TooManyAxes { .. }
        | NegativeLength { .. }
        | NoSuchAxis { .. }
        | TooManyMergedAxes { .. } => GPUVEC_ERROR_VALUE,
        TooManyElements | OutsideMemory { .. } => GPUVEC_ERROR_SIZE,
        Null { .. } => GPUVEC_ERROR_NULL,
        Misaligned { .. } | MisalignedStride { .. } => GPUVEC_ERROR_MISALIGNED,
        BroadcastOutput { .. } | OverlapsItself { .. } | OutputsOverlap { .. } | Overlap { .. } => {
            GPUVEC_ERROR_OVERLAP
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::Barrier;
    use std::thread;

    #[test]
    fn the_same_text_is_interned_once() {
        let first = interned("a text".to_owned());
        assert_eq!(interned("another text".to_owned()), "another text");
        assert!(std::ptr::eq(interned("a text".to_owned()), first));
    }

    #[test]
    fn a_text_that_threads_intern_at_once_is_interned_once() {
        const THREADS: usize = 4;
        const TIMES: usize = 20_000;
        let start = Barrier::new(THREADS);
        let keep = || -> BTreeSet<usize> {
            start.wait();
            (0..TIMES).map(|_| interned("one more text".to_owned()).as_ptr().addr()).collect()
        };
        let addresses: BTreeSet<usize> = thread::scope(|scope| {
            let threads: [_; THREADS] = std::array::from_fn(|_| scope.spawn(keep));
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(addresses.len(), 1);
    }

    #[test]
    fn statuses_are_in_ascending_order() {
        assert!(STATUSES.is_sorted_by_key(|(status, _)| *status as i32));
    }
}
