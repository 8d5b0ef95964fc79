//! Finds the kinds of memory that the arrays of a call are in.

use crate::call::{Array, FindKinds, MemoryKind, Task};
use crate::cuda::driver::{self, Driver};
use crate::cuda::memory_kind;
use crate::error::Error;
use crate::objects::{allocation, registration};
use crate::process::settings::Placement;

/// Finds the kinds of memory for a task.
pub(super) struct MemoryKinds<'a> {
    pub(super) task: Task<'a>,
    pub(super) placement: Placement,
}

impl FindKinds for MemoryKinds<'_> {
    #[inline(always)]
    fn find(&self, arrays: &mut [Array]) -> Result<(), Error> {
        let driver = driver::for_placement(self.placement);
        let may_be_device = driver.is_none() && driver::may_serve_others();
        // Spares short calls the question where the process has no driver.
        if driver.is_none() && !may_be_device {
            for array in arrays {
                allocation::check_bounds(array)?;
            }
            return Ok(());
        }
        self.ask(driver, may_be_device, arrays)
    }
}

impl MemoryKinds<'_> {
    /// Asks the driver or, where an array may be in device memory without a driver to ask, the host.
    #[inline(never)]
    fn ask(
        &self, driver: Option<Driver>, may_be_device: bool, arrays: &mut [Array],
    ) -> Result<(), Error> {
        for array in arrays {
            array.kind = self.kind_of(driver, may_be_device, array)?;
            match (self.task, array.kind) {
                (Task::Evaluate(_), MemoryKind::Device { .. })
                    if self.placement == Placement::Cpu =>
                {
                    return Err(Error::DeviceMemoryOnCpu { argument: array.name });
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn kind_of(
        &self, driver: Option<Driver>, may_be_device: bool, array: &Array,
    ) -> Result<MemoryKind, Error> {
        if let Some(driver) = driver {
            let found = registration::kind_of(array, || memory_kind::kind_of(driver, array));
            // The driver finds the whole of an array of another kind in one allocation.
            if matches!(found, Ok(MemoryKind::Pageable | MemoryKind::PinnedInParts) | Err(_)) {
                allocation::check_bounds(array)?;
            }
            return found;
        }
        // Without a driver to ask, the host must reach the array.
        if !may_be_device || memory_kind::host_reads_ends(array) {
            return allocation::check_bounds(array).map(|()| MemoryKind::Pageable);
        }
        let failure = driver::failure_for(self.placement);
        Err(failure.unwrap_or(Error::DeviceMemoryOnCpu { argument: array.name }))
    }
}
