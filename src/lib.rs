//! gpuvec: vector operations on NVIDIA GPUs behind a plain C interface, with the same bits on the CPU.
//!
//! The product is `libgpuvec.so` with `include/gpuvec.h`. This crate is its source, not a Rust library. A call goes one
//! way through these modules, and errors come back as `Result`:
//!
//! ```text
//! abi (signature, contract) → guard → run (a Call from raw pointers, its Plan, the work)
//!     → objects (what callers hold) → cuda | cpu → call (Call, Plan: data)
//! ```
//!
//! A module imports only modules further on in that line; then `pool`, `process`, `arch` (the code for each processor),
//! `policy` and `error`; and the crates in crates/: `gpuvec_ops` (the operations), `gpuvec_expr` (text to programs),
//! `gpuvec_cost` (predictions), and so on.

#[cfg(panic = "abort")]
compile_error!(
    "gpuvec must be built with panic = \"unwind\": it turns a panic into a status instead of \
     ending the host process"
);

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!("gpuvec needs Linux on x86-64 or AArch64: src/arch has a folder for each processor");

pub mod abi;
// The processors have types of the same names. cbindgen would take these for one type.
/// cbindgen:ignore
mod arch;
mod call;
mod cpu;
mod cuda;
mod error;
mod objects;
mod policy;
mod pool;
mod process;
mod run;

pub use error::gpuvec_status;
pub use objects::accumulator::{gpuvec_accumulator, gpuvec_accumulator_kind};
pub use objects::expression::{
    GPUVEC_IGNORE_OUTSIDE, GPUVEC_NUMBER, GPUVEC_SCALAR, gpuvec_expr, gpuvec_expr_form, gpuvec_type,
};
pub use objects::holdings::MemoryInfo;
pub use process::settings::{GPUVEC_ALL_DEVICES, Placement};
pub use run::{gpuvec_array, last_run};
