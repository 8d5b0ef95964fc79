//! Streams: a queue of work and a thread that does it, in order, when it likes.
//!
//! The default streams have no thread: what they are given waits for all streams and is done at
//! once.

use crate::context::{self, Handle};
use crate::{Code, INVALID_CONTEXT, INVALID_HANDLE, NOT_READY, lock, new_handle, setting};
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Queued work; an error loses the context.
pub(crate) type Work = Box<dyn FnOnce() -> Result<(), Code> + Send>;

struct Task {
    work: Work,
    /// Whether it is done even after the context was lost.
    is_kept: bool,
}

struct Stream {
    context: Handle,
    queue: Mutex<Queue>,
    changed: Condvar,
}

struct Queue {
    tasks: VecDeque<Task>,
    is_working: bool,
    is_destroyed: bool,
}

/// All streams; those that were destroyed as long as they have work.
static STREAMS: Mutex<BTreeMap<usize, Arc<Stream>>> = Mutex::new(BTreeMap::new());

/// Held by the thread that does a default stream's work.
static DEFAULT: Mutex<()> = Mutex::new(());

static HELD: Mutex<bool> = Mutex::new(false);
static LET_GO: Condvar = Condvar::new();

thread_local! {
    static AT_WORK: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The device whose queued work this thread is doing.
pub(crate) fn device_at_work() -> Option<usize> {
    AT_WORK.get()
}

/// A stream of this thread's context, with a thread of its own; `None` where there is none left.
pub(crate) fn create() -> Option<usize> {
    let queue = Queue { tasks: VecDeque::new(), is_working: false, is_destroyed: false };
    let stream = Arc::new(Stream {
        context: context::current(),
        queue: Mutex::new(queue),
        changed: Condvar::new(),
    });
    let handle = new_handle();
    let worker = Arc::clone(&stream);
    lock(&STREAMS).insert(handle, stream);
    let work = move || {
        worker.work_until_destroyed();
        lock(&STREAMS).remove(&handle);
    };
    let thread = std::thread::Builder::new().name("stand-in".to_owned()).spawn(work);
    if thread.is_err() {
        lock(&STREAMS).remove(&handle);
    }
    thread.ok().map(|_| handle)
}

/// Lets a stream's thread end once it has done what is queued.
pub(crate) fn destroy(handle: usize) -> Result<(), Code> {
    let stream = find(handle)?;
    lock(&stream.queue).is_destroyed = true;
    stream.changed.notify_all();
    Ok(())
}

/// Queues work, which is dropped if the context is lost by then.
pub(crate) fn enqueue(handle: usize, work: Work) -> Result<(), Code> {
    give(handle, Task { work, is_kept: false })
}

/// Queues work that is done whatever becomes of the context.
pub(crate) fn enqueue_kept(handle: usize, work: Work) -> Result<(), Code> {
    give(handle, Task { work, is_kept: true })
}

fn give(handle: usize, task: Task) -> Result<(), Code> {
    let context = context_of(handle)?;
    if is_default(handle) {
        let _one_after_the_other = lock(&DEFAULT);
        synchronize_all();
        task.run(context);
        return Ok(());
    }
    let stream = find(handle)?;
    lock(&stream.queue).tasks.push_back(task);
    stream.changed.notify_all();
    Ok(())
}

/// Waits until all work of a stream is done; fails if its context is lost.
pub(crate) fn synchronize(handle: usize) -> Result<(), Code> {
    let context = context_of(handle)?;
    if is_default(handle) {
        synchronize_all();
    } else {
        find(handle)?.wait();
    }
    context::lost_of(context).map_or(Ok(()), Err)
}

/// Fails if the context is lost, or if there is work that is not done.
pub(crate) fn query(handle: usize) -> Result<(), Code> {
    let context = context_of(handle)?;
    let is_busy = !is_default(handle) && find(handle)?.pending() > 0;
    match context::lost_of(context) {
        Some(code) => Err(code),
        None if is_busy => Err(NOT_READY),
        None => Ok(()),
    }
}

/// The context that a stream works in: a default stream in this thread's.
pub(crate) fn context_of(handle: usize) -> Result<Handle, Code> {
    if !is_default(handle) {
        return Ok(find(handle)?.context);
    }
    match context::current() {
        0 => Err(INVALID_CONTEXT),
        current => Ok(current),
    }
}

/// Waits for all streams, as work on the legacy default stream does.
pub(crate) fn synchronize_all() {
    let all: Vec<_> = lock(&STREAMS).values().cloned().collect();
    for stream in all {
        stream.wait();
    }
}

/// Keeps all streams' threads from beginning anything, or lets them go on.
pub(crate) fn hold(is_held: bool) {
    *lock(&HELD) = is_held;
    LET_GO.notify_all();
}

/// The legacy default stream, by both its handles, and a thread's own.
fn is_default(handle: usize) -> bool {
    handle <= 2
}

fn find(handle: usize) -> Result<Arc<Stream>, Code> {
    let streams = lock(&STREAMS);
    let stream = streams.get(&handle).filter(|stream| !stream.is_destroyed());
    stream.cloned().ok_or(INVALID_HANDLE)
}

/// How many streams there are, and how much work is not done.
pub(crate) fn count() -> (usize, usize) {
    let streams = lock(&STREAMS);
    let alive = streams.values().filter(|stream| !stream.is_destroyed()).count();
    (alive, streams.values().map(|stream| stream.pending()).sum())
}

impl Task {
    fn run(self, context: Handle) {
        if !self.is_kept && context::lost_of(context).is_some() {
            return;
        }
        AT_WORK.set(Some(context::device_of(context)));
        let done = (self.work)();
        AT_WORK.set(None);
        if let Err(code) = done {
            context::lose_of(context, code);
        }
    }
}

impl Stream {
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

    fn work_until_destroyed(&self) {
        let most_delay = setting("STAND_IN_DELAY", 0);
        let mut random = std::ptr::from_ref(self).addr() as u64 | 1;
        while let Some(task) = self.next() {
            if most_delay > 0 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                std::thread::sleep(Duration::from_micros(random % (most_delay + 1)));
            }
            drop(LET_GO.wait_while(lock(&HELD), |is_held| *is_held));
            task.run(self.context);
            lock(&self.queue).is_working = false;
            self.changed.notify_all();
        }
    }

    fn next(&self) -> Option<Task> {
        let queue = lock(&self.queue);
        let is_idle = |queue: &mut Queue| queue.tasks.is_empty() && !queue.is_destroyed;
        let mut queue = match self.changed.wait_while(queue, is_idle) {
            Ok(queue) => queue,
            Err(poisoned) => poisoned.into_inner(),
        };
        let task = queue.tasks.pop_front()?;
        queue.is_working = true;
        Some(task)
    }
}
