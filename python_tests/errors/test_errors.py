"""Wrong arguments: the status, a text that names the argument, and nothing written."""

import ctypes

import numpy as np
import pytest
from arrays import call_at, filled, output
from bindings import Backend, Status, last_error, last_run, lib, pinned_empty
from operations import CLASSIC, FAMILY, OPERATIONS, Operation

N = 1000

each_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=str)
each_argument = pytest.mark.parametrize(
    "operation, argument",
    [(operation, name) for operation in OPERATIONS for name in operation.arrays],
    ids=str,
)
each_kind = pytest.mark.parametrize("kind", ["pageable+1", "pinned"])


class Arrays:
    """Valid arguments of an operation; each test replaces one of them by a wrong one."""

    def __init__(self, operation: Operation, kind: str = "pageable"):
        """Makes arrays of N elements."""
        self.operation = operation
        a, b = (filled(kind, array) for array in operation.data(np.random.default_rng(N), N))
        out = output(operation, kind, N)
        self.arrays = [a, b, out]
        self.addresses = {"a": a.address, "b": b.address, "out": out.address}

    def call(self, n=N, **addresses) -> int:
        """Calls the operation with some addresses replaced; fails if an error wrote anything."""
        before = [array.snapshot() for array in self.arrays]
        status = call_at(self.operation, n=n, **{**self.addresses, **addresses})
        if status != Status.OK:
            assert [array.snapshot() for array in self.arrays] == before
            assert last_run().backend == Backend.NONE
        return status


def itemsize(operation: Operation, argument: str) -> int:
    """The size of an argument's elements."""
    return np.dtype(operation.out_dtype if argument == "out" else operation.dtype).itemsize


@each_argument
@pytest.mark.parametrize("n", [1, N])
def test_null(placement, operation, argument, n):
    """A NULL array is an error unless `n` is 0."""
    assert Arrays(operation).call(n, **{argument: None}) == Status.ERROR_NULL
    assert last_error().startswith(f"{argument} is NULL")
    is_array = argument != "out" or operation.kind == "elementwise"
    assert (f"its length is {n}:" in last_error()) == is_array


@each_argument
@each_kind
def test_misaligned(placement, operation, argument, kind):
    """An address between two elements is an error."""
    arrays = Arrays(operation, kind)
    size = itemsize(operation, argument)
    for shift in range(1, size):
        address = arrays.addresses[argument] + shift
        assert arrays.call(N - 1, **{argument: address}) == Status.ERROR_MISALIGNED
        assert f"{argument} is {address:#x}" in last_error()
        assert f"multiple of {size}" in last_error()


@each_operation
def test_size(placement, operation):
    """More bytes than an address space holds are an error, also where `n * size` would wrap."""
    arrays = Arrays(operation)
    first = 2**63 // itemsize(operation, "a")
    for n in (first, 2**61, 2 * first, 2 * first + 1, 2**63, 2**64 - 1):
        assert arrays.call(n) == Status.ERROR_SIZE
        assert f"n is {n}" in last_error()
        assert f"{itemsize(operation, 'a')} bytes" in last_error()


@pytest.mark.parametrize(
    "operation, argument",
    [(operation, name) for operation in OPERATIONS for name in operation.arrays[:-1]],
    ids=str,
)
def test_array_past_the_end_of_the_address_space(placement, operation, argument):
    """An array that would wrap around the address space is an error."""
    n = 2**63 // itemsize(operation, "a") - 1
    assert Arrays(operation).call(n, **{argument: 2**64 - 4096}) == Status.ERROR_SIZE
    assert f"n is {n}" in last_error()


def shifts(operation: Operation) -> list:
    """Returns distances in elements from an input to an output that partly overlaps it."""
    inside = [1, 2, N // 2, N - 1] if operation in CLASSIC else [1, N - 1]
    # An output of another type is not in place, even at the input's own address.
    at = [] if operation.may_be_in_place else [0]
    return at + inside + ([-shift for shift in inside] if operation.kind == "elementwise" else [])


@pytest.mark.parametrize(
    "operation, argument, kind",
    [
        (operation, name, kind)
        for operations, kinds in ((CLASSIC, ["pageable+1", "pinned"]), (FAMILY, ["pageable"]))
        for operation in operations
        for name in operation.arrays[:-1]
        for kind in kinds
    ],
    ids=str,
)
def test_overlap(placement, operation, argument, kind):
    """An output that overlaps an input is an error, unless the two are the same array."""
    arrays = Arrays(operation, kind)
    other = filled(kind, np.zeros(3 * N, operation.dtype))
    arrays.arrays.append(other)
    middle = other.array[N : 2 * N]
    for shift in shifts(operation):
        out = middle.ctypes.data + shift * middle.itemsize
        out -= out % itemsize(operation, "out")
        assert arrays.call(**{argument: middle.ctypes.data, "out": out}) == Status.ERROR_OVERLAP
        assert last_error().startswith(f"out partly overlaps {argument}")


@pytest.mark.parametrize("value", [-1, 4, 100, 2**31 - 1, -(2**31)])
def test_placement_that_does_not_exist(placement, value):
    """A wrong number is an error and changes nothing."""
    assert lib.gpuvec_set_placement(value) == Status.ERROR_VALUE
    assert f"placement is {value}" in last_error()
    assert lib.gpuvec_get_placement() == placement


@pytest.mark.parametrize("value", [-1, -256, -(2**31)])
def test_number_of_threads_below_0(value):
    """A wrong number is an error that says what to pass, and changes nothing."""
    before = lib.gpuvec_get_num_threads()
    assert lib.gpuvec_set_num_threads(value) == Status.ERROR_VALUE
    assert last_error().startswith(f"threads is {value}: pass ")
    assert lib.gpuvec_get_num_threads() == before


@pytest.mark.parametrize("device", [-1, 1000, 2**31 - 1])
def test_device_that_does_not_exist(device):
    """The name is NULL, and the text says that there is no such device, or no GPU."""
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
    """A pointer into an allocation is an error, and the allocation remains usable."""
    address = lib.pinned_alloc(8192)
    assert lib.pinned_free(address + offset) == Status.ERROR_POINTER
    assert f"ptr is {address + offset:#x}" in last_error()
    ctypes.memset(address, 7, 8192)
    assert ctypes.string_at(address, 8192) == b"\x07" * 8192
    assert lib.pinned_free(address) == Status.OK


def test_foreign_memory_is_not_freed(placement):
    """Memory of NumPy and invalid addresses are errors; NULL is accepted."""
    array = np.zeros(4096, np.uint8)
    for address in (array.ctypes.data, 1, 2**47, 2**64 - 1):
        assert lib.pinned_free(address) == Status.ERROR_POINTER
        assert f"ptr is {address:#x}" in last_error()
    assert lib.pinned_free(None) == Status.OK
    assert last_error() == ""
    assert not array.any()


@pytest.mark.parametrize("bytes_", [2**62, 2**63 - 1, 2**63, 2**64 - 4096, 2**64 - 1])
def test_allocations_that_are_too_large(placement, bytes_):
    """An allocation that is too large returns NULL and sets a text, and later ones work."""
    assert lib.pinned_alloc(bytes_) is None
    assert last_error() != ""
    assert pinned_empty(10, np.float32).size == 10
    assert last_error() == ""


def test_last_run_needs_a_pointer(placement):
    """A NULL pointer is an error with any size."""
    assert lib.gpuvec_last_run(None, 8) == Status.ERROR_NULL
