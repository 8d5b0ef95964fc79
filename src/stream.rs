//! What a stream means, with and without a GPU.

use crate::cuda::{device, stream as cuda};
use crate::error::Error;
use crate::event::{Event, gpuvec_event};
use crate::handle::Handles;
use crate::settings;
use std::ffi::c_void;
use std::sync::Arc;

/// A stream: a queue of work that is done in order.
#[expect(non_camel_case_types, reason = "the name that C callers see")]
pub struct gpuvec_stream {
    _nobody_has_one: [u8; 0],
}

/// What a handle of a stream stands for.
pub(crate) enum Stream {
    /// Where there is no GPU: whatever is queued is done at once.
    Host,
    /// A stream of a device's.
    Gpu(cuda::Stream),
}

static STREAMS: Handles<Stream> = Handles::new(1);

/// The stream that a call was given; `None` for NULL.
pub(crate) fn given(stream: *mut gpuvec_stream) -> Result<Option<Arc<Stream>>, Error> {
    if stream.is_null() { Ok(None) } else { STREAMS.get("stream", stream).map(Some) }
}

/// A new stream of a device.
pub(crate) fn create(device: i32) -> Result<*mut gpuvec_stream, Error> {
    STREAMS.give(match device::asked_for(settings::placement()?, device)? {
        Some(opened) => Stream::Gpu(cuda::Stream::create(opened)?),
        None => Stream::Host,
    })
}

/// A handle of a CUstream that stays its owner's.
pub(crate) fn adopt(native: *mut c_void) -> Result<*mut gpuvec_stream, Error> {
    STREAMS.give(Stream::Gpu(cuda::Stream::adopt(native.cast())?))
}

/// Takes a handle back.
pub(crate) fn destroy(stream: *mut gpuvec_stream) -> Result<(), Error> {
    if stream.is_null() { Ok(()) } else { STREAMS.take("stream", stream).map(drop) }
}

/// Waits until all that was queued is done.
pub(crate) fn synchronize(stream: *mut gpuvec_stream) -> Result<(), Error> {
    match given(stream)?.as_deref() {
        Some(stream) => stream.synchronize(),
        None => Ok(()),
    }
}

/// Whether all that was queued is done.
pub(crate) fn is_done(stream: *mut gpuvec_stream) -> Result<bool, Error> {
    match given(stream)?.as_deref() {
        Some(Stream::Gpu(stream)) => stream.is_done(),
        Some(Stream::Host) | None => Ok(true),
    }
}

/// Lets the stream's later work, or without a stream the caller, wait for an event.
pub(crate) fn wait(stream: *mut gpuvec_stream, event: *mut gpuvec_event) -> Result<(), Error> {
    let (stream, event) = (given(stream)?, Event::given("event", event)?);
    match stream.as_deref() {
        Some(Stream::Gpu(stream)) => event.hold_back(stream),
        Some(Stream::Host) | None => event.synchronize(),
    }
}

impl Stream {
    /// Waits until all that was queued is done.
    pub(crate) fn synchronize(&self) -> Result<(), Error> {
        match self {
            Stream::Host => Ok(()),
            Stream::Gpu(stream) => stream.synchronize(),
        }
    }
}
