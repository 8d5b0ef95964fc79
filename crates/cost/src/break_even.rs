//! Decides when to pay once for something that makes all later calls faster: as soon as the calls have lost as much
//! time without it as it takes. With this ski-rental rule, the losses and the price together are at most twice those of
//! a program that knows the future (Karlin, Manasse, Rudolph and Sleator, Competitive snoopy caching, Algorithmica 3,
//! 1988).

use std::sync::atomic::{AtomicU32, Ordering};

/// A sum of times of calls, such as the times that they lost, in nanoseconds. One of two concurrent additions may be
/// lost.
#[derive(Debug, Default)]
pub struct BreakEven(AtomicU32);

impl BreakEven {
    /// Returns a sum of 0.
    pub const fn new() -> Self {
        BreakEven(AtomicU32::new(0f32.to_bits()))
    }

    pub(crate) fn forget(&self) {
        self.0.store(0f32.to_bits(), Ordering::Relaxed);
    }

    /// Adds the time that a call loses, in nanoseconds. Returns true if the sum is larger than the price; the sum then
    /// starts again at 0.
    pub fn is_reached(&self, loss: f32, price: f32) -> bool {
        let sum = f32::from_bits(self.0.load(Ordering::Relaxed)) + loss;
        let is_larger = sum > price;
        self.0.store(if is_larger { 0.0 } else { sum }.to_bits(), Ordering::Relaxed);
        is_larger
    }
}
