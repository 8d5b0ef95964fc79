//! Decides when to pay once for something that makes all later calls faster: as soon as the calls without it have lost as
//! much time as it costs. By this ski-rental rule, losses and price are at most twice the costs of a program that
//! knows the future (Karlin, Manasse, Rudolph and Sleator, Competitive snoopy caching, Algorithmica 3, 1988).

use crate::nanoseconds::Nanoseconds;

/// The time that calls lost so far.
#[derive(Debug)]
pub struct BreakEven(Nanoseconds);

impl BreakEven {
    /// Returns a sum of no losses.
    pub const fn new() -> Self {
        BreakEven(Nanoseconds::new())
    }

    /// Adds the time that a call loses, in nanoseconds. Returns whether it is time to pay the price; then the sum starts
    /// again at 0.
    pub fn is_reached(&self, loss: f32, price: f32) -> bool {
        self.0.exceed(loss, price)
    }
}

impl Default for BreakEven {
    fn default() -> Self {
        Self::new()
    }
}
