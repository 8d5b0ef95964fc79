//! # Memory
//!
//! Pinned and device memory, registration of host memory, and copies between all kinds of memory.
//!
//! Without a usable GPU, or with placement `cpu`, all of it is ordinary host memory, and everything works the
//! same. Functions that allocate return NULL on failure; `gpuvec_last_error()` says why.
//!
//! Functions that free or unregister memory return `GPUVEC_OK`, or `GPUVEC_ERROR_POINTER` if the matching
//! function did not return or register the address, or if it was already freed or unregistered. After
//! `GPUVEC_ERROR_DEVICE_LOST` the memory is lost with the device, or no longer registered. After any other
//! error it is still allocated or registered: call them again.
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
use crate::call::{Argument, Layout};
use crate::objects::allocation::{self, DEVICE, PINNED};
use crate::objects::holdings::{self, MemoryInfo};
use crate::objects::registration;
use crate::objects::stream::gpuvec_stream;
use crate::run;
use std::ffi::c_void;

/// Allocates pinned (page-locked) host memory. A GPU reads and writes this memory directly: arrays in it need no
/// copy on the host, so calls on them are faster.
///
/// `bytes` is rounded up to one or more pages of 4,096 bytes. The memory starts at a page boundary and is
/// uninitialised. A child made by `fork` must not use memory that its parent page-locked. Free the memory with
/// `gpuvec_pinned_free`.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_pinned_alloc(bytes: usize) -> *mut c_void {
    guard::call(|| allocation::pinned_alloc(bytes).map(|address| address.as_ptr()))
}

/// Frees pinned memory; NULL does nothing.
///
/// First synchronize every stream with queued work that uses the memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_pinned_free(ptr: *mut c_void) -> Status {
    // SAFETY: the caller promises that nothing uses the memory any more.
    guard::call(|| unsafe { allocation::free(ptr, PINNED) }.map(|()| 0))
}

/// Allocates device memory. Operations use arrays in it in place, without a transfer over the bus.
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
/// The library caches up to 512 MiB of each device's freed memory for later allocations of the same sizes. It
/// uses this memory for its own work if the device runs short.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_device_free(ptr: *mut c_void) -> Status {
    // SAFETY: the caller promises that nothing uses the memory any more.
    guard::call(|| unsafe { allocation::free(ptr, DEVICE) }.map(|()| 0))
}

/// Returns the number of the GPU that holds device memory. Returns -1 if `ptr` is host memory, or was not
/// returned by `gpuvec_device_alloc`.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_device_of(ptr: *const c_void) -> i32 {
    guard::query(allocation::NO_DEVICE, || allocation::device_of(ptr))
}

/// Page-locks existing host memory. A GPU then accesses the `bytes` bytes at `ptr` directly, like memory from
/// `gpuvec_pinned_alloc`. Page-locking takes some tenths of a millisecond per MiB, so it pays for arrays that
/// are used more than once.
///
/// `ptr` may be any address, and NULL if `bytes` is 0, which locks nothing. Arrays may share pages, and an array
/// may be registered more than once: it stays page-locked until each registration has been undone. Other
/// data in an array's pages stays pageable memory. Without a usable GPU, or with placement `cpu`, the memory
/// does not change. Returns `GPUVEC_OK`, also for memory that another library page-locked, or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_host_register(ptr: *mut c_void, bytes: usize) -> Status {
    guard::call(|| registration::register(ptr, bytes).map(|()| 0))
}

/// Undoes one `gpuvec_host_register` of the address `ptr`. Registrations of 0 bytes are undone in the same way.
///
/// Call it after all queued work with the memory is done, and before the memory is freed. Pages that other
/// registrations share stay page-locked until those end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_host_unregister(ptr: *mut c_void) -> Status {
    guard::call(|| registration::unregister(ptr).map(|()| 0))
}

/// Copies `bytes` bytes between any two kinds of memory, from `src` to `dst`. The library finds out the kinds
/// from the pointers, with every placement.
///
/// `dst` may be exactly `src`; any other overlap is an error. `bytes == 0` does nothing. With a stream the copy
/// is queued if neither array is pageable memory. Otherwise, and with a NULL stream, it is done when the
/// function returns. Returns `GPUVEC_OK` or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_copy(
    dst: *mut c_void, src: *const c_void, bytes: usize, stream: *mut gpuvec_stream,
) -> Status {
    guard::operation(|| {
        let layout = Layout::contiguous(1);
        // SAFETY: the caller's promise, as the header says.
        let both = [("src", src), ("dst", dst.cast_const())]
            .map(|(name, pointer)| unsafe { Argument::new(name, pointer, layout, None) });
        run::copy(both, bytes, stream)
    })
}

/// Stores the sizes of the memory that the library holds on a device.
///
/// With `GPUVEC_ALL_DEVICES` for `device`, stores the totals of all devices. `info` points to a
/// `gpuvec_memory_info` and `size` is `sizeof(gpuvec_memory_info)`: a program built with an older, shorter
/// structure keeps working, and one built with a newer, longer structure finds 0 in the new fields. Opens
/// neither the driver nor a device: all fields are 0 for a device that this process has not used. Page-locked
/// memory counts for the device with the context in which it was allocated. Returns `GPUVEC_OK`,
/// `GPUVEC_ERROR_NULL`, or `GPUVEC_ERROR_VALUE` for a device that the driver does not show.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_memory(device: i32, info: *mut MemoryInfo, size: usize) -> Status {
    // SAFETY: the caller's promise, as the header says.
    guard::call(|| unsafe { store("info", info, size, || holdings::memory(device)) }.map(|()| 0))
}

/// Returns unused memory to the driver.
///
/// On all devices this frees the library's buffers that no call is using, cached memory that callers freed, and
/// the kernels of expressions that are neither in use nor held by a handle. Stores the number of freed bytes of
/// pinned and device memory in `bytes`, which may be NULL.
///
/// Later calls allocate anew, so the first of them are slower. Waits for the driver, which may wait for work in
/// flight. Does not touch callers' memory, registrations, streams or the kernels of operations. Other threads
/// may make calls at the same time: memory that they use is kept. Memory that the driver refuses to free is
/// kept; the next `gpuvec_trim` tries again. Returns `GPUVEC_OK`, also without a GPU and in a forked child,
/// where there is nothing to return.
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
