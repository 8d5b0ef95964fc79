//! Copies and fills.

use crate::calls::driver_functions;
use crate::codes::{Code, INVALID_VALUE};
use crate::faults::violate;
use crate::timing::{self, Direction};
use crate::{context, memory, stream};
use std::ffi::{c_uchar, c_uint, c_void};
use std::time::Instant;

driver_functions! {
    fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) {
        let device = context::current_device()?;
        stream::synchronize_all();
        let (to, start) = (device_end(to, bytes)?, Instant::now());
        // SAFETY: the caller's promise for the host's end; the other was found.
        unsafe { copy(Some(Direction::In), to, from.expose_provenance(), bytes) };
        timing::end(start, device);
    }

    fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) {
        let device = context::current_device()?;
        stream::synchronize_all();
        let (from, start) = (device_end(from, bytes)?, Instant::now());
        // SAFETY: as in cuMemcpyHtoD_v2.
        unsafe { copy(Some(Direction::Out), to.expose_provenance(), from, bytes) };
        timing::end(start, device);
    }

    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, on: usize) |fails| {
        let (to, from) = (device_end(to, bytes)?, from.expose_provenance());
        require_pinned(from, bytes);
        // SAFETY: the caller promises the host's end until it synchronizes.
        unsafe { enqueue_copy(Some(Direction::In), [to, from], bytes, on, fails)? };
    }

    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, on: usize) |fails| {
        let (to, from) = (to.expose_provenance(), device_end(from, bytes)?);
        require_pinned(to, bytes);
        // SAFETY: as in cuMemcpyHtoDAsync_v2.
        unsafe { enqueue_copy(Some(Direction::Out), [to, from], bytes, on, fails)? };
    }

    fn cuMemcpyAsync(to: u64, from: u64, bytes: usize, on: usize) |fails| {
        context::current_device()?;
        let [is_from_host, is_to_host] = [from, to].map(|end| {
            memory::find(end as usize).is_some_and(|block| block.kind.is_host())
        });
        let direction = match (is_from_host, is_to_host) {
            (true, false) => Some(Direction::In),
            (false, true) => Some(Direction::Out),
            _ => None,
        };
        let ends = [any_end(to, bytes)?, any_end(from, bytes)?];
        // SAFETY: both ends were found.
        unsafe { enqueue_copy(direction, ends, bytes, on, fails)? };
        // The driver's documentation promises this for such copies.
        if is_from_host && is_to_host {
            stream::synchronize(on)?;
        }
    }

    fn cuMemsetD8Async(to: u64, value: c_uchar, count: usize, on: usize) |fails| {
        fill(to, value, count, on, fails)?;
    }

    fn cuMemsetD32Async(to: u64, value: c_uint, count: usize, on: usize) |fails| {
        fill(to, value, count, on, fails)?;
    }
}

/// The device's end of a copy.
fn device_end(address: u64, bytes: usize) -> Result<usize, Code> {
    memory::reach(address as usize, bytes).map(<*mut u8>::expose_provenance).ok_or_else(|| {
        violate(&format!(
            "a copy of {bytes} bytes at {address:#x}, which are not all in one allocation"
        ));
        INVALID_VALUE
    })
}

/// Returns the host address of one end of a copy: in device, managed or page-locked memory.
fn any_end(address: u64, bytes: usize) -> Result<usize, Code> {
    if memory::find(address as usize).is_some() {
        return device_end(address, bytes);
    }
    require_pinned(address as usize, bytes);
    Err(INVALID_VALUE)
}

/// Notes a violation if pageable host memory is copied asynchronously.
fn require_pinned(address: usize, bytes: usize) {
    if memory::reach(address, bytes).is_none() {
        violate(&format!("an asynchronous copy of pageable memory at {address:#x}"));
    }
}

/// Copies, across the bus if there is a direction.
///
/// # Safety
/// Both addresses must point to `bytes` bytes.
unsafe fn copy(direction: Option<Direction>, to: usize, from: usize, bytes: usize) {
    timing::begin_copy(direction, bytes);
    let to = std::ptr::with_exposed_provenance_mut::<u8>(to);
    let from = std::ptr::with_exposed_provenance::<u8>(from);
    // SAFETY: this function's promise; the two may overlap, as `copy` allows.
    unsafe { std::ptr::copy(from, to, bytes) };
}

/// Queues a copy.
///
/// # Safety
/// Both addresses must point to `bytes` bytes until the copy is done, unless they are in blocks of the driver: freeing or
/// unregistering a block waits for all streams.
unsafe fn enqueue_copy(
    direction: Option<Direction>, [to, from]: [usize; 2], bytes: usize, on: usize,
    fails: Option<Code>,
) -> Result<(), Code> {
    stream::enqueue(on, fails, move || {
        // SAFETY: this function's promise.
        unsafe { copy(direction, to, from, bytes) };
        Ok(())
    })
}

/// Queues a fill of `count` elements.
fn fill<T: Copy + Send + 'static>(
    to: u64, value: T, count: usize, on: usize, fails: Option<Code>,
) -> Result<(), Code> {
    let to = device_end(to, count * size_of::<T>())?;
    stream::enqueue(on, fails, move || {
        timing::begin();
        let to = std::ptr::with_exposed_provenance_mut::<T>(to);
        // SAFETY: the elements were found, and freeing them waits for all streams.
        unsafe { std::slice::from_raw_parts_mut(to, count) }.fill(value);
        Ok(())
    })
}
