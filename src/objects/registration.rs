//! Arrays of callers that were page-locked where they are.
//!
//! The system locks whole pages, each once, while arrays begin anywhere, share pages, and are
//! registered any number of times. So pages are locked in segments: the pages of an array that no
//! segment has become new ones, and a segment is unlocked, as a whole, when no registered byte is left
//! in it.
//!
//! Locked pages hold more than the arrays that they were locked for. Other arrays in them count as
//! pageable memory: their owners did not promise to keep them in place, and the pages are unlocked
//! when the registered arrays end.
//!
//! The driver takes its time to lock pages, so it is never called under a lock of this file. A segment
//! whose pages are just being locked or unlocked is *busy*: another registration of these pages waits
//! for it, and nothing else does.
//!
//! Where pages cannot be unlocked, their array stays registered, for the caller to try again: the
//! driver would take later memory at that address for page-locked. A lost device has no locks.

use crate::call::{Array, MemoryKind};
use crate::cuda::{Device, alloc, device};
use crate::error::Error;
use crate::process::{fork, settings};
use rangemap::{RangeMap, RangeSet};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

const PAGE: usize = 4096;

/// Everything that is registered.
struct Registry {
    /// The process that locked the segments: a forked child inherits registrations, but no locks.
    process: u64,
    /// The ends of the arrays that begin at an address: one for each registration.
    ends: BTreeMap<usize, Vec<usize>>,
    /// How many registrations cover a byte, where any does.
    depth: RangeMap<usize, usize>,
    /// The bytes that any registration covers.
    covered: RangeSet<usize>,
    /// The pages that this library locked, by the first; none overlaps another.
    segments: BTreeMap<usize, Segment>,
}

struct Segment {
    end: usize,
    /// The device in whose context the pages are locked.
    ordinal: usize,
    /// A thread is locking or unlocking the pages.
    is_busy: bool,
}

/// Another thread is locking or unlocking some of the pages.
struct Busy;

/// The driver's part in a registration.
trait PageLocks {
    /// The device in whose context pages are locked; `None` where no GPU would see them.
    fn ordinal(&self) -> Option<usize>;

    /// Locks pages, with the part of the array that is in them; says whether they were not locked
    /// before, by another library.
    fn lock(&self, pages: Range<usize>, part: Range<usize>) -> Result<bool, Error>;

    /// Unlocks the pages that were locked together and begin there.
    fn unlock(&self, ordinal: usize, start: usize) -> Result<(), Error>;
}

/// The page locks of a device that is open.
struct ByDevice(Option<&'static Device>);

impl PageLocks for ByDevice {
    fn ordinal(&self) -> Option<usize> {
        self.0.map(Device::ordinal)
    }

    fn lock(&self, pages: Range<usize>, part: Range<usize>) -> Result<bool, Error> {
        self.0.map_or(Ok(false), |device| device.lock_pages(pages, part))
    }

    fn unlock(&self, ordinal: usize, start: usize) -> Result<(), Error> {
        alloc::unlock_pages(ordinal, start)
    }
}

static REGISTRATIONS: Registrations = Registrations::new();

/// Page-locks an array, where there is a GPU to see it.
pub(crate) fn register(pointer: *mut c_void, bytes: usize) -> Result<(), Error> {
    if bytes == 0 {
        return Ok(());
    }
    if pointer.is_null() {
        return Err(Error::Null { argument: "ptr", n: bytes });
    }
    let array = array(pointer.expose_provenance(), bytes)?;
    let gpu = device::to_see_memory(settings::placement()?)?;
    REGISTRATIONS.register(array, &ByDevice(gpu))
}

/// Ends the registration of an array; its pages are unlocked if no other reaches into them.
pub(crate) fn unregister(pointer: *mut c_void) -> Result<(), Error> {
    REGISTRATIONS.unregister(pointer.addr(), &ByDevice(None))
}

/// The memory that an array is in. `ask` asks the driver, for which all of a locked page is
/// page-locked; an array that only shares pages with registered ones is in pageable memory.
pub(crate) fn kind_of(
    array: &Array,
    ask: impl Fn() -> Result<MemoryKind, Error>,
) -> Result<MemoryKind, Error> {
    REGISTRATIONS.kind_of(array, ask)
}

/// The bytes of an array, whose last page ends in the address space.
fn array(address: usize, bytes: usize) -> Result<Range<usize>, Error> {
    address
        .checked_add(bytes)
        .filter(|end| {
            isize::try_from(bytes).is_ok() && end.checked_next_multiple_of(PAGE).is_some()
        })
        .map(|end| address..end)
        .ok_or(Error::TooManyBytes { bytes })
}

/// The pages that an array is in.
fn pages(array: &Range<usize>) -> Range<usize> {
    array.start - array.start % PAGE..array.end.next_multiple_of(PAGE)
}

/// Whether pages are unlocked after an attempt: those of a lost device are, too.
fn is_unlocked(attempt: &Result<(), Error>) -> bool {
    attempt.as_ref().err().is_none_or(Error::is_of_lost_device)
}

/// The registrations, as threads share them.
struct Registrations {
    registry: RwLock<Registry>,
    /// Changes so far. A change is counted before pages are locked or unlocked, and again after.
    changes: AtomicU64,
}

impl Registrations {
    const fn new() -> Self {
        let registry = Registry {
            process: 0,
            ends: BTreeMap::new(),
            depth: RangeMap::new(),
            covered: RangeSet::new(),
            segments: BTreeMap::new(),
        };
        Registrations { registry: RwLock::new(registry), changes: AtomicU64::new(0) }
    }

    fn register(&self, array: Range<usize>, locks: &impl PageLocks) -> Result<(), Error> {
        let mut result = Ok(());
        for gap in self.add(&array, locks.ordinal()) {
            let part = gap.start.max(array.start)..gap.end.min(array.end);
            let locked = if result.is_ok() { locks.lock(gap.clone(), part) } else { Ok(false) };
            self.change(|registry| registry.end_lock(gap.start, matches!(locked, Ok(true))));
            result = result.and(locked.map(|_| ()));
        }
        if result.is_err() {
            self.change(|registry| registry.remove(array.start));
        }
        // After a failure, or if another thread has ended the registration by now. Pages that stay
        // locked wait for the next registration of them.
        let _ = self.release(&pages(&array), locks);
        result
    }

    fn unregister(&self, address: usize, locks: &impl PageLocks) -> Result<(), Error> {
        let array = self
            .change(|registry| registry.remove(address))
            .ok_or(Error::NotRegisteredHere { argument: "ptr", address })?;
        let result = self.release(&pages(&array), locks);
        if !is_unlocked(&result) {
            self.change(|registry| registry.insert(&array));
        }
        result
    }

    /// Adds a registration and gives the pages that remain to be locked, for whose segments the caller
    /// is busy now. Waits while another thread locks or unlocks some of them.
    fn add(&self, array: &Range<usize>, ordinal: Option<usize>) -> Vec<Range<usize>> {
        const PAUSE: Duration = Duration::from_micros(100);
        loop {
            match self.change(|registry| registry.begin_add(array, ordinal)) {
                Ok(gaps) => return gaps,
                // No condition variable: its lock could be held by another thread at a fork.
                Err(Busy) => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Unlocks those segments in the pages that no registration reaches into.
    fn release(&self, pages: &Range<usize>, locks: &impl PageLocks) -> Result<(), Error> {
        let mut result = Ok(());
        for (start, ordinal) in self.change(|registry| registry.begin_release(pages)) {
            let unlocked = locks.unlock(ordinal, start);
            self.change(|registry| registry.end_unlock(start, is_unlocked(&unlocked)));
            result = result.and(unlocked);
        }
        result
    }

    fn kind_of(
        &self,
        array: &Array,
        ask: impl Fn() -> Result<MemoryKind, Error>,
    ) -> Result<MemoryKind, Error> {
        const ATTEMPTS: usize = 100;
        for _ in 0..ATTEMPTS {
            let changes = self.changes.load(Ordering::SeqCst);
            let said = ask()?;
            if !matches!(said, MemoryKind::Pinned | MemoryKind::PinnedInParts) {
                return Ok(said);
            }
            let bytes = array.address..array.address + array.bytes;
            let is_beside = changes > 0 && self.read(|registry| registry.is_beside(&bytes));
            // If pages were locked or unlocked meanwhile, the driver and the registry may speak of
            // different moments.
            if self.changes.load(Ordering::SeqCst) == changes {
                return Ok(if is_beside { MemoryKind::Pageable } else { said });
            }
        }
        // Other threads register without a pause. Any host memory may be staged.
        Ok(MemoryKind::Pageable)
    }

    /// Changes the registry, while no thread forks: a child must find it whole.
    fn change<T>(&self, work: impl FnOnce(&mut Registry) -> T) -> T {
        fork::with_lock(|| {
            let mut registry = self.registry.write().unwrap_or_else(PoisonError::into_inner);
            self.changes.fetch_add(1, Ordering::SeqCst);
            registry.forget_locks_of_parent();
            work(&mut registry)
        })
    }

    fn read<T>(&self, work: impl FnOnce(&Registry) -> T) -> T {
        fork::with_lock(|| work(&self.registry.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl Registry {
    /// In a forked child no page is locked, and no thread is busy.
    fn forget_locks_of_parent(&mut self) {
        if self.process != fork::process() {
            self.process = fork::process();
            self.segments.clear();
        }
    }

    fn begin_add(
        &mut self,
        array: &Range<usize>,
        ordinal: Option<usize>,
    ) -> Result<Vec<Range<usize>>, Busy> {
        let pages = pages(array);
        if self.segments_in(&pages).any(|(_, segment)| segment.is_busy) {
            return Err(Busy);
        }
        self.insert(array);
        let Some(ordinal) = ordinal else { return Ok(Vec::new()) };
        let gaps = self.gaps(&pages);
        for gap in &gaps {
            self.segments.insert(gap.start, Segment { end: gap.end, ordinal, is_busy: true });
        }
        Ok(gaps)
    }

    /// The caller is no longer busy with a segment, which is this library's if its pages are locked
    /// by it.
    fn end_lock(&mut self, start: usize, is_ours: bool) {
        if is_ours {
            self.segments.entry(start).and_modify(|segment| segment.is_busy = false);
        } else {
            self.segments.remove(&start);
        }
    }

    /// The segments in the pages that no registration reaches into, with their devices; the caller is
    /// busy with them now.
    fn begin_release(&mut self, pages: &Range<usize>) -> Vec<(usize, usize)> {
        let is_unneeded = |start: usize, segment: &Segment| {
            !segment.is_busy && !self.covered.overlaps(&(start..segment.end))
        };
        let unneeded: Vec<(usize, usize)> = self
            .segments_in(pages)
            .filter(|(start, segment)| is_unneeded(**start, segment))
            .map(|(start, segment)| (*start, segment.ordinal))
            .collect();
        for (start, _) in &unneeded {
            self.segments.entry(*start).and_modify(|segment| segment.is_busy = true);
        }
        unneeded
    }

    fn end_unlock(&mut self, start: usize, is_unlocked: bool) {
        self.end_lock(start, !is_unlocked);
    }

    /// Adds a registration.
    fn insert(&mut self, array: &Range<usize>) {
        for (part, depth) in self.depths(array) {
            self.depth.insert(part, depth + 1);
        }
        self.covered.insert(array.clone());
        self.ends.entry(array.start).or_default().push(array.end);
    }

    /// Takes the last registration of an address out.
    fn remove(&mut self, address: usize) -> Option<Range<usize>> {
        let Entry::Occupied(mut ends) = self.ends.entry(address) else { return None };
        let end = ends.get_mut().pop();
        if ends.get().is_empty() {
            ends.remove();
        }
        let array = address..end?;
        for (part, depth) in self.depths(&array) {
            if depth > 1 {
                self.depth.insert(part, depth - 1);
            } else {
                self.depth.remove(part.clone());
                self.covered.remove(part);
            }
        }
        Some(array)
    }

    /// The parts of an array, each with the number of registrations that cover it.
    fn depths(&self, array: &Range<usize>) -> Vec<(Range<usize>, usize)> {
        let clipped = |part: &Range<usize>| part.start.max(array.start)..part.end.min(array.end);
        let covered = self.depth.overlapping(array).map(|(part, depth)| (clipped(part), *depth));
        covered.chain(self.depth.gaps(array).map(|gap| (gap, 0))).collect()
    }

    /// Whether the array only shares pages with registered ones: pages that this library locked, for
    /// others.
    fn is_beside(&self, array: &Range<usize>) -> bool {
        let is_registered = self.covered.get(&array.start).is_some_and(|run| run.end >= array.end);
        let is_of_this_process = self.process == fork::process();
        !is_registered && is_of_this_process && self.segments_in(array).next().is_some()
    }

    /// The segments that reach into a range.
    fn segments_in(&self, range: &Range<usize>) -> impl Iterator<Item = (&usize, &Segment)> {
        let before = self.segments.range(..range.start).next_back();
        let before = before.filter(|(_, segment)| segment.end > range.start);
        before.into_iter().chain(self.segments.range(range.clone()))
    }

    /// The parts of the pages that no segment has.
    fn gaps(&self, pages: &Range<usize>) -> Vec<Range<usize>> {
        let mut gaps = Vec::new();
        let mut from = pages.start;
        for (start, segment) in self.segments_in(pages) {
            if from < *start {
                gaps.push(from..*start);
            }
            from = segment.end;
        }
        if from < pages.end {
            gaps.push(from..pages.end);
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::sync::Mutex;
    use std::thread;

    #[test]
    fn an_array_is_in_whole_pages() {
        let pages = |address, bytes| array(address, bytes).map(|array| pages(&array));
        assert_eq!(pages(PAGE + 1, 1).unwrap(), PAGE..2 * PAGE);
        assert_eq!(pages(PAGE - 1, 2).unwrap(), 0..2 * PAGE);
        assert!(pages(PAGE, usize::MAX - PAGE).is_err());
        assert!(pages(usize::MAX - PAGE, PAGE).is_err());
        assert!(pages(PAGE, isize::MAX as usize + 1).is_err());
    }

    const REFUSED: Error =
        Error::Driver { call: "cuMemHostUnregister", name: "", code: 2, ordinal: 0 };

    /// A driver that refuses some pages, and that never locks a page twice.
    #[derive(Default)]
    struct Driver {
        locked: Mutex<BTreeMap<usize, usize>>,
        others: Vec<Range<usize>>,
        refuses_to_lock: Option<usize>,
        refuses_to_unlock: Option<Error>,
    }

    impl Driver {
        fn locked_pages(&self) -> BTreeSet<usize> {
            let locked = self.locked.lock().unwrap();
            locked.iter().flat_map(|(start, end)| (*start..*end).step_by(PAGE)).collect()
        }
    }

    impl PageLocks for Driver {
        fn ordinal(&self) -> Option<usize> {
            Some(0)
        }

        fn lock(&self, pages: Range<usize>, _: Range<usize>) -> Result<bool, Error> {
            if self.others.iter().any(|other| other.start < pages.end && pages.start < other.end) {
                return Ok(false);
            }
            if self.refuses_to_lock == Some(pages.start) {
                return Err(REFUSED);
            }
            let mut locked = self.locked.lock().unwrap();
            for (start, end) in locked.iter() {
                assert!(pages.end <= *start || *end <= pages.start, "locked twice");
            }
            locked.insert(pages.start, pages.end);
            Ok(true)
        }

        fn unlock(&self, _: usize, start: usize) -> Result<(), Error> {
            if let Some(error) = self.refuses_to_unlock {
                return Err(error);
            }
            assert!(self.locked.lock().unwrap().remove(&start).is_some(), "never locked");
            Ok(())
        }
    }

    #[test]
    fn what_cannot_be_unlocked_stays_registered_unless_its_device_is_lost() {
        let registrations = Registrations::new();
        let refusing = |error| Driver { refuses_to_unlock: Some(error), ..Driver::default() };
        registrations.register(PAGE..2 * PAGE, &Driver::default()).unwrap();
        assert_eq!(registrations.unregister(PAGE, &refusing(REFUSED)), Err(REFUSED));
        let lost = Error::DeviceLost { ordinal: 0 };
        assert_eq!(registrations.unregister(PAGE, &refusing(lost)), Err(lost));
        assert!(matches!(
            registrations.unregister(PAGE, &Driver::default()),
            Err(Error::NotRegisteredHere { .. })
        ));
        assert!(registrations.read(|registry| registry.segments.is_empty()));
    }

    #[test]
    fn a_registration_that_fails_locks_nothing_for_good() {
        let registrations = Registrations::new();
        let mut driver = Driver { refuses_to_lock: Some(3 * PAGE), ..Driver::default() };
        registrations.register(2 * PAGE..3 * PAGE, &driver).unwrap();
        assert_eq!(registrations.register(PAGE..4 * PAGE, &driver), Err(REFUSED));
        assert_eq!(driver.locked_pages(), BTreeSet::from([2 * PAGE]));
        driver.refuses_to_lock = None;
        registrations.register(PAGE..4 * PAGE, &driver).unwrap();
        registrations.unregister(2 * PAGE, &driver).unwrap();
        assert_eq!(driver.locked_pages(), BTreeSet::from([PAGE, 2 * PAGE, 3 * PAGE]));
        registrations.unregister(PAGE, &driver).unwrap();
        assert!(driver.locked_pages().is_empty());
    }

    proptest! {
        #[test]
        fn pages_are_locked_once_and_as_long_as_an_array_is_in_them(
            steps in prop::collection::vec((0usize..80, 1usize..24, any::<bool>()), 1..60),
        ) {
            const PART: usize = PAGE / 2;
            let (registrations, driver) = (Registrations::new(), Driver::default());
            let mut model: Vec<Range<usize>> = Vec::new();
            for (part, count, adds) in steps {
                let address = part * PART;
                if adds {
                    let array = address..address + count * PART;
                    registrations.register(array.clone(), &driver).unwrap();
                    model.push(array);
                } else {
                    let known = model.iter().rposition(|array| array.start == address);
                    let removed = registrations.unregister(address, &driver);
                    prop_assert_eq!(removed.is_ok(), known.is_some());
                    known.map(|place| model.remove(place));
                }
                let locked = driver.locked_pages();
                for array in &model {
                    prop_assert!(pages(array).step_by(PAGE).all(|page| locked.contains(&page)));
                }
                if model.is_empty() {
                    prop_assert!(locked.is_empty());
                }
            }
        }

        #[test]
        fn an_array_that_shares_pages_with_registered_ones_is_seen(
            arrays in prop::collection::vec((0usize..200, 1usize..40), 0..8),
            ended in prop::collection::vec(any::<bool>(), 8),
            others in 0usize..30,
            asked in (0usize..200, 1usize..60),
        ) {
            const PART: usize = PAGE / 8;
            let parts = |first: usize, count: usize| first * PART..(first + count) * PART;
            // Pages that another library locked are not this one's.
            let theirs = others * PAGE..(others + 2) * PAGE;
            let driver = Driver { others: vec![theirs], ..Driver::default() };
            let registrations = Registrations::new();
            for (first, count) in &arrays {
                registrations.register(parts(*first, *count), &driver).unwrap();
            }
            let mut alive = Vec::new();
            for ((first, count), has_ended) in arrays.iter().zip(&ended) {
                // The newest registration of an address ends first, whatever its length.
                if *has_ended && arrays.iter().filter(|(start, _)| start == first).count() == 1 {
                    registrations.unregister(first * PART, &driver).unwrap();
                } else {
                    alive.push(parts(*first, *count));
                }
            }
            let asked = parts(asked.0, asked.1);
            let locked = driver.locked_pages();
            let is_ours = |byte: usize| locked.contains(&(byte - byte % PAGE));
            let is_registered = |byte: usize| alive.iter().any(|array| array.contains(&byte));
            let bytes = || asked.clone().step_by(PART);
            let expected = bytes().any(is_ours) && !bytes().all(is_registered);
            prop_assert_eq!(registrations.read(|registry| registry.is_beside(&asked)), expected);
        }
    }

    #[test]
    fn threads_that_register_the_same_pages_lock_them_once() {
        const THREADS: usize = 4;
        const ROUNDS: usize = 500;
        let (registrations, driver) = (Registrations::new(), Driver::default());
        thread::scope(|scope| {
            for number in 0..THREADS {
                let (registrations, driver) = (&registrations, &driver);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        // An address of each thread's own, in pages that all of them share.
                        let start = PAGE * (round % 7) + 8 * number;
                        registrations.register(start..start + 3 * PAGE, driver).unwrap();
                        let held = driver.locked_pages();
                        assert!(held.contains(&(start - start % PAGE)));
                        registrations.unregister(start, driver).unwrap();
                    }
                });
            }
        });
        assert!(driver.locked_pages().is_empty());
        assert!(registrations.read(|registry| registry.segments.is_empty()));
    }
}
