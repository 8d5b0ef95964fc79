//! Short pieces of work that no fork of the process comes in between.
//!
//! A fork's child has one thread, and every lock as it was: one that another thread held stays
//! locked for ever. What a child may need is therefore done under one lock, which the forking
//! thread takes before a fork and gives back after it, on both sides. Nothing that could fork
//! itself, as opening the driver does, may run under it.

use std::cell::UnsafeCell;
use std::sync::{Mutex, MutexGuard, PoisonError};

static LOCK: Mutex<()> = Mutex::new(());

/// Runs `work` while no thread of the process forks.
pub(crate) fn unbroken<T>(work: impl FnOnce() -> T) -> T {
    let _held = lock();
    work()
}

/// All that happens when the library is loaded: later, a fork that has already begun would pass
/// the handlers by.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = register_handlers;

extern "C" fn register_handlers() {
    // SAFETY: the handlers are functions of this library, which is never unloaded.
    unsafe { libc::pthread_atfork(Some(before), Some(after), Some(after)) };
}

fn lock() -> MutexGuard<'static, ()> {
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The lock, while a thread forks.
struct Held(UnsafeCell<Option<MutexGuard<'static, ()>>>);

// SAFETY: only the thread that holds the lock touches the cell.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

extern "C" fn before() {
    let guard = lock();
    // SAFETY: this thread holds the lock.
    unsafe { *HELD.0.get() = Some(guard) };
}

extern "C" fn after() {
    // SAFETY: this thread, or the one that it is a copy of, took the lock in `before`.
    drop(unsafe { (*HELD.0.get()).take() });
}
