//! Events: positions in streams' work, and the times at which the streams reached them.

use crate::context::{self, Handle};
use crate::{
    CAPTURED_EVENT, Code, INVALID_CONTEXT, INVALID_HANDLE, NOT_READY, lock, new_handle, stream,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

#[derive(Clone)]
struct Event {
    context: Handle,
    is_timed: bool,
    /// The position of the last record.
    mark: Option<Arc<Mark>>,
    /// The stream that was being captured when it recorded the event last.
    captured_in: Option<usize>,
}

/// A position in a stream's work. A later record does not move the streams that wait for it.
#[derive(Default)]
struct Mark {
    reached: Mutex<Option<Instant>>,
    changed: Condvar,
}

static EVENTS: Mutex<BTreeMap<usize, Event>> = Mutex::new(BTreeMap::new());

/// Creates an event of this thread's context.
pub(crate) fn create(is_timed: bool) -> Result<usize, Code> {
    let context = context::current();
    if context == 0 {
        return Err(INVALID_CONTEXT);
    }
    let handle = new_handle();
    lock(&EVENTS).insert(handle, Event { context, is_timed, mark: None, captured_in: None });
    Ok(handle)
}

/// Destroys an event. Streams that wait for it go on waiting.
pub(crate) fn destroy(handle: usize) -> Result<(), Code> {
    lock(&EVENTS).remove(&handle).map(|_| ()).ok_or(INVALID_HANDLE)
}

/// Counts the events.
pub(crate) fn count() -> usize {
    lock(&EVENTS).len()
}

/// Records an event in a stream of its context.
pub(crate) fn record(handle: usize, on: usize) -> Result<(), Code> {
    if find(handle)?.context != stream::context_of(on)? {
        return Err(INVALID_HANDLE);
    }
    let mark = Arc::new(Mark::default());
    let reached = Arc::clone(&mark);
    stream::enqueue_signal(on, Box::new(move || reached.reach()))?;
    let captured_in = stream::capture_of(on)?.map(|_| on);
    let mut events = lock(&EVENTS);
    let event = events.get_mut(&handle).ok_or(INVALID_HANDLE)?;
    (event.mark, event.captured_in) = (Some(mark), captured_in);
    Ok(())
}

/// Makes a stream's later work wait for an event's current record.
pub(crate) fn wait_on(on: usize, handle: usize) -> Result<(), Code> {
    let mark = find(handle)?.mark;
    let work = move || {
        if let Some(mark) = mark {
            mark.wait();
        }
        Ok(())
    };
    stream::enqueue_kept(on, Box::new(work))
}

/// Fails if the context is lost, or if the event is recorded and not done.
pub(crate) fn query(handle: usize) -> Result<(), Code> {
    let event = find(handle)?;
    event.refuse_captured()?;
    let is_done = event.mark.is_none_or(|mark| mark.time().is_some());
    match context::lost_of(event.context) {
        Some(code) => Err(code),
        None if is_done => Ok(()),
        None => Err(NOT_READY),
    }
}

/// Waits for an event; fails if its context is lost.
pub(crate) fn synchronize(handle: usize) -> Result<(), Code> {
    let event = find(handle)?;
    event.refuse_captured()?;
    if let Some(mark) = event.mark {
        mark.wait();
    }
    context::lost_of(event.context).map_or(Ok(()), Err)
}

/// Returns the milliseconds from one event to another of the same context.
pub(crate) fn elapsed(start: usize, end: usize) -> Result<f32, Code> {
    let (start, end) = (find(start)?, find(end)?);
    start.refuse_captured()?;
    end.refuse_captured()?;
    let is_timed = start.is_timed && end.is_timed;
    let (Some(from), Some(to)) = (start.mark, end.mark) else { return Err(INVALID_HANDLE) };
    if !is_timed || start.context != end.context {
        return Err(INVALID_HANDLE);
    }
    let (Some(from), Some(to)) = (from.time(), to.time()) else { return Err(NOT_READY) };
    let seconds = (to.saturating_duration_since(from)).as_secs_f64()
        - (from.saturating_duration_since(to)).as_secs_f64();
    Ok((seconds * 1e3) as f32)
}

fn find(handle: usize) -> Result<Event, Code> {
    lock(&EVENTS).get(&handle).cloned().ok_or(INVALID_HANDLE)
}

impl Event {
    /// Fails if a capture recorded the event, and invalidates that capture if it goes on.
    fn refuse_captured(&self) -> Result<(), Code> {
        self.captured_in.map_or(Ok(()), |stream| {
            stream::invalidate_capture(stream);
            Err(CAPTURED_EVENT)
        })
    }
}

impl Mark {
    fn reach(&self) {
        *lock(&self.reached) = Some(Instant::now());
        self.changed.notify_all();
    }

    fn wait(&self) {
        drop(self.changed.wait_while(lock(&self.reached), |time| time.is_none()));
    }

    fn time(&self) -> Option<Instant> {
        *lock(&self.reached)
    }
}
