//! Page-locks callers' arrays in place.
//!
//! The driver locks whole pages, and each page once. But arrays begin anywhere, share pages, and may be registered
//! several times. So the library locks pages in segments. A registration makes segments of those of its pages that are
//! in no segment yet. A segment is unlocked as a whole when no registered byte is left in it.
//!
//! Locked pages may also have bytes of other arrays. These arrays count as pageable: their owners have not promised to
//! keep them, and the pages are unlocked when the registrations end.
//!
//! The driver is slow to lock pages, so no lock of this file is held during its calls. A segment is *busy* while its
//! pages are being locked or unlocked. Only another registration of these pages waits for it.
//!
//! If pages cannot be unlocked, their array stays registered, so that the caller can try again: the driver would take
//! later memory at that address for page-locked memory. A lost device has no locked pages.

use crate::call::{Array, MemoryKind};
use crate::cuda::alloc;
use crate::cuda::{Device, device};
use crate::error::Error;
use crate::process::fork::{self, Shared};
use crate::process::memory::page_bytes;
use crate::process::settings;
use rangemap::{RangeMap, RangeSet};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The state of all registrations.
struct Registry {
    /// The process that locked the segments. A forked child inherits the registrations, but not the locks.
    process: u64,
    /// The ends of the registrations of each address, the newest last.
    ends: BTreeMap<usize, Vec<usize>>,
    /// The bytes that any registration covers.
    covered: RangeSet<usize>,
    /// The pages that this library locked.
    segments: RangeMap<usize, Segment>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Segment {
    /// The address of the first page. It keeps the map from merging adjacent segments.
    start: usize,
    /// The device with the context in which the pages are locked.
    ordinal: usize,
    /// True while a thread locks or unlocks the pages.
    is_busy: bool,
}

/// The error that another thread is locking or unlocking some of the pages.
struct Busy;

/// Locks and unlocks pages, as the driver does.
trait PageLocks {
    /// Returns the device with the context in which to lock pages. `None` if no GPU would access them.
    fn ordinal(&self) -> Option<usize>;

    /// Locks pages that hold `part` of an array. Returns false if another library has locked them.
    fn lock(&self, pages: Range<usize>, part: Range<usize>) -> Result<bool, Error>;

    /// Unlocks the segment that begins at `start`.
    fn unlock(&self, ordinal: usize, start: usize) -> Result<(), Error>;
}

/// Locks pages for an open device.
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

/// Registers an array, and page-locks it if a GPU may access it. An empty array has no pages.
pub(crate) fn register(pointer: *mut c_void, bytes: usize) -> Result<(), Error> {
    let address = pointer.expose_provenance();
    if bytes == 0 {
        return REGISTRATIONS.register(address..address, &ByDevice(None));
    }
    if pointer.is_null() {
        return Err(Error::Null { argument: "ptr", n: bytes });
    }
    let array = array(address, bytes)?;
    let gpu = device::to_see_memory(settings::placement()?)?;
    REGISTRATIONS.register(array, &ByDevice(gpu))
}

/// Ends the registration of an array. Unlocks its pages, except pages of other registrations.
pub(crate) fn unregister(pointer: *mut c_void) -> Result<(), Error> {
    REGISTRATIONS.unregister(pointer.addr(), &ByDevice(None))
}

/// Returns the bytes of the pages that are locked in a device's context.
pub(crate) fn bytes(ordinal: usize) -> usize {
    REGISTRATIONS.registry.read(|registry| {
        let of_device = registry.segments.iter().filter(|(_, segment)| segment.ordinal == ordinal);
        of_device.map(|(pages, _)| pages.len()).sum()
    })
}

/// Returns the memory kind of an array. `ask` gets it from the driver, which reports every byte of a locked page as
/// page-locked. An array that only shares pages with registered arrays is pageable.
pub(crate) fn kind_of(
    array: &Array, ask: impl Fn() -> Result<MemoryKind, Error>,
) -> Result<MemoryKind, Error> {
    REGISTRATIONS.kind_of(array, ask)
}

/// Returns the range of an array. Fails if the array's last page reaches beyond the address space.
fn array(address: usize, bytes: usize) -> Result<Range<usize>, Error> {
    address
        .checked_add(bytes)
        .filter(|end| {
            isize::try_from(bytes).is_ok() && end.checked_next_multiple_of(page_bytes()).is_some()
        })
        .map(|end| address..end)
        .ok_or(Error::TooManyBytes { argument: "bytes", bytes })
}

/// Returns the pages of an array. Only an empty array can be in the last page of the address space.
fn pages(array: &Range<usize>) -> Range<usize> {
    array.start - array.start % page_bytes()
        ..array.end.checked_next_multiple_of(page_bytes()).unwrap_or(array.end)
}

/// True if pages are unlocked after an attempt, as pages of a lost device always are.
fn is_unlocked(attempt: &Result<(), Error>) -> bool {
    attempt.as_ref().err().is_none_or(Error::is_of_lost_device)
}

/// Shares the registry between threads.
struct Registrations {
    registry: Shared<Registry>,
    /// Counts changes: one before pages are locked or unlocked, and one after.
    changes: AtomicU64,
}

impl Registrations {
    const fn new() -> Self {
        let registry = Registry {
            process: 0,
            ends: BTreeMap::new(),
            covered: RangeSet::new(),
            segments: RangeMap::new(),
        };
        Registrations { registry: Shared::new(registry), changes: AtomicU64::new(0) }
    }

    fn register(&self, array: Range<usize>, locks: &impl PageLocks) -> Result<(), Error> {
        let mut result = Ok(());
        for gap in self.add(&array, locks.ordinal()) {
            let part = gap.start.max(array.start)..gap.end.min(array.end);
            let locked = if result.is_ok() { locks.lock(gap.clone(), part) } else { Ok(false) };
            self.change(|registry| registry.end_busy(gap.start, matches!(locked, Ok(true))));
            result = result.and(locked.map(|_| ()));
        }
        if result.is_err() {
            self.change(|registry| registry.remove(array.start));
        }
        // Needed after a failure, or if another thread has ended the registration meanwhile. Pages that cannot be
        // unlocked serve their next registration.
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

    /// Adds a registration. Returns the pages that the caller has to lock; their segments are busy now. Waits while
    /// another thread locks or unlocks some of the array's pages.
    fn add(&self, array: &Range<usize>, ordinal: Option<usize>) -> Vec<Range<usize>> {
        const PAUSE: Duration = Duration::from_micros(100);
        loop {
            match self.change(|registry| registry.begin_add(array, ordinal)) {
                Ok(gaps) => return gaps,
                // Not a condition variable: a fork could leave its lock held by another thread.
                Err(Busy) => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Unlocks the segments in a range of pages that have no registered byte.
    fn release(&self, pages: &Range<usize>, locks: &impl PageLocks) -> Result<(), Error> {
        let mut result = Ok(());
        for Segment { start, ordinal, .. } in self.change(|registry| registry.begin_release(pages))
        {
            let unlocked = locks.unlock(ordinal, start);
            self.change(|registry| registry.end_busy(start, !is_unlocked(&unlocked)));
            result = result.and(unlocked);
        }
        result
    }

    fn kind_of(
        &self, array: &Array, ask: impl Fn() -> Result<MemoryKind, Error>,
    ) -> Result<MemoryKind, Error> {
        const ATTEMPTS: usize = 100;
        for _ in 0..ATTEMPTS {
            let changes = self.changes.load(Ordering::SeqCst);
            let said = ask()?;
            if !matches!(said, MemoryKind::Pinned | MemoryKind::PinnedInParts) {
                return Ok(said);
            }
            let bytes = array.address..array.address + array.bytes;
            let is_beside = changes > 0 && self.registry.read(|all| all.is_beside(&bytes));
            // If pages were locked or unlocked meanwhile, the answers of driver and registry may be of different
            // moments.
            if self.changes.load(Ordering::SeqCst) == changes {
                return Ok(if is_beside { MemoryKind::Pageable } else { said });
            }
        }
        // Other threads register without a pause. Staging works with any host memory.
        Ok(MemoryKind::Pageable)
    }

    fn change<T>(&self, work: impl FnOnce(&mut Registry) -> T) -> T {
        self.registry.change(|registry| {
            self.changes.fetch_add(1, Ordering::SeqCst);
            registry.forget_locks_of_parent();
            work(registry)
        })
    }
}

impl Registry {
    /// Drops the parent's segments in a forked child, where no page is locked.
    fn forget_locks_of_parent(&mut self) {
        if self.process != fork::process() {
            self.process = fork::process();
            self.segments.clear();
        }
    }

    fn begin_add(
        &mut self, array: &Range<usize>, ordinal: Option<usize>,
    ) -> Result<Vec<Range<usize>>, Busy> {
        let pages = pages(array);
        if self.segments.overlapping(&pages).any(|(_, segment)| segment.is_busy) {
            return Err(Busy);
        }
        self.insert(array);
        let Some(ordinal) = ordinal else { return Ok(Vec::new()) };
        let gaps: Vec<Range<usize>> = self.segments.gaps(&pages).collect();
        for gap in &gaps {
            let segment = Segment { start: gap.start, ordinal, is_busy: true };
            self.segments.insert(gap.clone(), segment);
        }
        Ok(gaps)
    }

    /// Marks the segments in the pages that have no registered byte as busy, and returns them.
    fn begin_release(&mut self, pages: &Range<usize>) -> Vec<Segment> {
        let unneeded: Vec<(Range<usize>, Segment)> = self
            .segments
            .overlapping(pages)
            .filter(|(held, segment)| !segment.is_busy && !self.covered.overlaps(held))
            .map(|(held, segment)| (held.clone(), Segment { is_busy: true, ..*segment }))
            .collect();
        self.segments.extend(unneeded.iter().cloned());
        unneeded.into_iter().map(|(_, segment)| segment).collect()
    }

    /// Ends the caller's work on a busy segment. Removes the segment unless its pages are locked.
    fn end_busy(&mut self, start: usize, is_locked: bool) {
        let Some((pages, segment)) = self.segments.get_key_value(&start) else { return };
        let (pages, segment) = (pages.clone(), Segment { is_busy: false, ..*segment });
        if is_locked {
            self.segments.insert(pages, segment);
        } else {
            self.segments.remove(pages);
        }
    }

    fn insert(&mut self, array: &Range<usize>) {
        self.covered.extend(Some(array.clone()).filter(|array| !array.is_empty()));
        self.ends.entry(array.start).or_default().push(array.end);
    }

    /// Removes the newest registration of an address. Looks at each registration that begins earlier in the same run of
    /// registered bytes, since it may reach into the array.
    fn remove(&mut self, address: usize) -> Option<Range<usize>> {
        let Entry::Occupied(mut ends) = self.ends.entry(address) else { return None };
        let end = ends.get_mut().pop();
        if ends.get().is_empty() {
            ends.remove();
        }
        let array = address..end?;
        if array.is_empty() {
            return Some(array);
        }
        let run = self.covered.get(&address)?.start..array.end;
        let others =
            self.ends.range(run).flat_map(|(start, ends)| ends.iter().map(|end| *start..*end));
        self.covered.remove(array.clone());
        self.covered.extend(others.filter(|other| other.end > array.start && !other.is_empty()));
        Some(array)
    }

    /// True if the array is not registered, but shares pages with registered arrays, which this library has locked.
    fn is_beside(&self, array: &Range<usize>) -> bool {
        let is_registered = self.covered.get(&array.start).is_some_and(|run| run.end >= array.end);
        let is_of_this_process = self.process == fork::process();
        !is_registered && is_of_this_process && self.segments.overlaps(array)
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
        assert_eq!(pages(page_bytes() + 1, 1).unwrap(), page_bytes()..2 * page_bytes());
        assert_eq!(pages(page_bytes() - 1, 2).unwrap(), 0..2 * page_bytes());
        assert!(pages(page_bytes(), usize::MAX - page_bytes()).is_err());
        assert!(pages(usize::MAX - page_bytes(), page_bytes()).is_err());
        assert!(pages(page_bytes(), isize::MAX as usize + 1).is_err());
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
            locked.iter().flat_map(|(start, end)| (*start..*end).step_by(page_bytes())).collect()
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
        registrations.register(page_bytes()..2 * page_bytes(), &Driver::default()).unwrap();
        assert_eq!(registrations.unregister(page_bytes(), &refusing(REFUSED)), Err(REFUSED));
        let lost = Error::DeviceLost { ordinal: 0 };
        assert_eq!(registrations.unregister(page_bytes(), &refusing(lost)), Err(lost));
        assert!(matches!(
            registrations.unregister(page_bytes(), &Driver::default()),
            Err(Error::NotRegisteredHere { .. })
        ));
        assert!(registrations.registry.read(|registry| registry.segments.is_empty()));
    }

    #[test]
    fn a_registration_that_fails_locks_nothing_for_good() {
        let registrations = Registrations::new();
        let mut driver = Driver { refuses_to_lock: Some(3 * page_bytes()), ..Driver::default() };
        registrations.register(2 * page_bytes()..3 * page_bytes(), &driver).unwrap();
        assert_eq!(registrations.register(page_bytes()..4 * page_bytes(), &driver), Err(REFUSED));
        assert_eq!(driver.locked_pages(), BTreeSet::from([2 * page_bytes()]));
        driver.refuses_to_lock = None;
        registrations.register(page_bytes()..4 * page_bytes(), &driver).unwrap();
        registrations.unregister(2 * page_bytes(), &driver).unwrap();
        assert_eq!(
            driver.locked_pages(),
            BTreeSet::from([page_bytes(), 2 * page_bytes(), 3 * page_bytes()])
        );
        registrations.unregister(page_bytes(), &driver).unwrap();
        assert!(driver.locked_pages().is_empty());
    }

    proptest! {
        #[test]
        fn pages_are_locked_once_and_as_long_as_an_array_is_in_them(
            steps in prop::collection::vec((0usize..80, 0usize..24, any::<bool>()), 1..60),
        ) {
            let part_bytes = page_bytes() / 2;
            let (registrations, driver) = (Registrations::new(), Driver::default());
            let mut model: Vec<Range<usize>> = Vec::new();
            for (part, count, adds) in steps {
                let address = part * part_bytes;
                if adds {
                    let array = address..address + count * part_bytes;
                    registrations.register(array.clone(), &driver).unwrap();
                    model.push(array);
                } else {
                    let known = model.iter().rposition(|array| array.start == address);
                    let removed = registrations.unregister(address, &driver);
                    prop_assert_eq!(removed.is_ok(), known.is_some());
                    known.map(|place| model.remove(place));
                }
                let locked = driver.locked_pages();
                for array in model.iter().filter(|array| !array.is_empty()) {
                    prop_assert!(pages(array).step_by(page_bytes()).all(|page| locked.contains(&page)));
                }
                if model.is_empty() {
                    prop_assert!(locked.is_empty());
                }
            }
        }

        #[test]
        fn an_array_that_shares_pages_with_registered_ones_is_seen(
            arrays in prop::collection::vec((0usize..200, 0usize..40), 0..8),
            ended in prop::collection::vec(any::<bool>(), 8),
            others in 0usize..30,
            asked in (0usize..200, 1usize..60),
        ) {
            let part_bytes = page_bytes() / 8;
            let parts = |first: usize, count: usize| first * part_bytes..(first + count) * part_bytes;
            // Pages that another library locked are not this one's.
            let theirs = others * page_bytes()..(others + 2) * page_bytes();
            let driver = Driver { others: vec![theirs], ..Driver::default() };
            let registrations = Registrations::new();
            for (first, count) in &arrays {
                registrations.register(parts(*first, *count), &driver).unwrap();
            }
            let mut alive = Vec::new();
            for ((first, count), has_ended) in arrays.iter().zip(&ended) {
                // The newest registration of an address ends first, whatever its length.
                if *has_ended && arrays.iter().filter(|(start, _)| start == first).count() == 1 {
                    registrations.unregister(first * part_bytes, &driver).unwrap();
                } else {
                    alive.push(parts(*first, *count));
                }
            }
            let asked = parts(asked.0, asked.1);
            let locked = driver.locked_pages();
            let is_ours = |byte: usize| locked.contains(&(byte - byte % page_bytes()));
            let is_registered = |byte: usize| alive.iter().any(|array| array.contains(&byte));
            let bytes = || asked.clone().step_by(part_bytes);
            let expected = bytes().any(is_ours) && !bytes().all(is_registered);
            prop_assert_eq!(registrations.registry.read(|all| all.is_beside(&asked)), expected);
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
                        let start = page_bytes() * (round % 7) + 8 * number;
                        registrations.register(start..start + 3 * page_bytes(), driver).unwrap();
                        let held = driver.locked_pages();
                        assert!(held.contains(&(start - start % page_bytes())));
                        registrations.unregister(start, driver).unwrap();
                    }
                });
            }
        });
        assert!(driver.locked_pages().is_empty());
        assert!(registrations.registry.read(|registry| registry.segments.is_empty()));
    }
}
