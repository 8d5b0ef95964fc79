//! What an event means, with and without a GPU.

use crate::cuda::event::Mark;
use crate::cuda::stream as cuda;
use crate::error::Error;
use crate::fork;
use crate::handle::Handles;
use crate::stream::{self, Stream, gpuvec_stream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// An event: a point in a stream's work, to wait for or to measure times between.
#[expect(non_camel_case_types, reason = "the name that C callers see")]
pub struct gpuvec_event {
    _nobody_has_one: [u8; 0],
}

/// What a handle of an event stands for: where it was last recorded.
pub(crate) struct Event(Mutex<Point>);

#[derive(Clone)]
enum Point {
    /// Nowhere yet.
    Nowhere,
    /// Where all work before it was done already.
    Host(Instant),
    /// In a stream of a device.
    Gpu(Arc<Mark>),
}

static EVENTS: Handles<Event> = Handles::new(2);

/// A new event, which is nowhere yet.
pub(crate) fn create() -> Result<*mut gpuvec_event, Error> {
    EVENTS.give(Event(Mutex::new(Point::Nowhere)))
}

/// Takes a handle back.
pub(crate) fn destroy(event: *mut gpuvec_event) -> Result<(), Error> {
    if event.is_null() { Ok(()) } else { EVENTS.take("event", event).map(drop) }
}

/// Puts an event behind what is in the stream now.
pub(crate) fn record(event: *mut gpuvec_event, stream: *mut gpuvec_stream) -> Result<(), Error> {
    let (event, stream) = (Event::given("event", event)?, stream::given(stream)?);
    match stream.as_deref() {
        Some(Stream::Gpu(stream)) => event.record(stream),
        Some(Stream::Host) | None => {
            event.put(Point::Host(Instant::now()));
            Ok(())
        }
    }
}

/// Whether the work before an event is done.
pub(crate) fn is_done(event: *mut gpuvec_event) -> Result<bool, Error> {
    match Event::given("event", event)?.point() {
        Point::Gpu(mark) => mark.is_done(),
        Point::Host(_) | Point::Nowhere => Ok(true),
    }
}

/// Waits until the work before an event is done.
pub(crate) fn synchronize(event: *mut gpuvec_event) -> Result<(), Error> {
    Event::given("event", event)?.synchronize()
}

/// Milliseconds between two events; `None` if one of them is not done.
pub(crate) fn elapsed(
    start: *mut gpuvec_event,
    end: *mut gpuvec_event,
) -> Result<Option<f32>, Error> {
    match (Event::given("start", start)?.point(), Event::given("end", end)?.point()) {
        (Point::Nowhere, _) => Err(Error::NotRecorded { argument: "start" }),
        (_, Point::Nowhere) => Err(Error::NotRecorded { argument: "end" }),
        (Point::Gpu(start), Point::Gpu(end)) if start.is_beside(&end) => start.until(&end),
        (Point::Host(start), Point::Host(end)) => {
            let later = end.saturating_duration_since(start).as_secs_f32();
            let earlier = start.saturating_duration_since(end).as_secs_f32();
            Ok(Some((later - earlier) * 1e3))
        }
        _ => Err(Error::TwoClocks),
    }
}

impl Event {
    /// The event that a call was given.
    pub(crate) fn given(
        argument: &'static str,
        event: *mut gpuvec_event,
    ) -> Result<Arc<Self>, Error> {
        EVENTS.get(argument, event)
    }

    /// Waits until the work before it is done.
    pub(crate) fn synchronize(&self) -> Result<(), Error> {
        match self.point() {
            Point::Gpu(mark) => mark.synchronize(),
            Point::Host(_) | Point::Nowhere => Ok(()),
        }
    }

    /// Lets a stream's later work wait for it.
    pub(crate) fn hold_back(&self, stream: &cuda::Stream) -> Result<(), Error> {
        match self.point() {
            Point::Gpu(mark) => mark.hold_back(stream),
            Point::Host(_) | Point::Nowhere => Ok(()),
        }
    }

    fn record(&self, stream: &cuda::Stream) -> Result<(), Error> {
        let mark = match self.point() {
            Point::Gpu(mark) if mark.fits(stream) => mark,
            _ => Arc::new(Mark::new(stream)?),
        };
        mark.record(stream)?;
        self.put(Point::Gpu(mark));
        Ok(())
    }

    fn point(&self) -> Point {
        fork::unbroken(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    fn put(&self, point: Point) {
        let set = |held: &mut Point| std::mem::replace(held, point);
        let before =
            fork::unbroken(|| set(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner)));
        drop(before);
    }
}
