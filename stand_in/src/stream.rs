//! Streams: a queue of work and a thread that does it, in order, when it likes.

use crate::context::{self, Handle};
use crate::{Code, INVALID_HANDLE, lock, setting};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Queued work; an error loses the context.
pub(crate) type Work = Box<dyn FnOnce() -> Result<(), Code> + Send>;

struct Stream {
    context: Handle,
    queue: Mutex<Queue>,
    changed: Condvar,
}

struct Queue {
    work: VecDeque<Work>,
    is_working: bool,
    is_destroyed: bool,
}

static STREAMS: Mutex<BTreeMap<usize, Arc<Stream>>> = Mutex::new(BTreeMap::new());

/// A stream of this thread's context, with a thread of its own; `None` where there is none left.
pub(crate) fn create() -> Option<usize> {
    let queue = Queue { work: VecDeque::new(), is_working: false, is_destroyed: false };
    let stream = Arc::new(Stream {
        context: context::current(),
        queue: Mutex::new(queue),
        changed: Condvar::new(),
    });
    let worker = Arc::clone(&stream);
    let name = "stand-in".to_owned();
    std::thread::Builder::new().name(name).spawn(move || worker.work_for_ever()).ok()?;
    let handle = Arc::as_ptr(&stream).expose_provenance();
    lock(&STREAMS).insert(handle, stream);
    Some(handle)
}

/// Lets a stream's thread end once it has done what is queued.
pub(crate) fn destroy(handle: usize) -> Result<(), Code> {
    let stream = lock(&STREAMS).remove(&handle).ok_or(INVALID_HANDLE)?;
    lock(&stream.queue).is_destroyed = true;
    stream.changed.notify_all();
    Ok(())
}

/// Queues work.
pub(crate) fn enqueue(handle: usize, work: Work) -> Result<(), Code> {
    let stream = find(handle)?;
    lock(&stream.queue).work.push_back(work);
    stream.changed.notify_all();
    Ok(())
}

/// Waits until all work of a stream is done; fails if its context is lost.
pub(crate) fn synchronize(handle: usize) -> Result<(), Code> {
    let stream = find(handle)?;
    stream.wait();
    context::lost_of(stream.context).map_or(Ok(()), Err)
}

/// Waits for all streams, as work on the legacy default stream does.
pub(crate) fn synchronize_all() {
    let all: Vec<_> = lock(&STREAMS).values().cloned().collect();
    for stream in all {
        stream.wait();
    }
}

fn find(handle: usize) -> Result<Arc<Stream>, Code> {
    lock(&STREAMS).get(&handle).cloned().ok_or(INVALID_HANDLE)
}

/// How many streams there are, and how much work is not done.
pub(crate) fn count() -> (usize, usize) {
    let streams = lock(&STREAMS);
    let pending = streams.values().map(|stream| {
        let queue = lock(&stream.queue);
        queue.work.len() + usize::from(queue.is_working)
    });
    (streams.len(), pending.sum())
}

impl Stream {
    fn wait(&self) {
        let queue = lock(&self.queue);
        let is_busy = |queue: &mut Queue| queue.is_working || !queue.work.is_empty();
        drop(self.changed.wait_while(queue, is_busy));
    }

    fn work_for_ever(&self) {
        let most_delay = setting("STAND_IN_DELAY", 0);
        let mut random = std::ptr::from_ref(self).addr() as u64 | 1;
        while let Some(work) = self.next() {
            if most_delay > 0 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                std::thread::sleep(Duration::from_micros(random % (most_delay + 1)));
            }
            if context::lost_of(self.context).is_none()
                && let Err(code) = work()
            {
                context::lose_of(self.context, code);
            }
            lock(&self.queue).is_working = false;
            self.changed.notify_all();
        }
    }

    fn next(&self) -> Option<Work> {
        let queue = lock(&self.queue);
        let is_idle = |queue: &mut Queue| queue.work.is_empty() && !queue.is_destroyed;
        let mut queue = match self.changed.wait_while(queue, is_idle) {
            Ok(queue) => queue,
            Err(poisoned) => poisoned.into_inner(),
        };
        let work = queue.work.pop_front()?;
        queue.is_working = true;
        Some(work)
    }
}
