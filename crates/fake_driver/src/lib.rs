//! A fake of NVIDIA's driver, for tests on machines without a GPU.
//!
//! It exports the driver calls that gpuvec and its tests make, under the driver's names, and runs
//! the kernels on host memory: by name, from the same table of operations, reductions block by block
//! as on a GPU, on one worker thread for each stream. The host cannot access device memory, as on a
//! real machine. Any call can be made to fail (`faults`), and all live objects are counted
//! (`control`).
//!
//! It takes the time that the environment asks for (`timing`). It does not measure speed, and checks neither
//! the kernels' own code nor the real driver's.

pub mod api;
mod context;
pub mod control;
mod event;
mod expression;
mod faults;
mod flags;
mod held_calls;
mod kernels;
mod memory;
mod module;
mod names;
mod process;
mod stream;
mod thread;
mod timing;

use std::sync::atomic::{AtomicUsize, Ordering};

/// The result of a driver call.
type Code = u32;

const SUCCESS: Code = 0;
const INVALID_VALUE: Code = 1;
const OUT_OF_MEMORY: Code = 2;
const NOT_INITIALIZED: Code = 3;
const NO_DEVICE: Code = 100;
const INVALID_DEVICE: Code = 101;
const INVALID_IMAGE: Code = 200;
const INVALID_CONTEXT: Code = 201;
const UNSUPPORTED_PTX_VERSION: Code = 222;
const INVALID_HANDLE: Code = 400;
const NOT_FOUND: Code = 500;
const NOT_READY: Code = 600;
const ILLEGAL_ADDRESS: Code = 700;
const HOST_MEMORY_ALREADY_REGISTERED: Code = 712;
const HOST_MEMORY_NOT_REGISTERED: Code = 713;
const STREAM_CAPTURE_UNSUPPORTED: Code = 900;
const CAPTURED_EVENT: Code = 907;

/// Returns a number from the environment.
fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

/// Makes a handle that no other object has or had, so that stale handles are detected.
fn new_handle() -> usize {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    0x1000 + MADE.fetch_add(1, Ordering::Relaxed)
}

/// Locks, even after a panic of another thread, so that a test goes on and shows its effects.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
