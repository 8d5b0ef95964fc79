//! Operations, arrays between guards, and the placement, for the tests on arrays.

mod array;
mod status;

pub(crate) use array::Array;
pub(crate) use status::last_error;

use gpuvec::Placement;
use gpuvec::abi::classic::{add_arrays, dot_product, vector_add};
use gpuvec::abi::library::{gpuvec_device_count, gpuvec_last_run, gpuvec_set_placement};
use gpuvec::last_run::Run;
use std::sync::{Mutex, PoisonError};

/// An exported operation. Tests hold elements of every type as 32 bits.
pub(crate) type Operation = unsafe fn(*const u32, *const u32, *mut u32, usize) -> i32;

/// # Safety
/// The caller keeps the header's promises for `vector_add`.
pub(crate) unsafe fn add_f32(a: *const u32, b: *const u32, out: *mut u32, n: usize) -> i32 {
    // SAFETY: this function's promise; f32 and u32 have the same size and alignment.
    unsafe { vector_add(a.cast(), b.cast(), out.cast(), n) }
}

/// # Safety
/// The caller keeps the header's promises for `add_arrays`.
pub(crate) unsafe fn add_i32(a: *const u32, b: *const u32, out: *mut u32, n: usize) -> i32 {
    // SAFETY: this function's promise; i32 and u32 have the same size and alignment.
    unsafe { add_arrays(a.cast(), b.cast(), out.cast(), n) }
}

/// # Safety
/// The caller keeps the header's promises for `dot_product`.
pub(crate) unsafe fn dot_f32(a: *const u32, b: *const u32, out: *mut u32, n: usize) -> i32 {
    // SAFETY: this function's promise; f32 and u32 have the same size and alignment.
    unsafe { dot_product(a.cast(), b.cast(), out.cast(), n) }
}

/// Runs `body` with a placement, which is the process's, so that other tests wait meanwhile.
pub(crate) fn with_placement<T>(placement: Placement, body: impl FnOnce() -> T) -> T {
    static IN_USE: Mutex<()> = Mutex::new(());
    let _alone = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(gpuvec_set_placement(placement as i32), 0, "{}", last_error());
    body()
}

pub(crate) fn has_gpu() -> bool {
    gpuvec_device_count() > 0
}

pub(crate) fn last_run() -> Run {
    let mut run = Run::default();
    // SAFETY: a local of the size that is given.
    let status = unsafe { gpuvec_last_run(&raw mut run, size_of::<Run>()) };
    assert_eq!(status, 0);
    run
}
