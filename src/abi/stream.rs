//! # Streams and events
//!
//! Streams do queued work in order, and events are points in that order. "All functions" says under "Streams"
//! how operations use them.
//!
//! Without a usable GPU, or with placement `cpu`, everything works the same. Functions that create a stream or
//! an event return NULL on failure; `gpuvec_last_error()` says why. The others return `GPUVEC_OK` or an error:
//! `GPUVEC_ERROR_HANDLE` for a handle that does not exist. Destroy functions do nothing with NULL, and succeed
//! also if the device is lost.
//!
//! ```c
//! gpuvec_stream *stream = gpuvec_stream_create(0);
//! float *x = gpuvec_pinned_alloc(3 * sizeof *x), *sum = gpuvec_pinned_alloc(sizeof *sum);
//! if (x && sum) {
//!     x[0] = x[1] = x[2] = 1;
//!     gpuvec_scale_f32(4, x, x, 3, stream); // returns at once on a GPU
//!     gpuvec_sum_f32(x, sum, 3, stream);
//!     if (gpuvec_stream_synchronize(stream) == GPUVEC_OK) {
//!         printf("%g\n", *sum); // 12
//!     }
//! }
//! gpuvec_pinned_free(sum);
//! gpuvec_pinned_free(x);
//! gpuvec_stream_destroy(stream);
//! ```

use super::{Status, guard};
use crate::cuda::stream::ForeignStream;
use crate::error::{Error, gpuvec_status};
use crate::objects::event::{self, gpuvec_event};
use crate::objects::stream::{self, gpuvec_stream};
use std::ffi::c_void;

/// Creates a stream. A stream is a queue of work for a GPU, which is done in order while the caller goes on.
///
/// `device` counts from 0. Without a usable GPU, or with placement `cpu`, `device` must be 0, and each call
/// does its work before it returns. Destroy the stream with `gpuvec_stream_destroy`.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_stream_create(device: i32) -> *mut gpuvec_stream {
    guard::call(|| stream::create(device))
}

/// Creates a handle for an existing `CUstream` (`cudaStream_t`). gpuvec queues its work there, among the
/// program's own work.
///
/// `native` is the stream. 0 and 1 are the legacy default stream of the calling thread's device. 2 is the
/// per-thread default stream: the handle stands for each calling thread's own stream and is still one queue, in
/// which work waits for everything queued through the handle before. The stream must belong to a device's
/// primary context, as streams of the CUDA runtime, CuPy and PyTorch do. Its owner must not destroy it before
/// the handle. While the stream is being captured into a CUDA graph, a reduction, or a call that would wait for
/// the stream, as on pageable arrays, fails with `GPUVEC_ERROR_VALUE`; so does a query of the stream, and of an
/// event that it recorded meanwhile. The capture goes on. Fails without a GPU. Destroy the handle with
/// `gpuvec_stream_destroy`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_stream_from_native(native: *mut c_void) -> *mut gpuvec_stream {
    // SAFETY: the caller's promise, as the header says.
    guard::call(|| stream::adopt(unsafe { ForeignStream::new(native) }))
}

/// Destroys a stream; NULL does nothing. Work queued on it is still done.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_stream_destroy(stream: *mut gpuvec_stream) -> Status {
    guard::call(|| stream::destroy(stream).map(|()| 0))
}

/// Waits until all work of a stream is done; NULL does nothing.
///
/// Returns `GPUVEC_OK` or the error of queued work.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_stream_synchronize(stream: *mut gpuvec_stream) -> Status {
    guard::call(|| stream::synchronize(stream).map(|()| 0))
}

/// Checks whether all work queued on a stream is done. The call does not wait.
///
/// Returns `GPUVEC_OK` if it is, `GPUVEC_NOT_READY` if not, or the error of queued work.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_stream_query(stream: *mut gpuvec_stream) -> Status {
    guard::call(|| stream::is_done(stream).map(ready))
}

/// Makes later work of a stream wait for an event. All work that is queued on the stream from now on waits. The
/// event may belong to any stream or device. With a NULL stream the calling thread waits.
///
/// An event that was never recorded delays nothing. If the work before the event fails, the next call with that
/// work's own stream returns the error.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_stream_wait(
    stream: *mut gpuvec_stream, event: *mut gpuvec_event,
) -> Status {
    guard::call(|| event::hold_back(stream, event).map(|()| 0))
}

/// Creates an event. The new event is not recorded yet.
///
/// Destroy the event with `gpuvec_event_destroy`.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_event_create() -> *mut gpuvec_event {
    guard::call(event::create)
}

/// Records an event on a stream. The event is done when the work that is queued on the stream at this time is
/// done; an earlier record is replaced. With a NULL stream the event is done at once.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_event_record(
    event: *mut gpuvec_event, stream: *mut gpuvec_stream,
) -> Status {
    guard::call(|| event::record(event, stream).map(|()| 0))
}

/// Checks whether the work before an event is done. The call does not wait.
///
/// Returns `GPUVEC_OK` if it is, or if the event was never recorded; `GPUVEC_NOT_READY` if not; or an error.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_event_query(event: *mut gpuvec_event) -> Status {
    guard::call(|| event::is_done(event).map(ready))
}

/// Waits until the work before an event is done.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_event_synchronize(event: *mut gpuvec_event) -> Status {
    guard::call(|| event::synchronize(event).map(|()| 0))
}

/// Stores the milliseconds between two events in `ms`. For events that were recorded on streams of a device, its
/// clock measures the time; without a GPU, the host's clock does.
///
/// Returns `GPUVEC_OK`; `GPUVEC_NOT_READY` if the work before either event is not done; `GPUVEC_ERROR_VALUE` if
/// either was never recorded or they belong to two devices; or another error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_event_elapsed(
    start: *mut gpuvec_event, end: *mut gpuvec_event, ms: *mut f32,
) -> Status {
    guard::call(|| {
        if ms.is_null() {
            return Err(Error::NullResult { argument: "ms" });
        }
        let between = event::elapsed(start, end)?;
        if let Some(milliseconds) = between {
            // SAFETY: the caller's promise, as the header says.
            unsafe { ms.write_unaligned(milliseconds) };
        }
        Ok(ready(between.is_some()))
    })
}

/// Destroys an event; NULL does nothing. Work that waits for the event keeps waiting.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_event_destroy(event: *mut gpuvec_event) -> Status {
    guard::call(|| event::destroy(event).map(|()| 0))
}

fn ready(is_done: bool) -> i32 {
    let status = if is_done { gpuvec_status::GPUVEC_OK } else { gpuvec_status::GPUVEC_NOT_READY };
    status as i32
}
