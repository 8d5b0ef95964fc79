"""Measures the overlap of copies in both directions and kernels on different streams of a GPU.

    python3 tools/overlap.py

Times copies of 256 MiB between pinned and device memory, to the device and from it, and a chain of
kernels on other arrays: first each alone, then concurrently on separate streams, by gpuvec events.
The last column is the ratio of the sequential to the concurrent time. Does not judge the times;
exits 1 if a result is wrong.
"""

import sys
from collections.abc import Callable, Iterator
from ctypes import byref, c_float
from functools import partial
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python_tests/support"))
from bindings import Place, lib, why_cpu
from streams import Memory, Resources, ok

BYTES = 256 << 20
N = BYTES // 4
# Kernels in the chain, which takes about as long as a copy.
KERNELS = 24
ROUNDS = 7


class Part(NamedTuple):
    """Calls that are queued on a stream, after which the numbers `to` are `expected`."""

    name: str
    calls: list[Callable[[int], int]]
    to: Memory
    expected: np.ndarray
    stream: int
    end: int


def parts(resources: Resources) -> Iterator[Part]:
    """Makes two copies, and additions of ones to an array, kernel after kernel."""
    values = np.arange(N, dtype=np.int32)
    for name, source, kind in (
        ("to the device", "pinned", "device"),
        ("from the device", "device", "pinned"),
    ):
        at, to = resources.array(source, values).address, resources.memory(kind, BYTES)
        calls = [partial(lib.gpuvec_copy, to.address, at, BYTES)]
        yield Part(name, calls, to, values, resources.stream(), resources.event())
    one, total = resources.array("device", np.ones(N, np.int32)), resources.memory("device", BYTES)
    add = partial(lib.gpuvec_add_i32, total.address, one.address, total.address, N)
    expected = np.full(N, KERNELS, np.int32)
    yield Part("kernels", [add] * KERNELS, total, expected, resources.stream(), resources.event())


def once(some: tuple[Part, ...], stream: int, start: int, end: int) -> float:
    """Returns the milliseconds from the parts' common start to their last end."""
    for part in some:
        part.to.put(np.zeros(N, np.int32))
    ok(lib.gpuvec_event_record(start, stream))
    for part in some:
        ok(lib.gpuvec_stream_wait(part.stream, start))
        for call in part.calls:
            ok(call(part.stream))
        ok(lib.gpuvec_event_record(part.end, part.stream))
        ok(lib.gpuvec_stream_wait(stream, part.end))
    ok(lib.gpuvec_event_record(end, stream))
    ok(lib.gpuvec_event_synchronize(end))
    for part in some:
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
        every, alone = list(parts(resources)), {}
        for some in (some for count in (1, 2, 3) for some in combinations(every, count)):
            # The first round warms up.
            ms = median([once(some, *clock) for _ in range(ROUNDS + 1)][1:])
            names = " + ".join(part.name for part in some)
            alone.setdefault(names, ms)
            figure = f"{sum(alone[part.name] for part in some) / ms:5.2f}"
            if len(some) == 1:
                figure = "" if names == "kernels" else f"{BYTES / ms / 1e6:5.1f} GB/s"
            print(f"{names:48} {ms:8.2f} ms  {figure}")


if __name__ == "__main__":
    main()
