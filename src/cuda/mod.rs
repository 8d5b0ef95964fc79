//! The GPU's backend: everything that talks to the CUDA driver.
//!
//! A [`driver::Driver`] proves that the driver is there, initialised, and usable in this process;
//! a [`Device`] is one that is open, with its context, kernels and slots.

pub(crate) mod alloc;
mod by_key;
mod completion;
mod context;
pub(crate) mod default_stream;
pub(crate) mod device;
mod device_cache;
mod device_view;
pub(crate) mod driver;
mod enqueue;
pub(crate) mod event;
mod fallible_once;
mod grid;
pub(crate) mod job;
pub(crate) mod kernels;
mod loader;
pub(crate) mod memory_kind;
mod memory_stats;
mod modules;
mod owned;
mod part;
pub(crate) mod pipeline;
mod placed_part;
mod reduce_axes;
mod scratch;
mod slot;
pub(crate) mod stream;

pub(crate) use device::Device;
