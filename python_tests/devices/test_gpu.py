"""Calls on a GPU: device memory, contexts, and memory that stays in use after a call."""

import ctypes
from ctypes import byref, c_size_t, c_uint, c_void_p

import numpy as np
import pytest
from arrays import assert_same_bits, call, call_at, compute, filled, output
from bindings import Backend, PathBit, Place, Status, last_error, last_run, lib, placed, why_cpu
from cuda_driver import DeviceArray, Driver
from operations import OPERATIONS, SAMPLE, repeated, sized

pytestmark = pytest.mark.skipif(lib.gpuvec_device_count() == 0, reason=why_cpu() or "no GPU")
SIZES = [1, 5, 4097, 100_003, 4_300_001]


@pytest.fixture
def rng():
    """Returns a generator with a fixed seed."""
    return np.random.default_rng(1)


@pytest.fixture(scope="module")
def driver():
    """Returns the driver as another library in the process uses it."""
    return Driver()


@pytest.fixture
def current(driver):
    """Makes the primary context current, as the CUDA runtime does, and returns the driver."""
    before = driver.current()
    driver.set_current(driver.context)
    yield driver
    driver.set_current(before)


@pytest.fixture(params=["device", "managed"])
def on_device(request, current):
    """Makes arrays in device or managed memory, freed after the test."""
    made = []

    def make(values: np.ndarray) -> DeviceArray:
        made.append(DeviceArray(current, values, managed=request.param == "managed"))
        return made[-1]

    yield make
    for array in made:
        array.free()


def test_pinned_memory_is_page_aligned(current):
    """Pinned memory is page-aligned, even among small allocations of another library."""
    others = [c_void_p() for _ in range(8)]
    for address in others:
        current.call("cuMemHostAlloc", byref(address), c_size_t(16_640), c_uint(3))
    ours = [lib.pinned_alloc(4096) for _ in range(8)]
    for address in ours:
        assert address % 4096 == 0, last_error()
        ctypes.memset(address, 7, 4096)
        assert lib.pinned_free(address) == 0, last_error()
    for address in others:
        current.call("cuMemFreeHost", address)


@pytest.mark.parametrize("operation, n", sized(SIZES, [4097]), ids=str)
def test_device_arrays_are_used_in_place(on_device, on_gpu, operation, n, rng):
    values = operation.data(rng, n)
    a, b = (on_device(value) for value in values)
    out = on_device(np.zeros(operation.outputs(n), operation.out_dtype))
    assert call_at(operation, a.address, b.address, out.address, n) == 0, last_error()
    run = last_run()
    assert (run.backend, run.path, run.bytes_staged) == (Backend.GPU, PathBit.RESIDENT, 0)
    assert_same_bits(out.values(), operation.oracle(*values))


@pytest.mark.parametrize("operation, n", sized(SIZES, [4097]), ids=str)
def test_device_and_host_arrays_mix(on_device, on_gpu, operation, n, rng):
    values = operation.data(rng, n + 1)
    a, b = on_device(values[0]), filled("pageable+1", values[1][1:])
    out = output(operation, "pinned+3", n)
    second = a.address + values[0].itemsize
    assert call_at(operation, second, b.address, out.address, n) == 0, last_error()
    assert_same_bits(out.array, operation.oracle(values[0][1:], values[1][1:]))
    assert out.guards_are_intact()


@pytest.mark.parametrize(
    "operation, argument",
    [
        (operation, argument)
        for operation in OPERATIONS
        for argument in operation.arrays
        if argument != "out" or operation.kind == "elementwise"
    ],
    ids=str,
)
def test_a_device_array_that_is_too_short_is_an_error(current, on_gpu, operation, argument):
    n = 1000
    short = DeviceArray(current, np.zeros(10, operation.dtype))
    size = short.like.itemsize
    arrays = {name: filled("pageable", np.full(n, 7, operation.dtype)) for name in ("a", "b")}
    arrays["out"] = output(operation, "pageable", n)
    addresses = {name: array.address for name, array in arrays.items()}
    addresses[argument] = short.address + size
    before = [array.snapshot() for array in arrays.values()]
    assert call_at(operation, **addresses, n=n) == Status.ERROR_OUT_OF_BOUNDS
    assert argument in last_error()
    assert str(9 * size) in last_error() and str(n * size) in last_error()
    assert [array.snapshot() for array in arrays.values()] == before
    assert not short.values().any()
    short.free()


@pytest.mark.parametrize("n", [1000, 10_000_000])
@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("placement", [Place.AUTO, Place.GPU])
def test_freed_device_memory_is_an_error(current, placement, which, n):
    lib.gpuvec_set_placement(placement)
    gone = DeviceArray(current, np.zeros(n, np.float32))
    arrays = [filled("pageable", np.full(n, 7, np.float32)) for _ in range(3)]
    addresses = [array.address for array in arrays]
    addresses[which] = gone.address
    assert lib.vector_add(*addresses, n) == Status.OK, last_error()
    before = [array.snapshot() for array in arrays]
    # Nothing may be allocated between here and the call: it could get the freed address.
    gone.free()
    assert lib.vector_add(*addresses, n) == Status.ERROR_POINTER, last_error()
    assert last_error().startswith(["a", "b", "out"][which] + " is 0x")
    assert [array.snapshot() for array in arrays] == before


@pytest.mark.parametrize("which", range(3))
def test_wrong_device_pointers_are_refused_before_any_work(current, on_gpu, which):
    """Misaligned pointers and partial overlaps are refused."""
    n = 1000
    arrays = [DeviceArray(current, np.full(2 * n, 7, np.float32)) for _ in range(3)]
    addresses = [array.address for array in arrays]
    addresses[which] += 2
    assert lib.vector_add(*addresses, n) == Status.ERROR_MISALIGNED
    addresses = [array.address for array in arrays]
    addresses[which] = addresses[(which + 1) % 3] + 4
    shares_with_out = which == 2 or (which + 1) % 3 == 2
    expected = Status.ERROR_OVERLAP if shares_with_out else Status.OK
    assert lib.vector_add(*addresses, n) == expected, last_error()
    for array in arrays[: 3 if shares_with_out else 2]:
        assert (array.values() == 7).all()
    for array in arrays:
        array.free()


def test_placement_cpu_does_not_reach_device_memory(current, on_cpu):
    array = DeviceArray(current, np.zeros(10, np.float32))
    host = filled("pageable", np.ones(10, np.float32))
    status = lib.vector_add(host.address, array.address, host.address, 10)
    assert status == Status.ERROR_PLACEMENT
    assert last_error().startswith("b is device memory")
    array.free()


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_short_device_arrays_run_on_the_gpu(current, operation, rng):
    values = operation.data(rng, 3)
    a, b = (DeviceArray(current, value) for value in values)
    out = output(operation, "pageable", 3)
    lib.gpuvec_set_placement(Place.AUTO)
    assert call_at(operation, a.address, b.address, out.address, 3) == 0, last_error()
    assert last_run().backend == Backend.GPU
    assert_same_bits(out.array, operation.oracle(*values))
    for array in (a, b):
        array.free()


@pytest.mark.parametrize("n", [1, 2_000_003])
@pytest.mark.parametrize("kind", ["device", "managed", "pinned"])
def test_a_call_sees_earlier_work_of_the_default_stream(current, resources, placement, kind, n):
    """Calls wait for it on every backend, although the cores are not ordered with any stream."""
    if (kind, placement) == ("device", Place.CPU):
        pytest.skip("cores do not reach it")
    longer = 1 << 26
    with placed(Place.GPU):
        memory = resources.memory(kind, 4 * longer)
        ones = resources.array("pinned", np.ones(n, np.int32))
        out = resources.memory("pinned", 4 * n)
    for value in range(1, 21):
        current.fill_later(memory.address, value - 1, longer)
        current.fill_later(memory.address, value, longer)
        last = memory.address + (longer - n) * 4
        assert lib.add_arrays(last, ones.address, out.address, n) == 0, last_error()
        assert (out.view(np.int32) == value + 1).all()


@pytest.mark.parametrize("operation", SAMPLE, ids=str)
def test_the_callers_context_stays_current(driver, on_gpu, operation, rng):
    values = operation.data(rng, 300_000)
    before = driver.current()
    driver.set_current(None)
    compute(operation, *values)
    assert driver.current() is None
    other = driver.new_context()
    compute(operation, *values)
    assert call_at(operation, None, None, None, 1) == Status.ERROR_NULL
    assert driver.current() == other.value
    driver.call("cuCtxDestroy_v2", other)
    driver.set_current(before)


def test_calls_leave_no_device_memory_behind(current, on_gpu):
    def all_operations() -> None:
        for operation in SAMPLE:
            for n in (1000, 2_000_000):
                compute(operation, *repeated(operation, n))

    all_operations()
    before = current.free_bytes()
    for _ in range(20):
        all_operations()
    assert current.free_bytes() == before


@pytest.mark.parametrize("operation, n", sized([1000, 2_000_000], [1000]), ids=str)
def test_pinned_arrays_are_not_staged_and_pageable_ones_are(on_gpu, operation, n, rng):
    values = operation.data(rng, n)
    staged = {}
    for kind in ("pinned", "pageable"):
        a, b = (filled(kind, value) for value in values)
        out = output(operation, kind, n)
        assert call(operation, a.array, b.array, out.array) == 0, last_error()
        staged[kind] = last_run().bytes_staged
    assert staged == {"pinned": 0, "pageable": sum(operation.staged_bytes(n).values())}
