//! The completion flags of the kernel that a thread is running.

use crate::setting;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

thread_local! {
    static TO_SET: Cell<Option<(*mut AtomicU32, usize)>> = const { Cell::new(None) };
}

/// Notes the flags of `warps` warps. With `FAKE_DRIVER_FLAGS=0` they are never set, as if every
/// kernel took too long, so that calls do not depend on timing.
pub(crate) fn note(flags: *mut AtomicU32, warps: usize) {
    if setting("FAKE_DRIVER_FLAGS", 1) != 0 {
        TO_SET.set(Some((flags, warps)));
    }
}

/// Sets the flags of the kernel that this thread has done, after the stream counts it as done: the
/// host polls them, and goes on.
pub(crate) fn set() {
    if let Some((flags, warps)) = TO_SET.take() {
        for warp in 0..warps {
            // SAFETY: the kernel has checked that there are `warps` flags.
            unsafe { (*flags.add(warp)).store(1, Ordering::Release) };
        }
    }
}
