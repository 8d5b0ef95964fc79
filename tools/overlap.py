"""Measures the overlap of copies in both directions and kernels on different streams of a GPU.

    python3 tools/overlap.py

Times copies of 256 MiB between pinned and device memory, to the device and from it, and a chain of
kernels on other arrays: first each alone, then concurrently on separate streams, by gpuvec events.
The last column is the ratio of the sequential to the concurrent time. Does not judge the times;
exits 1 if a result is wrong.
"""

import sys
from collections.abc import Callable
from ctypes import byref, c_float
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python_tests/support"))
from bindings import Place, lib, why_cpu
from streams import Memory, Resources, ok

BYTES = 256 << 20
N = BYTES // 4
# Kernels in the chain, which takes about as long as a copy.
KERNELS = 24
ROUNDS = 7


@dataclass
class Part:
    """Work on a stream of its own: `queue` queues it, and the numbers `to` become `expected`."""

    name: str
    stream: int
    end: int
    queue: Callable[[], None]
    to: Memory
    expected: np.ndarray


def copy(resources: Resources, name: str, source: str, to: str) -> Part:
    """Makes a part that copies numbers from one kind of memory to another."""
    values, stream = np.arange(N, dtype=np.int32), resources.stream()
    source_at, memory = resources.array(source, values).address, resources.memory(to, BYTES)

    def queue() -> None:
        ok(lib.gpuvec_copy(memory.address, source_at, BYTES, stream))

    return Part(name, stream, resources.event(), queue, memory, values)


def kernels(resources: Resources) -> Part:
    """Makes a part that adds ones to an array, kernel after kernel."""
    one, stream = resources.array("device", np.ones(N, np.int32)).address, resources.stream()
    total = resources.memory("device", BYTES)

    def queue() -> None:
        for _ in range(KERNELS):
            ok(lib.gpuvec_add_i32(total.address, one, total.address, N, stream))

    return Part("kernels", stream, resources.event(), queue, total, np.full(N, KERNELS, np.int32))


def once(parts: tuple[Part, ...], stream: int, start: int, end: int) -> float:
    """Returns the milliseconds from the parts' common start to their last end."""
    for part in parts:
        part.to.put(np.zeros(N, np.int32))
    ok(lib.gpuvec_event_record(start, stream))
    for part in parts:
        ok(lib.gpuvec_stream_wait(part.stream, start))
        part.queue()
        ok(lib.gpuvec_event_record(part.end, part.stream))
        ok(lib.gpuvec_stream_wait(stream, part.end))
    ok(lib.gpuvec_event_record(end, stream))
    ok(lib.gpuvec_event_synchronize(end))
    for part in parts:
        if not np.array_equal(part.to.get(np.int32), part.expected):
            sys.exit(f"{part.name}: a result is wrong")
    ms = c_float()
    ok(lib.gpuvec_event_elapsed(start, end, byref(ms)))
    return ms.value


def main() -> None:
    """Times each part alone and each combination of parts; prints the table."""
    lib.gpuvec_set_placement(Place.GPU)
    if why_cpu():
        sys.exit(why_cpu())
    print(lib.gpuvec_device_name(0).decode())
    with Resources() as resources:
        clock = resources.stream(), resources.event(), resources.event()
        parts = [
            copy(resources, "to the device", "pinned", "device"),
            copy(resources, "from the device", "device", "pinned"),
            kernels(resources),
        ]
        alone: dict[str, float] = {}
        for count in (1, 2, 3):
            for some in combinations(parts, count):
                # The first round warms up.
                ms = median([once(some, *clock) for _ in range(ROUNDS + 1)][1:])
                names = " + ".join(part.name for part in some)
                alone.setdefault(names, ms)
                figure = f"{sum(alone[part.name] for part in some) / ms:5.2f}"
                if count == 1:
                    figure = "" if names == "kernels" else f"{BYTES / ms / 1e6:5.1f} GB/s"
                print(f"{names:48} {ms:8.2f} ms  {figure}")


if __name__ == "__main__":
    main()
