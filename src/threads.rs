//! The library's threads: made at the first call that can use them, never torn down.
//!
//! A forked child has none of its parent's threads, so the pool belongs to a process: a child
//! makes its own.

use crate::joint::{self, Joint};
use crate::{float_env, fork, host_memory, settings, tuning};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};
use std::thread::Builder;
use std::time::Instant;

struct Pool {
    process: u32,
    threads: ThreadPool,
    /// Helpers that were woken and have not come yet.
    woken: AtomicUsize,
    /// A bit for each helper that is awake, looking out for the next call.
    awake: AtomicU64,
    /// How many calls there were, and what the newest wants help with.
    calls: AtomicUsize,
    newest: RwLock<Option<Invitation>>,
}

struct Invitation {
    joint: Joint,
    /// For the helpers whose numbers are lower.
    helpers: usize,
}

/// Runs `work` on the calling thread and on up to `threads - 1` others, and returns when all that
/// began it are done. `work` gets a number that is the thread's own, 0 for the calling one, and is
/// to take what it does from a queue: where threads cannot be had, or come late, the calling one
/// does all of it.
pub(crate) fn on_each(threads: usize, work: &(impl Fn(usize) + Sync)) {
    let helpers = threads.saturating_sub(1);
    let pool = if helpers > 0 && host_memory::is_left() { pool() } else { None };
    match pool {
        Some(pool) => joint::together(work, |joint| pool.invite(helpers, joint)),
        None => work(0),
    }
}

impl Pool {
    fn new(process: u32, threads: ThreadPool) -> Self {
        let (woken, awake, calls) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicUsize::new(0));
        Pool { process, threads, woken, awake, calls, newest: RwLock::new(None) }
    }

    /// Asks helpers to join: those that are awake see it, and as many as are missing are woken. One
    /// that is going to sleep just now either is counted as missing or sees the call.
    fn invite(&'static self, helpers: usize, joint: &Joint) {
        let invitation = Invitation { joint: joint.clone(), helpers };
        *self.newest.write().unwrap_or_else(PoisonError::into_inner) = Some(invitation);
        self.calls.fetch_add(1, Ordering::SeqCst);
        let wanted = u32::try_from(helpers).ok().and_then(|helpers| 1u64.checked_shl(helpers));
        let awake = self.awake.load(Ordering::SeqCst) & wanted.map_or(u64::MAX, |bit| bit - 1);
        self.wake(helpers.saturating_sub(awake.count_ones() as usize), joint);
    }

    /// Wakes helpers: two, each of which wakes half of those that are left to it. Waking takes
    /// longer than some work does.
    fn wake(&'static self, helpers: usize, joint: &Joint) {
        for share in [helpers.div_ceil(2), helpers / 2] {
            let most = self.threads.current_num_threads();
            if share == 0 || self.woken.load(Ordering::Relaxed) >= most {
                return;
            }
            self.woken.fetch_add(1, Ordering::Relaxed);
            let joint = joint.clone();
            self.threads.spawn(move || {
                self.woken.fetch_sub(1, Ordering::Relaxed);
                self.wake(share - 1, &joint);
                let number = rayon::current_thread_index().unwrap_or(0);
                joint.join(1 + number);
                drop(joint);
                self.look_out(number);
            });
        }
    }

    /// Joins call after call until there has been none for a while: one often follows another, and
    /// to be woken takes longer than some work does. Any thread that wants the core gets it.
    fn look_out(&self, number: usize) {
        let Some(bit) = u32::try_from(number).ok().and_then(|number| 1u64.checked_shl(number))
        else {
            return;
        };
        let (mut seen, mut begin) = (0, Instant::now());
        self.awake.fetch_or(bit, Ordering::SeqCst);
        loop {
            let calls = self.calls.load(Ordering::SeqCst);
            if calls != seen {
                seen = calls;
                self.join_newest(number);
                begin = Instant::now();
            } else if begin.elapsed() < tuning::LINGER {
                std::thread::yield_now();
            } else {
                self.awake.fetch_and(!bit, Ordering::SeqCst);
                if self.calls.load(Ordering::SeqCst) == seen {
                    return;
                }
                self.awake.fetch_or(bit, Ordering::SeqCst);
            }
        }
    }

    fn join_newest(&self, number: usize) {
        let is_for_it = |invitation: &&Invitation| number < invitation.helpers;
        let newest = self.newest.read().unwrap_or_else(PoisonError::into_inner);
        let joint = newest.as_ref().filter(is_for_it).map(|found| found.joint.clone());
        drop(newest);
        if let Some(joint) = joint {
            joint.join(1 + number);
        }
    }
}

/// Runs `work` for each item at the same time, the first of them on the calling thread, and returns
/// when all are done. Each of the others has a thread of its own, not one of the pool's: a thread
/// that waits there takes up other work, and with what this one holds that could wait for ever. An
/// item that no thread can be had for is left out.
pub(crate) fn side_by_side<T: Sync>(items: &[T], work: &(impl Fn(&T) + Sync)) {
    let [first, others @ ..] = items else { return };
    if others.is_empty() {
        return work(first);
    }
    std::thread::scope(|scope| {
        for (number, item) in others.iter().enumerate().filter(|_| host_memory::is_left()) {
            let named = Builder::new().name(format!("{NAME}gpu-{number}"));
            let start = || {
                named.stack_size(STACK_BYTES).spawn_scoped(scope, move || {
                    float_env::set_ieee();
                    work(item);
                })
            };
            let _ = without_signals(|| fork::unbroken(start));
        }
        work(first);
    });
}

const NAME: &str = "gpuvec-";

/// Whether the calling thread is one of the library's.
pub(crate) fn is_ours() -> bool {
    std::thread::current().name().is_some_and(|name| name.starts_with(NAME))
}

fn pool() -> Option<&'static Pool> {
    static POOL: AtomicPtr<Pool> = AtomicPtr::new(std::ptr::null_mut());
    let current = POOL.load(Ordering::Acquire);
    // SAFETY: `POOL` holds null or a pool that was leaked below and is never freed or changed.
    if let Some(pool) = unsafe { current.as_ref() }
        && pool.process == fork::process()
    {
        return Some(pool);
    }
    let made = Box::into_raw(Box::new(Pool::new(fork::process(), start()?)));
    let seen = match POOL.compare_exchange(current, made, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => made,
        Err(winner) => {
            // SAFETY: of two threads that get here at once the other won; nobody else has seen
            // this one's pool.
            drop(unsafe { Box::from_raw(made) });
            winner
        }
    };
    // SAFETY: as above. It belongs to this process: a fork gives the child one thread, which
    // cannot race with itself.
    unsafe { seen.as_ref() }
}

/// `None` where the system has no thread left.
fn start() -> Option<ThreadPool> {
    let threads = settings::threads().ok()?.get();
    let builder = ThreadPoolBuilder::new()
        .num_threads(threads.saturating_sub(1).max(1))
        .thread_name(|index| format!("{NAME}{index}"))
        .stack_size(STACK_BYTES)
        .start_handler(|_| float_env::set_ieee());
    // All of them run before anybody counts on them: one that starts later, in a process whose
    // memory has run out by then, would end it.
    let started = || builder.build().inspect(|pool| drop(pool.broadcast(|_| ())));
    without_signals(|| fork::unbroken(started)).ok()
}

/// Of each thread: far more than the kernels need, whatever the environment says.
const STACK_BYTES: usize = 1 << 20;

/// Runs `work` with all signals blocked, which the threads that it starts inherit: the host's
/// signals are for the host's threads.
fn without_signals<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: the sets are initialised before they are used, and only the calling thread's mask
    // changes.
    let before = unsafe {
        let mut all = std::mem::zeroed::<libc::sigset_t>();
        let mut before = std::mem::zeroed::<libc::sigset_t>();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
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
    use crate::chunk::{Cut, Queue};
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn every_piece_is_done_however_many_threads() {
        for threads in [1, 2, 7] {
            let queue = Queue::new(Cut::new(1000, 3));
            let done = AtomicUsize::new(0);
            on_each(threads, &|_| {
                while let Some(chunk) = queue.take() {
                    done.fetch_add(chunk.len, Ordering::Relaxed);
                }
            });
            assert_eq!(done.into_inner(), 1000);
        }
    }
}
