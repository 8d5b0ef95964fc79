//! Work that other threads may join while it lasts.
//!
//! Who brings the work begins it at once. When nothing is left to take, it waits for those that are
//! inside, and for nobody else: a helper that is still on its way finds the work closed.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::PoisonError;
use sync::atomic::{AtomicUsize, Ordering};
use sync::{Arc, Condvar, Mutex, MutexGuard};

#[cfg(all(test, loom))]
use loom::{hint::spin_loop, sync};
#[cfg(not(all(test, loom)))]
use std::{hint::spin_loop, sync};

/// Does `work` on the calling thread, as number 0, and on every other that [`Joint::join`]s what
/// `invite` is given before the calling thread is done. Returns when all of them are done. A panic
/// of any of them goes on in the calling thread.
pub(crate) fn together(work: &(dyn Fn(usize) + Sync), invite: impl FnOnce(&Joint)) {
    let joint = Joint(Arc::new(Shared::of(work)));
    let closing = Closing(&joint.0);
    invite(&joint);
    work(0);
    drop(closing);
    let panicked = joint.0.lock().take();
    if let Some(payload) = panicked {
        resume_unwind(payload);
    }
}

/// What a helper joins the work with.
#[derive(Clone)]
pub(crate) struct Joint(Arc<Shared>);

impl Joint {
    /// Helps, as that number, unless the work is closed.
    pub(crate) fn join(&self, number: usize) {
        if !self.0.enter() {
            return;
        }
        // SAFETY: whoever is inside is waited for before the work's lifetime ends.
        let work = unsafe { &*self.0.work };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| work(number))) {
            self.0.lock().get_or_insert(payload);
        }
        self.0.leave();
    }
}

type Work = *const (dyn Fn(usize) + Sync);

struct Shared {
    work: Work,
    /// How many helpers are inside, and [`CLOSED`] once none may enter any more.
    inside: AtomicUsize,
    /// What the first panic of a helper carried.
    panicked: Mutex<Option<Payload>>,
    last_left: Condvar,
}

type Payload = Box<dyn Any + Send>;

// SAFETY: the work may be done by several threads at once (`Sync`), and nobody looks at it after
// its lifetime.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

const CLOSED: usize = 1 << (usize::BITS - 1);

/// How often a closing thread looks before it sleeps: some tens of microseconds. Those that are
/// inside are about to be done, and to be woken takes as long.
const LOOKS: usize = if cfg!(loom) { 1 } else { 1000 };

impl Shared {
    fn of(work: &(dyn Fn(usize) + Sync)) -> Self {
        Shared {
            // SAFETY: only the lifetime changes; `join` says how it is kept to.
            work: unsafe { std::mem::transmute::<&(dyn Fn(usize) + Sync), Work>(work) },
            inside: AtomicUsize::new(0),
            panicked: Mutex::new(None),
            last_left: Condvar::new(),
        }
    }

    fn enter(&self) -> bool {
        let more = |inside: usize| (inside & CLOSED == 0).then_some(inside + 1);
        self.inside.fetch_update(Ordering::Acquire, Ordering::Relaxed, more).is_ok()
    }

    fn leave(&self) {
        if self.inside.fetch_sub(1, Ordering::AcqRel) == CLOSED + 1 {
            // Under the lock: not between the closing thread's look and its sleep.
            let _looked = self.lock();
            self.last_left.notify_one();
        }
    }

    /// Lets nobody in any more, and waits until nobody is inside.
    fn close(&self) {
        self.inside.fetch_or(CLOSED, Ordering::AcqRel);
        for _ in 0..LOOKS {
            if self.is_left() {
                return;
            }
            spin_loop();
        }
        let mut looking = self.lock();
        while !self.is_left() {
            looking = self.last_left.wait(looking).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn is_left(&self) -> bool {
        self.inside.load(Ordering::Acquire) == CLOSED
    }

    fn lock(&self) -> MutexGuard<'_, Option<Payload>> {
        self.panicked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes the work, also when the calling thread panics.
struct Closing<'a>(&'a Shared);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::panic;

    #[test]
    fn who_comes_late_finds_the_work_closed() {
        let done = AtomicUsize::new(0);
        let mut late = None;
        let work = |_| {
            done.fetch_add(1, Ordering::Relaxed);
        };
        together(&work, |joint| late = Some(joint.clone()));
        if let Some(joint) = late {
            joint.join(1);
        }
        assert_eq!(done.into_inner(), 1);
    }

    #[test]
    fn a_panic_of_a_helper_goes_on_in_the_calling_thread() {
        let caller = std::thread::current().id();
        let work = |_| {
            assert_eq!(std::thread::current().id(), caller, "on purpose");
        };
        let result = panic::catch_unwind(|| {
            together(&work, |joint| {
                let joint = joint.clone();
                let helper = std::thread::spawn(move || joint.join(1));
                assert!(helper.join().is_ok());
            });
        });
        let payload = result.expect_err("the helper panicked");
        assert!(payload.downcast_ref::<String>().is_some_and(|text| text.contains("on purpose")));
    }

    #[test]
    fn a_panic_of_the_calling_thread_closes_the_work() {
        let mut late = None;
        let result = panic::catch_unwind(AssertUnwindSafe(|| {
            together(&|_| panic!("on purpose"), |joint| late = Some(joint.clone()));
        }));
        assert!(result.is_err());
        assert!(late.is_some_and(|joint| !joint.0.enter()));
    }
}

/// Every interleaving: `RUSTFLAGS="--cfg loom" cargo test --lib joint`.
#[cfg(all(test, loom))]
mod interleavings {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::thread;

    /// A cell for each turn at the work. Loom names every access that is not ordered.
    struct Turns {
        taken: AtomicUsize,
        cells: [UnsafeCell<usize>; 3],
    }

    // SAFETY: a turn's cell is touched by who took the turn, and by others after the work.
    unsafe impl Sync for Turns {}

    impl Turns {
        fn take(&self) {
            let turn = self.taken.fetch_add(1, Ordering::Relaxed);
            // SAFETY: this turn's cell.
            self.cells[turn].with_mut(|cell| unsafe { *cell = 1 });
        }

        fn written(&self) -> usize {
            // SAFETY: nobody takes a turn any more.
            self.cells.iter().map(|cell| cell.with(|cell| unsafe { *cell })).sum()
        }
    }

    /// Loom documents that 2 or 3 are enough for most defects (`Builder::preemption_bound`).
    const PREEMPTIONS: usize = 3;

    /// What helpers did is there after the work, and they do nothing later.
    fn model(helpers: usize) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(PREEMPTIONS);
        model.check(move || {
            let cells = std::array::from_fn(|_| UnsafeCell::new(0));
            let turns = Turns { taken: AtomicUsize::new(0), cells };
            let mut threads = Vec::new();
            together(&|_| turns.take(), |joint| {
                for _ in 0..helpers {
                    let joint = joint.clone();
                    threads.push(thread::spawn(move || joint.join(1)));
                }
            });
            let taken = turns.taken.load(Ordering::Relaxed);
            assert_eq!(turns.written(), taken);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(turns.taken.load(Ordering::Relaxed), taken);
        });
    }

    #[test]
    fn with_one_helper() {
        model(1);
    }

    #[test]
    fn with_two_helpers() {
        model(2);
    }
}
