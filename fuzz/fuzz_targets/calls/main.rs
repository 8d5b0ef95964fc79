//! Sequences of calls with any arguments: compares statuses, values and unchanged memory with a
//! model.
//!
//! A call is made if the model expects an error, or if every array lies in existing memory, since
//! correct lengths are the caller's promise. As callers must, it orders queued work, and waits for
//! it before memory is read or freed.

#![no_main]

mod handles;
mod memory;
mod model;
mod steps;

use gpuvec::abi::classic::{pinned_alloc, pinned_free};
use gpuvec::abi::errors::gpuvec_last_error;
use gpuvec::abi::library::{
    GPUVEC_PLACE_INHERIT, gpuvec_device_count, gpuvec_get_num_threads, gpuvec_get_placement,
    gpuvec_get_thread_placement, gpuvec_last_run, gpuvec_set_num_threads, gpuvec_set_placement,
    gpuvec_set_thread_placement, gpuvec_why_cpu,
};
use gpuvec::abi::memory::{
    gpuvec_device_alloc, gpuvec_device_free, gpuvec_host_register, gpuvec_host_unregister,
};
use gpuvec::gpuvec_status::*;
use gpuvec::last_run::{Backend, Run};
use handles::Queues;
use libfuzzer_sys::fuzz_target;
use memory::{Allocator, Memory};
use model::{Arguments, Situation, Task};
use std::ffi::CStr;
use std::ptr::with_exposed_provenance_mut;
use std::sync::OnceLock;
use steps::{Device, Freed, On, Program, Step};

fuzz_target!(|program: Program| {
    has_gpu();
    assert_eq!((gpuvec_set_placement(0), gpuvec_set_num_threads(0)), (0, 0));
    // Dropped last: nothing is queued then.
    let mut memory = Memory::new(program.with_large_memory);
    let mut queues = Queues::new();
    for by in [Allocator::Pinned, Allocator::Device] {
        alloc(&mut memory, by, 5000, Device::First);
    }
    for step in &program.steps {
        perform(&mut memory, &mut queues, step);
        if queues.are_done() {
            memory.check(false);
        }
    }
    queues.synchronize();
    memory.check(true);
});

fn perform(memory: &mut Memory, queues: &mut Queues, step: &Step) {
    match step {
        Step::Call { operation, alpha, a, b, out, n, on } => {
            let [a, b, out] = [a, b, out].map(|pointer| pointer.address(memory));
            let task = Task::Compute(*operation, *alpha);
            let arguments = Arguments { task, a, b, out, n: n.elements(), stream: 0 };
            call(memory, queues, arguments, on);
        }
        Step::Copy { dst, src, bytes, on } => {
            let [out, a] = [dst, src].map(|pointer| pointer.address(memory));
            let n = bytes.elements();
            call(memory, queues, Arguments { task: Task::Copy, a, b: a, out, n, stream: 0 }, on);
        }
        Step::Fill { region, seed, mask, base } => {
            queues.synchronize();
            memory.fill(*region, *seed, *mask, *base);
        }
        Step::Place(placement) => place(placement.number()),
        Step::Threads(threads) => limit_threads(threads.number()),
        Step::Alloc(by, bytes, device) => alloc(memory, *by, bytes.bytes(), *device),
        Step::Free(by, freed) => free(memory, queues, *by, freed),
        Step::Register(pointer, bytes) => {
            let address = pointer.address(memory);
            register(memory, address, bytes.elements());
        }
        Step::Unregister(registered) => {
            let address = registered.address(memory);
            queues.synchronize();
            unregister(memory, address);
        }
        Step::Stream(call, stream, event) => queues.stream_call(*call, stream, event),
        Step::Event(call, event, other) => queues.event_call(*call, event, other),
    }
}

fn call(memory: &mut Memory, queues: &mut Queues, mut arguments: Arguments, on: &On) {
    if arguments.task.takes_stream() {
        arguments.stream = queues.stream(&on.stream);
    }
    let stream_is_wrong = !queues.is_stream(arguments.stream);
    let now = situation();
    let errors = arguments.predicted(memory, Situation { stream_is_wrong, ..now });
    if !errors.is_empty() {
        let (status, run) = (arguments.call(), last_run());
        assert!(errors.contains(&status), "{arguments:x?} gave {status}, not one of {errors:?}");
        assert!(!last_error().is_empty() && run == Run::default(), "{arguments:x?}: {run:?}");
        return;
    }
    let is_there = arguments.arrays().all(|array| memory.holds(array));
    if !is_there && !arguments.is_onto_itself() {
        return;
    }
    queues.order(arguments.stream, on.by_event);
    let (status, run) = (arguments.call(), last_run());
    assert_eq!(status, 0, "{arguments:x?}: {}", last_error());
    assert!(last_error().is_empty());
    assert_eq!(run.backend != Backend::None as i32, !arguments.is_nothing(), "{run:?}");
    if arguments.is_onto_itself() {
        return;
    }
    let waited = arguments.arrays().any(|array| array.1 > 0 && memory.is_pageable(array));
    if arguments.n > 0 {
        queues.called(arguments.stream, waited);
    }
    if let Some(result) = arguments.result(memory) {
        memory.expect(arguments.out, &result);
    }
}

fn place(placement: i32) {
    let before = gpuvec_get_placement();
    let known = (0..4).contains(&placement);
    let status = gpuvec_set_placement(placement);
    assert_eq!(status, if known { 0 } else { GPUVEC_ERROR_VALUE as i32 });
    assert_eq!(gpuvec_get_placement(), if known { placement } else { before });
    // A thread's own placement is in force until the thread follows the process's again.
    let now = gpuvec_get_placement();
    let status = gpuvec_set_thread_placement(placement);
    let own = if known { placement } else { GPUVEC_PLACE_INHERIT };
    let accepted = known || placement == GPUVEC_PLACE_INHERIT;
    assert_eq!(status, if accepted { 0 } else { GPUVEC_ERROR_VALUE as i32 });
    assert_eq!(gpuvec_get_thread_placement(), own);
    assert_eq!(gpuvec_get_placement(), if known { placement } else { now });
    assert_eq!(gpuvec_set_thread_placement(GPUVEC_PLACE_INHERIT), 0);
    assert_eq!(gpuvec_get_placement(), now);
}

fn limit_threads(threads: i32) {
    let before = gpuvec_get_num_threads();
    let status = gpuvec_set_num_threads(threads);
    assert_eq!(status, if threads < 0 { GPUVEC_ERROR_VALUE as i32 } else { 0 });
    let now = gpuvec_get_num_threads();
    match threads {
        0 => assert!((1..=256).contains(&now)),
        1.. => assert_eq!(now, threads.min(256)),
        _ => assert_eq!(now, before),
    }
}

fn alloc(memory: &mut Memory, by: Allocator, bytes: usize, device: Device) {
    let now = situation();
    let is_on_device = by == Allocator::Device && has_gpu() && !now.is_on_cpu;
    let devices = if is_on_device { gpuvec_device_count() } else { 1 };
    let (address, device_is_there) = match by {
        Allocator::Pinned => (pinned_alloc(bytes), true),
        Allocator::Device => {
            let ordinal = device.ordinal();
            (gpuvec_device_alloc(bytes, ordinal), (0..devices).contains(&ordinal))
        }
    };
    let refused = bytes > steps::MOST_BYTES || now.gpu_is_missing || !device_is_there;
    assert_eq!(address.is_null(), refused, "{bytes} bytes: {}", last_error());
    assert_eq!(last_error().is_empty(), !refused);
    if !refused {
        memory.add(address.cast(), bytes.max(1), by, is_on_device);
    }
}

fn free(memory: &mut Memory, queues: &mut Queues, by: Allocator, freed: &Freed) {
    let address = freed.address(memory);
    if by == Allocator::Pinned || memory.on_device(address).is_none() {
        // Device memory must not be freed before the device is done with it.
        queues.synchronize();
    }
    let is_live = memory.forget(address, by);
    let taken = is_live || address == 0;
    let pointer = with_exposed_provenance_mut(address);
    // SAFETY: the model no longer uses the memory, and the library refuses other memory.
    let status = unsafe {
        match by {
            Allocator::Pinned => pinned_free(pointer),
            Allocator::Device => gpuvec_device_free(pointer),
        }
    };
    assert_eq!(status, if taken { 0 } else { GPUVEC_ERROR_POINTER as i32 }, "{address:#x}");
    assert_eq!(last_error().is_empty(), taken);
}

fn register(memory: &mut Memory, address: usize, bytes: usize) {
    const PAGE: u128 = 4096;
    let end = (address as u128 + bytes as u128).next_multiple_of(PAGE);
    let error = match bytes {
        0 => None,
        _ if address == 0 => Some(GPUVEC_ERROR_NULL),
        _ if bytes > isize::MAX as usize || end > usize::MAX as u128 => Some(GPUVEC_ERROR_SIZE),
        _ if situation().gpu_is_missing => Some(GPUVEC_ERROR_NO_GPU),
        _ if !memory.is_hosts(address, bytes) => return,
        _ => None,
    };
    // SAFETY: memory of the host's, or the call is refused.
    let status = unsafe { gpuvec_host_register(with_exposed_provenance_mut(address), bytes) };
    assert_eq!(status, error.map_or(0, |error| error as i32), "{address:#x}: {}", last_error());
    if status == 0 {
        memory.register(address, bytes);
    }
}

fn unregister(memory: &mut Memory, address: usize) {
    let is_registered = memory.unregister(address);
    // SAFETY: nothing is queued, and the library refuses memory that is not registered.
    let status = unsafe { gpuvec_host_unregister(with_exposed_provenance_mut(address)) };
    let expected = if is_registered { 0 } else { GPUVEC_ERROR_POINTER as i32 };
    assert_eq!(status, expected, "{address:#x}: {}", last_error());
}

/// Returns the state of the process, with a valid stream.
fn situation() -> Situation {
    const GPU: i32 = gpuvec::Placement::Gpu as i32;
    const CPU: i32 = gpuvec::Placement::Cpu as i32;
    let placement = gpuvec_get_placement();
    Situation {
        gpu_is_missing: placement == GPU && !has_gpu(),
        is_on_cpu: placement == CPU,
        stream_is_wrong: false,
    }
}

/// Returns whether there is a GPU; determined once, with placement auto.
fn has_gpu() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        assert_eq!(gpuvec_set_placement(0), 0);
        // SAFETY: a C string of this thread's.
        unsafe { CStr::from_ptr(gpuvec_why_cpu()) }.is_empty()
    })
}

fn last_error() -> String {
    // SAFETY: a C string of this thread's, copied before its next call.
    unsafe { CStr::from_ptr(gpuvec_last_error()) }.to_str().expect("UTF-8").to_owned()
}

fn last_run() -> Run {
    let mut run = Run::default();
    // SAFETY: a local of the given size.
    assert_eq!(unsafe { gpuvec_last_run(&raw mut run, size_of::<Run>()) }, 0);
    run
}
