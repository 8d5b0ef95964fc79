"""Arrays in pageable or pinned memory, at any element offset, between guards."""

from dataclasses import dataclass
from typing import Optional

import numpy as np
from bindings import last_error, lib, pinned_empty
from operations import Operation
from oracles import unsigned

# An array's memory, and its offset in elements from a multiple of 64 bytes.
KINDS = {
    "pageable": ("pageable", 0),
    "pageable+1": ("pageable", 1),
    "pageable+7": ("pageable", 7),
    "pinned": ("pinned", 0),
    "pinned+3": ("pinned", 3),
}

# The kinds of a, b and out.
UNIFORM = [("pageable",) * 3, ("pageable+1",) * 3, ("pinned",) * 3, ("pinned+3",) * 3]
MIXED = [
    ("pageable", "pinned", "pageable+1"),
    ("pinned+3", "pageable+7", "pinned"),
    ("pageable+7", "pageable", "pinned+3"),
    ("pinned", "pinned+3", "pageable"),
]

GUARD = 64
GUARD_BYTE = 0xA5
LINE = 64


@dataclass
class Guarded:
    """An array between guard elements, in one block of memory."""

    array: np.ndarray
    block: np.ndarray

    @property
    def address(self) -> int:
        """Returns the address of the first element."""
        return self.array.ctypes.data

    def snapshot(self) -> bytes:
        """Returns all bytes of the block."""
        return self.block.tobytes()

    def guards_are_intact(self) -> bool:
        """Returns whether nothing around the array was written."""
        start = (self.array.ctypes.data - self.block.ctypes.data) // self.block.itemsize
        around = [self.block[:start], self.block[start + self.array.size :]]
        return all((part.view(np.uint8) == GUARD_BYTE).all() for part in around)


def guarded(kind: str, dtype, n: int) -> Guarded:
    """Makes an array of `n` elements of a kind, filled with the guard byte like its guards."""
    memory, offset = KINDS[kind]
    size = block_size(dtype, n)
    block = pinned_empty(size, dtype) if memory == "pinned" else np.empty(size, dtype)
    return Guarded(within(block, n, offset), block)


def block_size(dtype, n: int) -> int:
    """Returns the elements of a block that has room for `n`, the guards and any offset."""
    return n + 2 * GUARD + 2 * (LINE // np.dtype(dtype).itemsize)


def within(block: np.ndarray, n: int, offset: int) -> np.ndarray:
    """Fills a block; returns `n` elements from `offset` elements past a multiple of 64 bytes."""
    block.view(np.uint8)[:] = GUARD_BYTE
    to_line = -block.ctypes.data % LINE // block.itemsize
    start = GUARD + to_line + offset
    return block[start : start + n]


def filled(kind: str, values: np.ndarray) -> Guarded:
    """Makes a guarded array that holds the values."""
    result = guarded(kind, values.dtype, values.size)
    result.array[:] = values
    return result


def call_at(
    operation: Operation,
    a: Optional[int],
    b: Optional[int],
    out: Optional[int],
    n: int,
    alpha: Optional[float] = None,
    stream: Optional[int] = None,
) -> int:
    """Calls the operation on addresses and returns the status.

    Tests pass two inputs, alpha and a stream to every operation, which gets those that it accepts.
    The default alpha is the table's.
    """
    last = (stream,) if operation.takes_stream else ()
    return getattr(lib, operation.name)(*operation.inputs(a, b, alpha), out, n, *last)


def call(
    operation: Operation,
    a: np.ndarray,
    b: np.ndarray,
    out: np.ndarray,
    alpha: Optional[float] = None,
    stream: Optional[int] = None,
) -> int:
    """Calls the operation on NumPy arrays and returns the status."""
    addresses = (array.ctypes.data for array in (a, b, out))
    return call_at(operation, *addresses, a.size, alpha, stream)


def compute(
    operation: Operation, a: np.ndarray, b: np.ndarray, alpha: Optional[float] = None
) -> np.ndarray:
    """Returns the operation's result in a new array; fails unless the call succeeds."""
    out = np.full(operation.outputs(a.size), -1, operation.out_dtype)
    assert call(operation, a, b, out, alpha) == 0, last_error()
    return out


def output(operation: Operation, kind: str, n: int) -> Guarded:
    """Makes a guarded output for inputs of `n` elements."""
    return guarded(kind, operation.out_dtype, operation.outputs(n))


def assert_same_bits(result: np.ndarray, expected: np.ndarray) -> None:
    """Fails unless two arrays have the same type and bits; shows their first difference."""
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    got, want = (array.view(unsigned(array.dtype)) for array in (result, expected))
    different = np.flatnonzero(got != want)
    if different.size:
        at = different[0]
        bits = f"[{at}] is {got[at]:#x}, not {want[at]:#x}"
        raise AssertionError(f"{different.size} of {got.size} differ, first {bits}")
