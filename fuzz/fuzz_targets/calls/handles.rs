//! Streams and events: which handles there are, and what may still be queued.

use crate::situation;
use crate::steps::{EventCall, Handle, StreamCall, WrongHandle};
use gpuvec::abi::library::gpuvec_device_count;
use gpuvec::abi::stream::*;
use gpuvec::gpuvec_status::*;
use std::ffi::c_void;
use std::ptr::{null_mut, without_provenance_mut};

const NOT_READY: i32 = GPUVEC_NOT_READY as i32;

/// The handles of one kind, which are numbers to everybody but the library.
struct Handles<T> {
    live: Vec<(usize, T)>,
    destroyed: Vec<usize>,
}

impl<T> Handles<T> {
    fn new() -> Self {
        Handles { live: Vec::new(), destroyed: Vec::new() }
    }

    fn chosen<U>(&self, handle: &Handle, others: &Handles<U>) -> usize {
        fn one_of(mut from: impl ExactSizeIterator<Item = usize>, which: u8) -> usize {
            let index = usize::from(which) % from.len().max(1);
            from.nth(index).unwrap_or(0)
        }
        match *handle {
            Handle::Live(which) => one_of(self.live.iter().map(|(handle, _)| *handle), which),
            Handle::Wrong(WrongHandle::Null) => 0,
            Handle::Wrong(WrongHandle::Destroyed(which)) => {
                one_of(self.destroyed.iter().copied(), which)
            }
            Handle::Wrong(WrongHandle::Foreign(which)) => {
                one_of(others.live.iter().map(|(handle, _)| *handle), which)
            }
            Handle::Wrong(WrongHandle::Any(number)) => number as usize,
        }
    }

    fn find(&mut self, handle: usize) -> Option<&mut T> {
        self.live.iter_mut().find(|(live, _)| *live == handle).map(|(_, object)| object)
    }

    fn give(&mut self, handle: *mut c_void, object: T) {
        let number = handle.addr();
        let is_new = !self.destroyed.contains(&number) && self.find(number).is_none();
        assert!(is_new, "{number:#x} is given again");
        self.live.push((number, object));
    }

    fn destroy(&mut self, handle: usize) {
        self.live.retain(|(live, _)| *live != handle);
        self.destroyed.push(handle);
    }
}

/// The owner of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Host,
    Gpu,
}

pub struct Queues {
    streams: Handles<Owner>,
    /// The events, each with the owner of the stream in which it was recorded.
    events: Handles<Option<Owner>>,
    /// The only stream that may have unfinished work.
    busy: Option<usize>,
    /// Set after an event was recorded, or waited for, in a GPU's stream: this is queued work as
    /// well, whose end is not tracked.
    has_marks: bool,
    /// The event that orders the work of streams.
    mark: *mut c_void,
}

impl Queues {
    pub fn new() -> Self {
        let mark = gpuvec_event_create().cast();
        let mut queues = Queues {
            streams: Handles::new(),
            events: Handles::new(),
            busy: None,
            has_marks: false,
            mark,
        };
        for _ in 0..2 {
            queues.create(0);
        }
        queues
    }

    /// Returns the chosen stream.
    pub fn stream(&self, chosen: &Handle) -> usize {
        self.streams.chosen(chosen, &self.events)
    }

    /// Returns whether it is a stream, or NULL.
    pub fn is_stream(&mut self, stream: usize) -> bool {
        stream == 0 || self.streams.find(stream).is_some()
    }

    /// Returns whether all work is known to be done.
    pub fn are_done(&self) -> bool {
        self.busy.is_none()
    }

    /// Waits for all work.
    pub fn synchronize(&mut self) {
        if let Some(stream) = self.busy.take() {
            assert_eq!(gpuvec_stream_synchronize(pointer(stream).cast()), 0);
        }
    }

    /// Makes later work in a stream, or without one, follow all earlier work.
    pub fn order(&mut self, stream: usize, by_event: bool) {
        let Some(busy) = self.busy.filter(|busy| *busy != stream) else { return };
        if stream == 0 || !by_event {
            return self.synchronize();
        }
        assert_eq!(gpuvec_event_record(self.mark.cast(), pointer(busy).cast()), 0);
        assert_eq!(gpuvec_stream_wait(pointer(stream).cast(), self.mark.cast()), 0);
        self.has_marks = true;
        self.busy = Some(stream);
    }

    /// Records a call after `order`, which may have queued its work or waited for it.
    pub fn called(&mut self, stream: usize, waited: bool) {
        let is_gpus = self.streams.find(stream).is_some_and(|owner| *owner == Owner::Gpu);
        self.busy = (is_gpus && !waited).then_some(stream);
    }

    pub fn stream_call(&mut self, call: StreamCall, stream: &Handle, event: &Handle) {
        let (stream, event) = (self.stream(stream), self.events.chosen(event, &self.streams));
        let is_stream = self.is_stream(stream);
        let handle = pointer(stream);
        match call {
            StreamCall::Create(device) => self.create(device.ordinal()),
            StreamCall::Adopt(number) => self.adopt(usize::from(number % 3)),
            StreamCall::Destroy => {
                if self.busy == Some(stream) {
                    assert_eq!(gpuvec_event_record(self.mark.cast(), handle.cast()), 0);
                }
                check(gpuvec_stream_destroy(handle.cast()), &wrong_handle(is_stream));
                if self.busy == Some(stream) {
                    // Its queued work is still done.
                    assert_eq!(gpuvec_event_synchronize(self.mark.cast()), 0);
                    self.busy = None;
                }
                if is_stream && stream != 0 {
                    self.streams.destroy(stream);
                }
            }
            StreamCall::Synchronize => {
                check(gpuvec_stream_synchronize(handle.cast()), &wrong_handle(is_stream));
                self.busy = self.busy.filter(|busy| *busy != stream);
            }
            StreamCall::Query => {
                let status = gpuvec_stream_query(handle.cast());
                if status == 0 && is_stream {
                    self.busy = self.busy.filter(|busy| *busy != stream);
                }
                let is_gpus = self.streams.find(stream) == Some(&mut Owner::Gpu);
                let may_wait = self.busy == Some(stream) || (is_gpus && self.has_marks);
                assert!(is_stream || status != 0);
                if status != NOT_READY || !may_wait {
                    check(status, &wrong_handle(is_stream));
                }
            }
            StreamCall::Wait => {
                let mut errors = wrong_handle(is_stream);
                errors.extend(wrong_event(event, self.events.find(event).is_some()));
                check(gpuvec_stream_wait(handle.cast(), pointer(event).cast()), &errors);
                self.has_marks |= errors.is_empty();
            }
        }
    }

    fn create(&mut self, device: i32) {
        let now = situation();
        let is_gpus = crate::has_gpu() && !now.is_on_cpu;
        let devices = if is_gpus { gpuvec_device_count() } else { 1 };
        let is_refused = now.gpu_is_missing || !(0..devices).contains(&device);
        let handle = gpuvec_stream_create(device).cast::<c_void>();
        assert_eq!(handle.is_null(), is_refused, "device {device}: {}", crate::last_error());
        if !is_refused {
            self.streams.give(handle, if is_gpus { Owner::Gpu } else { Owner::Host });
        }
    }

    fn adopt(&mut self, default_stream: usize) {
        // SAFETY: a default stream is always there.
        let handle = unsafe { gpuvec_stream_from_native(pointer(default_stream)) };
        assert_eq!(handle.is_null(), !crate::has_gpu(), "{}", crate::last_error());
        if !handle.is_null() {
            self.streams.give(handle.cast(), Owner::Gpu);
        }
    }

    pub fn event_call(&mut self, call: EventCall, event: &Handle, other: &Handle) {
        let event = self.events.chosen(event, &self.streams);
        let recorded = self.events.find(event).copied();
        let wrong = wrong_event(event, recorded.is_some());
        let handle = pointer(event);
        match call {
            EventCall::Create => {
                let handle = gpuvec_event_create().cast();
                self.events.give(handle, None);
            }
            EventCall::Destroy => {
                let wrong = if event == 0 { Vec::new() } else { wrong };
                check(gpuvec_event_destroy(handle.cast()), &wrong);
                if recorded.is_some() {
                    self.events.destroy(event);
                }
            }
            EventCall::Record => {
                let stream = self.stream(other);
                let mut errors = wrong_handle(self.is_stream(stream));
                errors.extend(wrong);
                let status = gpuvec_event_record(handle.cast(), pointer(stream).cast());
                check(status, &errors);
                if errors.is_empty() {
                    self.has_marks = true;
                    let owner = self.streams.find(stream).copied().unwrap_or(Owner::Host);
                    *self.events.find(event).expect("an event") = Some(owner);
                }
            }
            EventCall::Query => {
                let status = gpuvec_event_query(handle.cast());
                if recorded != Some(Some(Owner::Gpu)) || status != NOT_READY {
                    check(status, &wrong);
                }
            }
            EventCall::Synchronize => check(gpuvec_event_synchronize(handle.cast()), &wrong),
            EventCall::Elapsed { without_result } => {
                let end = self.events.chosen(other, &self.streams);
                self.elapsed((event, recorded), end, without_result);
            }
        }
    }

    fn elapsed(
        &mut self, (start, started): (usize, Option<Option<Owner>>), end: usize,
        without_result: bool,
    ) {
        let ended = self.events.find(end).copied();
        let mut errors = wrong_event(start, started.is_some());
        errors.extend(wrong_event(end, ended.is_some()));
        let owners = (started.flatten(), ended.flatten());
        if owners.0.is_none() || owners.0 != owners.1 {
            errors.push(GPUVEC_ERROR_VALUE as i32);
        }
        if without_result {
            errors.push(GPUVEC_ERROR_NULL as i32);
        }
        let mut ms = f32::NAN;
        let to = if without_result { null_mut() } else { &raw mut ms };
        // SAFETY: NULL, or a local.
        let status =
            unsafe { gpuvec_event_elapsed(pointer(start).cast(), pointer(end).cast(), to) };
        assert_eq!(ms.is_nan(), status != 0, "status {status}, {ms} ms");
        if owners.0 != Some(Owner::Gpu) || status != NOT_READY {
            check(status, &errors);
        }
    }
}

fn pointer(handle: usize) -> *mut c_void {
    without_provenance_mut(handle)
}

fn wrong_handle(is_right: bool) -> Vec<i32> {
    if is_right { Vec::new() } else { vec![GPUVEC_ERROR_HANDLE as i32] }
}

fn wrong_event(event: usize, is_there: bool) -> Vec<i32> {
    if event == 0 { vec![GPUVEC_ERROR_NULL as i32] } else { wrong_handle(is_there) }
}

/// Fails unless the status is one of the errors, or success if there are none.
fn check(status: i32, errors: &[i32]) {
    let is_expected = if errors.is_empty() { status == 0 } else { errors.contains(&status) };
    assert!(is_expected, "{status}, not of {errors:?}: {}", crate::last_error());
    assert_eq!(crate::last_error().is_empty(), status == 0);
}

impl Drop for Queues {
    fn drop(&mut self) {
        self.synchronize();
        for (stream, _) in &self.streams.live {
            assert_eq!(gpuvec_stream_destroy(pointer(*stream).cast()), 0);
        }
        let events = self.events.live.iter().map(|(event, _)| pointer(*event));
        for event in events.chain([self.mark]) {
            assert_eq!(gpuvec_event_destroy(event.cast()), 0);
        }
    }
}
