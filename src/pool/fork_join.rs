//! Parallel runs: helper threads join the calling thread's work while it lasts.
//!
//! Each helper has a worker slot, where it waits for a job. A parallel run posts its job into a slot for each helper
//! that it wants, and begins at once on the calling thread. When nothing is left to do, it withdraws the job from the
//! slots where no helper has claimed it, and waits only for the helpers that have claimed it. Each slot has cache lines
//! of its own: a write to a line that other cores write to can take longer than a short job.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::PoisonError;
use sync::atomic::{AtomicUsize, Ordering};
use sync::{Condvar, Mutex, MutexGuard};

#[cfg(all(test, loom))]
use loom::{hint::spin_loop, sync};
#[cfg(not(all(test, loom)))]
use std::{hint::spin_loop, sync};

/// Runs `work` on the calling thread, with number 0, and on up to `helpers` helpers, each with the number of its slot
/// plus 1. Returns when every helper that began is done. A panic in a helper resumes on the calling thread.
pub(crate) fn run(slots: &[WorkerSlot], helpers: usize, work: &(dyn Fn(usize) + Sync)) {
    let job = Job { work, panicked: Mutex::new(None) };
    let posted = Posted::new(&job, slots, helpers);
    work(0);
    drop(posted);
    let panicked = job.panicked.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(payload) = panicked {
        resume_unwind(payload);
    }
}

/// The number of times that the calling thread polls before it sleeps: some tens of microseconds. Helpers usually
/// finish within that time, and it takes as long to wake the calling thread.
const POLLS: usize = if cfg!(loom) { 1 } else { 1000 };

/// A job. It lives until no slot holds its address.
#[repr(align(64))]
struct Job<'a> {
    work: &'a (dyn Fn(usize) + Sync),
    /// The payload of the first panic of a helper.
    panicked: Mutex<Option<Payload>>,
}

type Payload = Box<dyn Any + Send>;

impl Job<'_> {
    fn run(&self, number: usize) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| (self.work)(number))) {
            self.panicked.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(payload);
        }
    }
}

/// A job in worker slots. Withdraws the job when dropped, even if the calling thread panics.
struct Posted<'a> {
    job: usize,
    slots: &'a [WorkerSlot],
}

impl<'a> Posted<'a> {
    /// Posts a job into the first slots that are free, and wakes their helpers.
    fn new(job: &Job<'_>, slots: &'a [WorkerSlot], helpers: usize) -> Self {
        slots.iter().take(helpers).for_each(WorkerSlot::prefetch);
        let mut posted = Posted { job: std::ptr::from_ref(job).expose_provenance(), slots: &[] };
        let mut count = 0;
        for (number, slot) in slots.iter().enumerate() {
            if count == helpers {
                break;
            }
            if slot.post(posted.job) {
                count += 1;
                posted.slots = &slots[..=number];
            }
        }
        posted
    }
}

impl Drop for Posted<'_> {
    fn drop(&mut self) {
        for slot in self.slots {
            slot.withdraw(self.job);
        }
    }
}

/// A worker slot, where a helper waits for a job.
#[repr(align(128))]
pub(crate) struct WorkerSlot {
    /// The address of a job, or 0, combined with the bits below.
    state: AtomicUsize,
    lock: Mutex<()>,
    changed: Condvar,
}

/// The helper polls for a job.
const IDLE: usize = 0;
/// With a job: the helper has claimed the job. Without one: there is no helper.
const CLAIMED: usize = 1;
/// The calling thread sleeps until the helper is done.
const AWAITED: usize = 2;
/// The helper sleeps.
const ASLEEP: usize = 4;

const BITS: usize = CLAIMED | AWAITED | ASLEEP;

impl WorkerSlot {
    /// Makes a slot without a helper.
    pub(crate) fn empty() -> Self {
        WorkerSlot {
            state: AtomicUsize::new(CLAIMED),
            lock: Mutex::new(()),
            changed: Condvar::new(),
        }
    }

    /// Opens the slot to jobs. Its helper calls this when it begins.
    pub(crate) fn open(&self) {
        self.state.store(IDLE, Ordering::Release);
    }

    /// Closes the slot of a helper without a job, so that no job is posted there later. The library's helpers never
    /// end.
    #[cfg(test)]
    pub(crate) fn shut_down(&self) {
        self.state.swap(CLAIMED, Ordering::AcqRel);
        self.notify();
    }

    /// Claims the slot's job, if it has one, and runs it as `number`. Returns true if it ran a job.
    pub(crate) fn try_run(&self, number: usize) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        let address = state & !BITS;
        if address == 0 || !self.change(state, address | CLAIMED) {
            return false;
        }
        // SAFETY: `run` keeps a claimed job until the slot's state shows that the helper is done. The job's work is
        // `Sync`.
        let job = unsafe { &*std::ptr::with_exposed_provenance::<Job<'_>>(address) };
        job.run(number);
        if !self.change(address | CLAIMED, IDLE) {
            let _sleepers = self.lock();
            self.state.store(IDLE, Ordering::Release);
            self.changed.notify_all();
        }
        true
    }

    /// Sleeps until a job is posted.
    pub(crate) fn sleep(&self) {
        if self.change(IDLE, ASLEEP) {
            let mut sleeping = self.lock();
            while self.state.load(Ordering::Relaxed) & ASLEEP != 0 {
                sleeping = self.changed.wait(sleeping).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Prefetches the state for writing, so that the states of several slots arrive together. (An add of 400 kB
    /// arrays on 16 cores: 7.3 µs; 8.4 without.)
    fn prefetch(&self) {
        #[cfg(not(loom))]
        crate::arch::prefetch_for_writing(&raw const self.state);
    }

    /// Posts a job and wakes the helper if it sleeps. Returns false if the slot is not free.
    fn post(&self, job: usize) -> bool {
        if self.change(IDLE, job) {
            return true;
        }
        let wakes = self.change(ASLEEP, job);
        if wakes {
            self.notify();
        }
        wakes
    }

    /// Withdraws the job, or waits until the helper is done with it.
    fn withdraw(&self, job: usize) {
        let mut polls = 0;
        loop {
            let state = self.state.load(Ordering::Acquire);
            if state & !BITS != job {
                return;
            } else if state & CLAIMED == 0 {
                if self.change(state, IDLE) {
                    return;
                }
            } else if polls < POLLS {
                polls += 1;
                spin_loop();
            } else {
                return self.await_helper(job);
            }
        }
    }

    /// Sleeps until the helper is done. It may be done already.
    fn await_helper(&self, job: usize) {
        self.change(job | CLAIMED, job | CLAIMED | AWAITED);
        let mut sleeping = self.lock();
        while self.state.load(Ordering::Acquire) & !BITS == job {
            sleeping = self.changed.wait(sleeping).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Wakes the threads that sleep. They examine the state under the lock.
    fn notify(&self) {
        drop(self.lock());
        self.changed.notify_all();
    }

    /// Replaces the state `from` by another. Returns false if the slot's state is not `from`.
    fn change(&self, from: usize, to: usize) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::panic;
    use std::sync::atomic::AtomicBool;

    /// Runs `body` with slots that have helpers.
    fn with_helpers<T>(count: usize, body: impl FnOnce(&[WorkerSlot]) -> T) -> T {
        let slots: Vec<WorkerSlot> = (0..count).map(|_| WorkerSlot::empty()).collect();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for (number, slot) in slots.iter().enumerate() {
                let over = &over;
                slot.open();
                scope.spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        slot.try_run(1 + number);
                    }
                });
            }
            let result = panic::catch_unwind(AssertUnwindSafe(|| body(&slots)));
            over.store(true, Ordering::Relaxed);
            result.unwrap_or_else(|payload| resume_unwind(payload))
        })
    }

    #[test]
    fn a_helper_that_has_not_claimed_the_job_is_not_waited_for() {
        let slots = [WorkerSlot::empty(), WorkerSlot::empty(), WorkerSlot::empty()];
        slots[1].open();
        let done = AtomicUsize::new(0);
        run(&slots, 2, &|_| {
            done.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(done.into_inner(), 1);
        assert!(!slots[1].try_run(2));
    }

    #[test]
    fn helpers_that_claimed_the_job_are_waited_for() {
        with_helpers(3, |slots| {
            for wanted in [0, 1, 2, 3, 4] {
                let (begun, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
                run(slots, wanted, &|_| {
                    begun.fetch_add(1, Ordering::Relaxed);
                    while begun.load(Ordering::Relaxed) <= wanted.min(3) {
                        std::thread::yield_now();
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                });
                assert_eq!(done.into_inner(), 1 + wanted.min(3));
            }
        });
    }

    #[test]
    fn a_panic_of_a_helper_goes_on_in_the_calling_thread() {
        let result = panic::catch_unwind(|| {
            with_helpers(1, |slots| {
                let came = AtomicBool::new(false);
                run(slots, 1, &|number| {
                    if number > 0 {
                        came.store(true, Ordering::Relaxed);
                        panic!("on purpose");
                    }
                    while !came.load(Ordering::Relaxed) {
                        std::thread::yield_now();
                    }
                });
            });
        });
        let payload = result.expect_err("the helper panicked");
        assert!(payload.downcast_ref::<&str>().is_some_and(|text| text.contains("on purpose")));
    }

    #[test]
    fn a_helper_wakes_when_its_slot_is_shut_down() {
        let slot = WorkerSlot::empty();
        slot.open();
        std::thread::scope(|scope| {
            let helper = scope.spawn(|| {
                slot.sleep();
                slot.try_run(1)
            });
            slot.shut_down();
            assert!(helper.join().is_ok_and(|joined| !joined));
        });
    }

    #[test]
    fn a_panic_of_the_calling_thread_withdraws_the_job() {
        let slots = [WorkerSlot::empty()];
        slots[0].open();
        let work = |_| panic!("on purpose");
        assert!(panic::catch_unwind(AssertUnwindSafe(|| run(&slots, 1, &work))).is_err());
        assert!(!slots[0].try_run(1));
    }
}

/// Every interleaving: `make test-interleavings`, which compiles this file in crates/interleavings.
#[cfg(all(test, loom))]
mod interleavings {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    /// A cell for each turn at the work. Loom reports every access that is not ordered.
    struct Turns {
        taken: AtomicUsize,
        cells: [UnsafeCell<usize>; 3],
    }

    // SAFETY: only the thread that took a turn accesses the turn's cell, and other threads only after the work.
    unsafe impl Sync for Turns {}

    impl Turns {
        fn take(&self) {
            let turn = self.taken.fetch_add(1, Ordering::Relaxed);
            // SAFETY: this turn's cell.
            self.cells[turn].with_mut(|cell| unsafe { *cell = 1 });
        }

        fn written(&self) -> usize {
            // SAFETY: no thread takes a turn any more.
            self.cells.iter().map(|cell| cell.with(|cell| unsafe { *cell })).sum()
        }
    }

    /// Loom's documentation says that 2 or 3 find most defects (`Builder::preemption_bound`).
    const PREEMPTIONS: usize = 3;

    /// Checks that the work of helpers is visible after the run, and that they do nothing later, whether they poll or
    /// sleep, for one caller or several.
    fn model(callers: usize, helpers: usize, sleep: bool) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(PREEMPTIONS);
        model.check(move || {
            let slots: Arc<Vec<WorkerSlot>> =
                Arc::new((0..helpers).map(|_| WorkerSlot::empty()).collect());
            slots.iter().for_each(WorkerSlot::open);
            let helper = |number: usize| {
                let slots = Arc::clone(&slots);
                thread::spawn(move || {
                    let slot = &slots[number];
                    if sleep {
                        slot.sleep();
                    }
                    slot.try_run(1 + number);
                })
            };
            let helping: Vec<_> = (0..helpers).map(helper).collect();
            let calls = || {
                let slots = Arc::clone(&slots);
                thread::spawn(move || call(&slots, helpers))
            };
            let calling: Vec<_> = (1..callers).map(|_| calls()).collect();
            call(&slots, helpers);
            calling.into_iter().for_each(|thread| thread.join().unwrap());
            slots.iter().for_each(WorkerSlot::shut_down);
            helping.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }

    fn call(slots: &[WorkerSlot], helpers: usize) {
        let cells = std::array::from_fn(|_| UnsafeCell::new(0));
        let turns = Turns { taken: AtomicUsize::new(0), cells };
        run(slots, helpers, &|_| turns.take());
        assert_eq!(turns.written(), turns.taken.load(Ordering::Relaxed));
    }

    #[test]
    fn with_a_helper_that_polls() {
        model(1, 1, false);
    }

    #[test]
    fn with_two_helpers_that_poll() {
        model(1, 2, false);
    }

    #[test]
    fn with_a_helper_that_sleeps() {
        model(1, 1, true);
    }

    #[test]
    fn with_two_helpers_that_sleep() {
        model(1, 2, true);
    }

    #[test]
    fn with_two_callers() {
        model(2, 1, false);
        model(2, 1, true);
    }
}
