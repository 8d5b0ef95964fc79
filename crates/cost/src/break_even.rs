//! Decides when to pay once for something that makes all later calls faster: as soon as the calls without it have lost as
//! much time as it costs. By this ski-rental rule, losses and price are at most twice the costs of a program that
//! knows the future (Karlin, Manasse, Rudolph and Sleator, Competitive snoopy caching, Algorithmica 3, 1988).

use std::sync::atomic::{AtomicU32, Ordering};

/// Time that adds up over calls, such as the time that they lost, in nanoseconds. Of two concurrent additions one may be lost.
#[derive(Debug, Default)]
pub struct BreakEven(AtomicU32);

impl BreakEven {
    /// Returns a sum of no time.
    pub const fn new() -> Self {
        BreakEven(AtomicU32::new(0f32.to_bits()))
    }

    pub(crate) fn forget(&self) {
        self.0.store(0f32.to_bits(), Ordering::Relaxed);
    }

    /// Adds the time that a call loses, in nanoseconds. Returns whether the sum is larger than the price; then the sum
    /// starts again at 0.
    pub fn is_reached(&self, loss: f32, price: f32) -> bool {
        let sum = f32::from_bits(self.0.load(Ordering::Relaxed)) + loss;
        let is_larger = sum > price;
        self.0.store(if is_larger { 0.0 } else { sum }.to_bits(), Ordering::Relaxed);
        is_larger
    }
}
