//! `gpuvec_last_run` reports where calls on host arrays ran, as programs may rely on.

mod common;

use common::{
    Array, Operation, add_f32, add_i32, dot_f32, has_gpu, last_error, last_run, with_placement,
};
use gpuvec::Placement::{self, *};
use gpuvec::last_run::*;

/// Each operation with the number of its arrays that have `n` elements.
const OPERATIONS: [(Operation, usize); 3] = [(add_f32, 3), (add_i32, 3), (dot_f32, 2)];

/// A few elements, and enough of them for several cores or chunks.
const FEW: usize = 1000;
const MANY: usize = (4 << 20) + 1;

const ALONE: u32 = GPUVEC_PATH_CALLING_CORE;
const CORES: u32 = GPUVEC_PATH_CORES;
const MAPPED: u32 = GPUVEC_PATH_MAPPED;
const STAGED: u32 = GPUVEC_PATH_STAGED | GPUVEC_PATH_MAPPED;
const DMA: u32 = GPUVEC_PATH_DMA;

/// Marks the arrays of a call that are pinned.
const PAGEABLE: [bool; 3] = [false; 3];
const PINNED: [bool; 3] = [true; 3];
const MIXED: [bool; 3] = [true, false, true];

/// A call's placement, length and memory; the paths that it may take.
type Row = (Placement, usize, [bool; 3], &'static [u32]);

const ON_CPU: &[Row] = &[
    (Cpu, 1, PAGEABLE, &[ALONE]),
    (Cpu, FEW, PINNED, &[ALONE]),
    (Cpu, MANY, PAGEABLE, &[CORES, ALONE]),
    (Cpu, MANY, PINNED, &[CORES, ALONE]),
    (Auto, 1, PAGEABLE, &[ALONE]),
    (Auto, FEW, PAGEABLE, &[ALONE]),
];

const ON_CPU_WITHOUT_A_GPU: &[Row] =
    &[(Auto, MANY, PAGEABLE, &[CORES, ALONE]), (All, MANY, PINNED, &[CORES, ALONE])];

/// Several GPUs access pinned arrays of an elementwise operation without a copy.
const ON_GPU: &[Row] = &[
    (Gpu, 1, PINNED, &[MAPPED]),
    (Gpu, FEW, PINNED, &[MAPPED]),
    (Gpu, MANY, PINNED, &[DMA, MAPPED]),
    (Gpu, 1, PAGEABLE, &[STAGED]),
    (Gpu, FEW, MIXED, &[STAGED]),
    (Gpu, MANY, PAGEABLE, &[STAGED]),
    (Gpu, MANY, MIXED, &[STAGED]),
];

/// Returns the last run of a call on `n` zeros in each array.
fn report(placement: Placement, operation: Operation, n: usize, pinned: [bool; 3]) -> Run {
    with_placement(placement, || {
        let mut arrays = pinned.map(|pinned| Array::new(&vec![0; n], 0, pinned));
        let [a, b, out] = arrays.each_mut().map(Array::pointer);
        // SAFETY: three arrays of `n` elements.
        let status = unsafe { operation(a, b, out, n) };
        assert_eq!(status, 0, "{}", last_error());
        let is_right = |array: &Array| array.guards_are_whole() && array.content() == vec![0; n];
        assert!(arrays.iter().all(is_right));
        last_run()
    })
}

/// Checks the rows with every operation; each call runs on this backend.
fn check(backend: Backend, rows: &[Row]) {
    for &(placement, n, pinned, paths) in rows {
        for (operation, arrays) in OPERATIONS {
            let run = report(placement, operation, n, pinned);
            let call = format!("{placement:?}, n = {n}, pinned: {pinned:?}: {run:?}");
            let is_staged = run.path == STAGED;
            let pageable = pinned[..arrays].iter().filter(|pinned| !**pinned).count();
            let staged = if is_staged { pageable * n * size_of::<u32>() } else { 0 };
            assert_eq!(run.backend, backend as i32, "{call}");
            assert!(paths.contains(&run.path), "{call}");
            assert_eq!(run.devices != 0, backend == Backend::Gpu, "{call}");
            assert_eq!(run.bytes_staged, staged as u64, "{call}");
            assert!(run.chunks >= 1 && run.threads >= 1, "{call}");
            assert!(run.path != CORES || (2..=run.chunks).contains(&run.threads), "{call}");
            assert!(run.path != ALONE || run.threads == 1, "{call}");
        }
    }
}

#[test]
fn short_calls_and_placement_cpu_run_on_the_cores() {
    check(Backend::Cpu, ON_CPU);
}

#[test]
fn long_calls_run_on_a_gpu_if_there_is_one() {
    if has_gpu() {
        check(Backend::Gpu, ON_GPU);
    } else {
        check(Backend::Cpu, ON_CPU_WITHOUT_A_GPU);
    }
}
