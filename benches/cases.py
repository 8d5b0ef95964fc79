"""The arrays that everybody works on: the same ones for gpuvec and every peer, call after call."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Optional

import numpy as np
from device import Device

TYPES = {"f32": np.float32, "f64": np.float64}

# Values repeat after this many; a prime, so that they do not fall in step with chunks.
PERIOD = 1_000_003
# Elements of an output that are looked at.
LOOKED_AT = 1000
# How far a float sum in any order may be from the exact one.
TOLERANCE = 1e-2


def fill(array: np.ndarray, seed: int) -> None:
    """Puts numbers from 0 to 1 into an array, which touches every page of it."""
    values = np.random.default_rng(seed).random(min(PERIOD, array.size), array.dtype)
    for start in range(0, array.size, PERIOD):
        part = array[start : start + PERIOD]
        part[:] = values[: part.size]


@dataclass
class Case:
    """An operation on arrays of one kind, length and type.

    `a`, `b` and `out` are NumPy arrays on the host, or device memory where `kind` is device; with a
    GPU, `buffers` are three arrays of its memory for those that copy there.
    """

    op: str
    dtype: str
    kind: str
    n: int
    a: Any
    b: Any
    out: Any
    buffers: Optional[tuple]
    values: tuple
    device: Optional[Device]

    def addresses(self) -> tuple:
        """Where the arrays are."""
        arrays = (self.a, self.b, self.out)
        if self.kind == "device":
            return tuple(array.address for array in arrays)
        return tuple(array.ctypes.data for array in arrays)

    def end(self) -> slice:
        """What is looked at of the output."""
        return slice(0, 1) if self.op == "dot" else slice(max(0, self.n - LOOKED_AT), self.n)

    def clear(self) -> None:
        """Removes what is there."""
        end = self.end()
        if self.kind != "device":
            self.out[end] = -1
            return
        values = np.full(end.stop - end.start, -1, TYPES[self.dtype])
        self.device.put(self.out.address + end.start * values.itemsize, values)

    def results(self) -> np.ndarray:
        """What is there."""
        end = self.end()
        if self.kind != "device":
            return self.out[end]
        values = np.empty(end.stop - end.start, TYPES[self.dtype])
        self.device.get(self.out.address + end.start * values.itemsize, values)
        return values

    @cached_property
    def expected(self) -> np.ndarray:
        """What has to be there."""
        a, b = (array[: self.n] for array in self.values)
        if self.op == "add":
            return a[self.end()] + b[self.end()]
        step = 1 << 20
        parts = range(0, self.n, step)
        wide = ((array[p : p + step].astype(np.float64) for array in (a, b)) for p in parts)
        return np.array([sum(float(np.dot(*pair)) for pair in wide)])


class Arrays:
    """Two inputs and an output of the greatest length; cases have their first elements.

    With `buffers` there are as many arrays in device memory for those that copy there.
    """

    def __init__(
        self, dtype: str, kind: str, n: int, device: Optional[Device], buffers: bool = False
    ) -> None:
        self.dtype, self.kind, self.device = dtype, kind, device
        self.taken, self.pinned = [], []
        if kind == "pinned":
            device.set_current(device.context)
            self.pinned = [device.pinned(n, TYPES[dtype]) for _ in range(3)]
            self.host = self.pinned
        else:
            self.host = [np.empty(n, TYPES[dtype]) for _ in range(2 if kind == "device" else 3)]
        for seed, array in enumerate(self.host):
            fill(array, seed)
        if buffers or kind == "device":
            device.set_current(device.context)
            self.taken = [device.memory(n, TYPES[dtype]) for _ in range(3)]
        if kind == "device":
            for memory, array in zip(self.taken, self.host):
                device.put(memory.address, array)

    def case(self, op: str, n: int) -> Case:
        """The operation on the first `n` elements."""
        buffers = tuple(memory.first(n) for memory in self.taken) or None
        a, b, out = buffers if self.kind == "device" else (array[:n] for array in self.host)
        values = tuple(self.host[:2])
        return Case(op, self.dtype, self.kind, n, a, b, out, buffers, values, self.device)

    def close(self) -> None:
        """Gives the memory back; no case may be used any more."""
        for memory in self.taken:
            self.device.free(memory)
        for array in self.pinned:
            self.device.free_pinned(array)
        self.host = self.taken = self.pinned = []
