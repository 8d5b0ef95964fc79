"""Wrong arguments: the status, a text that names the argument, and nothing written."""

import ctypes

import numpy as np
import pytest
from arrays import filled, guarded
from bindings import Backend, Status, last_error, last_run, lib, pinned_empty
from operations import OPERATIONS

ARGUMENTS = ["a", "b", "out"]
N = 1000

each_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=str)
each_kind = pytest.mark.parametrize("kind", ["pageable+1", "pinned"])


class Arrays:
    """Valid arguments of an operation, to spoil one at a time."""

    def __init__(self, operation, kind="pageable"):
        """Makes arrays of N elements."""
        self.operation = operation
        values = operation.data(np.random.default_rng(N), N)
        self.arrays = [filled(kind, array) for array in values]
        self.arrays.append(guarded(kind, operation.dtype, operation.outputs(N)))
        self.addresses = dict(zip(ARGUMENTS, (array.address for array in self.arrays)))

    def call(self, n=N, **addresses) -> int:
        """Calls the operation with some addresses replaced; fails if an error wrote anything."""
        before = [array.snapshot() for array in self.arrays]
        arguments = {**self.addresses, **addresses}
        status = getattr(lib, self.operation.name)(*arguments.values(), n)
        if status != Status.OK:
            assert [array.snapshot() for array in self.arrays] == before
            assert last_run().backend == Backend.NONE
        return status


@each_operation
@pytest.mark.parametrize("argument", ARGUMENTS)
@pytest.mark.parametrize("n", [1, N])
def test_null(placement, operation, argument, n):
    """A NULL array is an error as soon as there is an element."""
    assert Arrays(operation).call(n, **{argument: None}) == Status.ERROR_NULL
    assert last_error().startswith(f"{argument} is NULL")


@each_operation
@each_kind
@pytest.mark.parametrize("argument", ARGUMENTS)
@pytest.mark.parametrize("shift", [1, 2, 3])
def test_misaligned(placement, operation, kind, argument, shift):
    """An address between two elements is an error."""
    arrays = Arrays(operation, kind)
    address = arrays.addresses[argument] + shift
    assert arrays.call(N - 1, **{argument: address}) == Status.ERROR_MISALIGNED
    assert f"{argument} is {address:#x}" in last_error()


@each_operation
@pytest.mark.parametrize("n", [2**61, 2**62, 2**62 + 1, 2**63, 2**64 - 1])
def test_size(placement, operation, n):
    """More bytes than an address space holds are an error, also where `n * size` would wrap."""
    assert Arrays(operation).call(n) == Status.ERROR_SIZE
    assert f"n is {n}" in last_error()


@each_operation
@pytest.mark.parametrize("argument", ["a", "b"])
def test_array_past_the_end_of_the_address_space(placement, operation, argument):
    """An array that would wrap around the address space is an error."""
    n = 2**61 - 1
    assert Arrays(operation).call(n, **{argument: 2**64 - 4096}) == Status.ERROR_SIZE
    assert f"n is {n}" in last_error()


def shifts(operation) -> list:
    """Distances in elements from an input to an output that partly overlaps it."""
    inside = [1, 2, N // 2, N - 1]
    return inside + [-shift for shift in inside] if operation.kind == "elementwise" else inside


@pytest.mark.parametrize(
    "operation, shift", [(row, shift) for row in OPERATIONS for shift in shifts(row)], ids=str
)
@each_kind
@pytest.mark.parametrize("argument", ["a", "b"])
def test_overlap(placement, operation, kind, shift, argument):
    """An output that overlaps an input is an error, unless it is that input."""
    arrays = Arrays(operation, kind)
    other = filled(kind, np.zeros(3 * N, operation.dtype))
    arrays.arrays.append(other)
    middle = other.array[N : 2 * N]
    address = middle.ctypes.data
    out = address + shift * middle.itemsize
    assert arrays.call(**{argument: address, "out": out}) == Status.ERROR_OVERLAP
    assert last_error().startswith(f"out partly overlaps {argument}")


@pytest.mark.parametrize("value", [-1, 3, 100, 2**31 - 1, -(2**31)])
def test_placement_that_does_not_exist(placement, value):
    """Another number is an error and changes nothing."""
    assert lib.gpuvec_set_placement(value) == Status.ERROR_VALUE
    assert f"placement is {value}" in last_error()
    assert lib.gpuvec_get_placement() == placement


@pytest.mark.parametrize("device", [-1, 1000, 2**31 - 1])
def test_device_that_does_not_exist(device):
    """There is no name for it, and a reason: no such device, or none at all."""
    assert lib.gpuvec_device_name(device) is None
    assert f"device is {device}" in last_error() or "no usable GPU" in last_error()


@pytest.mark.parametrize("bytes_", [1, 5000, 3 << 20])
def test_pinned_memory_is_freed_once(placement, bytes_):
    """A second free of the same address is an error."""
    address = lib.pinned_alloc(bytes_)
    assert lib.pinned_free(address) == Status.OK
    assert last_error() == ""
    assert lib.pinned_free(address) == Status.ERROR_POINTER
    assert last_error().startswith(f"ptr is {address:#x}")


@pytest.mark.parametrize("offset", [1, 64, 4096, 8191])
def test_pinned_memory_is_freed_by_its_first_byte(placement, offset):
    """A pointer into an allocation is an error, and the allocation is as usable as before."""
    address = lib.pinned_alloc(8192)
    assert lib.pinned_free(address + offset) == Status.ERROR_POINTER
    assert f"ptr is {address + offset:#x}" in last_error()
    ctypes.memset(address, 7, 8192)
    assert ctypes.string_at(address, 8192) == b"\x07" * 8192
    assert lib.pinned_free(address) == Status.OK


def test_memory_of_others_is_not_freed(placement):
    """NumPy's memory, the stack of addresses and nonsense are errors; NULL is fine."""
    array = np.zeros(4096, np.uint8)
    for address in (array.ctypes.data, 1, 2**47, 2**64 - 1):
        assert lib.pinned_free(address) == Status.ERROR_POINTER
        assert f"ptr is {address:#x}" in last_error()
    assert lib.pinned_free(None) == Status.OK
    assert last_error() == ""
    assert not array.any()


@pytest.mark.parametrize("bytes_", [2**62, 2**63 - 1, 2**63, 2**64 - 4096, 2**64 - 1])
def test_memory_that_cannot_be_had(placement, bytes_):
    """An allocation of more than there is gives NULL and a reason, and harms nothing."""
    assert lib.pinned_alloc(bytes_) is None
    assert last_error() != ""
    assert pinned_empty(10, np.float32).size == 10
    assert last_error() == ""


def test_last_run_needs_a_place(placement):
    """NULL is an error, whatever the size."""
    assert lib.gpuvec_last_run(None, 8) == Status.ERROR_NULL
