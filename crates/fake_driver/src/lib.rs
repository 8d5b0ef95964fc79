//! A fake of NVIDIA's driver, for tests on machines without a GPU.
//!
//! It exports the driver calls that gpuvec and its tests make, under the driver's names, and runs
//! the kernels on host memory: by name, from the same table of operations, reductions block by block
//! as on a GPU, on one worker thread for each stream. The host cannot access device memory, as on a
//! real machine. Any call can be made to fail (`faults`), and all live objects are counted
//! (`count`). Tests control it by the exported functions `fake_driver_*`, which are where their subjects are.
//!
//! It takes the time that the environment asks for (`timing`). It does not measure speed, and checks neither
//! the kernels' own code nor the real driver's.

mod calls;
mod codes;
mod context;
mod copies;
mod count;
mod event;
mod expression;
mod faults;
mod flags;
mod held_calls;
mod kernels;
mod memory;
mod module;
mod process;
mod stream;
mod thread;
mod timing;

use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDriverGetVersion(to: *mut c_int) -> codes::Code {
    // SAFETY: the caller promises a writable place.
    unsafe { to.write(version()) };
    codes::SUCCESS
}

fn version() -> c_int {
    setting("FAKE_DRIVER_CUDA_VERSION", 12_080) as c_int
}

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
