//! Memory that GPUs reach directly, and copies between all kinds of memory.

use super::guard;
use crate::call::{Input, Task};
use crate::objects::allocation::{self, DEVICE, PINNED};
use crate::objects::registration;
use crate::objects::stream::gpuvec_stream;
use crate::run::run;
use std::ffi::c_void;

/// Allocates page-locked host memory, which a GPU reads and writes directly: arrays in it are not
/// copied on the host first, and calls on them are faster.
///
/// `bytes` is rounded up to whole pages, of 4,096 bytes; the memory begins with a page. Its content
/// is not defined. Where there is no usable GPU, or with placement `cpu`, it is ordinary memory,
/// and everything works the same. A child made by `fork` must not use memory that its parent
/// page-locked.
///
/// Returns NULL on failure; `gpuvec_last_error()` says why. Give the memory back with
/// `pinned_free`.
#[unsafe(no_mangle)]
pub extern "C" fn pinned_alloc(bytes: usize) -> *mut c_void {
    guard::call(|| allocation::pinned_alloc(bytes).map(|address| address.as_ptr()))
}

/// Gives back what `pinned_alloc` returned; NULL is fine and does nothing.
///
/// Work that is queued on a stream must be done with it.
///
/// Returns `GPUVEC_OK`, or `GPUVEC_ERROR_POINTER` for a pointer that `pinned_alloc` did not give or
/// that was freed before. After `GPUVEC_ERROR_DEVICE_LOST` the memory is gone, with the device; after
/// any other error it is still there, and can be freed again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinned_free(ptr: *mut c_void) -> i32 {
    // SAFETY: the caller promises that nobody uses the memory any more.
    guard::call(|| unsafe { allocation::free(ptr, PINNED) }.map(|()| 0))
}

/// Allocates memory of a GPU: arrays in it are used where they are, and nothing crosses the bus.
///
/// `device` counts from 0. The memory is aligned for every element type, and its content is not
/// defined; fill it by `gpuvec_copy`. Where there is no usable GPU, or with placement `cpu`, it is
/// ordinary host memory (device 0), and everything works the same.
///
/// Returns NULL on failure; `gpuvec_last_error()` says why. Give the memory back with
/// `gpuvec_device_free`.
#[unsafe(no_mangle)]
pub extern "C" fn gpuvec_device_alloc(bytes: usize, device: i32) -> *mut c_void {
    guard::call(|| allocation::device_alloc(bytes, device).map(|address| address.as_ptr()))
}

/// Gives back what `gpuvec_device_alloc` returned; NULL is fine and does nothing. Waits until the
/// device is done with it.
///
/// Returns `GPUVEC_OK`, or `GPUVEC_ERROR_POINTER` for a pointer that `gpuvec_device_alloc` did not
/// give or that was freed before. After `GPUVEC_ERROR_DEVICE_LOST` the memory is gone, with the
/// device; after any other error it is still there, and can be freed again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_device_free(ptr: *mut c_void) -> i32 {
    // SAFETY: the caller promises that nobody uses the memory any more.
    guard::call(|| unsafe { allocation::free(ptr, DEVICE) }.map(|()| 0))
}

/// Page-locks `bytes` of host memory that exist, so that a GPU reaches them directly, as it does
/// memory of `pinned_alloc`. Takes time, some tenths of a millisecond for each MiB: for arrays that
/// are used more than once.
///
/// Any address will do. Arrays may share pages, and an array may be registered more than once: it
/// is unlocked when it was unregistered as often. What else lies in an array's pages stays ordinary
/// memory. Where there is no usable GPU, or with placement `cpu`, the memory stays as it is, and
/// everything works the same.
///
/// Returns `GPUVEC_OK` (also for memory that somebody else page-locked), or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_host_register(ptr: *mut c_void, bytes: usize) -> i32 {
    guard::call(|| registration::register(ptr, bytes).map(|()| 0))
}

/// Undoes one `gpuvec_host_register` of that address. To be called before the memory is freed, and
/// when queued work is done with it. Pages that other registrations share stay locked until those
/// end.
///
/// Returns `GPUVEC_OK`, or `GPUVEC_ERROR_POINTER` for an address that is not registered. After
/// `GPUVEC_ERROR_DEVICE_LOST` it is registered no longer; after any other error it still is, and can
/// be unregistered again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_host_unregister(ptr: *mut c_void) -> i32 {
    guard::call(|| registration::unregister(ptr).map(|()| 0))
}

/// Copies `bytes` bytes from `src` to `dst`. Each is memory of any kind: the direction follows from
/// the pointers, with every placement.
///
/// `dst` may be exactly `src`, and otherwise does not overlap it. With a stream the copy is queued
/// if neither is pageable memory; otherwise, and with NULL, it is done when the function returns.
///
/// Returns `GPUVEC_OK`, or an error. `bytes == 0` does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpuvec_copy(
    dst: *mut c_void,
    src: *const c_void,
    bytes: usize,
    stream: *mut gpuvec_stream,
) -> i32 {
    guard::operation(|| {
        let input = Input { name: "src", pointer: src, element_bytes: 1 };
        // SAFETY: the caller's promise, as the header says.
        unsafe { run(Task::Copy, &[input], ("dst", dst), bytes, stream) }
    })
}
