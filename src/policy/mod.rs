//! The library's sizes that were chosen by measurement: the policies of cores, of calls on GPUs, and of kernels.
//!
//! Each value has its measurement beside it. Machines and runs, unless a line names others:
//!
//! - GPUs and several cores: one H200, 16 cores of a Xeon, PCIe 5 x16, driver 580, 2026-11-21, `benches/variants.py`.
//! - Kernels along axes: the same GPU, 2026-11-26, `benches/axes_rates.py`, as shares of a copy's rate.
//! - One core: a Xeon with AVX-512, arrays in its caches, `benches/variants.py --placement cpu`.
//!
//! A value without a measurement says so, or follows from the reason that its line gives. The policies of other
//! crates are crates/cost/src/policy.rs (placement), crates/ptx/src/policy.rs (generated kernels) and
//! kernels/policy.cuh (compiled kernels).

mod cores;
mod gpu;
mod kernels;

pub(crate) use cores::CORES;
pub(crate) use gpu::GPU;
pub(crate) use kernels::{AxisReductions, KernelPolicy};
