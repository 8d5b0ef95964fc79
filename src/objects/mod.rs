//! What callers hold: streams and events by their handles, allocations, registrations.

pub(crate) mod allocation;
pub(crate) mod event;
mod handle;
pub(crate) mod registration;
pub(crate) mod stream;
