//! Counts the threads, devices, buffers and kernels that calls create once for all later calls. The time of a call that
//! creates one does not predict the time of the next call.

use std::sync::atomic::{AtomicU32, Ordering};

static MADE: AtomicU32 = AtomicU32::new(0);

/// Adds one to the count.
pub(crate) fn note() {
    MADE.fetch_add(1, Ordering::Relaxed);
}

/// The count of all threads so far.
pub(crate) fn count() -> u32 {
    MADE.load(Ordering::Relaxed)
}
