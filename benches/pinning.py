"""Compares page-locking pageable arrays per call, chunk by chunk, with gpuvec's staging.

Each chunk is page-locked, copied to the device and unlocked, on one or several threads with a
stream each, with and without the flag for memory that the device only reads. Page-locking and
unlocking without a copy give the upper bound of this method.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from ctypes import c_size_t, c_uint, c_void_p
from functools import partial
from itertools import product

from bindings import Place
from cases import Arrays
from ceilings import figure, rates
from compiled import Compiled
from device import DRIVER_ERRORS, Device
from gpuvec_calls import Gpuvec
from points import check
from timing import measure

MIB = 1 << 20
CHUNKS = [4 * MIB, 16 * MIB, 64 * MIB]
THREADS = [1, 2, 4]
FLAGS = {"": 1 | 2, ", read-only": 1 | 2 | 8}


class Pinning:
    """A pageable array whose chunks are page-locked one by one."""

    def __init__(self, device: Device, address: int, size: int) -> None:
        self.device, self.address, self.size = device, address, size
        self.streams = [device.new_stream() for _ in range(max(THREADS))]
        self.there = [device.memory(max(CHUNKS), "u1") for _ in self.streams]

    def chunk(self, thread: int, start: int, size: int, flags: int, copied: bool) -> None:
        """Locks, copies and unlocks the pages that lie entirely in a chunk."""
        end = min(start + size, self.size)
        first = self.address + start
        # Whole pages, which belong to no other chunk.
        first, last = -(-first // 4096) * 4096, (self.address + end) // 4096 * 4096
        where, bytes_ = c_void_p(first), c_size_t(last - first)
        self.device.call("cuMemHostRegister_v2", where, bytes_, c_uint(flags))
        if copied:
            stream = self.streams[thread]
            self.device.copy(self.there[thread].address, first, last - first, stream)
            self.device.synchronize(stream)
        self.device.call("cuMemHostUnregister", where)

    def once(self, pool: ThreadPoolExecutor, threads: int, size: int, flags: int, copied) -> None:
        """Processes all chunks; thread t takes every `threads`-th chunk, starting with t."""
        starts = range(0, self.size, size)

        def of_thread(thread: int) -> None:
            self.device.set_current(self.device.context)
            for start in starts[thread::threads]:
                self.chunk(thread, start, size, flags, copied)

        for _ in pool.map(of_thread, range(threads)):
            pass

    def close(self) -> None:
        """Frees the device memory."""
        for memory in self.there:
            self.device.free(memory)


def row(what: str, figures: list[float]) -> dict:
    """Makes a row with its spread."""
    seen = figure(figures, "GB/s", what)
    return {key: seen[key] for key in ("what", "value", "unit", "min", "max")}


def of_pinning(device: Device, address: int, size: int, rounds: int) -> list[dict]:
    """Measures every variant with and without the copy."""
    pinning = Pinning(device, address, size)
    rows = []
    with ThreadPoolExecutor(max(THREADS)) as pool:
        for copied, chunk, threads, flag in product((False, True), CHUNKS, THREADS, FLAGS):
            parts = "lock, copy to the device, unlock" if copied else "lock, unlock"
            what = f"{parts}{flag}: {threads} threads, chunks of {chunk // MIB} MiB"
            work = partial(pinning.once, pool, threads, chunk, FLAGS[flag], copied)
            # Some devices do not support the read-only flag.
            with suppress(DRIVER_ERRORS):
                rows.append(row(what, rates(size / 1e9, work, rounds)))
    pinning.close()
    return rows


def pinning(compiled: Compiled, device: Device, n: int, seconds: float, rounds: int) -> list[dict]:
    """Returns all rows, gpuvec's last."""
    arrays = Arrays("f32", "pageable", n, device)
    device.set_current(device.context)
    rows = of_pinning(device, arrays.host[0].ctypes.data, arrays.host[0].nbytes, rounds)
    for op, moved in (("dot", 2), ("add", 3)):
        gpuvec = Gpuvec(arrays.case(op, n), Place.GPU)
        check(gpuvec.case, gpuvec.once)
        seen = measure([gpuvec.from_c(compiled)], seconds, rounds)[gpuvec.name]
        figures = [moved * 4 * n / 1e3 / seen[f"{name}_us"] for name in ("median", "max", "min")]
        rows.append(row(f"gpuvec's staged {op}, bytes of its {moved} arrays", figures))
    arrays.close()
    return rows
