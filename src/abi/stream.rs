//! Streams, which do queued work in its order, and events, which are points in it.

use super::guard;
use crate::error::{Error, gpuvec_status};
use crate::objects::event::{self, gpuvec_event};
use crate::objects::stream::{self, gpuvec_stream};
use std::ffi::c_void;

/// Makes a stream: a queue of work for a GPU, which is done in its order while the caller goes on.
///
/// `device` counts from 0. Where there is no usable GPU, or with placement `cpu`, whatever is
/// queued is done at once (device 0), and everything works the same.
///
/// Returns NULL on failure; `gpuvec_last_error()` says why. Give it back with
/// `gpuvec_stream_destroy`.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_stream_create(device: i32) -> *mut gpuvec_stream {
    guard::call(|| stream::create(device))
}

/// Makes a handle of somebody else's `CUstream` (`cudaStream_t`), so that gpuvec's work is queued
/// there, among theirs.
///
/// `native` is the stream; 0 and 1 are the legacy default stream of the calling thread's device,
/// and 2 the per-thread default stream: in each thread that uses the handle its own, and still one
/// queue, in which work waits for all that was queued through the handle before. The stream must be
/// of a device's primary context, as those of the CUDA runtime, CuPy and PyTorch are. It stays its
/// owner's, who keeps it until the handle is destroyed. A reduction cannot be captured into a CUDA
/// graph: on a stream that is being captured it fails with `GPUVEC_ERROR_VALUE`.
///
/// Returns NULL on failure; `gpuvec_last_error()` says why.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_stream_from_native(native: *mut c_void) -> *mut gpuvec_stream {
    // SAFETY: the caller's promise, as the header says.
    guard::call(|| unsafe { stream::adopt(native) })
}

/// Gives a stream back; NULL is fine and does nothing. Work that is queued on it is still done.
///
/// Returns `GPUVEC_OK`, also where its device is lost, or `GPUVEC_ERROR_HANDLE`.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_stream_destroy(stream: *mut gpuvec_stream) -> i32 {
    guard::call(|| stream::destroy(stream).map(|()| 0))
}

/// Waits until all work that is queued on a stream is done. For NULL there is nothing to wait for.
///
/// Returns `GPUVEC_OK`, or the error of work that was queued.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_stream_synchronize(stream: *mut gpuvec_stream) -> i32 {
    guard::call(|| stream::synchronize(stream).map(|()| 0))
}

/// Whether all work that is queued on a stream is done.
///
/// Returns `GPUVEC_OK` if it is, `GPUVEC_NOT_READY`, or the error of work that was queued.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_stream_query(stream: *mut gpuvec_stream) -> i32 {
    guard::call(|| stream::is_done(stream).map(ready))
}

/// Lets work that is queued on a stream from now on wait for an event, of whatever stream or
/// device. With a NULL stream the caller waits. An event that was never recorded is not waited for.
/// If the work before the event fails, the next call with that work's own stream says so.
///
/// Returns `GPUVEC_OK`, or an error.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_stream_wait(stream: *mut gpuvec_stream, event: *mut gpuvec_event) -> i32 {
    guard::call(|| stream::wait(stream, event).map(|()| 0))
}

/// Makes an event, which is nowhere yet.
///
/// Returns NULL on failure; `gpuvec_last_error()` says why. Give it back with
/// `gpuvec_event_destroy`.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_event_create() -> *mut gpuvec_event {
    guard::call(event::create)
}

/// Puts an event behind the work that is queued on a stream now; where it was before it is no more.
/// With a NULL stream it is done at once.
///
/// Returns `GPUVEC_OK`, or an error.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_event_record(event: *mut gpuvec_event, stream: *mut gpuvec_stream) -> i32 {
    guard::call(|| event::record(event, stream).map(|()| 0))
}

/// Whether the work before an event is done.
///
/// Returns `GPUVEC_OK` if it is, or the event was never recorded; `GPUVEC_NOT_READY`; or an error.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_event_query(event: *mut gpuvec_event) -> i32 {
    guard::call(|| event::is_done(event).map(ready))
}

/// Waits until the work before an event is done.
///
/// Returns `GPUVEC_OK`, or an error.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_event_synchronize(event: *mut gpuvec_event) -> i32 {
    guard::call(|| event::synchronize(event).map(|()| 0))
}

/// Stores the time from one event to another, in milliseconds, by the clock of the device that
/// their streams are of; by the host's where there is no GPU.
///
/// Returns `GPUVEC_OK`; `GPUVEC_NOT_READY` if the work before one of them is not done;
/// `GPUVEC_ERROR_VALUE` if one was never recorded or they are of two devices; or another error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_event_elapsed(
    start: *mut gpuvec_event,
    end: *mut gpuvec_event,
    ms: *mut f32,
) -> i32 {
    guard::call(|| {
        if ms.is_null() {
            return Err(Error::NullResult { argument: "ms" });
        }
        let between = event::elapsed(start, end)?;
        if let Some(milliseconds) = between {
            // SAFETY: the caller's promise, as the header says.
            unsafe { ms.write(milliseconds) };
        }
        Ok(ready(between.is_some()))
    })
}

/// Gives an event back; NULL is fine and does nothing. What waits for it goes on waiting.
///
/// Returns `GPUVEC_OK`, also where its device is lost, or `GPUVEC_ERROR_HANDLE`.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_event_destroy(event: *mut gpuvec_event) -> i32 {
    guard::call(|| event::destroy(event).map(|()| 0))
}

fn ready(is_done: bool) -> i32 {
    let status = if is_done { gpuvec_status::GPUVEC_OK } else { gpuvec_status::GPUVEC_NOT_READY };
    status as i32
}
