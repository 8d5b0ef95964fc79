//! Finds the memory kinds of a call's arrays.

use crate::call::{Array, FindKinds, MemoryKind, Task};
use crate::cuda::driver::{self, Driver};
use crate::cuda::memory_kind;
use crate::error::Error;
use crate::objects::{allocation, registration};
use crate::process::settings::Placement;

/// Finds the memory kinds of a task's arrays.
pub(super) struct MemoryKinds<'a> {
    pub(super) task: Task<'a>,
    pub(super) placement: Placement,
}

impl FindKinds for MemoryKinds<'_> {
    #[inline(always)]
    fn find(&self, arrays: &mut [Array]) -> Result<(), Error> {
        let driver = driver::for_placement(self.placement);
        let may_be_device = driver.is_none() && driver::may_serve_others();
        // Saves time in short calls of a process without a driver.
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
    /// Asks the driver. If there is none, but arrays may be in device memory, finds out whether the host can read them.
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
            // The driver has checked the bounds of arrays of the other kinds.
            if matches!(found, Ok(MemoryKind::Pageable | MemoryKind::PinnedInParts) | Err(_)) {
                allocation::check_bounds(array)?;
            }
            return found;
        }
        // Without a driver to ask, the array must be in memory that the host can read.
        if !may_be_device || memory_kind::host_reads_ends(array) {
            return allocation::check_bounds(array).map(|()| MemoryKind::Pageable);
        }
        let failure = driver::failure_for(self.placement);
        Err(failure.unwrap_or(Error::DeviceMemoryOnCpu { argument: array.name }))
    }
}
