"""Calls and counts for tests in processes of their own."""

import ctypes
import functools
import os
from collections.abc import Iterator

import numpy as np
from arrays import assert_same_bits, compute
from bindings import Status, lib, pinned_empty
from operations import CLASSIC, FOR_A_GPU, OPERATIONS, SAMPLE, repeated

SMALL = 1000
MIDDLING = 300_000
LARGE = FOR_A_GPU
MIB = 1 << 20
# Bytes that the allocators and the driver may keep.
MARGIN = 2 * MIB


@functools.lru_cache
def cases(n: int) -> list:
    """Returns operations with inputs and right results; fewer operations for large `n`."""
    operations = CLASSIC if n == LARGE else SAMPLE
    inputs = [repeated(operation, n) for operation in operations]
    return [(row, pair, row.oracle(*pair)) for row, pair in zip(operations, inputs)]


def check(*sizes: int) -> None:
    """Checks that operations give the oracle's bits, at each size."""
    for n in sizes:
        for operation, inputs, expected in cases(n):
            assert_same_bits(compute(operation, *inputs), expected)


def check_memory() -> None:
    """Allocates, uses and frees memory, once."""
    array = pinned_empty(SMALL, np.float32)
    array[:] = 3
    assert (compute(OPERATIONS[0], array, array) == 6).all()
    address = lib.pinned_alloc(4096)
    ctypes.memset(address, 1, 4096)
    assert lib.pinned_free(address) == Status.OK
    assert lib.pinned_free(address) == Status.ERROR_POINTER


def check_all() -> None:
    """Checks operations of all sizes, and memory."""
    check(SMALL, MIDDLING, LARGE)
    check_memory()


def threads() -> int:
    """Counts the process's threads."""
    return len(os.listdir("/proc/self/task"))


def blocked_signals_of_the_librarys_threads() -> Iterator[int]:
    """Returns the mask of blocked signals of each library thread; bit 0 is signal 1."""
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/status") as file:
            fields = dict(line.split(":", 1) for line in file)
        if fields["Name"].strip().startswith("gpuvec-"):
            yield int(fields["SigBlk"], 16)


def resident_bytes() -> int:
    """Returns this process's resident memory, counted page by page."""
    with open("/proc/self/smaps_rollup") as file:
        for line in file:
            if line.startswith("Rss:"):
                return int(line.split()[1]) * 1024
    raise AssertionError("the system does not say how much memory is resident")
