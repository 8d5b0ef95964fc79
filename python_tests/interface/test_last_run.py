"""gpuvec_last_run: where each call ran, and that pinned memory is not copied on the host."""

import ctypes
import threading

import numpy as np
import pytest
from arrays import call, compute, filled, output
from bindings import (
    Backend,
    Choice,
    PathBit,
    Place,
    Reason,
    Run,
    Status,
    last_error,
    last_run,
    lib,
    placed,
)
from operations import FOR_A_GPU, OPERATIONS, SAMPLE, repeated

SMALL, LARGE = 1000, FOR_A_GPU

each_operation = pytest.mark.parametrize("operation", SAMPLE, ids=str)


def run_with(operation, kinds, n) -> Run:
    """Calls an operation on arrays of these kinds and returns its last run."""
    a, b = repeated(operation, n)
    out = output(operation, kinds[2], n)
    a, b = filled(kinds[0], a), filled(kinds[1], b)
    assert call(operation, a.array, b.array, out.array) == 0, last_error()
    return last_run()


def fields(run: Run) -> dict:
    """Returns the fields of a last run by name, but for its time, which varies."""
    found = {name: getattr(run, name) for name, _ in Run._fields_ if name != "time_ns"}
    return {**found, "predicted_ns": sum(run.predicted_ns)}


@each_operation
def test_small_arrays_on_the_cpu(on_cpu, operation):
    """The calling core processes small arrays alone, in one chunk."""
    run = run_with(operation, ("pageable",) * 3, SMALL)
    assert fields(run) == {
        "backend": Backend.CPU,
        "path": PathBit.CALLING_CORE,
        "devices": 0,
        "threads": 1,
        "chunks": 1,
        "bytes_staged": 0,
        "choice": Choice.CALLING_CORE,
        "reason": Reason.ASKED_FOR,
        "predicted_ns": 0,
    }


@each_operation
def test_large_arrays_on_the_cpu(on_cpu, operation):
    """All cores share large arrays, and nothing is copied."""
    run = run_with(operation, ("pageable",) * 3, LARGE)
    assert (run.backend, run.devices, run.bytes_staged) == (Backend.CPU, 0, 0)
    assert run.path == (PathBit.CORES if run.threads > 1 else PathBit.CALLING_CORE)
    assert run.chunks >= run.threads


@each_operation
@pytest.mark.parametrize("n", [SMALL, LARGE])
def test_demanded_gpu_does_the_work(placement, operation, n):
    """Placement gpu leaves nothing to the CPU, cpu nothing to a GPU; auto no short call either."""
    run = run_with(operation, ("pageable",) * 3, n)
    if placement == Place.GPU:
        assert run.backend == Backend.GPU
    elif placement == Place.CPU or n == SMALL or lib.gpuvec_why_cpu():
        assert run.backend == Backend.CPU
    assert (run.devices != 0) == (run.backend == Backend.GPU)
    assert run.chunks > 0 and run.threads > 0


@each_operation
@pytest.mark.parametrize("n", [SMALL, LARGE])
def test_the_choice_is_what_ran(placement, operation, n):
    """The choice agrees with the processors that took part, and the reason with the placement."""
    run = run_with(operation, ("pageable",) * 3, n)
    devices = run.devices.bit_count()
    if run.choice == Choice.CORES_AND_GPUS:
        assert run.backend == Backend.GPU or run.path & PathBit.CORES
    elif run.backend == Backend.GPU:
        assert run.choice == (Choice.GPU if devices == 1 else Choice.GPUS)
    elif run.path == PathBit.CALLING_CORE:
        assert run.choice == Choice.CALLING_CORE
    else:
        cores = (Choice.QUARTER_OF_CORES, Choice.HALF_OF_CORES, Choice.CORES)
        assert run.path == PathBit.CORES and run.choice in cores
    if placement == Place.AUTO:
        assert run.reason not in (Reason.NONE, Reason.ASKED_FOR, Reason.FALLBACK)
    else:
        assert run.reason == Reason.ASKED_FOR


@pytest.mark.skipif(lib.gpuvec_device_count() > 0, reason="there is a GPU")
@each_operation
@pytest.mark.parametrize("kinds", [("pageable",) * 3, ("pinned+3",) * 3], ids=",".join)
def test_auto_without_a_gpu_does_what_cpu_does(operation, kinds):
    """Only the reason differs, and the number of cores, with which both placements experiment."""
    small, large = {}, {}
    for place in (Place.AUTO, Place.CPU):
        with placed(place):
            small[place] = fields(run_with(operation, kinds, SMALL))
            large[place] = run_with(operation, kinds, LARGE)
    assert small.pop(Place.AUTO) == {**small.pop(Place.CPU), "reason": Reason.FASTEST}
    for run in large.values():
        assert (run.backend, run.devices, run.bytes_staged) == (Backend.CPU, 0, 0)
        assert run.path == (PathBit.CORES if run.threads > 1 else PathBit.CALLING_CORE)


@each_operation
@pytest.mark.parametrize("kinds", [("pinned",) * 3, ("pinned+3",) * 3], ids=",".join)
@pytest.mark.parametrize("n", [SMALL, LARGE])
def test_pinned_arrays_are_never_staged(placement, operation, kinds, n):
    """A GPU accesses page-locked memory directly, at any offset."""
    run = run_with(operation, kinds, n)
    assert run.bytes_staged == 0
    assert not run.path & PathBit.STAGED
    if run.backend == Backend.GPU:
        # Several GPUs together compute elementwise without copies.
        is_shared = operation.kind == "elementwise" and lib.gpuvec_device_count() > 1
        by_gpus = PathBit.MAPPED if n == SMALL or is_shared else PathBit.DMA
        assert run.path & ~PathBit.CORES == by_gpus
        assert run.path == by_gpus or run.choice == Choice.CORES_AND_GPUS


@each_operation
@pytest.mark.parametrize("n", [SMALL, LARGE])
@pytest.mark.parametrize("pageable", [["a"], ["b"], ["out"], ["a", "out"], ["a", "b", "out"]])
def test_only_pageable_arrays_are_staged(placement, operation, pageable, n):
    """Each element of a pageable array that GPUs compute is staged once, and nothing else is."""
    kinds = ["pageable" if name in pageable else "pinned" for name in ("a", "b", "out")]
    run = run_with(operation, kinds, n)
    if run.backend == Backend.CPU:
        assert run.bytes_staged == 0
        return
    staged = operation.staged_bytes(n)
    whole = sum(staged[name] for name in pageable if name in staged)
    is_shared = run.choice == Choice.CORES_AND_GPUS
    assert run.bytes_staged == whole or (is_shared and 0 < run.bytes_staged < whole)
    assert bool(run.path & PathBit.STAGED) == (run.bytes_staged > 0)


def test_failed_and_empty_calls_clear_it(placement):
    """All fields are 0 after a call that did no work."""
    for arguments in ((None, None, None, 0), (None, None, None, 5)):
        compute(OPERATIONS[0], *np.ones((2, 10), np.float32))
        lib.vector_add(*arguments)
        assert not any(bytes(last_run()))


def test_a_copy_of_memory_onto_itself_clears_it(placement):
    """There is nothing to copy."""
    a = compute(OPERATIONS[0], *np.ones((2, 10), np.float32))
    assert lib.gpuvec_copy(a.ctypes.data, a.ctypes.data, a.nbytes, None) == Status.OK
    assert not any(bytes(last_run()))


def test_other_calls_keep_it(placement):
    """Only operations on arrays change the last run."""
    compute(OPERATIONS[0], *np.ones((2, 10), np.float32))
    before = fields(last_run())
    lib.pinned_free(lib.pinned_alloc(4096))
    lib.gpuvec_set_placement(-1)
    lib.gpuvec_init()
    assert fields(last_run()) == before and before["chunks"] == 1


def test_each_thread_has_its_own(placement):
    """The last run of a thread without calls is empty, whatever other threads do."""
    compute(OPERATIONS[0], *np.ones((2, 10), np.float32))
    runs = []
    thread = threading.Thread(target=lambda: runs.append(last_run()))
    thread.start()
    thread.join()
    assert not any(bytes(runs[0]))
    assert last_run().chunks == 1


@pytest.mark.parametrize("size", [0, 4, 8, 16, 39, 40, 41, 44, 48, 56, 119, 120, 200])
def test_older_and_newer_callers(placement, size):
    """The library stores what it knows, 0 in the caller's other fields, and nothing beyond them."""
    compute(OPERATIONS[0], *np.ones((2, 10), np.float32))
    memory = ctypes.create_string_buffer(b"\xa5" * 256, 256)
    place = ctypes.cast(memory, ctypes.POINTER(Run))
    assert lib.gpuvec_last_run(place, size) == 0
    known = min(size, ctypes.sizeof(Run))
    assert Run.choice.offset == 40, "the fields of the first version come first"
    assert memory.raw[:known] == bytes(last_run())[:known]
    assert memory.raw[known:size] == bytes(size - known)
    assert memory.raw[size:] == b"\xa5" * (256 - size)
