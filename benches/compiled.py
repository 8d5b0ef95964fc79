"""The benchmark's C code, compiled at run time: loops of calls, plain loops, the naive function."""

import ctypes
from ctypes import c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Callable, Optional

from device import ROOT
from programs import compile_c

BENCHES = ROOT / "benches"
FLAGS = ["-O3", "-march=native", "-shared", "-fPIC"]

Batch = Callable[[int], float]


class Compiled:
    """The C functions."""

    def __init__(self, folder: Path) -> None:
        self.calls = self.load("calls", folder)
        self.naive = self.load("naive", folder, "-ldl")
        arrays = [c_void_p, c_void_p, c_void_p, c_size_t]
        self.calls.time_classic.argtypes = [c_void_p, *arrays, c_int64]
        self.calls.time_family.argtypes = [c_void_p, *arrays, c_void_p, c_int64]
        self.calls.time_reduction.argtypes = [c_void_p, c_void_p, c_void_p, c_size_t, c_int64]
        self.calls.time_classic.restype = self.calls.time_family.restype = c_double
        self.calls.time_reduction.restype = c_double
        self.naive.naive_open.argtypes = [c_char_p, c_char_p, c_size_t, c_int]
        self.naive.naive_open.restype = c_void_p

    @staticmethod
    def load(name: str, folder: Path, *flags: str) -> ctypes.CDLL:
        """Compiles and loads one file."""
        library = folder / f"lib{name}.so"
        compile_c(BENCHES / f"{name}.c", library, *FLAGS, *flags)
        return ctypes.CDLL(str(library))

    def batch(self, function, addresses: tuple, n: int, *last) -> Batch:
        """Makes a C loop of calls of a function, on three addresses, `n` and `last`."""
        name = "time_family" if last else "time_classic"
        time, call = getattr(self.calls, name), ctypes.cast(function, c_void_p)

        def batch(calls: int) -> float:
            seconds = time(call, *addresses, n, *last, calls)
            if seconds < 0:
                raise RuntimeError(f"a call of {name[5:]} failed")
            return seconds

        return batch

    def reduction(self, function, array: int, out: int, n: int) -> Batch:
        """Makes a C loop of calls of a reduction of one array."""
        call = ctypes.cast(function, c_void_p)

        def batch(calls: int) -> float:
            seconds = self.calls.time_reduction(call, array, out, n, calls)
            if seconds < 0:
                raise RuntimeError("a call of a reduction failed")
            return seconds

        return batch

    def plain_batch(self, op: str, dtype: str, addresses: tuple, n: int) -> Batch:
        """Makes a loop of calls of the plain C loop."""
        return self.batch(getattr(self.calls, f"plain_{op}_{dtype}"), addresses, n)

    def open(self, image: Path, kernel: str, element: int, reduces: bool) -> int:
        """Loads a kernel for the naive function."""
        opened = self.naive.naive_open(image.read_bytes(), kernel.encode(), element, reduces)
        if not opened:
            raise RuntimeError(f"the driver does not load the kernel {kernel}")
        return opened

    def naive_batch(self, opened: int, addresses: tuple, n: int) -> Batch:
        """Makes a loop of calls of the naive function."""
        return self.batch(self.naive.naive_call, addresses, n, opened)

    def launch_batch(self, opened: int, address: Optional[int], n: int) -> Batch:
        """Makes a loop of synchronized launches on an array's first `n` elements."""
        return self.batch(self.naive.launch_call, (address, address, address), n, opened)

    def synchronize_batch(self, opened: int) -> Batch:
        """Makes a loop of synchronizations with the default stream."""
        return self.batch(self.naive.synchronize_call, (None, None, None), 0, opened)

    def query_batch(self, opened: int, address: int, attributes: int) -> Batch:
        """Makes a loop of queries for `attributes` attributes at once; 0: one single query."""
        call = self.naive.query_call if attributes else self.naive.one_query_call
        return self.batch(call, (address, None, None), attributes, opened)
