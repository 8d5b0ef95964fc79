//! cust's build scripts call `include_cuda` to find a CUDA toolkit and to link libcuda.
//!
//! gpuvec opens the driver at run time instead, so that it loads on machines that have none:
//! `src/cuda/driver.rs` provides every symbol that cust refers to, and nothing is to be linked.

/// Does nothing, on purpose.
pub fn include_cuda() {}
