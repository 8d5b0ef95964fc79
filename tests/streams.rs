//! Streams, events, device memory and registered memory, used by many threads: all results are
//! right, whatever the threads share. `make sanitizers` looks for races in these tests.

#[path = "common/status.rs"]
mod status;

use gpuvec::abi::classic::{pinned_alloc, pinned_free};
use gpuvec::abi::elementwise::gpuvec_add_i32;
use gpuvec::abi::memory::{
    gpuvec_copy, gpuvec_device_alloc, gpuvec_device_free, gpuvec_host_register,
    gpuvec_host_unregister,
};
use gpuvec::abi::reduce::gpuvec_sum_i32;
use gpuvec::abi::stream::*;
use gpuvec::gpuvec_status::{GPUVEC_ERROR_HANDLE, GPUVEC_NOT_READY};
use status::last_error;
use std::ffi::c_void;
use std::sync::Barrier;
use std::thread;

const THREADS: usize = 6;
/// The elements of an array: several runs of a reduction, and not a multiple of the page size.
const N: usize = 9001;
const BYTES: usize = N * size_of::<i32>();

fn ok(status: i32) {
    assert_eq!(status, 0, "{}", last_error());
}

/// Runs `work` in all threads concurrently, with each thread's number.
fn in_threads(work: impl Fn(usize) + Sync) {
    let start = Barrier::new(THREADS);
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (start, work) = (&start, &work);
            scope.spawn(move || {
                start.wait();
                work(number);
            });
        }
    });
}

/// A stream's handle.
struct Stream(*mut c_void);

// SAFETY: any thread may call anything with a handle.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    fn new() -> Self {
        let stream = gpuvec_stream_create(0);
        assert!(!stream.is_null(), "{}", last_error());
        Stream(stream.cast())
    }

    fn synchronize(&self) {
        ok(gpuvec_stream_synchronize(self.0.cast()));
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        ok(gpuvec_stream_destroy(self.0.cast()));
    }
}

/// An event's handle.
struct Event(*mut c_void);

// SAFETY: any thread may call anything with a handle.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    fn new() -> Self {
        let event = gpuvec_event_create();
        assert!(!event.is_null(), "{}", last_error());
        Event(event.cast())
    }

    fn record(&self, stream: &Stream) {
        ok(gpuvec_event_record(self.0.cast(), stream.0.cast()));
    }

    fn is_done(&self) -> bool {
        let status = gpuvec_event_query(self.0.cast());
        assert!(status == 0 || status == GPUVEC_NOT_READY as i32, "{}", last_error());
        status == 0
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        ok(gpuvec_event_destroy(self.0.cast()));
    }
}

/// The kind of an array's memory.
#[derive(Clone, Copy)]
enum Kind {
    Device,
    Pinned,
}

/// `N` elements on which work may be queued, written and read by copies.
struct Array(Kind, *mut i32);

// SAFETY: an address; the tests order all uses of the memory.
unsafe impl Send for Array {}
// SAFETY: as above.
unsafe impl Sync for Array {}

impl Array {
    fn new(kind: Kind, content: &[i32]) -> Self {
        let address = match kind {
            Kind::Device => gpuvec_device_alloc(BYTES, 0),
            Kind::Pinned => pinned_alloc(BYTES),
        };
        assert!(!address.is_null(), "{}", last_error());
        let array = Array(kind, address.cast());
        copy(array.at(0), content.as_ptr(), None);
        array
    }

    /// Returns the content after a stream's work.
    fn content(&self, stream: Option<&Stream>) -> Vec<i32> {
        let mut content = vec![0; N];
        copy(content.as_mut_ptr(), self.1, stream);
        content
    }

    /// Returns the address of an element.
    fn at(&self, index: usize) -> *mut i32 {
        self.1.wrapping_add(index)
    }

    fn add(&self, other: &Array, stream: &Stream) {
        // SAFETY: both are of `N` elements, and outlive the stream's work.
        ok(unsafe { gpuvec_add_i32(self.1, other.at(0), self.1, N, stream.0.cast()) });
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        let address = self.1.cast::<c_void>();
        // SAFETY: `new` allocated the memory, and no work uses it any more.
        ok(unsafe {
            match self.0 {
                Kind::Device => gpuvec_device_free(address),
                Kind::Pinned => pinned_free(address),
            }
        });
    }
}

/// Copies `N` elements.
fn copy(to: *mut i32, from: *const i32, stream: Option<&Stream>) {
    let stream = stream.map_or(std::ptr::null_mut(), |stream| stream.0.cast());
    // SAFETY: both point to `N` elements, which outlive the stream's work.
    ok(unsafe { gpuvec_copy(to.cast(), from.cast(), BYTES, stream) });
}

fn numbers(first: usize) -> Vec<i32> {
    (first..first + N).map(|number| number as i32).collect()
}

/// Each thread's calls are done in its order, and reductions do not disturb each other.
#[test]
fn threads_share_a_stream() {
    let (stream, ones) = (Stream::new(), Array::new(Kind::Device, &[1; N]));
    in_threads(|number| {
        let array = Array::new(Kind::Device, &numbers(number));
        let sums = Array::new(Kind::Pinned, &[0; N]);
        let mut expected = numbers(number);
        for round in 0..8 {
            array.add(&ones, &stream);
            // SAFETY: an array of `N` elements, and room for a number behind those of earlier
            // rounds.
            ok(unsafe {
                gpuvec_sum_i32(array.at(0), sums.at(2 * round).cast(), N, stream.0.cast())
            });
            expected.iter_mut().for_each(|number| *number += 1);
            let sum: i64 = expected.iter().map(|number| i64::from(*number)).sum();
            if round % 3 == 2 {
                stream.synchronize();
                // SAFETY: the sum's place, which the stream is done with.
                assert_eq!(unsafe { sums.at(2 * round).cast::<i64>().read() }, sum);
            }
        }
        assert_eq!(array.content(Some(&stream)), expected);
    });
}

/// Each thread's work uses the previous thread's results, and waits only for that thread's event.
#[test]
fn streams_of_threads_wait_for_each_others_events() {
    let (array, ones) = (Array::new(Kind::Device, &numbers(0)), Array::new(Kind::Pinned, &[1; N]));
    let streams: [_; THREADS] = std::array::from_fn(|_| Stream::new());
    let events: [_; THREADS] = std::array::from_fn(|_| Event::new());
    const ROUNDS: usize = 5;
    let (next_turns, turns): (Vec<_>, Vec<_>) =
        (0..THREADS).map(|_| std::sync::mpsc::channel::<()>()).unzip();
    next_turns[0].send(()).unwrap();
    thread::scope(|scope| {
        for (number, turn) in turns.into_iter().enumerate() {
            let next_turn = next_turns[(number + 1) % THREADS].clone();
            let before = (number + THREADS - 1) % THREADS;
            let (array, ones, streams, events) = (&array, &ones, &streams, &events);
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    turn.recv().unwrap();
                    ok(gpuvec_stream_wait(streams[number].0.cast(), events[before].0.cast()));
                    array.add(ones, &streams[number]);
                    events[number].record(&streams[number]);
                    // The last one's successor has no more turns.
                    let _ = next_turn.send(());
                }
            });
        }
    });
    ok(gpuvec_event_synchronize(events[THREADS - 1].0.cast()));
    assert_eq!(array.content(None), numbers(ROUNDS * THREADS));
}

/// Each call on the stream is done, or its handle is refused.
#[test]
fn a_stream_is_destroyed_during_calls_of_other_threads() {
    for _ in 0..8 {
        let stream = gpuvec_stream_create(0);
        assert!(!stream.is_null(), "{}", last_error());
        let stream = std::mem::ManuallyDrop::new(Stream(stream.cast()));
        in_threads(|number| {
            if number == 0 {
                return ok(gpuvec_stream_destroy(stream.0.cast()));
            }
            let from = Array::new(Kind::Device, &numbers(number));
            let to = Array::new(Kind::Device, &[0; N]);
            let event = Event::new();
            let mut copied = 0;
            loop {
                // SAFETY: an element of each array, which are freed when the device is done.
                let status = unsafe {
                    let [to, from] = [&to, &from].map(|array| array.at(copied.min(N - 1)));
                    gpuvec_copy(to.cast(), from.cast(), size_of::<i32>(), stream.0.cast())
                };
                if status != 0 || gpuvec_event_record(event.0.cast(), stream.0.cast()) != 0 {
                    break;
                }
                copied += 1;
            }
            assert!(last_error().starts_with("stream is 0x"), "{}", last_error());
            assert_eq!(gpuvec_stream_query(stream.0.cast()), GPUVEC_ERROR_HANDLE as i32);
            ok(gpuvec_event_synchronize(event.0.cast()));
            let copied = copied.min(N - 1);
            let mut content = vec![0; copied];
            // SAFETY: `copied` elements of both; the stream writes only behind them.
            ok(unsafe {
                let (content, bytes) = (content.as_mut_ptr(), copied * size_of::<i32>());
                gpuvec_copy(content.cast(), to.at(0).cast(), bytes, std::ptr::null_mut())
            });
            assert_eq!(content, numbers(number)[..copied]);
        });
    }
}

/// Destroyed handles are refused, whatever objects were created since.
#[test]
fn handles_come_and_go_in_many_threads() {
    let shared = Event::new();
    in_threads(|_| {
        for _ in 0..50 {
            let (stream, event) = (Stream::new(), Event::new());
            event.record(&stream);
            shared.record(&stream);
            ok(gpuvec_stream_wait(stream.0.cast(), shared.0.cast()));
            shared.is_done();
            ok(gpuvec_event_synchronize(event.0.cast()));
            assert!(event.is_done());
            let handles = (stream.0, event.0);
            drop((stream, event));
            let (stream, event) = handles;
            assert_eq!(gpuvec_stream_query(stream.cast()), GPUVEC_ERROR_HANDLE as i32);
            assert_eq!(gpuvec_event_query(event.cast()), GPUVEC_ERROR_HANDLE as i32);
        }
    });
    ok(gpuvec_event_synchronize(shared.0.cast()));
}

/// Each thread's part of one array shares pages with its neighbours' parts.
#[test]
fn threads_register_parts_that_share_pages() {
    let mut all = numbers(0).repeat(THREADS);
    let parts: Vec<_> = all.chunks_exact_mut(N).map(|part| Part(part.as_mut_ptr())).collect();
    let ones = Array::new(Kind::Device, &[1; N]);
    const ROUNDS: i32 = 12;
    in_threads(|number| {
        let (stream, part) = (Stream::new(), &parts[number]);
        for round in 0..ROUNDS {
            let inside = part.0.wrapping_add(N / 2 + round as usize);
            // SAFETY: this thread's part of memory that outlives the test.
            unsafe {
                ok(gpuvec_host_register(part.0.cast(), BYTES));
                ok(gpuvec_host_register(inside.cast(), BYTES / 3));
                ok(gpuvec_add_i32(part.0, ones.at(0), part.0, N, stream.0.cast()));
                ok(gpuvec_host_unregister(inside.cast()));
                stream.synchronize();
                ok(gpuvec_host_unregister(part.0.cast()));
            }
        }
    });
    assert_eq!(all, numbers(ROUNDS as usize).repeat(THREADS));
}

/// The address of a thread's part of an array.
struct Part(*mut i32);

// SAFETY: one thread uses a part.
unsafe impl Sync for Part {}

/// Copies go from pageable to device memory, to pinned memory and back: without a stream, on the
/// thread's own stream, and on a stream that all threads share.
#[test]
fn threads_copy_in_every_direction() {
    let shared = Stream::new();
    in_threads(|number| {
        let own = Stream::new();
        let [device, pinned] = [Kind::Device, Kind::Pinned].map(|kind| Array::new(kind, &[-1; N]));
        for round in 0..12 {
            let content = numbers(number + round);
            let stream = [None, Some(&own), Some(&shared)][round % 3];
            copy(device.at(0), content.as_ptr(), stream);
            copy(pinned.at(0), device.at(0), stream);
            copy(device.at(0), vec![-1; N].as_ptr(), stream);
            assert_eq!(pinned.content(stream), content);
            copy(device.at(0), pinned.at(0), stream);
            assert_eq!(device.content(stream), content);
        }
    });
}
