"""Arrays as callers may have them: pageable or pinned, at any element offset, between guards."""

from dataclasses import dataclass

import numpy as np
from bindings import lib, pinned_empty
from operations import Operation

# Where an array lies: its memory, and how many elements past a multiple of 64 bytes it begins.
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
        """Where the array begins."""
        return self.array.ctypes.data

    def snapshot(self) -> bytes:
        """All of the block's bytes."""
        return self.block.tobytes()

    def guards_are_intact(self) -> bool:
        """Whether nothing around the array was written."""
        start = (self.address - self.block.ctypes.data) // self.block.itemsize
        around = [self.block[:start], self.block[start + self.array.size :]]
        return all((part.view(np.uint8) == GUARD_BYTE).all() for part in around)


def guarded(kind: str, dtype, n: int) -> Guarded:
    """An array of `n` elements of a kind, filled, with its guards, with the guard's byte."""
    memory, offset = KINDS[kind]
    itemsize = np.dtype(dtype).itemsize
    line = LINE // itemsize
    size = n + 2 * GUARD + 2 * line
    block = pinned_empty(size, dtype) if memory == "pinned" else np.empty(size, dtype)
    block.view(np.uint8)[:] = GUARD_BYTE
    to_line = -block.ctypes.data % LINE // itemsize
    start = GUARD + to_line + offset
    return Guarded(block[start : start + n], block)


def filled(kind: str, values: np.ndarray) -> Guarded:
    """A guarded array that holds the values."""
    result = guarded(kind, values.dtype, values.size)
    result.array[:] = values
    return result


def call(operation: Operation, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> int:
    """Calls the operation on NumPy arrays; the status."""
    function = getattr(lib, operation.name)
    return function(a.ctypes.data, b.ctypes.data, out.ctypes.data, a.size)


def compute(operation: Operation, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The operation's result in a new array; fails unless the call succeeds."""
    out = np.full(operation.outputs(a.size), -1, operation.dtype)
    status = call(operation, a, b, out)
    assert status == 0, lib.gpuvec_last_error().decode()
    return out


def assert_same_bits(result: np.ndarray, expected: np.ndarray) -> None:
    """Fails unless two arrays have the same bits; says where they first differ."""
    got, want = result.view(np.uint32), expected.view(np.uint32)
    assert got.shape == want.shape
    different = np.flatnonzero(got != want)
    if different.size:
        at = different[0]
        bits = f"[{at}] is {got[at]:#010x}, not {want[at]:#010x}"
        raise AssertionError(f"{different.size} of {got.size} differ, first {bits}")
