//! The counts of live objects.

use crate::memory::{self, Kind};
use crate::{context, event, faults, held_calls, kernels, module, stream};
use std::ffi::{CStr, c_char};

/// Counts the live objects of a kind that the driver hands out; -1 for an unknown word.
#[unsafe(no_mangle)]
unsafe extern "C" fn fake_driver_count(what: *const c_char) -> i64 {
    // SAFETY: the caller promises a C string.
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
        b"violations" => faults::violations(),
        _ => return -1,
    };
    count as i64
}
