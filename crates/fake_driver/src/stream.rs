//! Streams: a queue of work, and a thread that does it in order, at any time.
//!
//! A context's default stream, which has one thread and several handles, is ordered with the
//! context's other streams, except non-blocking ones: its work waits for their earlier work, and
//! their later work waits for it. A thread's own default stream is ordered with the context's
//! default stream, but not with other threads' own ones.

use crate::calls::{call_that_waits, driver_functions};
use crate::codes::{
    Code, INVALID_CONTEXT, INVALID_HANDLE, NOT_READY, OUT_OF_MEMORY, STREAM_CAPTURE_UNSUPPORTED,
};
use crate::context::{self, Handle};
use crate::{flags, lock, new_handle, setting, thread, timing};
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Queued work; an error loses the context.
pub(crate) type Work = Box<dyn FnOnce() -> Result<(), Code> + Send>;

/// Signals that queued work is done. It must not call the stream, which is locked.
type Signal = Box<dyn FnOnce() + Send>;

struct Task {
    work: Work,
    /// Set for work that is done even after the context is lost.
    is_kept: bool,
    /// Other streams, each with the number of its tasks that must be done before.
    after: Vec<(Arc<Stream>, usize)>,
    /// Signals that the stream counts the task as done.
    signal: Signal,
}

struct Stream {
    context: Handle,
    kind: Kind,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A context's default stream.
    Default,
    /// Ordered with the default stream.
    Blocking,
    /// Not ordered with any other.
    NonBlocking,
}

#[derive(Default)]
struct Queue {
    tasks: VecDeque<Task>,
    given: usize,
    done: usize,
    is_working: bool,
    is_destroyed: bool,
}

/// All streams; destroyed ones remain as long as they have work.
static STREAMS: Mutex<BTreeMap<usize, Arc<Stream>>> = Mutex::new(BTreeMap::new());

/// The used default streams, by context and thread; thread 0 stands for the context's own. They are
/// never removed, like their contexts, because no thread reports its end.
static DEFAULTS: Mutex<BTreeMap<(Handle, usize), Arc<Stream>>> = Mutex::new(BTreeMap::new());

const OF_ALL_THREADS: usize = 0;

/// The handle of a thread's own default stream (CU_STREAM_PER_THREAD).
const PER_THREAD: usize = 2;

/// Modes of a thread (CU_STREAM_CAPTURE_MODE_GLOBAL and _RELAXED).
const GLOBAL: u32 = 0;
const RELAXED: u32 = 2;

/// The streams that are being captured, by handle.
static CAPTURED: Mutex<BTreeMap<usize, Capture>> = Mutex::new(BTreeMap::new());

/// The state of a capture. A wait or a query that a capture forbids invalidates it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Capture {
    Valid,
    Invalidated,
}

static HELD: Mutex<bool> = Mutex::new(false);
static LET_GO: Condvar = Condvar::new();

thread_local! {
    static AT_WORK: Cell<Option<usize>> = const { Cell::new(None) };
    static THREAD: Cell<usize> = const { Cell::new(0) };
    static CAPTURE_MODE: Cell<u32> = const { Cell::new(GLOBAL) };
}

/// This thread's number, from 1. It needs no destructor, so that destructors may ask for it.
fn this_thread() -> usize {
    static NUMBERED: AtomicUsize = AtomicUsize::new(0);
    if THREAD.get() == 0 {
        THREAD.set(1 + NUMBERED.fetch_add(1, Ordering::Relaxed));
    }
    THREAD.get()
}

/// The device whose queued work this thread does.
pub(crate) fn device_at_work() -> Option<usize> {
    AT_WORK.get()
}

driver_functions! {
    fn cuStreamCreateWithPriority(flags: c_uint, _priority: c_int) -> usize {
        const NON_BLOCKING: c_uint = 1;
        context::current_device()?;
        let kind = if flags & NON_BLOCKING == 0 { Kind::Blocking } else { Kind::NonBlocking };
        let stream = Stream::new(context::current(), kind);
        let handle = new_handle();
        lock(&STREAMS).insert(handle, Arc::clone(&stream));
        if !stream.start(move || drop(lock(&STREAMS).remove(&handle))) {
            lock(&STREAMS).remove(&handle);
            return Err(OUT_OF_MEMORY);
        }
        handle
    }

    /// The stream's thread ends after its queued work.
    fn cuStreamDestroy_v2(handle: usize) {
        let stream = find(handle)?;
        lock(&stream.queue).is_destroyed = true;
        stream.changed.notify_all();
    }

    fn cuStreamQuery(handle: usize) {
        let context = context_of(handle)?;
        refuse_captured(handle)?;
        let is_busy = stream_of(handle, context)?.pending() > 0;
        context::check_not_lost(context)?;
        if is_busy {
            return Err(NOT_READY);
        }
    }

    fn cuStreamIsCapturing(handle: usize, to: *mut c_uint) {
        let status = match capture_of(handle)? {
            None => 0,
            Some(Capture::Valid) => 1,
            Some(Capture::Invalidated) => 2,
        };
        // SAFETY: the caller promises a writable place.
        unsafe { to.write(status) };
    }

    fn cuThreadExchangeStreamCaptureMode(mode: *mut c_uint) {
        // SAFETY: the caller promises a mode that can be replaced.
        unsafe { mode.write(CAPTURE_MODE.replace(mode.read())) };
    }

    fn cuStreamGetCtx(handle: usize, to: *mut Handle) {
        let context = context_of(handle)?;
        // SAFETY: the caller promises a writable place.
        unsafe { to.write(context) };
    }

    fn cuLaunchHostFunc(handle: usize, function: extern "C" fn(*mut c_void), data: usize) |fails| {
        enqueue(handle, fails, move || {
            function(std::ptr::with_exposed_provenance_mut(data));
            Ok(())
        })?;
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize(handle: usize) -> Code {
    call_that_waits("cuStreamSynchronize", || synchronize(handle))
}

/// Keeps all streams from working, for tests of unfinished work, or lets them go on.
#[unsafe(no_mangle)]
extern "C" fn fake_driver_hold(is_held: bool) {
    *lock(&HELD) = is_held;
    LET_GO.notify_all();
}

/// Marks a stream as one that is being captured into a graph. Its work is done all the same; only queries and waits, of it
/// and of the events that it records, are refused.
#[unsafe(no_mangle)]
extern "C" fn fake_driver_begin_capture(handle: usize) {
    lock(&CAPTURED).insert(handle, Capture::Valid);
}

/// Marks a stream as one that is not being captured; returns whether the capture was valid to its end.
#[unsafe(no_mangle)]
extern "C" fn fake_driver_end_capture(handle: usize) -> bool {
    lock(&CAPTURED).remove(&handle) == Some(Capture::Valid)
}

/// Returns the default stream of that handle in a context, created at first use; `None` if the
/// system has no thread left for it.
fn default_of(handle: usize, context: Handle) -> Option<Arc<Stream>> {
    let (owner, kind) = match handle {
        PER_THREAD => (this_thread(), Kind::Blocking),
        _ => (OF_ALL_THREADS, Kind::Default),
    };
    let mut defaults = lock(&DEFAULTS);
    if let Some(stream) = defaults.get(&(context, owner)) {
        return Some(Arc::clone(stream));
    }
    let stream = Stream::new(context, kind);
    let is_started = stream.start(|| {});
    is_started.then(|| Arc::clone(defaults.entry((context, owner)).or_insert(stream)))
}

/// Queues work, or in its place the failure that is planned for it. It is dropped if the context is lost by then.
pub(crate) fn enqueue(
    handle: usize, fails: Option<Code>, work: impl FnOnce() -> Result<(), Code> + Send + 'static,
) -> Result<(), Code> {
    let work = move || fails.map_or_else(work, Err);
    give(handle, Box::new(work), false, Box::new(|| ()))
}

/// Queues work that is done even if the context is lost.
pub(crate) fn enqueue_kept(handle: usize, work: Work) -> Result<(), Code> {
    give(handle, work, true, Box::new(|| ()))
}

/// Queues a signal that all work before it is done, even if the context is lost.
///
/// A thread that sees the signal sees the stream without that work, and the other way round.
pub(crate) fn enqueue_signal(handle: usize, signal: Signal) -> Result<(), Code> {
    give(handle, Box::new(|| Ok(())), true, signal)
}

fn give(handle: usize, work: Work, is_kept: bool, signal: Signal) -> Result<(), Code> {
    let context = context_of(handle)?;
    let stream = stream_of(handle, context)?;
    let others = match stream.kind {
        Kind::Default => blocking_of(context),
        Kind::Blocking => legacy_default_of(context).into_iter().collect(),
        Kind::NonBlocking => Vec::new(),
    };
    let given = |other: Arc<Stream>| {
        let given = lock(&other.queue).given;
        (other, given)
    };
    let after = others.into_iter().map(given).collect();
    let mut queue = lock(&stream.queue);
    queue.given += 1;
    queue.tasks.push_back(Task { work, is_kept, after, signal });
    drop(queue);
    stream.changed.notify_all();
    Ok(())
}

/// Returns a context's default stream, if it was used.
fn legacy_default_of(context: Handle) -> Option<Arc<Stream>> {
    lock(&DEFAULTS).get(&(context, OF_ALL_THREADS)).cloned()
}

/// Returns the streams of a context that are ordered with its default stream.
fn blocking_of(context: Handle) -> Vec<Arc<Stream>> {
    let is_one = |stream: &Arc<Stream>| stream.context == context && stream.kind == Kind::Blocking;
    all().into_iter().filter(is_one).collect()
}

/// Returns all streams of all contexts, including default ones.
fn all() -> Vec<Arc<Stream>> {
    let mut all: Vec<_> = lock(&STREAMS).values().cloned().collect();
    all.extend(lock(&DEFAULTS).values().cloned());
    all
}

fn stream_of(handle: usize, context: Handle) -> Result<Arc<Stream>, Code> {
    if is_default(handle) { default_of(handle, context).ok_or(OUT_OF_MEMORY) } else { find(handle) }
}

/// Waits until all work of a stream is done, and for a context's default stream also the work of
/// the streams that are ordered with it; fails if its context is lost, or the stream is being
/// captured.
pub(crate) fn synchronize(handle: usize) -> Result<(), Code> {
    let context = context_of(handle)?;
    refuse_captured(handle)?;
    let stream = stream_of(handle, context)?;
    if stream.kind == Kind::Default {
        blocking_of(context).iter().for_each(|stream| stream.wait());
    }
    stream.wait();
    context::check_not_lost(context)
}

/// Returns a stream's context: for a default stream, this thread's.
pub(crate) fn context_of(handle: usize) -> Result<Handle, Code> {
    if !is_default(handle) {
        return Ok(find(handle)?.context);
    }
    match context::current() {
        0 => Err(INVALID_CONTEXT),
        current => Ok(current),
    }
}

/// Waits for all streams of all contexts.
pub(crate) fn synchronize_all() {
    for stream in all() {
        stream.wait();
    }
}

/// Returns the state of a stream's capture; `None` if it is not being captured.
pub(crate) fn capture_of(handle: usize) -> Result<Option<Capture>, Code> {
    context_of(handle)?;
    Ok(lock(&CAPTURED).get(&handle).copied())
}

/// Invalidates the capture of a stream.
pub(crate) fn invalidate_capture(handle: usize) {
    if let Some(capture) = lock(&CAPTURED).get_mut(&handle) {
        *capture = Capture::Invalidated;
    }
}

/// True if a capture forbids this thread the calls that are unsafe during one: while any stream is
/// being captured, which is always in global mode, unless this thread is in relaxed mode.
pub(crate) fn is_forbidden_by_capture() -> bool {
    CAPTURE_MODE.get() != RELAXED && !lock(&CAPTURED).is_empty()
}

fn refuse_captured(handle: usize) -> Result<(), Code> {
    invalidate_capture(handle);
    if lock(&CAPTURED).contains_key(&handle) { Err(STREAM_CAPTURE_UNSUPPORTED) } else { Ok(()) }
}

/// True if the handle means a default stream: the legacy default stream, or a thread's own.
fn is_default(handle: usize) -> bool {
    handle <= PER_THREAD
}

fn find(handle: usize) -> Result<Arc<Stream>, Code> {
    let streams = lock(&STREAMS);
    let stream = streams.get(&handle).filter(|stream| !stream.is_destroyed());
    stream.cloned().ok_or(INVALID_HANDLE)
}

/// Counts the streams, without default ones, and the unfinished tasks.
pub(crate) fn count() -> (usize, usize) {
    let alive = lock(&STREAMS).values().filter(|stream| !stream.is_destroyed()).count();
    (alive, all().iter().map(|stream| stream.pending()).sum())
}

impl Task {
    /// Does the work, and returns the signal that it is done.
    fn run(self, context: Handle) -> Signal {
        if !self.is_kept && context::check_not_lost(context).is_err() {
            return self.signal;
        }
        AT_WORK.set(Some(context::device_of(context)));
        let done = (self.work)();
        AT_WORK.set(None);
        if let Err(code) = done {
            context::lose(context, code);
        }
        self.signal
    }
}

impl Stream {
    fn new(context: Handle, kind: Kind) -> Arc<Self> {
        let (queue, changed) = (Mutex::default(), Condvar::new());
        Arc::new(Stream { context, kind, queue, changed })
    }

    /// Starts the stream's thread; returns whether the system had one left.
    fn start(self: &Arc<Self>, end: impl FnOnce() + Send + 'static) -> bool {
        let worker = Arc::clone(self);
        let work = move || {
            worker.work_until_destroyed();
            end();
        };
        thread::start(work)
    }

    fn is_destroyed(&self) -> bool {
        lock(&self.queue).is_destroyed
    }

    fn pending(&self) -> usize {
        let queue = lock(&self.queue);
        queue.tasks.len() + usize::from(queue.is_working)
    }

    fn wait(&self) {
        let queue = lock(&self.queue);
        let is_busy = |queue: &mut Queue| queue.is_working || !queue.tasks.is_empty();
        drop(self.changed.wait_while(queue, is_busy));
    }

    /// Waits until the first `tasks` of its tasks are done.
    fn wait_for(&self, tasks: usize) {
        let queue = lock(&self.queue);
        drop(self.changed.wait_while(queue, |queue| queue.done < tasks));
    }

    fn work_until_destroyed(&self) {
        let most_delay = setting("FAKE_DRIVER_DELAY", 0);
        let mut random = std::ptr::from_ref(self).addr() as u64 | 1;
        while let Some(task) = self.next() {
            if most_delay > 0 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                std::thread::sleep(Duration::from_micros(random % (most_delay + 1)));
            }
            for (other, tasks) in &task.after {
                other.wait_for(*tasks);
            }
            drop(LET_GO.wait_while(lock(&HELD), |is_held| *is_held));
            let start = Instant::now();
            let signal = task.run(self.context);
            timing::end(start, context::device_of(self.context));
            let mut queue = lock(&self.queue);
            queue.is_working = false;
            queue.done += 1;
            signal();
            drop(queue);
            flags::set();
            self.changed.notify_all();
        }
    }

    fn next(&self) -> Option<Task> {
        let queue = lock(&self.queue);
        let is_idle = |queue: &mut Queue| queue.tasks.is_empty() && !queue.is_destroyed;
        let queue = self.changed.wait_while(queue, is_idle);
        let mut queue = queue.unwrap_or_else(PoisonError::into_inner);
        let task = queue.tasks.pop_front()?;
        queue.is_working = true;
        Some(task)
    }
}
