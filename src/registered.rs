//! Arrays of callers that were page-locked where they are.
//!
//! The system locks whole pages, each once, while arrays begin anywhere, share pages, and are
//! registered any number of times. So pages are locked in segments: those of an array that no
//! segment has yet become new ones. A segment counts the registrations that reach into it, and is
//! unlocked, as a whole, when the last of them ends.
//!
//! Locked pages hold more than the arrays that they were locked for. What else is in them is still
//! pageable memory: nobody said that it stays as it is, and it is unlocked when others say so.
//!
//! Where pages cannot be unlocked, their array stays registered, for the caller to try again: the
//! driver would take what comes to lie there later for page-locked. A lost device has no locks.

use crate::cuda::device;
use crate::error::Error;
use crate::fork;
use crate::operand::{Operand, Residence};
use crate::settings;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

const PAGE: usize = 4096;

/// Everything that is registered.
struct Registry {
    /// Where the arrays end that begin at an address: one for each registration.
    arrays: BTreeMap<usize, Vec<usize>>,
    /// By their first page; none overlaps another.
    segments: BTreeMap<usize, Segment>,
}

struct Segment {
    end: usize,
    registrations: usize,
    /// The device in whose context this library locked the pages, if it did.
    locked_by: Option<usize>,
}

/// Page-locks an array, where there is a GPU to see it.
pub(crate) fn register(pointer: *mut c_void, bytes: usize) -> Result<(), Error> {
    if bytes == 0 {
        return Ok(());
    }
    if pointer.is_null() {
        return Err(Error::Null { argument: "ptr", n: bytes });
    }
    let address = pointer.expose_provenance();
    let array = array(address, bytes)?;
    let gpu = device::to_see_memory(settings::placement()?)?;
    let lock = |pages: Range<usize>| {
        let part = pages.start.max(array.start)..pages.end.min(array.end);
        let Some((gpu, opened)) = gpu else { return Ok(None) };
        let is_ours = device::lock_pages((gpu, opened), pages, part)?;
        Ok(is_ours.then_some(gpu.ordinal))
    };
    ANY.store(true, Ordering::SeqCst);
    with_registry(|registry| registry.add(array.clone(), lock, device::unlock_pages))
}

/// Ends the registration of an array; its pages are unlocked if no other reaches into them.
pub(crate) fn unregister(pointer: *mut c_void) -> Result<(), Error> {
    with_registry(|registry| registry.remove(pointer.addr(), device::unlock_pages))
}

/// Whether anything was ever registered.
static ANY: AtomicBool = AtomicBool::new(false);

/// What memory an array is in. `ask` asks the driver, for which all of a locked page is
/// page-locked; an array that only shares pages with registered ones is in pageable memory.
pub(crate) fn residence(
    operand: &Operand,
    ask: impl Fn() -> Result<Residence, Error>,
) -> Result<Residence, Error> {
    let said = ask()?;
    let is_locked = |residence| matches!(residence, Residence::Pinned | Residence::PinnedInParts);
    if !is_locked(said) || !ANY.load(Ordering::SeqCst) {
        return Ok(said);
    }
    // Once more, while nobody unlocks anything.
    with_registry(|registry| {
        let said = ask()?;
        let array = operand.address..operand.address + operand.bytes;
        let is_beside = is_locked(said) && registry.is_beside(array);
        Ok(if is_beside { Residence::Pageable } else { said })
    })
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

/// The driver is called under the lock, and no fork comes in between: a child must find the
/// registry whole.
fn with_registry<T>(work: impl FnOnce(&mut Registry) -> T) -> T {
    static REGISTRY: Mutex<Registry> =
        Mutex::new(Registry { arrays: BTreeMap::new(), segments: BTreeMap::new() });
    fork::unbroken(|| work(&mut REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)))
}

impl Registry {
    fn add(
        &mut self,
        array: Range<usize>,
        lock: impl Fn(Range<usize>) -> Result<Option<usize>, Error>,
        unlock: impl Fn(usize, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let pages = pages(&array);
        let mut added = Vec::new();
        for gap in self.gaps(&pages) {
            match lock(gap.clone()) {
                Ok(locked_by) => {
                    let segment = Segment { end: gap.end, registrations: 0, locked_by };
                    self.segments.insert(gap.start, segment);
                    added.push(gap.start);
                }
                Err(error) => {
                    // One that stays locked waits for the next registration of its pages.
                    for start in added {
                        if is_unlocked(&self.unlock(start, &unlock)) {
                            self.segments.remove(&start);
                        }
                    }
                    return Err(error);
                }
            }
        }
        for start in self.segments_in(&pages) {
            self.segments.entry(start).and_modify(|segment| segment.registrations += 1);
        }
        self.arrays.entry(array.start).or_default().push(array.end);
        Ok(())
    }

    fn remove(
        &mut self,
        address: usize,
        unlock: impl Fn(usize, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let registrations = self.arrays.get(&address);
        let end = registrations
            .and_then(|registrations| registrations.last().copied())
            .ok_or(Error::NotRegisteredHere { argument: "ptr", address })?;
        let starts = self.segments_in(&pages(&(address..end)));
        let mut result = Ok(());
        for start in &starts {
            if self.segments.get(start).is_some_and(|segment| segment.registrations == 1) {
                result = result.and(self.unlock(*start, &unlock));
            }
        }
        if is_unlocked(&result) {
            self.forget(address, &starts);
        }
        result
    }

    /// Unlocks a segment's pages, once.
    fn unlock(
        &mut self,
        start: usize,
        unlock: impl Fn(usize, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Some(segment) = self.segments.get_mut(&start) else { return Ok(()) };
        if let Some(ordinal) = segment.locked_by {
            unlock(ordinal, start)?;
            segment.locked_by = None;
        }
        Ok(())
    }

    /// Ends the last registration of an address, which reaches into these segments.
    fn forget(&mut self, address: usize, starts: &[usize]) {
        if let Entry::Occupied(mut registrations) = self.arrays.entry(address) {
            registrations.get_mut().pop();
            if registrations.get().is_empty() {
                registrations.remove();
            }
        }
        for start in starts {
            if let Entry::Occupied(mut segment) = self.segments.entry(*start) {
                segment.get_mut().registrations -= 1;
                if segment.get().registrations == 0 {
                    segment.remove();
                }
            }
        }
    }

    /// Whether some of the array lies in pages that are locked for others alone.
    fn is_beside(&self, array: Range<usize>) -> bool {
        let mut from = array.start;
        while from < array.end {
            let mut before = self.arrays.range(..=from).rev();
            let beyond = |ends: &Vec<usize>| ends.iter().copied().find(|end| *end > from);
            if let Some(end) = before.find_map(|(_, ends)| beyond(ends)) {
                from = end;
                continue;
            }
            let next = self.arrays.range(from..).next().map_or(array.end, |(start, _)| *start);
            let gap = from..next.min(array.end);
            let is_ours =
                |start| self.segments.get(start).is_some_and(|segment| segment.locked_by.is_some());
            if self.segments_in(&gap).iter().any(is_ours) {
                return true;
            }
            from = gap.end;
        }
        false
    }

    /// Where the segments that reach into the pages begin.
    fn segments_in(&self, pages: &Range<usize>) -> Vec<usize> {
        let before = self.segments.range(..pages.start).next_back();
        let before = before.filter(|(_, segment)| segment.end > pages.start);
        before
            .into_iter()
            .chain(self.segments.range(pages.clone()))
            .map(|(start, _)| *start)
            .collect()
    }

    /// The parts of the pages that no segment has.
    fn gaps(&self, pages: &Range<usize>) -> Vec<Range<usize>> {
        let mut gaps = Vec::new();
        let mut from = pages.start;
        for start in self.segments_in(pages) {
            if from < start {
                gaps.push(from..start);
            }
            from = self.segments.get(&start).map_or(from, |segment| segment.end);
        }
        if from < pages.end {
            gaps.push(from..pages.end);
        }
        gaps
    }
}

/// Whether pages are unlocked after an attempt: what a lost device had locked is, too.
fn is_unlocked(attempt: &Result<(), Error>) -> bool {
    attempt.as_ref().err().is_none_or(Error::is_of_lost_device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::RefCell;
    use std::collections::BTreeSet;

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

    fn empty() -> Registry {
        Registry { arrays: BTreeMap::new(), segments: BTreeMap::new() }
    }

    #[test]
    fn what_cannot_be_unlocked_stays_registered_unless_its_device_is_lost() {
        let mut registry = empty();
        registry.add(PAGE..2 * PAGE, |_| Ok(Some(0)), |_, _| Ok(())).unwrap();
        assert_eq!(registry.remove(PAGE, |_, _| Err(REFUSED)), Err(REFUSED));
        let lost = Error::DeviceLost { ordinal: 0 };
        assert_eq!(registry.remove(PAGE, |_, _| Err(lost)), Err(lost));
        assert!(matches!(
            registry.remove(PAGE, |_, _| Ok(())),
            Err(Error::NotRegisteredHere { .. })
        ));
        assert!(registry.segments.is_empty());
    }

    #[test]
    fn a_registration_that_fails_locks_nothing_for_good() {
        let mut registry = empty();
        let lock = |pages: Range<usize>| match pages.start {
            PAGE => Ok(Some(0)),
            _ => Err(REFUSED),
        };
        registry.add(2 * PAGE..3 * PAGE, |_| Ok(Some(0)), |_, _| Ok(())).unwrap();
        let around = PAGE..4 * PAGE;
        let failed = registry.add(around.clone(), lock, |_, _| Err(REFUSED));
        assert_eq!(failed, Err(REFUSED));
        registry.add(around, |_| Ok(Some(1)), |_, _| Ok(())).unwrap();
        let unlocked = RefCell::new(Vec::new());
        let unlock = |ordinal, start| {
            unlocked.borrow_mut().push((ordinal, start));
            Ok(())
        };
        registry.remove(PAGE, unlock).unwrap();
        assert_eq!(unlocked.take(), [(0, PAGE), (1, 3 * PAGE)]);
    }

    proptest! {
        #[test]
        fn pages_are_locked_once_and_as_long_as_an_array_is_in_them(
            steps in prop::collection::vec((0usize..40, 1usize..12, any::<bool>()), 1..60),
        ) {
            let mut registry = empty();
            let locked = RefCell::new(BTreeMap::<usize, usize>::new());
            let lock = |pages: Range<usize>| {
                let mut locked = locked.borrow_mut();
                for (start, end) in locked.iter() {
                    assert!(pages.end <= *start || *end <= pages.start, "locked twice");
                }
                locked.insert(pages.start, pages.end);
                Ok(Some(0))
            };
            let unlock = |_, start: usize| {
                assert!(locked.borrow_mut().remove(&start).is_some(), "never locked");
                Ok(())
            };
            let mut model: Vec<(usize, Range<usize>)> = Vec::new();
            for (page, count, adds) in steps {
                let address = page * PAGE;
                if adds {
                    let pages = address..address + count * PAGE;
                    registry.add(pages.clone(), lock, unlock).unwrap();
                    model.push((address, pages));
                } else {
                    let known = model.iter().rposition(|(known, _)| *known == address);
                    let removed = registry.remove(address, unlock);
                    prop_assert_eq!(removed.is_ok(), known.is_some());
                    known.map(|place| model.remove(place));
                }
                let locked = locked.borrow();
                let held: BTreeSet<usize> = locked
                    .iter()
                    .flat_map(|(start, end)| (*start..*end).step_by(PAGE))
                    .collect();
                for (_, pages) in &model {
                    prop_assert!(pages.clone().step_by(PAGE).all(|page| held.contains(&page)));
                }
                if model.is_empty() {
                    prop_assert!(held.is_empty());
                }
            }
        }

        #[test]
        fn what_is_beside_an_array_in_its_pages_is_seen(
            arrays in prop::collection::vec((0usize..200, 1usize..40, any::<bool>()), 0..8),
            asked in (0usize..200, 1usize..60),
        ) {
            const PART: usize = PAGE / 8;
            let parts = |first: usize, count: usize| first * PART..(first + count) * PART;
            let mut registry = Registry { arrays: BTreeMap::new(), segments: BTreeMap::new() };
            // Whose pages were locked by others is theirs.
            for (first, count, is_ours) in &arrays {
                registry.add(parts(*first, *count), |_| Ok(is_ours.then_some(0)), |_, _| Ok(())).unwrap();
            }
            let is_registered = |part: usize| {
                arrays.iter().any(|(first, count, _)| (*first..first + count).contains(&part))
            };
            let is_locked_here = |part: usize| {
                let of_page = registry.segments_in(&parts(part, 1));
                of_page.iter().any(|start| registry.segments[start].locked_by.is_some())
            };
            let (first, count) = asked;
            let expected =
                (first..first + count).any(|part| !is_registered(part) && is_locked_here(part));
            prop_assert_eq!(registry.is_beside(parts(first, count)), expected);
        }
    }
}
