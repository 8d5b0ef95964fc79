//! Sequences of calls with any arguments: statuses, values, and what must not change, against a
//! model.
//!
//! A call is made if the model says that it is refused, or if every array lies in memory that is
//! there: wrong lengths are the caller's to avoid.

#![no_main]

mod memory;
mod model;
mod steps;

use gpuvec::abi::library::{
    gpuvec_get_placement, gpuvec_last_error, gpuvec_last_run, gpuvec_set_placement, gpuvec_why_cpu,
};
use gpuvec::abi::memory::{pinned_alloc, pinned_free};
use gpuvec::gpuvec_status::{GPUVEC_ERROR_POINTER, GPUVEC_ERROR_VALUE};
use gpuvec::record::{Backend, Run};
use libfuzzer_sys::fuzz_target;
use memory::Memory;
use model::{Arguments, predicted_status};
use std::ffi::CStr;
use std::sync::OnceLock;
use steps::{Freed, Program, Step};

const GPU: i32 = gpuvec::Placement::Gpu as i32;

fuzz_target!(|program: Program| {
    has_gpu();
    assert_eq!(gpuvec_set_placement(0), 0);
    let mut memory = Memory::new(program.with_large_memory);
    for step in &program.steps {
        perform(&mut memory, step);
        memory.check();
    }
});

fn perform(memory: &mut Memory, step: &Step) {
    match step {
        Step::Call { operation, a, b, out, n } => {
            let [a, b, out] = [a, b, out].map(|pointer| pointer.address(memory));
            call(memory, &Arguments { operation: *operation, a, b, out, n: n.elements() });
        }
        Step::Fill { region, seed, mask, base } => memory.fill(*region, *seed, *mask, *base),
        Step::Place(placement) => place(i32::from(*placement)),
        Step::Alloc(bytes) => alloc(memory, bytes.bytes()),
        Step::Free(freed) => free(memory, freed),
    }
}

fn call(memory: &mut Memory, arguments: &Arguments) {
    let gpu_is_missing = gpuvec_get_placement() == GPU && !has_gpu();
    let errors = predicted_status(arguments, gpu_is_missing);
    if errors.is_empty() && !arguments.arrays().all(|array| memory.holds(array)) {
        return;
    }
    let status = arguments.call();
    let run = last_run();
    if !errors.is_empty() {
        assert!(errors.contains(&status), "{arguments:x?} gave {status}, not one of {errors:?}");
        assert!(!last_error().is_empty() && run == Run::default(), "{arguments:x?}: {run:?}");
        return;
    }
    assert_eq!(status, 0, "{arguments:x?}: {}", last_error());
    assert!(last_error().is_empty());
    assert_eq!(run.backend != Backend::None as i32, arguments.n > 0, "{run:?}");
    if let Some(result) = arguments.result(memory) {
        memory.expect(arguments.out, &result);
    }
}

fn place(placement: i32) {
    let before = gpuvec_get_placement();
    let known = (0..3).contains(&placement);
    let status = gpuvec_set_placement(placement);
    assert_eq!(status, if known { 0 } else { GPUVEC_ERROR_VALUE as i32 });
    assert_eq!(gpuvec_get_placement(), if known { placement } else { before });
}

fn alloc(memory: &mut Memory, bytes: usize) {
    let refused = bytes > steps::MOST_BYTES || (gpuvec_get_placement() == GPU && !has_gpu());
    let address = pinned_alloc(bytes).cast::<u8>();
    assert_eq!(address.is_null(), refused, "{bytes} bytes: {}", last_error());
    assert_eq!(last_error().is_empty(), !refused);
    if !refused {
        memory.add_pinned(address, bytes);
    }
}

fn free(memory: &mut Memory, freed: &Freed) {
    let address = freed.address(memory);
    let is_live = memory.forget_pinned(address);
    let taken = is_live || address == 0;
    // SAFETY: the model used the memory for the last time, and what is not pinned_alloc's is refused.
    let status = unsafe { pinned_free(std::ptr::with_exposed_provenance_mut(address)) };
    assert_eq!(status, if taken { 0 } else { GPUVEC_ERROR_POINTER as i32 }, "{address:#x}");
    assert_eq!(last_error().is_empty(), taken);
}

/// Asked once, with placement auto.
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
    // SAFETY: a local of the size that is given.
    assert_eq!(unsafe { gpuvec_last_run(&raw mut run, size_of::<Run>()) }, 0);
    run
}
