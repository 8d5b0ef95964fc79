//! Callers' streams, with and without a GPU.

use super::handle::Handles;
use crate::cuda::{device, stream as cuda};
use crate::error::Error;
use crate::process::settings;
use std::sync::Arc;

/// A stream: a queue of work that is done in order.
#[expect(non_camel_case_types, reason = "the name that C callers see")]
pub struct gpuvec_stream {
    _private: [u8; 0],
}

/// The object behind a stream's handle.
pub(crate) enum Stream {
    /// A stream without a GPU: all work is done at once.
    Host,
    /// A stream of a device.
    Gpu(cuda::Stream),
}

static STREAMS: Handles<Stream> = Handles::new(1, "gpuvec_stream_create");

/// The stream of a handle. `None` for NULL.
pub(crate) fn given(stream: *mut gpuvec_stream) -> Result<Option<Arc<Stream>>, Error> {
    if stream.is_null() { Ok(None) } else { STREAMS.get("stream", stream).map(Some) }
}

/// A new stream of a device.
pub(crate) fn create(device: i32) -> Result<*mut gpuvec_stream, Error> {
    STREAMS.give(match device::asked_for(settings::placement()?, device)? {
        Some(device) => Stream::Gpu(cuda::Stream::new(device)?),
        None => Stream::Host,
    })
}

/// Makes a handle of another library's stream, which keeps its owner.
pub(crate) fn adopt(stream: cuda::ForeignStream) -> Result<*mut gpuvec_stream, Error> {
    STREAMS.give(Stream::Gpu(cuda::Stream::adopt(stream)?))
}

/// Destroys a handle.
pub(crate) fn destroy(stream: *mut gpuvec_stream) -> Result<(), Error> {
    STREAMS.destroy("stream", stream)
}

/// Waits until all queued work is done.
pub(crate) fn synchronize(stream: *mut gpuvec_stream) -> Result<(), Error> {
    given(stream)?.as_deref().map_or(Ok(()), Stream::synchronize)
}

/// Returns true if all queued work is done.
pub(crate) fn is_done(stream: *mut gpuvec_stream) -> Result<bool, Error> {
    match given(stream)?.as_deref() {
        Some(Stream::Gpu(stream)) => stream.is_done(),
        Some(Stream::Host) | None => Ok(true),
    }
}

impl Stream {
    /// Waits until all queued work is done. Fails while the stream is being captured into a graph.
    pub(crate) fn synchronize(&self) -> Result<(), Error> {
        match self {
            Stream::Host => Ok(()),
            Stream::Gpu(stream) => stream.synchronize(),
        }
    }
}
