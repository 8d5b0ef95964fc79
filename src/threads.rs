//! The library's threads: made at the first call that can use them, never torn down.
//!
//! A forked child has none of its parent's threads, so the pool belongs to a process: a child
//! makes its own.

use crate::joint::{self, Seat};
use crate::{float_env, fork, host_memory, settings, tuning};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::Builder;
use std::time::Instant;

struct Pool {
    process: u32,
    seats: Arc<[Seat]>,
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.seats.iter().for_each(Seat::dismiss);
    }
}

/// Runs `work` on the calling thread and on up to `threads - 1` others, and returns when all that
/// began it are done. `work` gets a number that is the thread's own, 0 for the calling one, and is
/// to take what it does from a queue: where threads cannot be had, or come late, the calling one
/// does all of it.
pub(crate) fn on_each(threads: usize, work: &(impl Fn(usize) + Sync)) {
    let helpers = threads.saturating_sub(1);
    let pool = if helpers > 0 && host_memory::is_left() { pool() } else { None };
    match pool {
        Some(pool) => joint::together(&pool.seats, helpers, work),
        None => work(0),
    }
}

/// A helper's life: it joins call after call until there has been none for a while, and then sleeps.
/// One call often follows another, and to be woken takes longer than some work does. Any thread that
/// wants the core gets it.
fn help(seat: &Seat, number: usize) {
    loop {
        let mut begin = Instant::now();
        while begin.elapsed() < tuning::LINGER {
            if seat.join(number) {
                begin = Instant::now();
            } else {
                std::thread::yield_now();
            }
        }
        if !seat.sleep() {
            return;
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
    let made = Box::into_raw(Box::new(Pool { process: fork::process(), seats: start()? }));
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

/// As many helpers as are wanted, or as the system has threads; `None` if that is none.
fn start() -> Option<Arc<[Seat]>> {
    let wanted = settings::threads().ok()?.get().saturating_sub(1).max(1);
    let seats: Arc<[Seat]> = (0..wanted).map(|_| Seat::empty()).collect();
    let (begun, all_begun) = mpsc::channel();
    let start = |number: usize| {
        let (seats, begun) = (Arc::clone(&seats), begun.clone());
        let named = Builder::new().name(format!("{NAME}{number}")).stack_size(STACK_BYTES);
        named.spawn(move || {
            float_env::set_ieee();
            seats[number].open();
            let _ = begun.send(());
            drop(begun);
            help(&seats[number], 1 + number);
        })
    };
    // All of them run before anybody counts on them: one that starts later, in a process whose
    // memory has run out by then, would end it.
    let started = || {
        let count = (0..wanted).take_while(|number| start(*number).is_ok()).count();
        all_begun.iter().take(count).count()
    };
    let count = without_signals(|| fork::unbroken(started));
    (count > 0).then_some(seats)
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
