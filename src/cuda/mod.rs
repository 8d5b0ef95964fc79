//! The GPU's backend: everything that talks to the CUDA driver.
//!
//! A [`driver::Driver`] proves that the driver is there, initialised, and usable in this process;
//! a [`device::Gpu`] that is open has its context, kernels and lanes.

pub(crate) mod attempt;
mod completion;
mod destroy;
pub(crate) mod device;
pub(crate) mod driver;
pub(crate) mod event;
pub(crate) mod kernels;
pub(crate) mod lane;
mod loader;
pub(crate) mod memory;
mod piece;
pub(crate) mod pipeline;
pub(crate) mod pointer;
mod seen;
pub(crate) mod stream;
