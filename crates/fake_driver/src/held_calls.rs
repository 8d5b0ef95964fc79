//! Calls that a test holds inside the driver.

use crate::lock;
use std::ffi::{CStr, c_char};
use std::sync::{Condvar, Mutex, PoisonError};

struct Held {
    /// The name of the calls that are held.
    name: Option<String>,
    /// Counts the releases, so that a call does not wait for the next hold's release as well.
    releases: u64,
    waiting: usize,
}

static HELD: Mutex<Held> = Mutex::new(Held { name: None, releases: 0, waiting: 0 });
static RELEASED: Condvar = Condvar::new();

/// Holds all calls of a name inside the driver from now on, until [`fake_driver_release_call`].
/// Calls of other names go on. Calls that are held remain so when the name changes, so that one
/// call can be held while later ones of its name pass.
#[unsafe(no_mangle)]
unsafe extern "C" fn fake_driver_hold_call(name: *const c_char) {
    // SAFETY: the caller promises a C string.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    lock(&HELD).name = Some(name.into_owned());
}

/// Releases the held calls, and holds no more.
#[unsafe(no_mangle)]
extern "C" fn fake_driver_release_call() {
    let mut held = lock(&HELD);
    held.name = None;
    held.releases += 1;
    drop(held);
    RELEASED.notify_all();
}

/// Returns the number of calls that wait.
pub(crate) fn waiting() -> usize {
    lock(&HELD).waiting
}

/// Waits while calls of this name are held. The calling thread holds no lock of the fake driver.
pub(crate) fn wait(name: &str) {
    let mut held = lock(&HELD);
    if held.name.as_deref() != Some(name) {
        return;
    }
    held.waiting += 1;
    let before = held.releases;
    let is_held = |held: &mut Held| held.releases == before;
    let held = RELEASED.wait_while(held, is_held);
    held.unwrap_or_else(PoisonError::into_inner).waiting -= 1;
}
