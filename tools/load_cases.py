"""The arrays that tools/load.py calls operations on, and the right results."""

import ctypes
import random
import zlib
from dataclasses import dataclass
from typing import Optional

import numpy as np
from bindings import pinned_empty
from cuda_driver import DeviceArray, Driver, is_emulated
from operations import OPERATIONS, SAMPLE, Operation

# Only a sample of the operations runs at the greatest lengths.
SIZES = [1, 7, 1000, 4097, 65_536, 65_537, 150_001, 1_100_001, 2_200_001]
# Small calls are as frequent as in a program that mixes both.
WEIGHTS = [8, 8, 8, 8, 6, 6, 4, 2, 1]
MOST_OF_ALL = MOST_ON_DEVICE = 150_001
MOST_BYTES = 8 * max(SIZES)
# The offset of an array in its memory, in elements.
OFFSETS = [0, 1, 3]

libc = ctypes.CDLL(None)
libc.memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]


@dataclass
class Case:
    """An operation's inputs, by their address in each kind of memory, and the right result."""

    operation: Operation
    n: int
    inputs: list[np.ndarray]
    addresses: list[dict[str, int]]
    expected: np.ndarray

    def is_right(self, address: int) -> bool:
        """Returns whether the host's bytes are the right result, bit by bit."""
        return same_bytes(address, self.expected)


def same_bytes(address: int, expected: np.ndarray) -> bool:
    """Returns whether the bytes in host memory are those of an array."""
    return libc.memcmp(address, expected.ctypes.data, expected.nbytes) == 0


class Gpu:
    """The driver, used as by another library in the process, for arrays in device memory."""

    def __init__(self) -> None:
        self.driver = Driver()
        self.enter()
        self.free_at_first = self.driver.free_bytes()
        self.is_fake_driver = is_emulated()

    def enter(self) -> None:
        """Makes the primary context current on the calling thread."""
        self.driver.set_current(self.driver.context)

    def copy_in(self, to: int, array: np.ndarray) -> None:
        """Copies an array to device memory."""
        source = ctypes.c_void_p(array.ctypes.data)
        size = ctypes.c_size_t(array.nbytes)
        self.driver.call("cuMemcpyHtoD_v2", ctypes.c_uint64(to), source, size)

    def copy_out(self, array: np.ndarray, source: int) -> None:
        """Copies device memory to an array."""
        to = ctypes.c_void_p(array.ctypes.data)
        size = ctypes.c_size_t(array.nbytes)
        self.driver.call("cuMemcpyDtoH_v2", to, ctypes.c_uint64(source), size)

    def holdings(self) -> dict[str, int]:
        """Counts the driver's objects of this process; the fake driver counts more kinds."""
        held = {"device bytes": self.free_at_first - self.driver.free_bytes()}
        if self.is_fake_driver:
            count = self.driver.driver.fake_driver_count
            count.restype = ctypes.c_int64
            for what in ("streams", "events", "registered", "host_allocations"):
                held[f"driver's {what}"] = count(what.encode())
        return held

    def forget_calls(self) -> None:
        """Empties the fake driver's list of calls."""
        if self.is_fake_driver:
            self.driver.driver.fake_driver_faults(b"")

    def violation(self) -> str:
        """Returns the fake driver's first violation; empty if there was none."""
        if not self.is_fake_driver:
            return ""
        self.driver.driver.fake_driver_violation.restype = ctypes.c_char_p
        return self.driver.driver.fake_driver_violation().decode()


class Cases:
    """Every operation at each of its sizes."""

    def __init__(self, gpu: Optional[Gpu]) -> None:
        # Keeps the arrays alive.
        self.pinned: list[np.ndarray] = []
        self.all = [
            self.made(operation, n, gpu)
            for operation in OPERATIONS
            for n in SIZES
            if n <= MOST_OF_ALL or operation in SAMPLE
        ]
        self.on_device = [case for case in self.all if case.n <= MOST_ON_DEVICE]

    def made(self, operation: Operation, n: int, gpu: Optional[Gpu]) -> Case:
        """Makes one case."""
        inputs = list(operation.data(np.random.default_rng(n), n))
        addresses = []
        for values in inputs:
            pinned = pinned_empty(n, operation.dtype)
            pinned[:] = values
            self.pinned.append(pinned)
            by_kind = {"pageable": values.ctypes.data, "pinned": pinned.ctypes.data}
            if gpu and n <= MOST_ON_DEVICE:
                by_kind["device"] = DeviceArray(gpu.driver, values).address
            addresses.append(by_kind)
        return Case(operation, n, inputs, addresses, operation.oracle(*inputs))

    @staticmethod
    def any_of(cases: list[Case], chance: random.Random) -> Case:
        """Chooses one of some cases, short ones more often."""
        [case] = chance.choices(cases, [WEIGHTS[SIZES.index(case.n)] for case in cases])
        return case

    def checksum(self) -> int:
        """Returns the checksum of all inputs in host memory."""
        inputs = [values for case in self.all for values in case.inputs] + self.pinned
        return zlib.crc32(repr([zlib.crc32(values) for values in inputs]).encode())
