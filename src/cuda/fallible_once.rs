//! A once-cell with a fallible initialization, which remembers the failure.

use crate::error::Error;
use crate::process::log;
use once_cell::sync::OnceCell;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// A value that the first call that needs it makes. If that fails, later calls return the same error at once, until
/// [`FallibleOnceCell::forget_failure`].
pub(crate) struct FallibleOnceCell<T> {
    value: OnceCell<T>,
    /// The last failure, leaked. Readers need no lock, which a fork could leave locked forever.
    failure: AtomicPtr<Error>,
    forgotten: AtomicBool,
}

impl<T> FallibleOnceCell<T> {
    pub(crate) const fn new() -> Self {
        FallibleOnceCell {
            value: OnceCell::new(),
            failure: AtomicPtr::new(std::ptr::null_mut()),
            forgotten: AtomicBool::new(false),
        }
    }

    /// The value, if it exists.
    pub(crate) fn get(&self) -> Option<&T> {
        self.value.get()
    }

    /// The failure to make the value, unless it is forgotten.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.last_failure().copied().filter(|_| !self.forgotten.load(Ordering::Acquire))
    }

    /// True if there is a [`FallibleOnceCell::failure`].
    pub(crate) fn has_failed(&self) -> bool {
        self.last_failure().is_some() && !self.forgotten.load(Ordering::Acquire)
    }

    /// The value, made now if no thread has tried before. Other threads wait meanwhile.
    pub(crate) fn get_or_try(&self, make: impl FnOnce() -> Result<T, Error>) -> Result<&T, Error> {
        if let (None, Some(error)) = (self.value.get(), self.failure()) {
            return Err(error);
        }
        self.value.get_or_try_init(|| match self.failure() {
            Some(error) => Err(error),
            None => make().inspect_err(|error| self.remember(*error)),
        })
    }

    /// Lets the next call try again.
    pub(crate) fn forget_failure(&self) {
        self.forgotten.store(true, Ordering::Release);
    }

    fn last_failure(&self) -> Option<&'static Error> {
        // SAFETY: the pointer is null or was leaked by `remember`, and is never freed or changed.
        unsafe { self.failure.load(Ordering::Acquire).as_ref() }
    }

    /// Stores and logs an error. Leaks and logs nothing if it equals the last one.
    fn remember(&self, error: Error) {
        if self.last_failure().is_none_or(|known| *known != error) {
            self.failure.store(Box::leak(Box::new(error)), Ordering::Release);
            log::event(format_args!("failed to open a GPU: {error}"));
        }
        self.forgotten.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_remembered_until_it_is_forgotten() {
        let cell = FallibleOnceCell::new();
        assert!(cell.get_or_try(|| Err(Error::Forked)).is_err());
        assert!(cell.get_or_try(|| Ok(1)).is_err());
        cell.forget_failure();
        assert_eq!(*cell.get_or_try(|| Ok(2)).unwrap(), 2);
        assert_eq!(*cell.get_or_try(|| Err(Error::Forked)).unwrap(), 2);
        assert_eq!(cell.get(), Some(&2));
    }
}
