"""The kernels of exact sums, launched without the library: with any grid, and by either method."""

import os
from ctypes import addressof, byref, c_char_p, c_size_t, c_uint, c_uint64, c_void_p
from pathlib import Path
from typing import NamedTuple

import numpy as np
from corpus import Kind
from cuda_driver import DeviceArray, Driver
from expression_kernels import FOLDER

# tools/kernel_mutants.py makes others, which are to fail.
IMAGES = Path(os.environ.get("GPUVEC_TEST_IMAGES", FOLDER / "operations"))
THREADS = 256
SCRATCH_BYTES = 131_072

# The rows of a state before its digits.
COUNTS = 4
DIGITS = {"sum_f32": 11, "dot_f32": 20, "sum_f64": 68, "dot_f64": 134}

# Ways to add up: windows if they hold the data, or integers alone.
BY_THE_DATA, BY_INTEGERS = 0, 1


class Sum(NamedTuple):
    """A state's counts, and its digits as one integer."""

    elements: int
    nans: int
    plus_infinities: int
    minus_infinities: int
    integer: int


class ExactKernel:
    """A kernel of a kind of sum, in the driver's current context."""

    def __init__(self, driver: Driver, kind: Kind) -> None:
        self.driver, self.kind = driver, kind
        image, module, self.function = IMAGES / f"{kind.name}.ptx", c_void_p(), c_void_p()
        driver.call("cuModuleLoadData", byref(module), c_char_p(image.read_bytes()))
        driver.call("cuModuleGetFunction", byref(self.function), module, kind.name.encode())
        self.scratch = DeviceArray(driver, np.zeros(SCRATCH_BYTES, np.uint8))
        self.words = DeviceArray(driver, np.zeros(COUNTS + DIGITS[kind.name], np.int64))
        self.value = DeviceArray(driver, np.zeros(1, kind.dtype))

    def launch(self, a: int, b: int, n: int, blocks: int, method: int, finish: bool) -> None:
        """Queues the kernel: it writes the state's words, or their value with `finish`."""
        out, result = (0, self.value.address) if finish else (self.words.address, 0)
        inputs = (a, b) if self.kind.is_dot else (a,)
        parameters = (*inputs, out, n, 0, self.scratch.address, result, method)
        values = [c_uint64(value) for value in parameters]
        places = (c_void_p * len(values))(*(addressof(value) for value in values))
        sizes = (c_uint(size) for size in (blocks, 1, 1, THREADS, 1, 1, 0))
        self.driver.call("cuLaunchKernel", self.function, *sizes, None, places, None)

    def state(self, a: int, b: int, n: int, blocks: int, method: int) -> Sum:
        """Returns the state of `n` elements."""
        self.launch(a, b, n, blocks, method, finish=False)
        *counts, digits = np.split(self.words.values(), range(1, COUNTS + 1))
        integer = sum(int(digit) << 32 * place for place, digit in enumerate(digits))
        return Sum(*(int(count[0]) for count in counts), integer)

    def finished(self, a: int, b: int, n: int, blocks: int, method: int) -> np.ndarray:
        """Returns the value of `n` elements, rounded on the device."""
        self.launch(a, b, n, blocks, method, finish=True)
        return self.value.values()

    def free(self) -> None:
        """Frees the memory; fails unless the scratch memory is zero again."""
        assert not self.scratch.values().any()
        for array in (self.scratch, self.words, self.value):
            array.free()


def grids(driver: Driver) -> list[int]:
    """Returns numbers of blocks: one, some with less and with more warps than counters of portions,
    and the library's for long arrays."""
    multiprocessors = c_size_t()
    driver.call("cuDeviceGetAttribute", byref(multiprocessors), 16, 0)
    return [1, 7, 97, 4 * multiprocessors.value]
