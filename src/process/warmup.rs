//! Counts the things that calls make once, for all later calls: threads, devices, buffers, kernels. The time
//! of such a call says nothing about the next one's.

use std::sync::atomic::{AtomicU32, Ordering};

static MADE: AtomicU32 = AtomicU32::new(0);

/// Counts one.
pub(crate) fn note() {
    MADE.fetch_add(1, Ordering::Relaxed);
}

/// The number so far, of all threads.
pub(crate) fn count() -> u32 {
    MADE.load(Ordering::Relaxed)
}
