//! Calls that a test holds inside the driver.

use crate::lock;
use std::sync::{Condvar, Mutex};

struct Held {
    /// The name of the calls that are held.
    name: Option<String>,
    /// Counts the releases, so that a call does not wait for the next hold's release as well.
    releases: u64,
    waiting: usize,
}

static HELD: Mutex<Held> = Mutex::new(Held { name: None, releases: 0, waiting: 0 });
static RELEASED: Condvar = Condvar::new();

/// Holds all calls of a name from now on, until [`release`], and no others. Calls that are held
/// remain so.
pub(crate) fn hold(name: String) {
    lock(&HELD).name = Some(name);
}

/// Releases the held calls, and holds no more.
pub(crate) fn release() {
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
    let mut held = match RELEASED.wait_while(held, is_held) {
        Ok(held) => held,
        Err(poisoned) => poisoned.into_inner(),
    };
    held.waiting -= 1;
}
