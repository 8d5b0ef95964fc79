"""pinned_alloc and pinned_free: any size, whole pages, no more than asked for, nothing lost."""

import ctypes

import numpy as np
import pytest
from arrays import compute
from bindings import Place, Status, last_error, lib, pinned_empty
from host import MARGIN, MIB, resident_bytes
from operations import OPERATIONS, SAMPLE

PAGE = 4096


@pytest.mark.parametrize("bytes_", [0, 1, 4095, 4096, 4097, 1_000_000, 129 * MIB])
def test_any_size(placement, bytes_):
    """The memory is whole pages, at least one, and every byte can be written and read."""
    address = lib.pinned_alloc(bytes_)
    assert address, last_error()
    assert last_error() == ""
    assert address % PAGE == 0
    whole = max(-(-bytes_ // PAGE), 1) * PAGE
    memory = np.ndarray(whole, np.uint8, (ctypes.c_char * whole).from_address(address))
    memory[:] = 0x5A
    assert (memory == 0x5A).all()
    assert lib.pinned_free(address) == Status.OK


@pytest.mark.parametrize("bytes_", [1, PAGE, MIB + 1, 129 * MIB])
def test_no_more_than_asked_for(placement, bytes_):
    """Memory in use takes the requested bytes in whole pages, and none once it is freed."""
    lib.pinned_free(lib.pinned_alloc(1))
    before = resident_bytes()
    address = lib.pinned_alloc(bytes_)
    ctypes.memset(address, 1, bytes_)
    assert resident_bytes() - before <= bytes_ + PAGE + MARGIN
    assert lib.pinned_free(address) == Status.OK
    assert resident_bytes() - before <= MARGIN


def test_a_thousand_rounds_leave_nothing(placement):
    """Allocating and freeing again and again leaks nothing."""

    def rounds(count):
        for number in range(count):
            address = lib.pinned_alloc(number * 67)
            ctypes.memset(address, 1, number * 67)
            assert lib.pinned_free(address) == Status.OK

    rounds(50)
    before = resident_bytes()
    rounds(1000)
    assert resident_bytes() - before <= MARGIN


def test_many_at_once_do_not_overlap(placement):
    """Live allocations keep their contents."""
    arrays = [pinned_empty(1000 + number, np.int32) for number in range(200)]
    for number, array in enumerate(arrays):
        array[:] = number
    assert all((array == number).all() for number, array in enumerate(arrays))


def test_memory_outlives_a_change_of_placement(placement):
    """Memory can be used and freed with every other placement."""
    arrays = [pinned_empty(100_000, np.float32) for _ in range(2)]
    address = lib.pinned_alloc(MIB)
    for array in arrays:
        array[:] = 2
    for other in (Place.AUTO, Place.CPU):
        lib.gpuvec_set_placement(other)
        assert (compute(OPERATIONS[0], *arrays) == 4).all()
    assert lib.pinned_free(address) == Status.OK


def test_operations_leave_nothing(placement):
    """Calls of any size leak no memory."""
    arrays = [np.ones(1_100_001, np.float64) for _ in range(2)]

    def rounds(count):
        for number in range(count):
            n = (1000, 70_000, 1_100_001)[number % 3]
            for operation in SAMPLE:
                inputs = [array.view(operation.dtype)[:n] for array in arrays]
                compute(operation, *inputs)

    rounds(30)
    before = resident_bytes()
    rounds(300)
    assert resident_bytes() - before <= MARGIN


def test_errors_leave_nothing(placement):
    """Failing again and again leaks nothing, although every error has a text."""

    def rounds(count):
        for _ in range(count):
            lib.vector_add(None, None, None, 5)
            lib.pinned_alloc(2**62)
            lib.pinned_free(0x1000)
            lib.gpuvec_set_placement(7)
            lib.gpuvec_device_name(-1)
            lib.gpuvec_why_cpu()

    rounds(50)
    before = resident_bytes()
    rounds(5000)
    assert resident_bytes() - before <= MARGIN
