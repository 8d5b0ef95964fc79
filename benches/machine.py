"""All GPUs concurrently, and the memory that the library keeps."""

import os
import time
from argparse import Namespace
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Barrier

from calls import Library, library_path
from cases import Arrays, Case, Data
from ceilings import OfGpu, figure
from device import Device, count
from harness import Call, Row

# Repetitions of a GPU's work in a round, so that all GPUs are busy most of the time.
REPETITIONS = 4
# Blocks per multiprocessor.
WAVES = 4
HOST, OPS = ("pinned", "pageable"), ("add", "dot")
MIB = 1 << 20
PROBE = 64 * MIB
# Lengths of the repeated calls: one for each kind of transfer.
SHORT, LONG = (1_000, 100_000), 10_000_000


def works(gpu: OfGpu) -> dict[str, tuple[Call, float, str]]:
    """Returns a GPU's work items, with their amounts and units."""
    gpu.device.enter()
    kernel, blocks = gpu.device.kernel("plain_add_f32"), WAVES * gpu.device.multiprocessors
    bytes_, elements = (gpu.size / 1e9, "GB/s"), (gpu.n / 1e9, "Gelements/s")
    return {
        "host to device": (gpu.transfers(1, 0), *bytes_),
        "device to host": (gpu.transfers(0, 1), *bytes_),
        "both ways, each": (gpu.transfers(1, 1), *bytes_),
        "two in, one out": (gpu.transfers(2, 1), *elements),
        "zero-copy add f32": (gpu.launches(kernel, blocks, gpu.on_host, gpu.n, 1), *elements),
    }


def in_parallel(pool: ThreadPoolExecutor, gpus: list[OfGpu], todo: list[Call]) -> float:
    """Returns the seconds from the first start to the last end."""
    begin = Barrier(len(gpus))

    def one(gpu: OfGpu, work: Call) -> tuple[float, float]:
        gpu.device.enter()
        begin.wait()
        start = time.perf_counter()
        for _ in range(REPETITIONS):
            work()
        return start, time.perf_counter()

    starts, ends = zip(*pool.map(one, gpus, todo))
    return max(ends) - min(starts)


def gpus(given: Namespace) -> Iterator[Row]:
    """Measures the ceilings of 1, 2, 4, … and all GPUs concurrently."""
    number = count()
    all_gpus = [OfGpu(Device(index), int(given.bytes), given.rounds) for index in range(number)]
    tables = [works(gpu) for gpu in all_gpus]
    with ThreadPoolExecutor(number) as pool:
        for used in sorted({1 << power for power in range(number.bit_length())} | {number}):
            for name, (_, amount, unit) in tables[0].items():
                todo = [table[name][0] for table in tables[:used]]
                timed = [in_parallel(pool, all_gpus[:used], todo) for _ in range(given.rounds + 1)]
                figures = [used * REPETITIONS * amount / seconds for seconds in timed[1:]]
                yield {"GPUs": used, **figure(name, figures, unit, f"{name}, all at once")}
    for gpu in all_gpus:
        gpu.device.enter()
        gpu.close()


def shared_bytes() -> int:
    """Returns the size of the shared mappings, which contain the driver's pinned memory."""
    total = 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        ends, permissions = line.split()[:2]
        if permissions.endswith("s"):
            first, last = (int(end, 16) for end in ends.split("-"))
            total += last - first
    return total


def resident_bytes() -> int:
    """Returns the process's resident memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Kept:
    """Readings of memory, and their growth since the first."""

    def __init__(self, device: Device) -> None:
        self.device, self.kept = device, [0.0, 0.0, 0.0]
        before = shared_bytes()
        probe = device.pinned(PROBE, "u1")
        self.sees_pinned = PROBE <= shared_bytes() - before < 1.1 * PROBE
        device.free_pinned(probe)

    def reading(self) -> list[int]:
        """Returns the used device memory, the pinned and the resident memory, in bytes."""
        free, total = self.device.memory_bytes()
        return [total - free, shared_bytes(), resident_bytes()]

    def row(self, what: str, work: Call) -> Row:
        """Runs the work, and makes a row with the growth since the first reading."""
        before = self.reading()
        work()
        more = [after - then for after, then in zip(self.reading(), before)]
        self.kept = [kept + bytes_ / MIB for kept, bytes_ in zip(self.kept, more)]
        device, pinned, resident = (round(kept, 1) for kept in self.kept)
        seen = pinned if self.sees_pinned else "not visible"
        return {"after": what, "device MiB": device, "pinned MiB": seen, "resident MiB": resident}


def memory(given: Namespace) -> Iterator[Row]:
    """Measures the memory that the library keeps: device, pinned and resident memory.

    Arrays are allocated before a call, so any growth during the call belongs to the library or the
    driver. After first calls at each length, `--count` calls of the short ones follow.
    """
    device, library, most = Device(), Library(library_path()), max(given.n)
    kept, decades = Kept(device), [10**power for power in range(3, 12) if 10**power < most]
    yield kept.row("gpuvec_init", library.functions.gpuvec_init)
    firsts = [(kind, n, 1) for kind in HOST[::-1] for n in [*decades, most]]
    repeated = [
        (kind, n, 100 * given.count if n < LONG else given.count)
        for kind in HOST[::-1]
        for n in (*SHORT, LONG)
        if n <= most
    ]
    for kind, n, calls in firsts + repeated:
        with closing(Arrays("f32", kind, n, device)) as arrays:
            for op in OPS:
                batch = library.from_c(Data(Case(op, "f32", kind, n), arrays), "gpu").batch
                if calls > 1:
                    batch(1)
                times = f"{calls:,} × " if calls > 1 else ""
                yield kept.row(f"{times}{op} {kind} n = {n:,}", partial(batch, calls))
