//! The sizes that were chosen by measurement: the policies of cores, of calls on GPUs, and of kernels.
//!
//! Each value has its measurement beside it. Unless a comment names others, these are the machines and the runs of
//! benches/bench.py:
//!
//! - GPUs and several cores: one H200, 16 cores of a Xeon, PCIe 5 x16, driver 580, 2026-11-21: the suites `calls` and `short`.
//! - Kernels along axes: the same GPU, 2026-11-26: the suite `axes`, as shares of a copy's rate.
//! - One core: a Xeon with AVX-512, arrays in its caches: the suites `calls` and `formulas-core`.
//!
//! The comment of a value without a measurement says so, or gives the reason from which the value follows. The policies
//! elsewhere are crates/cost/src/policy.rs (placement), crates/ptx/src/policy.rs (generated kernels) and
//! kernels/policy.cuh (compiled kernels).

pub(crate) mod cores;
pub(crate) mod gpu;
mod kernels;

pub(crate) use kernels::{AxisReductions, KernelPolicy};
