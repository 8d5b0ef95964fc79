//! When to pay once for what makes every later call faster: as soon as the calls without it have lost as
//! much (the ski-rental rule: at most twice the time of one who knows the future; Karlin, Manasse, Rudolph and
//! Sleator, Competitive snoopy caching, Algorithmica 3, 1988).

use crate::nanoseconds::Nanoseconds;

/// The time that calls lost so far.
#[derive(Debug)]
pub struct BreakEven(Nanoseconds);

impl BreakEven {
    /// Nothing was lost yet.
    pub const fn new() -> Self {
        BreakEven(Nanoseconds::new())
    }

    /// Adds what a call loses, in nanoseconds, and says whether it is time to pay the price; then it begins
    /// anew.
    pub fn is_reached(&self, loss: f32, price: f32) -> bool {
        self.0.exceed(loss, price)
    }
}

impl Default for BreakEven {
    fn default() -> Self {
        Self::new()
    }
}
