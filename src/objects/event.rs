//! Callers' events, with and without a GPU.

use super::handle::Handles;
use super::stream::{self, Stream, gpuvec_stream};
use crate::cuda::{event as cuda_event, stream as cuda_stream};
use crate::error::Error;
use crate::process::fork::Shared;
use std::sync::Arc;
use std::time::Instant;

/// An event: a point in a stream's work, to wait for or to measure times between.
#[expect(non_camel_case_types, reason = "the name that C callers see")]
pub struct gpuvec_event {
    _private: [u8; 0],
}

/// The object behind an event's handle: the point at which the event was last recorded.
pub(crate) struct Event(Shared<Point>);

#[derive(Clone)]
enum Point {
    /// Not recorded yet.
    Nowhere,
    /// Recorded without a GPU, when all work before it was done.
    Host(Instant),
    /// Recorded in a device's stream.
    Gpu(Arc<cuda_event::Event>),
}

static EVENTS: Handles<Event> = Handles::new(2, "gpuvec_event_create");

/// Makes an event.
pub(crate) fn create() -> Result<*mut gpuvec_event, Error> {
    EVENTS.give(Event(Shared::new(Point::Nowhere)))
}

/// Destroys a handle.
pub(crate) fn destroy(event: *mut gpuvec_event) -> Result<(), Error> {
    EVENTS.destroy("event", event)
}

/// Records an event behind the stream's present work.
pub(crate) fn record(event: *mut gpuvec_event, stream: *mut gpuvec_stream) -> Result<(), Error> {
    let (event, stream) = (EVENTS.get("event", event)?, stream::given(stream)?);
    match stream.as_deref() {
        Some(Stream::Gpu(stream)) => event.record(stream),
        Some(Stream::Host) | None => {
            event.put(Point::Host(Instant::now()));
            Ok(())
        }
    }
}

/// Returns true if all work before an event is done.
pub(crate) fn is_done(event: *mut gpuvec_event) -> Result<bool, Error> {
    match EVENTS.get("event", event)?.point() {
        Point::Gpu(event) => event.is_done(),
        Point::Host(_) | Point::Nowhere => Ok(true),
    }
}

/// Waits until the work before an event is done.
pub(crate) fn synchronize(event: *mut gpuvec_event) -> Result<(), Error> {
    EVENTS.get("event", event)?.synchronize()
}

/// Makes a stream's later work wait for an event. Without a stream, waits in the calling thread.
pub(crate) fn hold_back(stream: *mut gpuvec_stream, event: *mut gpuvec_event) -> Result<(), Error> {
    let (stream, event) = (stream::given(stream)?, EVENTS.get("event", event)?);
    match (stream.as_deref(), event.point()) {
        (Some(Stream::Gpu(stream)), Point::Gpu(event)) => event.hold_back(stream),
        (Some(Stream::Gpu(_)), _) => Ok(()),
        _ => event.synchronize(),
    }
}

/// Milliseconds between two events. `None` if work before one of them is not done.
pub(crate) fn elapsed(
    start: *mut gpuvec_event, end: *mut gpuvec_event,
) -> Result<Option<f32>, Error> {
    match (EVENTS.get("start", start)?.point(), EVENTS.get("end", end)?.point()) {
        (Point::Nowhere, _) => Err(Error::NotRecorded { argument: "start" }),
        (_, Point::Nowhere) => Err(Error::NotRecorded { argument: "end" }),
        (Point::Gpu(start), Point::Gpu(end)) if start.shares_clock(&end) => start.until(&end),
        (Point::Host(start), Point::Host(end)) => {
            let later = end.saturating_duration_since(start).as_secs_f32();
            let earlier = start.saturating_duration_since(end).as_secs_f32();
            Ok(Some((later - earlier) * 1e3))
        }
        _ => Err(Error::TwoClocks),
    }
}

impl Event {
    fn synchronize(&self) -> Result<(), Error> {
        match self.point() {
            Point::Gpu(event) => event.synchronize(),
            Point::Host(_) | Point::Nowhere => Ok(()),
        }
    }

    fn record(&self, stream: &cuda_stream::Stream) -> Result<(), Error> {
        let event = match self.point() {
            Point::Gpu(event) if event.fits(stream) => event,
            _ => Arc::new(cuda_event::Event::new(stream)?),
        };
        event.record(stream)?;
        self.put(Point::Gpu(event));
        Ok(())
    }

    fn point(&self) -> Point {
        self.0.read(Point::clone)
    }

    fn put(&self, point: Point) {
        // The earlier point is dropped here, without the lock.
        drop(self.0.change(|place| std::mem::replace(place, point)));
    }
}
