//! Finds the kinds of memory that the arrays of a call are in.

use crate::call::{Array, KindOf, MemoryKind, Task};
use crate::cuda::driver::{self, Driver};
use crate::cuda::memory_kind;
use crate::error::Error;
use crate::objects::{allocation, registration};
use crate::process::settings::Placement;

/// The kinds of memory of a task's arrays. The driver is looked up for the first array.
pub(super) struct LazyKinds<'a> {
    task: Task<'a>,
    placement: Placement,
    kinds: Option<MemoryKinds>,
}

impl<'a> LazyKinds<'a> {
    pub(super) fn new(task: Task<'a>, placement: Placement) -> Self {
        LazyKinds { task, placement, kinds: None }
    }
}

impl KindOf for LazyKinds<'_> {
    #[inline(always)]
    fn kind_of(&mut self, array: &Array) -> Result<MemoryKind, Error> {
        let kinds = self.kinds.get_or_insert_with(|| MemoryKinds::new(self.placement));
        match self.task {
            Task::Copy => kinds.of_copied(array),
            Task::Evaluate(_) => kinds.of(array),
        }
    }
}

/// The driver to ask about the arrays of one call.
#[derive(Clone, Copy)]
struct MemoryKinds {
    placement: Placement,
    driver: Option<Driver>,
    /// Says that an array may be in device memory although there is no driver to ask.
    may_be_device: bool,
}

impl MemoryKinds {
    fn new(placement: Placement) -> Self {
        let driver = driver::for_placement(placement);
        let may_be_device = driver.is_none() && driver::may_serve_others();
        MemoryKinds { placement, driver, may_be_device }
    }

    /// The kind of memory that an array is in, for a copy.
    fn of_copied(&self, array: &Array) -> Result<MemoryKind, Error> {
        if let Some(driver) = self.driver {
            let found = registration::kind_of(array, || memory_kind::kind_of(driver, array));
            // The driver finds the whole of an array of another kind in one allocation.
            if matches!(found, Ok(MemoryKind::Pageable | MemoryKind::PinnedInParts) | Err(_)) {
                allocation::check_bounds(array)?;
            }
            return found;
        }
        // Without a driver to ask, the host must reach the array.
        if !self.may_be_device || memory_kind::host_reads_ends(array) {
            return allocation::check_bounds(array).map(|()| MemoryKind::Pageable);
        }
        let failure = driver::failure_for(self.placement);
        Err(failure.unwrap_or(Error::DeviceMemoryOnCpu { argument: array.name }))
    }

    /// The kind of memory that an array is in, for an operation: with placement `cpu` device memory is
    /// out of reach.
    #[inline(always)]
    fn of(&self, array: &Array) -> Result<MemoryKind, Error> {
        // Spares short calls the question where the process has no driver.
        if self.driver.is_none() && !self.may_be_device {
            return allocation::check_bounds(array).map(|()| MemoryKind::Pageable);
        }
        self.ask(array)
    }

    /// Asks the driver, or the host's memory.
    fn ask(&self, array: &Array) -> Result<MemoryKind, Error> {
        match self.of_copied(array)? {
            MemoryKind::Device { .. } if self.placement == Placement::Cpu => {
                Err(Error::DeviceMemoryOnCpu { argument: array.name })
            }
            kind => Ok(kind),
        }
    }
}
