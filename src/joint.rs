//! Work that helpers may join while it lasts.
//!
//! Each helper has a seat, where it waits for work. Who brings work offers it in as many seats as it
//! wants helpers, and begins at once. When nothing is left to take, it takes back the offers that
//! nobody took up, and waits for those that were, and for nobody else. Nothing is shared by all
//! helpers but what is to be done: a seat has cache lines of its own, since those that many cores
//! write to cost more than some work does.

use crate::tuning;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::PoisonError;
use sync::atomic::{AtomicUsize, Ordering};
use sync::{Condvar, Mutex, MutexGuard};

#[cfg(all(test, loom))]
use loom::{hint::spin_loop, sync};
#[cfg(not(all(test, loom)))]
use std::{hint::spin_loop, sync};

/// Does `work` on the calling thread, as number 0, and on up to so many helpers, as number 1 and on
/// by their seats. Returns when all that began are done. A panic of any of them goes on in the
/// calling thread.
pub(crate) fn together(seats: &[Seat], helpers: usize, work: &(dyn Fn(usize) + Sync)) {
    let offer = Offer::of(seats, work);
    let offered = offer.to(helpers);
    offer.rouse(tuning::ROUSED_BY_CALLER);
    work(0);
    drop(offered);
    let panicked = offer.panicked.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(payload) = panicked {
        resume_unwind(payload);
    }
}

/// How often a calling thread looks before it sleeps: some tens of microseconds. Those that are at
/// work are about to be done, and to be woken takes as long.
const LOOKS: usize = if cfg!(loom) { 1 } else { 1000 };

/// What is offered: it lasts until no seat leads to it any more.
#[repr(align(64))]
struct Offer<'a> {
    work: &'a (dyn Fn(usize) + Sync),
    seats: &'a [Seat],
    /// The next seat whose helper may have to be roused, and the end of them.
    next: AtomicUsize,
    end: AtomicUsize,
    /// What the first panic of a helper carried.
    panicked: Mutex<Option<Payload>>,
}

type Payload = Box<dyn Any + Send>;

impl<'a> Offer<'a> {
    fn of(seats: &'a [Seat], work: &'a (dyn Fn(usize) + Sync)) -> Self {
        let (next, end) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Offer { work, seats, next, end, panicked: Mutex::new(None) }
    }

    /// Puts the offer into the first seats that are free.
    fn to(&self, helpers: usize) -> Offered<'_> {
        let (mut count, mut end, mut any_asleep) = (0, 0, false);
        for (number, seat) in self.seats.iter().enumerate() {
            if count == helpers {
                break;
            }
            if let Some(asleep) = seat.offer(self.address()) {
                (count, end) = (count + 1, number + 1);
                any_asleep |= asleep;
            }
        }
        if any_asleep {
            self.end.store(end, Ordering::Release);
        }
        Offered { offer: self, end }
    }

    /// Rouses up to so many of the helpers that sleep.
    fn rouse(&self, most: usize) {
        let mut roused = 0;
        while roused < most && self.next.load(Ordering::Relaxed) < self.end.load(Ordering::Acquire)
        {
            let next = self.next.fetch_add(1, Ordering::Relaxed);
            let seat = self.seats.get(next);
            roused += usize::from(seat.is_some_and(|seat| seat.rouse(self.address())));
        }
    }

    /// What a helper does.
    fn take_up(&self, number: usize) {
        self.rouse(usize::MAX);
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| (self.work)(number))) {
            self.panicked.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(payload);
        }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).expose_provenance()
    }
}

/// Takes the offer back from the seats up to an end, also when the calling thread panics.
struct Offered<'a> {
    offer: &'a Offer<'a>,
    end: usize,
}

impl Drop for Offered<'_> {
    fn drop(&mut self) {
        for seat in &self.offer.seats[..self.end] {
            seat.take_back(self.offer.address());
        }
    }
}

/// Where a helper waits for work.
#[repr(align(128))]
pub(crate) struct Seat {
    /// The address of an offer, or 0, and bits that say what is with it.
    state: AtomicUsize,
    lock: Mutex<()>,
    changed: Condvar,
}

/// A helper looks out for an offer.
const AWAKE: usize = 0;
/// With an offer: the helper has taken it up. Without one: there is no helper.
const TAKEN: usize = 1;
/// The calling thread sleeps until the helper is done.
const AWAITED: usize = 2;
/// The helper sleeps, and nobody is about to rouse it.
const ASLEEP: usize = 4;

const BITS: usize = TAKEN | AWAITED | ASLEEP;

impl Seat {
    /// A seat without a helper.
    pub(crate) fn empty() -> Self {
        Seat { state: AtomicUsize::new(TAKEN), lock: Mutex::new(()), changed: Condvar::new() }
    }

    /// Its helper is there.
    pub(crate) fn open(&self) {
        self.state.store(AWAKE, Ordering::Release);
    }

    /// Lets its helper, which has no work, end: nothing is offered there, now or later. The library's
    /// own helpers never do.
    #[cfg(test)]
    pub(crate) fn dismiss(&self) {
        self.state.swap(TAKEN, Ordering::AcqRel);
        drop(self.lock());
        self.changed.notify_all();
    }

    /// Does what is offered, if anything is, as that number, and says whether.
    pub(crate) fn join(&self, number: usize) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        let address = state & !BITS;
        if address == 0 || !self.change(state, address | TAKEN) {
            return false;
        }
        // SAFETY: an offer that was taken up is there until the seat says that it is done, and what
        // it holds is for many threads.
        let offer = unsafe { &*std::ptr::with_exposed_provenance::<Offer<'_>>(address) };
        offer.take_up(number);
        if !self.change(address | TAKEN, AWAKE) {
            let _looked = self.lock();
            self.state.store(AWAKE, Ordering::Release);
            self.changed.notify_all();
        }
        true
    }

    /// Sleeps until there is an offer.
    pub(crate) fn sleep(&self) {
        if self.change(AWAKE, ASLEEP) {
            let mut looking = self.lock();
            while self.state.load(Ordering::Relaxed) & ASLEEP != 0 {
                looking = self.changed.wait(looking).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Whether the offer could be made, and then whether the helper sleeps.
    fn offer(&self, address: usize) -> Option<bool> {
        if self.change(AWAKE, address) {
            return Some(false);
        }
        self.change(ASLEEP, address | ASLEEP).then_some(true)
    }

    /// Wakes the helper to the offer, if it sleeps.
    fn rouse(&self, address: usize) -> bool {
        let sleeps = self.change(address | ASLEEP, address);
        if sleeps {
            drop(self.lock());
            self.changed.notify_all();
        }
        sleeps
    }

    /// Takes the offer back, or waits until the helper is done with it.
    fn take_back(&self, address: usize) {
        let mut looks = 0;
        loop {
            let state = self.state.load(Ordering::Acquire);
            if state & !BITS != address {
                return;
            } else if state & TAKEN == 0 {
                if self.change(state, state & ASLEEP) {
                    return;
                }
            } else if looks < LOOKS {
                looks += 1;
                spin_loop();
            } else {
                return self.await_helper(address);
            }
        }
    }

    /// Sleeps until the helper is done, which may be by now.
    fn await_helper(&self, address: usize) {
        self.change(address | TAKEN, address | TAKEN | AWAITED);
        let mut looking = self.lock();
        while self.state.load(Ordering::Acquire) & !BITS == address {
            looking = self.changed.wait(looking).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// From one state to another, if it is in that one.
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

    /// Runs `body` with seats that helpers sit in.
    fn with_helpers<T>(count: usize, body: impl FnOnce(&[Seat]) -> T) -> T {
        let seats: Vec<Seat> = (0..count).map(|_| Seat::empty()).collect();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for (number, seat) in seats.iter().enumerate() {
                let over = &over;
                seat.open();
                scope.spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        seat.join(1 + number);
                    }
                });
            }
            let result = panic::catch_unwind(AssertUnwindSafe(|| body(&seats)));
            over.store(true, Ordering::Relaxed);
            result.unwrap_or_else(|payload| resume_unwind(payload))
        })
    }

    #[test]
    fn nobody_is_waited_for_who_has_not_come() {
        let seats = [Seat::empty(), Seat::empty(), Seat::empty()];
        seats[1].open();
        let done = AtomicUsize::new(0);
        together(&seats, 2, &|_| {
            done.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(done.into_inner(), 1);
        assert!(!seats[1].join(2));
    }

    #[test]
    fn all_that_came_are_waited_for() {
        with_helpers(3, |seats| {
            for wanted in [0, 1, 2, 3, 4] {
                let (begun, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
                together(seats, wanted, &|_| {
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
            with_helpers(1, |seats| {
                let came = AtomicBool::new(false);
                together(seats, 1, &|number| {
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
    fn a_helper_that_is_dismissed_wakes() {
        let seat = Seat::empty();
        seat.open();
        std::thread::scope(|scope| {
            let helper = scope.spawn(|| {
                seat.sleep();
                seat.join(1)
            });
            seat.dismiss();
            assert!(helper.join().is_ok_and(|joined| !joined));
        });
    }

    #[test]
    fn a_panic_of_the_calling_thread_takes_the_offer_back() {
        let seats = [Seat::empty()];
        seats[0].open();
        let work = |_| panic!("on purpose");
        assert!(panic::catch_unwind(AssertUnwindSafe(|| together(&seats, 1, &work))).is_err());
        assert!(!seats[0].join(1));
    }
}

/// Every interleaving: `RUSTFLAGS="--cfg loom" cargo test --lib joint`.
#[cfg(all(test, loom))]
mod interleavings {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
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

    /// What helpers did is there after the work, and they do nothing later, whether they look out
    /// or sleep, for one caller or several.
    fn model(callers: usize, helpers: usize, sleep: bool) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(PREEMPTIONS);
        model.check(move || {
            let seats: Arc<Vec<Seat>> = Arc::new((0..helpers).map(|_| Seat::empty()).collect());
            seats.iter().for_each(Seat::open);
            let sits = |number: usize| {
                let seats = Arc::clone(&seats);
                thread::spawn(move || {
                    let seat = &seats[number];
                    if sleep {
                        seat.sleep();
                    }
                    seat.join(1 + number);
                })
            };
            let sitting: Vec<_> = (0..helpers).map(sits).collect();
            let calls = || {
                let seats = Arc::clone(&seats);
                thread::spawn(move || call(&seats, helpers))
            };
            let calling: Vec<_> = (1..callers).map(|_| calls()).collect();
            call(&seats, helpers);
            calling.into_iter().for_each(|thread| thread.join().unwrap());
            seats.iter().for_each(Seat::dismiss);
            sitting.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }

    fn call(seats: &[Seat], helpers: usize) {
        let cells = std::array::from_fn(|_| UnsafeCell::new(0));
        let turns = Turns { taken: AtomicUsize::new(0), cells };
        together(seats, helpers, &|_| turns.take());
        assert_eq!(turns.written(), turns.taken.load(Ordering::Relaxed));
    }

    #[test]
    fn with_a_helper_that_looks_out() {
        model(1, 1, false);
    }

    #[test]
    fn with_two_helpers_that_look_out() {
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
