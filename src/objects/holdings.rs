//! The memory that the library holds, and the release of what no call uses.

use super::{allocation, expression, registration};
use crate::cuda::{Device, device};
use crate::error::Error;
use crate::process::log;
use crate::process::settings::GPUVEC_ALL_DEVICES;

/// The memory that the library holds.
///
/// Each number was right at some time during the call that stored it. Later versions may append fields; they
/// never change or remove one.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryInfo {
    /// The bytes of page-locked host memory that the driver has allocated for the library: callers' memory, and the
    /// library's own buffers.
    pub pinned: u64,
    /// The bytes of `pinned` that callers allocated with `gpuvec_pinned_alloc`.
    pub pinned_allocated: u64,
    /// The bytes of device memory: callers' memory, memory that callers freed, and the library's own buffers.
    pub device: u64,
    /// The bytes of `device` that callers allocated with `gpuvec_device_alloc`.
    pub device_allocated: u64,
    /// The bytes of `device` that callers freed, and that are kept for the next allocations of the same sizes.
    pub device_kept: u64,
    /// The bytes of host memory that `gpuvec_host_register` has page-locked, in whole pages.
    pub registered: u64,
    /// The number of kernels that the driver has loaded.
    pub modules: u64,
}

/// The memory that the library holds on a device, or on [`GPUVEC_ALL_DEVICES`]. Opens neither the driver nor a device.
pub(crate) fn memory(device: i32) -> Result<MemoryInfo, Error> {
    device::check_number(device)?;
    let is_meant = |open: &&Device| {
        device == GPUVEC_ALL_DEVICES || usize::try_from(device) == Ok(open.ordinal())
    };
    let mut total = MemoryInfo::default();
    for device in device::open().filter(is_meant) {
        let [pinned, on_device, device_kept, modules] = device.holdings();
        let [pinned_allocated, device_allocated] = allocation::bytes(device.ordinal());
        total.pinned += pinned as u64;
        total.pinned_allocated += pinned_allocated as u64;
        total.device += on_device as u64;
        total.device_allocated += device_allocated as u64;
        total.device_kept += device_kept as u64;
        total.registered += registration::bytes(device.ordinal()) as u64;
        total.modules += modules as u64;
    }
    Ok(total)
}

/// Frees what no call uses on all open devices, and returns the number of freed bytes. A device that fails keeps its
/// memory.
pub(crate) fn trim() -> u64 {
    expression::trim();
    let freed = device::open().map(|device| device.trim().unwrap_or(0) as u64).sum();
    log::event(format_args!("trimmed {freed} bytes"));
    freed
}
