"""Measures the memory that the library keeps: device, pinned and resident memory.

The arrays are allocated before a call, so any growth during the call belongs to the library or the
driver.
"""

from pathlib import Path

from bindings import Place, lib
from cases import Arrays
from compiled import Compiled
from device import Device
from gpuvec_calls import Gpuvec

MIB = 1 << 20
PROBE = 64 * MIB
# Lengths of the repeated calls: one for each kind of transfer.
SHORT = (1_000, 100_000)
LONG_CALLS = 1_000


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
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


class Scratch:
    """Readings of memory, and their growth."""

    def __init__(self, compiled: Compiled, device: Device) -> None:
        self.compiled, self.device = compiled, device
        self.rows: list[dict] = []
        self.kept = [0.0, 0.0, 0.0]
        before = shared_bytes()
        probe = device.pinned(PROBE, "u1")
        self.sees_pinned = PROBE <= shared_bytes() - before < 1.1 * PROBE
        device.free_pinned(probe)

    def reading(self) -> list[int]:
        """Returns the used device memory, the pinned and the resident memory, in bytes."""
        free, total = self.device.memory_bytes()
        return [total - free, shared_bytes(), resident_bytes()]

    def around(self, what: str, work) -> None:
        """Runs the work, and adds a row with the growth since the first reading."""
        before = self.reading()
        work()
        more = [after - then for after, then in zip(self.reading(), before)]
        self.kept = [kept + bytes_ / MIB for kept, bytes_ in zip(self.kept, more)]
        device, pinned, resident = (round(kept, 1) for kept in self.kept)
        pinned = pinned if self.sees_pinned else "not visible"
        row = {"after": what, "device MiB": device, "pinned MiB": pinned, "resident MiB": resident}
        self.rows.append(row)

    def calls(self, kind: str, ns: list[int], count: int) -> None:
        """Calls each operation `count` times at each length, on the GPU."""
        arrays = Arrays("f32", kind, max(ns), self.device)
        for n in ns:
            for op in ("add", "dot"):
                gpuvec = Gpuvec(arrays.case(op, n), Place.GPU)
                gpuvec.once()
                batch = gpuvec.from_c(self.compiled).batch
                what = f"{count:,} × {op} {kind} n = {n:,}"
                self.around(what, lambda: batch(count))  # noqa: B023
        arrays.close()

    def first_calls(self, kind: str, n: int) -> None:
        """Calls each operation once at a length."""
        arrays = Arrays("f32", kind, n, self.device)
        for op in ("add", "dot"):
            gpuvec = Gpuvec(arrays.case(op, n), Place.GPU)
            self.around(f"{op} {kind} n = {n:,}", gpuvec.once)
        arrays.close()


def scratch(compiled: Compiled, device: Device, most: int, calls: int) -> list[dict]:
    """Returns all rows: first calls at lengths up to `most`, then repeated calls."""
    seen = Scratch(compiled, device)
    seen.around("gpuvec_init", lib.gpuvec_init)
    decades = [10**power for power in range(3, 12) if 10**power < most]
    for kind in ("pageable", "pinned"):
        for n in [*decades, most]:
            seen.first_calls(kind, n)
    for kind in ("pageable", "pinned"):
        seen.calls(kind, [n for n in SHORT if n <= most], calls)
        if most >= 10_000_000:
            seen.calls(kind, [10_000_000], LONG_CALLS)
    return seen.rows
