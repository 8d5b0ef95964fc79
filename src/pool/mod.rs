//! The fork-join pool: threads that are started at the first call that can use them, and never end.
//! A higher number of threads starts the missing ones at the next such call; a lower one leaves the
//! others asleep.
//!
//! A forked child has none of its parent's threads, so the pool belongs to a process: a child
//! starts its own.
//!
//! No call waits for a thread that has not begun its work: a thread that was started may be unable to
//! begin before the caller goes on, for example while the caller runs inside `dlopen`. The threads
//! are not std's: those register the destructor of a thread-local as they begin, for which they wait
//! for the dynamic loader, and without which they end the process where memory has run out. The
//! library's threads use no thread-local at all.

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
    /// Slots whose thread was started: the first ones.
    started: AtomicUsize,
    /// One thread starts helpers at a time; other threads go on with those that there are.
    is_starting: AtomicBool,
    made: Instant,
    /// Milliseconds after that before which none is started again, once the system had none left.
    not_before: AtomicU64,
}

static POOL: PerProcess<Pool> = PerProcess::new();

/// Time between attempts to start threads that the system did not have.
const RETRY: Duration = Duration::from_millis(100);

/// Returns how many of `wanted` threads may take part in a parallel run, including the calling thread.
/// Starts missing threads if the system allows it.
pub(crate) fn available(wanted: usize) -> usize {
    let helpers = wanted.saturating_sub(1);
    let pool = if helpers > 0 { pool() } else { None };
    1 + pool.map_or(0, |pool| helpers.min(pool.helpers().len()))
}

/// Runs `work` on the calling thread and on up to `threads - 1` others, and returns when all that
/// began it are done. `work` gets a number that is the thread's own, 0 for the calling one, and has
/// to take its chunks from a queue: where threads cannot be had, or come late, the calling one
/// does all of it.
pub(crate) fn run(threads: usize, work: &(impl Fn(usize) + Sync)) {
    match POOL.get() {
        Some(pool) if threads > 1 => fork_join::run(pool.helpers(), threads - 1, work),
        _ => work(0),
    }
}

/// The number of helpers that may work on one call.
fn helper_limit() -> usize {
    // The guard has refused a call whose environment is wrong.
    settings::threads().map_or(0, |threads| threads.get() - 1)
}

/// This process's pool, with as many threads as could be started.
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
    /// The slots of the helpers that may work on a call. Further helpers were started for a higher limit.
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
            if !start(Name::Helper(number), move || help(slot, 1 + number)) {
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

/// A helper's life: it runs job after job, and sleeps after a while without one. One call often
/// follows another, and to wake a thread takes longer than some work does. Any thread that wants the
/// core gets it.
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

/// Runs `work` for each item concurrently, the first of them on the calling thread, and returns
/// when all that began are done. Each of the others has a thread of its own, not one of the pool's,
/// which may be busy with other calls. Leaves out an item whose thread could not be started, or did
/// not begin before the first item was done. Returns how many have a thread: the first ones.
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
            // The job is posted by now. A thread that finds it withdrawn just ends.
            let has_started = |slot: &usize| {
                let (slots, slot) = (Arc::clone(&slots), *slot);
                start(Name::Gpu(slot), move || {
                    slots[slot].try_run(1 + slot);
                })
            };
            started.store((0..others).take_while(has_started).count(), Ordering::Relaxed);
        }
        work(&items[number]);
    });
    1 + started.into_inner()
}

const PREFIX: &[u8] = b"gpuvec-";

/// The name of a thread of the library's, for people who look at the process.
#[derive(Clone, Copy)]
enum Name {
    Helper(usize),
    Gpu(usize),
}

impl Name {
    /// Names the calling thread. (A name has at most 15 bytes.)
    fn give(self) {
        let mut text = [0u8; 16];
        let mut room = &mut text[..15];
        // A truncated name is fine.
        let _ = match self {
            Name::Helper(number) => write!(room, "gpuvec-{number}"),
            Name::Gpu(number) => write!(room, "gpuvec-gpu-{number}"),
        };
        // SAFETY: the kernel copies a C string of at most 16 bytes.
        unsafe { libc::prctl(libc::PR_SET_NAME, text.as_ptr()) };
    }
}

/// True if the calling thread is one of the library's, by its name.
pub(crate) fn is_ours() -> bool {
    let mut text = [0u8; 16];
    // SAFETY: the kernel writes at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, text.as_mut_ptr()) };
    text.starts_with(PREFIX)
}

/// The stack size of each thread: far more than the kernels need, and independent of the environment.
const STACK_BYTES: usize = 1 << 20;

/// Starts a detached thread that runs `body`, which must not panic, and says whether the system had
/// one left.
fn start<F: FnOnce() + Send + 'static>(name: Name, body: F) -> bool {
    extern "C" fn main<F: FnOnce()>(start: *mut c_void) -> *mut c_void {
        // SAFETY: `start` leaked the box for this thread alone.
        let (name, body) = *unsafe { Box::from_raw(start.cast::<(Name, F)>()) };
        scheduling::follow_main_thread();
        name.give();
        float_modes::set_ieee();
        body();
        std::ptr::null_mut()
    }
    let argument = Box::into_raw(Box::new((name, body)));
    let (mut attributes, mut thread) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: the attributes are initialised before they are used and destroyed once; glibc writes
    // the thread's handle into a local; `main` is a function of this library, which is never unloaded.
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
        // SAFETY: no thread was made, so that the box is still this function's.
        drop(unsafe { Box::from_raw(argument) });
    }
    code == 0
}

/// Signals that a thread raises by its own instructions. A host's handlers for them, which map pages
/// on demand or report a crash, run on the library's threads too; a thread that blocks one and raises
/// it ends the process.
const SYNCHRONOUS: [i32; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// Runs `work` with all signals blocked but for the synchronous ones, which the threads that it
/// starts inherit: the host's signals are for the host's threads.
fn with_helper_signals<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: the sets are initialised before they are used, and only the calling thread's mask
    // changes.
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
    // SAFETY: the mask is the one that this thread had.
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
