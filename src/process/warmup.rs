//! Counts what calls create once for all later calls: threads, devices, buffers, kernels. The time of a call that
//! created something does not predict the next call's time.

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
