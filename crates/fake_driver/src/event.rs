//! Events: positions in streams' work, and the times at which the streams reached them.

use crate::calls::{call_that_waits, driver_functions};
use crate::codes::{
    CAPTURED_EVENT, Code, INVALID_CONTEXT, INVALID_HANDLE, INVALID_VALUE, NOT_READY,
};
use crate::context::{self, Handle};
use crate::{lock, new_handle, stream};
use std::collections::BTreeMap;
use std::ffi::c_uint;
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

driver_functions! {
    fn cuEventCreate(flags: c_uint) -> usize {
        const DISABLE_TIMING: c_uint = 2;
        let (context, is_timed) = (context::current(), flags & DISABLE_TIMING == 0);
        if context == 0 {
            return Err(INVALID_CONTEXT);
        }
        let handle = new_handle();
        lock(&EVENTS).insert(handle, Event { context, is_timed, mark: None, captured_in: None });
        handle
    }

    /// Streams that wait for the event go on waiting.
    fn cuEventDestroy_v2(handle: usize) {
        lock(&EVENTS).remove(&handle).ok_or(INVALID_HANDLE)?;
    }

    fn cuEventRecord(handle: usize, on: usize) {
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
    }

    fn cuStreamWaitEvent(on: usize, handle: usize, flags: c_uint) {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        let mark = find(handle)?.mark;
        stream::enqueue_kept(on, Box::new(move || {
            mark.inspect(|mark| mark.wait());
            Ok(())
        }))?;
    }

    fn cuEventQuery(handle: usize) {
        let event = find(handle)?;
        event.refuse_captured()?;
        context::check_not_lost(event.context)?;
        if event.mark.is_some_and(|mark| mark.time().is_none()) {
            return Err(NOT_READY);
        }
    }

    fn cuEventElapsedTime(start: usize, end: usize) -> f32 {
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
        (seconds * 1e3) as f32
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuEventSynchronize(handle: usize) -> Code {
    call_that_waits("cuEventSynchronize", || {
        let event = find(handle)?;
        event.refuse_captured()?;
        event.mark.inspect(|mark| mark.wait());
        context::check_not_lost(event.context)
    })
}

/// Counts the events.
pub(crate) fn count() -> usize {
    lock(&EVENTS).len()
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
