//! The fork-join pool: threads that start at the first call that can use them, and never end. If the number of threads
//! is raised, the next such call starts the missing ones. If it is lowered, the others sleep.
//!
//! A forked child has none of its parent's threads. So the pool belongs to a process: the child starts threads of its
//! own.
//!
//! No call waits for a thread that has not begun its work. For a thread may be unable to begin before the caller goes
//! on, for example while the caller runs inside `dlopen`. The threads are not std's. A thread of std's registers the
//! destructor of a thread-local when it begins: it waits for the dynamic loader, and ends the process if memory has run
//! out. The library's threads use no thread-local.

mod fork_join;

use crate::policy::cores;
use crate::process::fork::PerProcess;
use crate::process::{float_modes, memory, scheduling, settings, warmup};
use fork_join::WorkerSlot;
use std::ffi::c_void;
use std::io::Write;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

struct Pool {
    /// A slot for each helper that the process may ever have.
    slots: Box<[WorkerSlot]>,
    /// The number of helpers that were started. They have the first slots.
    started: AtomicUsize,
    /// True while a thread starts helpers. Other threads go on with the helpers that there are.
    is_starting: AtomicBool,
    made: Instant,
    /// The time at which helpers may be started again after the system had no thread left, in milliseconds after
    /// `made`.
    not_before: AtomicU64,
}

static POOL: PerProcess<Pool> = PerProcess::new();

/// The time before another attempt to start threads, after the system had none left.
const RETRY: Duration = Duration::from_millis(100);

/// The number of threads that may take part in a parallel run: at most `wanted`, including the calling thread. Starts
/// missing threads if the system allows it.
pub(crate) fn available(wanted: usize) -> usize {
    let helpers = wanted.saturating_sub(1);
    let pool = if helpers > 0 { pool() } else { None };
    1 + pool.map_or(0, |pool| helpers.min(pool.helpers().len()))
}

/// Runs `work` on the calling thread and on up to `threads - 1` others. Returns when all threads that began it are
/// done. `work` gets the thread's number, 0 for the calling thread. It has to take its chunks from a queue: if no other
/// thread begins in time, the calling thread must do all chunks.
pub(crate) fn run(threads: usize, work: &(impl Fn(usize) + Sync)) {
    match POOL.get() {
        Some(pool) if threads > 1 => fork_join::run(pool.helpers(), threads - 1, work),
        _ => work(0),
    }
}

/// The number of helpers that may work on one call.
fn helper_limit() -> usize {
    // The guard has refused the call if the environment is wrong.
    settings::threads().map_or(0, |threads| threads.get() - 1)
}

/// This process's pool. Starts the missing helpers, if possible.
fn pool() -> Option<&'static Pool> {
    let limit = helper_limit();
    let is_whole = |pool: &&Pool| pool.started.load(Ordering::Acquire) >= limit;
    if let Some(pool) = POOL.get().filter(is_whole) {
        return Some(pool);
    }
    if !memory::is_left() {
        return POOL.get();
    }
    let pool = POOL.get_or_init(|| Pool {
        slots: (1..settings::MOST_THREADS.get()).map(|_| WorkerSlot::empty()).collect(),
        started: AtomicUsize::new(0),
        is_starting: AtomicBool::new(false),
        made: Instant::now(),
        not_before: AtomicU64::new(0),
    });
    pool.start_missing(limit);
    Some(pool)
}

impl Pool {
    /// The slots of the helpers that may work on a call. More helpers may have been started for a higher limit.
    fn helpers(&self) -> &[WorkerSlot] {
        &self.slots[..self.started.load(Ordering::Acquire).min(helper_limit())]
    }

    /// Starts helpers until there are `limit` of them.
    fn start_missing(&'static self, limit: usize) {
        let now = self.made.elapsed().as_millis() as u64;
        if now < self.not_before.load(Ordering::Relaxed)
            || self.is_starting.swap(true, Ordering::Acquire)
        {
            return;
        }
        let first = self.started.load(Ordering::Relaxed);
        for (number, slot) in self.slots.iter().enumerate().take(limit).skip(first) {
            if !start("", number, move || help(slot, 1 + number)) {
                let retry = now + RETRY.as_millis() as u64;
                self.not_before.store(retry, Ordering::Relaxed);
                break;
            }
            self.started.store(1 + number, Ordering::Release);
            warmup::note();
        }
        self.is_starting.store(false, Ordering::Release);
    }
}

/// Runs job after job for ever. Sleeps only after a while without a job, because calls often follow each other closely,
/// and it takes longer to wake a thread than to do some calls. Yields the core to any thread that wants it.
fn help(slot: &WorkerSlot, number: usize) {
    slot.open();
    loop {
        let mut begin = Instant::now();
        while begin.elapsed() < cores::SPIN_TIME {
            if slot.try_run(number) {
                begin = Instant::now();
            } else {
                std::thread::yield_now();
            }
        }
        slot.sleep();
    }
}

/// Runs `work` for all items concurrently: for the first item on the calling thread, and for each other item on a new
/// thread, since the pool's may be busy with other calls. Returns when all threads that began are done. Leaves out an
/// item if its thread could not be started, or did not begin before the first item was done. Returns the number of
/// items with a thread; these are the first ones.
pub(crate) fn run_concurrently<T: Sync>(items: &[T], work: &(impl Fn(&T) + Sync)) -> usize {
    let others = items.len().saturating_sub(1);
    if others == 0 || !memory::is_left() {
        items.first().map(work);
        return items.len().min(1);
    }
    let slots: Arc<[WorkerSlot]> = (0..others).map(|_| WorkerSlot::empty()).collect();
    slots.iter().for_each(WorkerSlot::open);
    let started = AtomicUsize::new(0);
    fork_join::run(&slots, others, &|number| {
        if number == 0 {
            // The job is posted by now. A thread ends at once if the job was withdrawn before it began.
            let has_started = |slot: &usize| {
                let (slots, slot) = (Arc::clone(&slots), *slot);
                start("gpu-", slot, move || {
                    slots[slot].try_run(1 + slot);
                })
            };
            started.store((0..others).take_while(has_started).count(), Ordering::Relaxed);
        }
        work(&items[number]);
    });
    1 + started.into_inner()
}

const PREFIX: &str = "gpuvec-";

/// Names the calling thread for people who look at the process. Truncates the name to 15 bytes.
fn name_thread(kind: &str, number: usize) {
    let mut text = [0u8; 16];
    let _ = write!(&mut text[..15], "{PREFIX}{kind}{number}");
    // SAFETY: the kernel copies a C string of at most 16 bytes.
    unsafe { libc::prctl(libc::PR_SET_NAME, text.as_ptr()) };
}

/// True if the calling thread has a name of the library's threads.
pub(crate) fn is_ours() -> bool {
    let mut text = [0u8; 16];
    // SAFETY: the kernel writes at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, text.as_mut_ptr()) };
    text.starts_with(PREFIX.as_bytes())
}

/// The stack size of each thread: far more than the work needs, and independent of the environment.
const STACK_BYTES: usize = 1 << 20;

/// Starts a detached thread that runs `body`, which must not panic. Returns false if the system has no thread left.
fn start<F: FnOnce() + Send + 'static>(kind: &'static str, number: usize, body: F) -> bool {
    extern "C" fn main<F: FnOnce()>(start: *mut c_void) -> *mut c_void {
        // SAFETY: `start` leaked the box for this thread alone.
        let (kind, number, body) = *unsafe { Box::from_raw(start.cast::<(&str, usize, F)>()) };
        scheduling::follow_main_thread();
        name_thread(kind, number);
        float_modes::set_ieee();
        body();
        std::ptr::null_mut()
    }
    let argument = Box::into_raw(Box::new((kind, number, body)));
    let (mut attributes, mut thread) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: the attributes are initialised before they are used, and destroyed once. glibc writes the thread's handle
    // into a local. `main` is a function of this library, which is never unloaded.
    let code = unsafe {
        libc::pthread_attr_init(attributes.as_mut_ptr());
        libc::pthread_attr_setdetachstate(attributes.as_mut_ptr(), libc::PTHREAD_CREATE_DETACHED);
        libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK_BYTES);
        let create = || {
            libc::pthread_create(
                thread.as_mut_ptr(),
                attributes.as_ptr(),
                main::<F>,
                argument.cast(),
            )
        };
        let code = with_helper_signals(create);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        code
    };
    if code != 0 {
        // SAFETY: no thread was made, so that this function still owns the box.
        drop(unsafe { Box::from_raw(argument) });
    }
    code == 0
}

/// The signals that a thread's own instructions raise. The host's handlers for them may map pages on demand or report a
/// crash, and so must run on the library's threads, too. If a thread blocks such a signal and raises it, the process
/// ends.
const SYNCHRONOUS: [i32; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// Runs `work` with all signals blocked except the synchronous ones. The threads that it starts inherit the mask, since
/// the host's signals are for the host's threads.
fn with_helper_signals<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: the sets are initialised before they are used. Only the calling thread's mask changes.
    let before = unsafe {
        let mut blocked = std::mem::zeroed::<libc::sigset_t>();
        let mut before = std::mem::zeroed::<libc::sigset_t>();
        libc::sigfillset(&raw mut blocked);
        for signal in SYNCHRONOUS {
            libc::sigdelset(&raw mut blocked, signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const blocked, &raw mut before);
        before
    };
    let result = work();
    // SAFETY: it restores the mask that this thread had.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_work_is_done_by_any_number_of_threads() {
        for threads in [1, 2, 7] {
            let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
            run(available(threads), &|_| {
                while next.fetch_add(1, Ordering::Relaxed) < 1000 {
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
            assert_eq!(done.into_inner(), 1000);
        }
    }

    #[test]
    fn items_that_have_threads_are_done_once_and_the_first_always() {
        let items: [AtomicUsize; 5] = std::array::from_fn(|_| AtomicUsize::new(0));
        let started = run_concurrently(&items, &|item| {
            item.fetch_add(1, Ordering::Relaxed);
        });
        assert!((1..=items.len()).contains(&started));
        let done = items.map(AtomicUsize::into_inner);
        assert_eq!(done[0], 1);
        assert!(done.iter().all(|times| *times <= 1), "{done:?}");
    }
}
