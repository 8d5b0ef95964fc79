//! # Memory
//!
//! Pinned and device memory, registration of host memory, and copies between all kinds of memory.
//!
//! Without a usable GPU, or with placement `cpu`, all of it is ordinary host memory, and everything works the
//! same. Functions that allocate return NULL on failure, and `gpuvec_last_error()` tells why.
//!
//! Functions that free or unregister memory return `GPUVEC_OK`, or `GPUVEC_ERROR_POINTER` for an address that the
//! function which they undo did not return or register, or that was freed or unregistered before. After
//! `GPUVEC_ERROR_DEVICE_LOST` the memory is lost with the device, or no longer registered; after any other error it
//! is still allocated or registered, and they can be called again.
//!
//! ```c
//! float host[3] = {1, 2, 3}, sum;
//! float *x = gpuvec_device_alloc(sizeof host, 0);
//! gpuvec_copy(x, host, sizeof host, NULL);
//! gpuvec_scale_f32(2, x, x, 3, NULL); // in the device's memory
//! if (gpuvec_sum_f32(x, &sum, 3, NULL) == GPUVEC_OK) {
//!     printf("%g\n", sum); // 12
//! }
//! gpuvec_device_free(x);
//! ```

use super::{Status, guard, store};
use crate::objects::allocation::{self, DEVICE, PINNED};
use crate::objects::holdings::{self, MemoryInfo};
use crate::objects::registration;
use crate::objects::stream::gpuvec_stream;
use crate::run;
use std::ffi::c_void;

/// Allocates pinned (page-locked) host memory. A GPU reads and writes it directly: arrays in it are not copied
/// on the host first, and calls on them are faster.
///
/// `bytes` is rounded up to one or more pages of 4,096 bytes; the memory starts with a page and is
/// uninitialised. A child made by `fork` must not use memory that its parent page-locked. Free the memory with
/// `gpuvec_pinned_free`.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_pinned_alloc(bytes: usize) -> *mut c_void {
    guard::call(|| allocation::pinned_alloc(bytes).map(|address| address.as_ptr()))
}

/// Frees pinned memory; NULL does nothing.
///
/// Work queued on a stream must be done with the memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_pinned_free(ptr: *mut c_void) -> Status {
    // SAFETY: the caller promises that nothing uses the memory any more.
    guard::call(|| unsafe { allocation::free(ptr, PINNED) }.map(|()| 0))
}

/// Allocates device memory. Operations use arrays in it in place, and nothing crosses the bus.
///
/// `device` counts from 0; `bytes` may be 0. The memory is aligned for every element type and is uninitialised:
/// fill it with `gpuvec_copy`. Without a usable GPU, or with placement `cpu`, `device` must be 0. Free the
/// memory with `gpuvec_device_free`.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_device_alloc(bytes: usize, device: i32) -> *mut c_void {
    guard::call(|| allocation::device_alloc(bytes, device).map(|address| address.as_ptr()))
}

/// Frees device memory; NULL does nothing. It first waits until the device is done with the memory.
///
/// The library keeps up to 512 MiB of each device's freed memory for the next allocations of the same sizes;
/// where the device has too little left for gpuvec, that memory is used first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_device_free(ptr: *mut c_void) -> Status {
    // SAFETY: the caller promises that nothing uses the memory any more.
    guard::call(|| unsafe { allocation::free(ptr, DEVICE) }.map(|()| 0))
}

/// Returns the number of the GPU that has device memory. `gpuvec_device_alloc` returned it at `ptr`. Returns -1
/// if it is host memory, or `gpuvec_device_alloc` did not return `ptr`.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_device_of(ptr: *const c_void) -> i32 {
    guard::query(allocation::NO_DEVICE, || allocation::device_of(ptr))
}

/// Page-locks `bytes` of existing host memory. A GPU then accesses them directly, as it does memory from
/// `gpuvec_pinned_alloc`. This takes some tenths of a millisecond for each MiB, so it pays for arrays that are
/// used more than once.
///
/// `ptr` may be any address; with `bytes == 0`, which locks nothing, also NULL. Arrays may share pages, and an
/// array may be registered more than once: it stays page-locked until it has been unregistered as many times.
/// Other data in an array's pages remains pageable memory. Without a usable GPU, or with placement `cpu`, the
/// memory stays as it is. Returns `GPUVEC_OK`, also for memory that another library page-locked, or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_host_register(ptr: *mut c_void, bytes: usize) -> Status {
    guard::call(|| registration::register(ptr, bytes).map(|()| 0))
}

/// Undoes one `gpuvec_host_register` of the address `ptr`. It may be one of 0 bytes.
///
/// Call it before the memory is freed and after queued work is done with it. Pages that other registrations
/// share stay page-locked until those end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_host_unregister(ptr: *mut c_void) -> Status {
    guard::call(|| registration::unregister(ptr).map(|()| 0))
}

/// Copies bytes between any two kinds of memory. It copies `bytes` bytes from `src` to `dst`, and the direction
/// follows from the pointers, with every placement.
///
/// `dst` may be exactly `src`; any other overlap is an error. `bytes == 0` does nothing. With a stream the copy
/// is queued if neither array is pageable memory. Otherwise, and with a NULL stream, it is done when the
/// function returns. Returns `GPUVEC_OK` or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_copy(
    dst: *mut c_void, src: *const c_void, bytes: usize, stream: *mut gpuvec_stream,
) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::operation(|| unsafe { run::copy(src, dst, bytes, stream) })
}

/// Stores in `info` the memory that the library holds of a device.
///
/// With `GPUVEC_ALL_DEVICES` for `device`, stores that of all devices. `info` points to a
/// `gpuvec_memory_info` and `size` is `sizeof(gpuvec_memory_info)`: a program built with an older, shorter
/// structure keeps working, and one built with a newer, longer structure finds 0 in the other fields. Opens neither the driver nor a device: all fields are 0 for a device that this
/// process has not used, and page-locked memory counts for the device in whose context it was allocated.
/// Returns `GPUVEC_OK`, `GPUVEC_ERROR_NULL`, or `GPUVEC_ERROR_VALUE` for a device that the driver does not
/// show.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_memory(device: i32, info: *mut MemoryInfo, size: usize) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::call(|| unsafe { store("info", info, size, || holdings::memory(device)) }.map(|()| 0))
}

/// Gives the driver back the memory that no call uses at the moment.
///
/// On all devices these are the library's buffers, memory that callers freed, and the kernels of expressions that are
/// neither in use nor held by a handle. Stores the number of bytes of pinned and device memory in `bytes`, which may
/// be NULL.
///
/// Later calls allocate anew, which makes the first of them slower. Waits for the driver, which may wait for work in
/// flight. Callers' memory, registrations, streams, and the kernels of operations stay. Other threads may make
/// calls at the same time: those keep what they use. What the driver refuses to free stays for the next call.
/// Returns `GPUVEC_OK`, also without a GPU and in a forked child, where there is nothing to give back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_trim(bytes: *mut u64) -> Status {
    guard::call(|| {
        let freed = holdings::trim();
        if !bytes.is_null() {
            // SAFETY: the caller promises a number there, which may be at any address.
            unsafe { bytes.write_unaligned(freed) };
        }
        Ok(0)
    })
}
