//! Handles, which callers hold in place of the library's objects.
//!
//! A handle is a number in the form of a pointer, which is never dereferenced. It consists of the object's place in a
//! table, the number of objects that had the place before, and the kind of object. The table therefore detects a
//! destroyed handle, a handle of another kind, and any other number.

use crate::error::Error;
use crate::process::fork::Shared;
use std::sync::Arc;

const KIND_BITS: u32 = 4;
const PLACE_BITS: u32 = 24;
const MOST: usize = 1 << PLACE_BITS;
/// The count at which every place begins: small numbers and addresses are not valid handles.
const FIRST: usize = 0x6776 << 20;

/// The objects of one kind that callers hold handles of.
pub(crate) struct Handles<T> {
    kind: usize,
    /// The function that creates such an object, for errors.
    creator: &'static str,
    table: Shared<Table<T>>,
}

struct Table<T> {
    places: Vec<Place<T>>,
    free: Vec<usize>,
}

struct Place<T> {
    given_before: usize,
    object: Option<Arc<T>>,
}

impl<T> Handles<T> {
    /// Makes an empty table. `kind` is below 16, and differs from the kind of every other table.
    pub(crate) const fn new(kind: usize, creator: &'static str) -> Self {
        let table = Table { places: Vec::new(), free: Vec::new() };
        Handles { kind, creator, table: Shared::new(table) }
    }

    /// Returns a handle of a new object.
    pub(crate) fn give<H>(&self, object: T) -> Result<*mut H, Error> {
        self.give_shared(Arc::new(object))
    }

    /// Returns a handle of an object that may have other handles. After an error the object is dropped without the
    /// lock, since the driver may have to destroy it.
    pub(crate) fn give_shared<H>(&self, object: Arc<T>) -> Result<*mut H, Error> {
        let mut object = Some(object);
        self.table.change(|table| {
            let place = table.free_place()?;
            table.places[place].object = object.take();
            let number = table.places[place].given_before << PLACE_BITS | place;
            Ok(std::ptr::without_provenance_mut(number << KIND_BITS | self.kind))
        })
    }

    /// Returns the object of a handle; errors name `argument`. The object lives as long as the result, even if the
    /// handle is destroyed.
    pub(crate) fn get<H>(&self, argument: &'static str, handle: *mut H) -> Result<Arc<T>, Error> {
        if handle.is_null() {
            return Err(Error::NullHandle { argument, creator: self.creator });
        }
        let (place, given_before) = self.place(handle);
        let found = self.table.read(|table| {
            let found = table.places.get(place)?;
            found.object.clone().filter(|_| found.given_before == given_before)
        });
        found.ok_or(Error::NoSuchHandle { argument, value: handle.addr() })
    }

    /// Makes a handle invalid. Ignores NULL. The object is dropped without the lock, unless a call still uses it.
    pub(crate) fn destroy<H>(&self, argument: &'static str, handle: *mut H) -> Result<(), Error> {
        if handle.is_null() {
            return Ok(());
        }
        let (place, given_before) = self.place(handle);
        let found = self.table.change(|table| {
            let found = table.places.get_mut(place)?;
            let object = found.object.take_if(|_| found.given_before == given_before)?;
            found.given_before += 1;
            table.free.push(place);
            Some(object)
        });
        found.map(drop).ok_or(Error::NoSuchHandle { argument, value: handle.addr() })
    }

    /// The place of a handle's object, and the number of objects that had the place before. Out of range for a handle
    /// of another kind.
    fn place<H>(&self, handle: *mut H) -> (usize, usize) {
        let number = handle.addr() >> KIND_BITS;
        let is_kind = handle.addr() % (1 << KIND_BITS) == self.kind;
        (if is_kind { number % MOST } else { MOST }, number >> PLACE_BITS)
    }
}

impl<T> Table<T> {
    /// Finds a place without an object. Reserves room in `free` for every place, so that freeing a place never fails.
    fn free_place(&mut self) -> Result<usize, Error> {
        if let Some(place) = self.free.pop() {
            return Ok(place);
        }
        let place = self.places.len();
        let has_room = place < MOST
            && self.places.try_reserve(1).is_ok()
            && self.free.try_reserve(place + 1).is_ok();
        if !has_room {
            let bytes = size_of::<Place<T>>();
            return Err(Error::OutOfHostMemory { bytes, purpose: "one more handle" });
        }
        self.places.push(Place { given_before: FIRST, object: None });
        Ok(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_handle_is_good_until_it_is_destroyed_and_never_again() {
        let handles = Handles::new(3, "make");
        let first: *mut u8 = handles.give(1).unwrap();
        assert!(!first.is_null());
        assert_eq!(*handles.get("thing", first).unwrap(), 1);
        handles.destroy("thing", first).unwrap();
        let second: *mut u8 = handles.give(2).unwrap();
        assert_ne!(first, second);
        assert_eq!(*handles.get("thing", second).unwrap(), 2);
        for use_again in [handles.get("thing", first).map(drop), handles.destroy("thing", first)] {
            assert!(matches!(use_again, Err(Error::NoSuchHandle { argument: "thing", .. })));
        }
    }

    #[test]
    fn handles_of_another_kind_are_none() {
        let (these, those) = (Handles::new(1, "make"), Handles::new(2, "make"));
        let handle: *mut u8 = these.give(()).unwrap();
        let _other: *mut u8 = those.give(()).unwrap();
        assert!(those.get("that", handle).is_err());
    }

    proptest! {
        #[test]
        fn any_other_number_is_none(number: usize) {
            let handles = Handles::new(1, "make");
            let handle: *mut u8 = handles.give(()).unwrap();
            prop_assume!(handle.addr() != number);
            let handle = std::ptr::without_provenance_mut::<u8>(number);
            prop_assert!(handles.get("thing", handle).is_err());
        }
    }
}
