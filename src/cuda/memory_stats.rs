//! Counts the bytes of memory that the library has allocated from the driver, by device.

use super::device;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A kind of memory: the device's own, or host memory page-locked in its context.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Device,
    Pinned,
}

/// The bytes of each kind.
pub(super) struct MemoryStats([AtomicUsize; 2]);

impl MemoryStats {
    pub(super) const fn new() -> Self {
        MemoryStats([const { AtomicUsize::new(0) }; 2])
    }

    pub(super) fn bytes(&self, kind: Kind) -> usize {
        self.of(kind).load(Ordering::Relaxed)
    }

    fn of(&self, kind: Kind) -> &AtomicUsize {
        &self.0[kind as usize]
    }
}

/// Counts memory that the driver has allocated.
pub(super) fn add(ordinal: usize, kind: Kind, bytes: usize) {
    if let Some(stats) = device::memory_stats(ordinal) {
        stats.of(kind).fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Counts memory that the driver has freed.
pub(super) fn subtract(ordinal: usize, kind: Kind, bytes: usize) {
    if let Some(stats) = device::memory_stats(ordinal) {
        stats.of(kind).fetch_sub(bytes, Ordering::Relaxed);
    }
}
