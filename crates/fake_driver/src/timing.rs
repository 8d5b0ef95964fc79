//! The time that work takes, where the environment asks for an emulation of it: a bus, a latency, a
//! compiler.
//!
//! `FAKE_DRIVER_BUS` is the speed of the bus between the host and each device, in bytes per microsecond and
//! in each direction; `FAKE_DRIVER_LATENCY` the microseconds that each kernel and each copy takes beside;
//! `FAKE_DRIVER_COMPILE` those that the compiler takes for an expression; `FAKE_DRIVER_PAGE_FAULTS` those that a
//! kernel takes beside for each array in pageable memory. Work takes at least that time, on
//! the thread that does it. Kernels that access host memory use the bus as copies do. All streams of a
//! device share its bus, whose two directions are independent.

use crate::{lock, memory, setting};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// A direction of the bus.
#[derive(Clone, Copy)]
pub(crate) enum Direction {
    /// From the host to a device.
    In,
    /// From a device to the host.
    Out,
}

/// The settings of the emulation; 0 turns a part of it off.
struct Settings {
    bus: u64,
    latency: Duration,
    compile: Duration,
    page_faults: Duration,
}

fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| Settings {
        bus: setting("FAKE_DRIVER_BUS", 0),
        latency: Duration::from_micros(setting("FAKE_DRIVER_LATENCY", 0)),
        compile: Duration::from_micros(setting("FAKE_DRIVER_COMPILE", 0)),
        page_faults: Duration::from_micros(setting("FAKE_DRIVER_PAGE_FAULTS", 0)),
    })
}

thread_local! {
    /// The bytes that this thread's kernel or copy has sent in each direction; `None` outside of one.
    static SENT: Cell<Option<[u64; 2]>> = const { Cell::new(None) };
}

/// The times until which the bus of each device is in use, in each direction.
static IN_USE: Mutex<BTreeMap<usize, [Option<Instant>; 2]>> = Mutex::new(BTreeMap::new());

/// Notes that this thread runs a kernel, or fills memory.
pub(crate) fn begin() {
    SENT.set(Some([0; 2]));
}

/// Notes that this thread copies bytes, across the bus if there is a direction.
pub(crate) fn begin_copy(direction: Option<Direction>, bytes: usize) {
    begin();
    if let Some(direction) = direction {
        send(direction, bytes);
    }
}

/// Notes that this thread's kernel or copy sends bytes across the bus.
pub(crate) fn send(direction: Direction, bytes: usize) {
    if let Some(mut sent) = SENT.get() {
        sent[direction as usize] += bytes as u64;
        SENT.set(Some(sent));
    }
}

/// Notes that this thread's kernel accesses bytes, which cross the bus if they are the host's.
pub(crate) fn access(direction: Direction, address: usize, bytes: usize) {
    if memory::find(address).is_some_and(|block| block.kind.is_host()) {
        send(direction, bytes);
    } else if memory::is_pageable(address) {
        wait_until(Instant::now() + settings().page_faults);
    }
}

/// Returns when the kernel or the copy that this thread began at `start` has taken its time. Does nothing
/// if there was none.
pub(crate) fn end(start: Instant, device: usize) {
    let (Some(sent), Settings { bus, latency, .. }) = (SENT.take(), settings()) else { return };
    let mut end = start + *latency;
    if *bus > 0 {
        let mut in_use = lock(&IN_USE);
        for (until, bytes) in in_use.entry(device).or_default().iter_mut().zip(sent) {
            if bytes > 0 {
                let begin = until.map_or(start, |until| until.max(start));
                let until = until.insert(begin + Duration::from_nanos(bytes * 1000 / bus));
                end = end.max(*until + *latency);
            }
        }
    }
    wait_until(end);
}

/// Waits for as long as the emulated compiler takes.
pub(crate) fn compile() {
    wait_until(Instant::now() + settings().compile);
}

/// Waits precisely: sleeps, and polls the clock in the end, since a sleep may be longer than asked for.
fn wait_until(end: Instant) {
    const POLLED: Duration = Duration::from_micros(200);
    let left = || end.saturating_duration_since(Instant::now());
    let asleep = left().saturating_sub(POLLED);
    if !asleep.is_zero() {
        std::thread::sleep(asleep);
    }
    while !left().is_zero() {
        std::hint::spin_loop();
    }
}
