//! The controls that tests use.

use crate::memory::{self, Kind};
use crate::{context, event, faults, held_calls, kernels, module, stream};
use std::ffi::{CStr, CString, c_char};

/// Replaces the plan of faults and counts calls from 1 again.
///
/// # Safety
/// `plan` must be a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_driver_faults(plan: *const c_char) {
    // SAFETY: the caller's promise.
    faults::set_plan(&unsafe { CStr::from_ptr(plan) }.to_string_lossy());
}

/// Counts the calls since the plan was set that could fail.
#[unsafe(no_mangle)]
pub extern "C" fn fake_driver_calls() -> u64 {
    faults::calls() as u64
}

/// Returns the name of one of the first 10,000 calls, counted from 1; "" if there was none. The
/// string is leaked.
#[unsafe(no_mangle)]
pub extern "C" fn fake_driver_call_name(number: u64) -> *const c_char {
    leaked(faults::call_name(number as usize).unwrap_or_default())
}

/// Returns the host address of a device address's bytes, which tests can read even after the device
/// is lost; NULL for an address that is in no allocation.
#[unsafe(no_mangle)]
pub extern "C" fn fake_driver_bytes(address: u64) -> *mut u8 {
    memory::reach(address as usize, 0).unwrap_or(std::ptr::null_mut())
}

/// Keeps all streams from working, for tests of unfinished work, or lets them go on.
#[unsafe(no_mangle)]
pub extern "C" fn fake_driver_hold(is_held: bool) {
    stream::hold(is_held);
}

/// Holds all calls of a name inside the driver from now on, until [`fake_driver_release_call`].
/// Calls of other names go on. Calls that are held remain so when the name changes, so that one
/// call can be held while later ones of its name pass.
///
/// # Safety
/// `name` must be a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_driver_hold_call(name: *const c_char) {
    // SAFETY: the caller's promise.
    held_calls::hold(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned());
}

/// Releases the held calls, and holds no more.
#[unsafe(no_mangle)]
pub extern "C" fn fake_driver_release_call() {
    held_calls::release();
}

/// Marks a stream as one that is being captured into a graph.
#[unsafe(no_mangle)]
pub extern "C" fn fake_driver_begin_capture(handle: usize) {
    stream::begin_capture(handle);
}

/// Marks a stream as one that is not being captured; returns whether the capture was valid to its end.
#[unsafe(no_mangle)]
pub extern "C" fn fake_driver_end_capture(handle: usize) -> bool {
    stream::end_capture(handle) == Some(stream::Capture::Valid)
}

/// Counts the live objects of a kind that the driver hands out; -1 for an unknown word.
///
/// # Safety
/// `what` must be a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_driver_count(what: *const c_char) -> i64 {
    // SAFETY: the caller's promise.
    let count = match unsafe { CStr::from_ptr(what) }.to_bytes() {
        b"device_allocations" => memory::count(&[Kind::Device, Kind::Managed]).0,
        b"device_bytes" => memory::count(&[Kind::Device, Kind::Managed]).1,
        b"host_allocations" => memory::count(&[Kind::Host]).0,
        b"host_bytes" => memory::count(&[Kind::Host]).1,
        b"registered" => memory::count(&[Kind::Registered]).0,
        b"registered_bytes" => memory::count(&[Kind::Registered]).1,
        b"streams" => stream::count().0,
        b"pending" => stream::count().1,
        b"events" => event::count(),
        b"modules" => module::count(),
        b"contexts" => context::retained(),
        b"held_calls" => held_calls::waiting(),
        b"integer_sums" => kernels::integer_sums(),
        b"faults" => faults::failed(),
        b"violations" => faults::violations().0,
        _ => return -1,
    };
    count as i64
}

/// Returns the first violation; "" if there was none. The string is leaked.
#[unsafe(no_mangle)]
pub extern "C" fn fake_driver_violation() -> *const c_char {
    leaked(&faults::violations().1.unwrap_or_default())
}

fn leaked(text: &str) -> *const c_char {
    CString::new(text).unwrap_or_default().into_raw()
}
