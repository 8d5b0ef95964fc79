//! Time that adds up over calls.

use std::sync::atomic::{AtomicU32, Ordering};

/// Nanoseconds that add up. Of two concurrent additions one may be lost.
#[derive(Debug)]
pub(crate) struct Nanoseconds(AtomicU32);

impl Nanoseconds {
    pub(crate) const fn new() -> Self {
        Nanoseconds(AtomicU32::new(0f32.to_bits()))
    }

    pub(crate) fn forget(&self) {
        self.0.store(0f32.to_bits(), Ordering::Relaxed);
    }

    /// Adds to the sum. Returns whether the sum is larger than a limit; then it starts again at 0.
    pub(crate) fn exceed(&self, more: f32, limit: f32) -> bool {
        let sum = f32::from_bits(self.0.load(Ordering::Relaxed)) + more;
        let is_larger = sum > limit;
        self.0.store(if is_larger { 0.0 } else { sum }.to_bits(), Ordering::Relaxed);
        is_larger
    }
}
