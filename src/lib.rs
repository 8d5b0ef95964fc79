//! gpuvec: vector operations on NVIDIA GPUs behind a plain C interface, with the same bits on the
//! CPU.
//!
//! The product is `libgpuvec.so` with `include/gpuvec.h`; this crate is its source, not a Rust
//! library. A call goes one way through these rooms, and errors come back as `Result`:
//!
//! ```text
//! abi (signature, contract) → guard → check (pointers → operands)
//!     → plan (where, how, which chunks) → run (chunks to whoever is free) → cpu | cuda → kernels
//! ```

#[cfg(panic = "abort")]
compile_error!(
    "gpuvec must be built with panic = \"unwind\": it turns a panic into a status instead of \
     ending the host process"
);

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!("gpuvec runs on Linux x86-64 only: its driver trampolines are written for it");

pub mod abi;
mod check;
mod chunk;
mod cpu;
mod cuda;
mod element;
mod error;
mod event;
mod float_env;
mod fork;
mod handle;
mod host_memory;
mod joint;
mod memory;
pub mod op;
mod operand;
mod plan;
pub mod record;
mod registered;
mod route;
mod run;
mod scheduling;
mod settings;
mod stream;
mod sum;
mod thread;
mod threads;
mod tuning;

pub use error::{STATUSES, gpuvec_status};

pub use settings::Placement;
