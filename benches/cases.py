"""The arrays of the benchmark, which gpuvec and all peers share in all calls."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Optional

import numpy as np
from device import Device

TYPES = {"f32": np.float32, "f64": np.float64}

REDUCTIONS = ("dot", "sum", "min", "max")

# The period of the values: a prime, so that it does not align with chunks.
PERIOD = 1_000_003
# The number of output elements to check.
LOOKED_AT = 1000
# The relative error of a float sum in any order.
TOLERANCE = 1e-2


def fill(array: np.ndarray, seed: int) -> None:
    """Fills an array with numbers from 0 to 1, and so touches every page."""
    values = np.random.default_rng(seed).random(min(PERIOD, array.size), array.dtype)
    for start in range(0, array.size, PERIOD):
        part = array[start : start + PERIOD]
        part[:] = values[: part.size]


@dataclass
class Case:
    """An operation on arrays of one kind, length and type.

    `a`, `b` and `out` are NumPy arrays on the host, or device memory if `kind` is device. With a
    GPU, `buffers` are three device arrays for peers that copy to the device.
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
        """Returns the arrays' addresses."""
        arrays = (self.a, self.b, self.out)
        if self.kind == "device":
            return tuple(array.address for array in arrays)
        return tuple(array.ctypes.data for array in arrays)

    def is_reduction(self) -> bool:
        """Says whether the output is one value: of a reduction, or of an expression that is one."""
        return self.op.split("(")[0] in (*REDUCTIONS, "mean", "norm")

    def end(self) -> slice:
        """Returns the part of the output to check."""
        return slice(0, 1) if self.is_reduction() else slice(max(0, self.n - LOOKED_AT), self.n)

    def result(self) -> Any:
        """Returns the place of a reduction's result: the output's first element."""
        return self.out.first(1) if self.kind == "device" else self.out[:1]

    def clear(self) -> None:
        """Overwrites the part to check."""
        end = self.end()
        if self.kind != "device":
            self.out[end] = -1
            return
        values = np.full(end.stop - end.start, -1, TYPES[self.dtype])
        self.device.put(self.out.address + end.start * values.itemsize, values)

    def results(self) -> np.ndarray:
        """Returns the part to check."""
        end = self.end()
        if self.kind != "device":
            return self.out[end]
        values = np.empty(end.stop - end.start, TYPES[self.dtype])
        self.device.get(self.out.address + end.start * values.itemsize, values)
        return values

    @cached_property
    def expected(self) -> np.ndarray:
        """The expected values of that part."""
        a, b = (array[: self.n] for array in self.values)
        if self.op == "add":
            return a[self.end()] + b[self.end()]
        step = 1 << 20
        parts = range(0, self.n, step)
        wide = ((array[p : p + step].astype(np.float64) for array in (a, b)) for p in parts)
        return np.array([sum(float(np.dot(*pair)) for pair in wide)])


class Arrays:
    """Two inputs and an output of the largest length; cases use their first elements.

    With `buffers` there are three more device arrays, for peers that copy to the device.
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
        """Returns the operation on the first `n` elements."""
        buffers = tuple(memory.first(n) for memory in self.taken) or None
        a, b, out = buffers if self.kind == "device" else (array[:n] for array in self.host)
        values = tuple(self.host[:2])
        return Case(op, self.dtype, self.kind, n, a, b, out, buffers, values, self.device)

    def close(self) -> None:
        """Frees the memory; cases must not be used afterwards."""
        for memory in self.taken:
            self.device.free(memory)
        for array in self.pinned:
            self.device.free_pinned(array)
        self.host = self.taken = self.pinned = []
