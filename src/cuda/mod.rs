//! The GPU's backend: everything that talks to the CUDA driver.
//!
//! A [`driver::Driver`] proves that the driver is there, initialised, and usable in this process;
//! a [`Device`] is one that is open, with its context, kernels and slots.

pub(crate) mod alloc;
mod completion;
mod context;
pub(crate) mod chunk_job;
pub(crate) mod default_stream;
pub(crate) mod device;
pub(crate) mod driver;
mod enqueue;
pub(crate) mod event;
mod fallible_once;
mod grid;
mod memory_stats;
mod device_cache;
pub(crate) mod kernels;
mod loader;
pub(crate) mod memory_kind;
mod modules;
mod owned;
pub(crate) mod pipeline;
mod device_view;
mod reduce_axes;
mod scratch;
mod slot;
pub(crate) mod stream;
mod elementwise;
pub(crate) mod tile_job;
mod chunk_view;

pub(crate) use device::Device;
