"""Measures the overlap of copies in both directions and kernels on different streams of a GPU.

    python3 tools/overlap.py

Times copies of 256 MiB between pinned and device memory, to the device and from it, and a chain of
kernels on other arrays: first each alone, then concurrently on separate streams, by gpuvec events.
The last column is the ratio of the sequential to the concurrent time. Does not judge the times;
exits 1 if a result is wrong.
"""

import sys
from ctypes import byref, c_float
from pathlib import Path
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python_tests/support"))
from bindings import Place, lib, why_cpu
from streams import Resources, ok

BYTES = 256 << 20
N = BYTES // 4
# Kernels in the chain, which takes about as long as a copy.
KERNELS = 24
ROUNDS = 7


class Part:
    """Work on a stream of its own."""

    def __init__(self, resources: Resources) -> None:
        self.stream, self.end = resources.stream(), resources.event()

    def queue(self) -> None:
        """Queues the work."""
        raise NotImplementedError

    def clear(self) -> None:
        """Overwrites earlier results."""
        raise NotImplementedError

    def is_right(self) -> bool:
        """Returns whether the work was done."""
        raise NotImplementedError


class Copy(Part):
    """A copy of numbers from one kind of memory to another."""

    def __init__(self, resources: Resources, source: str, to: str) -> None:
        super().__init__(resources)
        self.values = np.arange(N, dtype=np.int32)
        self.source = resources.array(source, self.values)
        self.to = resources.memory(to, BYTES)

    def queue(self) -> None:
        """Queues the copy."""
        ok(lib.gpuvec_copy(self.to.address, self.source.address, BYTES, self.stream))

    def clear(self) -> None:
        """Stores other numbers."""
        self.to.put(np.zeros(N, np.int32))

    def is_right(self) -> bool:
        """Returns whether all numbers have arrived."""
        return np.array_equal(self.to.get(np.int32), self.values)


class Kernels(Part):
    """A chain of kernels. Each kernel adds one array to another."""

    def __init__(self, resources: Resources) -> None:
        super().__init__(resources)
        self.one = resources.array("device", np.ones(N, np.int32))
        self.total = resources.memory("device", BYTES)

    def queue(self) -> None:
        """Queues the chain."""
        one, total = self.one.address, self.total.address
        for _ in range(KERNELS):
            ok(lib.gpuvec_add_i32(total, one, total, N, self.stream))

    def clear(self) -> None:
        """Restores the arrays."""
        self.total.put(np.zeros(N, np.int32))

    def is_right(self) -> bool:
        """Returns whether all additions were done."""
        return bool((self.total.get(np.int32) == KERNELS).all())


class Clock:
    """Measures the time from the common start of some parts to the end of the last."""

    def __init__(self, resources: Resources) -> None:
        self.stream = resources.stream()
        self.start, self.end = resources.event(), resources.event()

    def once(self, parts: list[Part]) -> float:
        """Returns the milliseconds for all parts; exits 1 if a result is wrong."""
        for part in parts:
            part.clear()
        ok(lib.gpuvec_event_record(self.start, self.stream))
        for part in parts:
            ok(lib.gpuvec_stream_wait(part.stream, self.start))
            part.queue()
            ok(lib.gpuvec_event_record(part.end, part.stream))
            ok(lib.gpuvec_stream_wait(self.stream, part.end))
        ok(lib.gpuvec_event_record(self.end, self.stream))
        ok(lib.gpuvec_event_synchronize(self.end))
        for part in parts:
            if not part.is_right():
                sys.exit(f"{type(part).__name__}: a result is wrong")
        ms = c_float()
        ok(lib.gpuvec_event_elapsed(self.start, self.end, byref(ms)))
        return ms.value

    def time(self, *parts: Part) -> float:
        """Returns the median of some rounds after a warm-up."""
        self.once(parts)
        return median(self.once(parts) for _ in range(ROUNDS))


def main() -> None:
    """Times everything and prints the table."""
    lib.gpuvec_set_placement(Place.GPU)
    if why_cpu():
        sys.exit(why_cpu())
    print(lib.gpuvec_device_name(0).decode())
    with Resources() as resources:
        clock = Clock(resources)
        parts = {
            "to the device": Copy(resources, "pinned", "device"),
            "from the device": Copy(resources, "device", "pinned"),
            "kernels": Kernels(resources),
        }
        alone = {name: clock.time(part) for name, part in parts.items()}
        for name, ms in alone.items():
            rate = "" if name == "kernels" else f"  {BYTES / ms / 1e6:5.1f} GB/s"
            print(f"{name:48} {ms:8.2f} ms{rate}")
        first, second, third = parts
        for names in [(first, second), (first, third), (second, third), (first, second, third)]:
            ms = clock.time(*(parts[name] for name in names))
            ratio = sum(alone[name] for name in names) / ms
            print(f"{' + '.join(names):48} {ms:8.2f} ms  {ratio:5.2f}")


if __name__ == "__main__":
    main()
