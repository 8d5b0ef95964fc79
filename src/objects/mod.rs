//! Objects that callers hold: streams, events, accumulators and expressions by their handles, allocations,
//! registrations.

pub(crate) mod accumulator;
pub(crate) mod allocation;
pub(crate) mod event;
pub(crate) mod expression;
mod handle;
pub(crate) mod holdings;
pub(crate) mod registration;
pub(crate) mod stream;
