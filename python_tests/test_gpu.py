"""What only a machine with a GPU can show: device memory, contexts, what a call leaves behind."""

import numpy as np
import pytest
from arrays import assert_same_bits, call, compute, filled, guarded
from bindings import Backend, PathBit, Place, Status, last_error, last_run, lib, why_cpu
from cuda_driver import DeviceArray, Driver
from operations import OPERATIONS

pytestmark = pytest.mark.skipif(lib.gpuvec_device_count() == 0, reason=why_cpu() or "no GPU")
SIZES = [1, 5, 4097, 100_003, 3_000_001]


@pytest.fixture
def rng():
    """Random numbers, the same at every run."""
    return np.random.default_rng(1)


@pytest.fixture(scope="module")
def driver():
    """The driver, as another library in the process has it."""
    return Driver()


@pytest.fixture
def current(driver):
    """The driver with its primary context current, as the CUDA runtime has it."""
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


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_device_arrays_are_used_where_they_are(on_device, on_gpu, operation, n, rng):
    values = operation.data(rng, n)
    a, b = (on_device(value) for value in values)
    out = on_device(np.zeros(operation.outputs(n), operation.dtype))
    function = getattr(lib, operation.name)
    assert function(a.address, b.address, out.address, n) == 0, last_error()
    run = last_run()
    assert (run.backend, run.path, run.bytes_staged) == (Backend.GPU, PathBit.RESIDENT, 0)
    assert_same_bits(out.values(), operation.oracle(*values))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_device_and_host_arrays_mix(on_device, on_gpu, operation, n, rng):
    values = operation.data(rng, n + 1)
    a, b = on_device(values[0]), filled("pageable+1", values[1][1:])
    out = guarded("pinned+3", operation.dtype, operation.outputs(n))
    function = getattr(lib, operation.name)
    assert function(a.address + 4, b.address, out.address, n) == 0, last_error()
    assert_same_bits(out.array, operation.oracle(values[0][1:], values[1][1:]))
    assert out.guards_are_intact()


@pytest.mark.parametrize(
    "operation, which",
    [
        (operation, which)
        for operation in OPERATIONS
        for which in range(3)
        if which < 2 or operation.outputs(2) == 2
    ],
    ids=str,
)
def test_a_device_array_that_is_too_short_is_an_error(current, on_gpu, operation, which):
    n = 1000
    short = DeviceArray(current, np.zeros(10, operation.dtype))
    arrays = [filled("pageable", np.full(n, 7, operation.dtype)) for _ in range(3)]
    addresses = [array.address for array in arrays]
    addresses[which] = short.address + 4
    before = [array.snapshot() for array in arrays]
    assert getattr(lib, operation.name)(*addresses, n) == Status.ERROR_OUT_OF_BOUNDS
    assert ["a", "b", "out"][which] in last_error()
    assert "36" in last_error() and "4000" in last_error()
    assert [array.snapshot() for array in arrays] == before
    assert not short.values().any()
    short.free()


def test_placement_cpu_does_not_reach_device_memory(current, on_cpu):
    array = DeviceArray(current, np.zeros(10, np.float32))
    host = filled("pageable", np.ones(10, np.float32))
    status = lib.vector_add(host.address, array.address, host.address, 10)
    assert status == Status.ERROR_PLACEMENT
    assert last_error().startswith("b is device memory")
    array.free()


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_device_memory_means_the_gpu_also_for_a_short_array(current, operation, rng):
    values = operation.data(rng, 3)
    a, b = (DeviceArray(current, value) for value in values)
    out = guarded("pageable", operation.dtype, operation.outputs(3))
    lib.gpuvec_set_placement(Place.AUTO)
    assert getattr(lib, operation.name)(a.address, b.address, out.address, 3) == 0, last_error()
    assert last_run().backend == Backend.GPU
    assert_same_bits(out.array, operation.oracle(*values))
    for array in (a, b):
        array.free()


def test_a_call_sees_what_was_queued_on_the_default_stream(current, on_gpu):
    n = 1 << 26
    array = DeviceArray(current, np.zeros(n, np.int32))
    one = filled("pinned", np.ones(1, np.int32))
    out = guarded("pinned", np.int32, 1)
    for value in range(1, 21):
        array.fill_later(value - 1)
        array.fill_later(value)
        last = array.address + (n - 1) * 4
        assert lib.add_arrays(last, one.address, out.address, 1) == 0, last_error()
        assert out.array[0] == value + 1
    array.free()


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_the_callers_context_stays_current(driver, on_gpu, operation, rng):
    values = operation.data(rng, 300_000)
    before = driver.current()
    driver.set_current(None)
    compute(operation, *values)
    assert driver.current() is None
    other = driver.new_context()
    compute(operation, *values)
    assert getattr(lib, operation.name)(None, None, None, 1) == Status.ERROR_NULL
    assert driver.current() == other.value
    driver.call("cuCtxDestroy_v2", other)
    driver.set_current(before)


def test_calls_leave_no_device_memory_behind(current, on_gpu, rng):
    def all_operations() -> None:
        for operation in OPERATIONS:
            for n in (1000, 2_000_000):
                compute(operation, *operation.data(rng, n))

    all_operations()
    before = current.free_bytes()
    for _ in range(20):
        all_operations()
    assert current.free_bytes() == before


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
@pytest.mark.parametrize("n", [1000, 2_000_000])
def test_pinned_arrays_are_not_staged_and_pageable_ones_are(on_gpu, operation, n, rng):
    values = operation.data(rng, n)
    staged = {}
    for kind in ("pinned", "pageable"):
        a, b = (filled(kind, value) for value in values)
        out = guarded(kind, operation.dtype, operation.outputs(n))
        assert call(operation, a.array, b.array, out.array) == 0, last_error()
        staged[kind] = last_run().bytes_staged
    arrays = 3 if operation.kind == "elementwise" else 2
    assert staged == {"pinned": 0, "pageable": arrays * 4 * n}
