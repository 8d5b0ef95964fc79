//! What `gpuvec_last_run` says of calls on host arrays: where they ran, in how many pieces, and how
//! each array got there.

mod common;

use common::{
    Array, Operation, add_f32, add_i32, dot_f32, has_gpu, last_error, last_run, placements,
    with_placement,
};
use gpuvec::abi::library::{gpuvec_device_count, gpuvec_last_run, gpuvec_why_cpu};
use gpuvec::gpuvec_status::{GPUVEC_ERROR_NO_GPU, GPUVEC_ERROR_NULL};
use gpuvec::last_run::*;
use gpuvec::{Placement, gpuvec_status};
use std::ffi::CStr;
use std::ptr;

/// Each operation with its arrays of `n` elements: a dot product's output is not one.
const OPERATIONS: [(Operation, usize); 3] = [(add_f32, 3), (add_i32, 3), (dot_f32, 2)];

/// What is said of a call on `n` zeros, in which the arrays marked are pinned.
fn run(placement: Placement, operation: Operation, n: usize, pinned: [bool; 3]) -> Run {
    with_placement(placement, || {
        let mut arrays = pinned.map(|pinned| Array::new(&vec![0; n], 0, pinned));
        let [a, b, out] = arrays.each_mut().map(Array::pointer);
        // SAFETY: three arrays of `n` elements.
        let status = unsafe { operation(a, b, out, n) };
        assert_eq!(status, 0, "{}", last_error());
        assert!(arrays.iter().all(Array::guards_are_whole));
        last_run()
    })
}

/// The threads that a call cut into so many chunks may use.
fn threads(chunks: usize) -> usize {
    let chosen = std::env::var("GPUVEC_NUM_THREADS").ok().map(|n| n.parse().expect("a number"));
    let most = chosen.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, Into::into));
    most.min(chunks)
}

/// A run on the CPU: alone up to 256 KiB, else on a core for each 64 KiB of an array, in chunks of
/// whole tiles, eight for each core or more.
fn on_cpu(n: usize) -> Run {
    let cores = if n <= 65_536 { 1 } else { threads(n.div_ceil(16_384)) };
    let pieces = if cores == 1 { 1 } else { 8 * cores };
    let chunks = n.div_ceil(n.div_ceil(pieces).next_power_of_two().clamp(4096, 65_536));
    let threads = cores.min(chunks);
    Run {
        backend: Backend::Cpu as i32,
        path: if threads == 1 { GPUVEC_PATH_CALLING_CORE } else { GPUVEC_PATH_CORES },
        threads: threads as u64,
        chunks: chunks as u64,
        ..Run::default()
    }
}

#[test]
fn placement_cpu_runs_on_the_cores() {
    for (operation, _) in OPERATIONS {
        for n in [1, 65_536, 65_537, 1_000_000] {
            assert_eq!(run(Placement::Cpu, operation, n, [false; 3]), on_cpu(n), "n = {n}");
            assert_eq!(run(Placement::Cpu, operation, n, [true; 3]), on_cpu(n), "n = {n}");
        }
    }
}

#[test]
fn placement_auto_keeps_small_arrays_on_the_calling_core() {
    for (operation, _) in OPERATIONS {
        for n in [1, 1000, 65_536] {
            assert_eq!(run(Placement::Auto, operation, n, [false; 3]), on_cpu(n), "n = {n}");
        }
    }
}

#[test]
fn placement_auto_takes_large_arrays_to_a_gpu_if_there_is_one() {
    const N: usize = 1 << 22;
    for (operation, _) in OPERATIONS {
        let run = run(Placement::Auto, operation, N, [true; 3]);
        if has_gpu() {
            assert_eq!(run.backend, Backend::Gpu as i32);
        } else {
            assert_eq!(run, on_cpu(N));
        }
    }
}

/// Kernels reach short arrays across the bus, and the buffers of those that are staged; long pinned
/// ones are copied by DMA, in several pieces, unless several GPUs share an elementwise operation.
#[test]
fn placement_gpu_stages_pageable_arrays_and_no_others() {
    if !has_gpu() {
        return check_that_placement_gpu_is_refused();
    }
    let lengths =
        [(1, GPUVEC_PATH_MAPPED), (1 << 12, GPUVEC_PATH_MAPPED), ((4 << 20) + 1, GPUVEC_PATH_DMA)];
    for (operation, arrays) in OPERATIONS {
        for (n, way) in lengths {
            for pinned in [[true; 3], [false; 3], [true, false, true], [false, true, false]] {
                let run = run(Placement::Gpu, operation, n, pinned);
                let staged = pinned[..arrays].iter().filter(|pinned| !**pinned).count();
                let staging = GPUVEC_PATH_STAGED | GPUVEC_PATH_MAPPED;
                let gpus = if way == GPUVEC_PATH_DMA { gpuvec_device_count() } else { 1 };
                let way = if gpus > 1 && arrays == 3 { GPUVEC_PATH_MAPPED } else { way };
                let path = if staged > 0 { staging } else { way };
                assert_eq!(run.backend, Backend::Gpu as i32);
                assert_eq!(run.path, path, "n = {n}, pinned: {pinned:?}");
                assert_eq!(run.bytes_staged, (staged * n * 4) as u64, "pinned: {pinned:?}");
                assert!((1..=gpus as u32).contains(&run.devices.count_ones()), "{}", run.devices);
                assert!(run.threads >= 1 && run.chunks >= 1);
                assert!(n == 1 || n == 1 << 12 || run.chunks > 1, "{} chunks", run.chunks);
            }
        }
    }
}

fn check_that_placement_gpu_is_refused() {
    for (operation, _) in OPERATIONS {
        with_placement(Placement::Gpu, || {
            let mut arrays = [7, 8, 9].map(|word| Array::new(&[word; 100], 0, false));
            let [a, b, out] = arrays.each_mut().map(Array::pointer);
            // SAFETY: three arrays of 100 elements.
            let status = unsafe { operation(a, b, out, 100) };
            assert_eq!(status, GPUVEC_ERROR_NO_GPU as i32);
            // SAFETY: never NULL, and valid until the next question.
            let why = unsafe { CStr::from_ptr(gpuvec_why_cpu()) };
            assert_eq!(why.to_str(), Ok(last_error().as_str()));
            assert_eq!(arrays[2].content(), [9; 100]);
            assert_eq!(last_run(), Run::default());
        });
    }
}

#[test]
fn a_call_that_fails_or_has_nothing_to_do_ran_nowhere() {
    for placement in placements() {
        for (operation, _) in OPERATIONS {
            for (n, status) in [(0, gpuvec_status::GPUVEC_OK), (1, GPUVEC_ERROR_NULL)] {
                run(*placement, operation, 100, [false; 3]);
                assert_ne!(last_run(), Run::default());
                with_placement(*placement, || {
                    // SAFETY: NULL is refused, and not followed where `n` is 0.
                    let found = unsafe { operation(ptr::null(), ptr::null(), ptr::null_mut(), n) };
                    assert_eq!(found, status as i32);
                });
                assert_eq!(last_run(), Run::default());
            }
        }
    }
}

#[test]
fn every_thread_has_its_own() {
    let mine = run(Placement::Cpu, add_f32, 1_000_000, [false; 3]);
    let other = std::thread::spawn(|| {
        let before = last_run();
        (before, run(Placement::Cpu, dot_f32, 1, [false; 3]))
    });
    let (before, after) = other.join().expect("the thread's calls succeed");
    assert_eq!((before, after), (Run::default(), on_cpu(1)));
    assert_eq!(last_run(), mine);
}

#[test]
fn no_more_is_written_than_there_is_room_for() {
    const UNTOUCHED: Run =
        Run { backend: 77, path: 77, devices: 77, threads: 77, chunks: 77, bytes_staged: 77 };
    run(Placement::Cpu, add_f32, 1, [false; 3]);
    let mut found = UNTOUCHED;
    let older = std::mem::offset_of!(Run, devices);
    // SAFETY: a local of more bytes than are given.
    assert_eq!(unsafe { gpuvec_last_run(&raw mut found, older) }, 0);
    let Run { backend, path, .. } = on_cpu(1);
    assert_eq!(found, Run { backend, path, ..UNTOUCHED });
    // SAFETY: NULL is refused.
    let status = unsafe { gpuvec_last_run(ptr::null_mut(), size_of::<Run>()) };
    assert_eq!(status, GPUVEC_ERROR_NULL as i32);
}
