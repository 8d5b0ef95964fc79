"""Splits work between cores and GPUs, which compute concurrently on parts of the same host arrays.

A second copy of the library, with placement cpu, works on the last part of the arrays in its own
thread, while the first copy, with placement gpu, works on the rest. The two results of a reduction
are not added: only the time matters.
"""

import ctypes
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bindings import LIBRARY, Place, lib
from cases import Arrays, Case
from device import Device
from gpuvec_calls import NAMES
from timing import summary

# Percentages of the elements that the cores process.
SHARES = [0, 20, 30, 40, 50, 60, 70, 80, 100]


class Libraries:
    """The two copies of the library."""

    def __init__(self, folder: Path) -> None:
        copy = folder / "cores.so"
        shutil.copy(LIBRARY, copy)
        self.cores = ctypes.CDLL(str(copy))
        self.cores.gpuvec_set_placement(Place.CPU.value)
        lib.gpuvec_set_placement(Place.GPU)

    def seconds(self, pool: ThreadPoolExecutor, case: Case, share: int) -> float:
        """Times a call until both copies are done."""
        size = case.a.itemsize
        first = case.n * (100 - share) // 100 // 4096 * 4096
        results = (ctypes.c_double * 2)()

        def part(library, start: int, n: int, result: int) -> None:
            ends = [address + size * start for address in case.addresses()]
            if case.op == "dot":
                ends[2] = ctypes.addressof(results) + 8 * result
            function = getattr(library, NAMES[case.op, case.dtype])
            pointers = map(ctypes.c_void_p, ends)
            if n > 0 and function(*pointers, ctypes.c_size_t(n)) != 0:
                raise RuntimeError(f"{case.op} of {n} elements failed")

        start = time.perf_counter()
        cores = pool.submit(part, self.cores, first, case.n - first, 1)
        part(lib, 0, first, 0)
        cores.result()
        return time.perf_counter() - start


def hybrid(folder: Path, device: Device, n: int, rounds: int) -> list[dict]:
    """Returns a row for each operation, memory kind and share of the cores."""
    libraries, rows = Libraries(folder), []
    with ThreadPoolExecutor(1) as pool:
        for kind in ("pinned", "pageable"):
            arrays = Arrays("f32", kind, n, device)
            for op in ("add", "dot"):
                case = arrays.case(op, n)
                for share in SHARES:
                    seconds = [libraries.seconds(pool, case, share) for _ in range(rounds + 1)]
                    seen = summary(seconds[1:])
                    figures = {f"{name} ms": seen[f"{name}_us"] / 1e3 for name in ("median", "min")}
                    what = f"{op} {kind} f32 n = {n:,}"
                    rows.append({"what": what, "on the cores": f"{share} %", **figures})
            arrays.close()
    return rows
