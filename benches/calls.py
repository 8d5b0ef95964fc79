"""Times one call of vector_add on host arrays, beside NumPy's `np.add(a, b, out=out)`.

    python benches/calls.py [N ...]        default: 1000 1000000 100000000

For each length and kind of memory: the median of repeated calls in microseconds for each
placement, beside NumPy's in the same run and memory, and where the call ran. Outputs are touched
before, and every figure is of the same arrays, call after call: small ones stay in the caches, for
NumPy alike.
"""

import ctypes
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python_tests"))
import bindings

SECONDS = 1.0


def median_microseconds(call) -> float:
    """The median duration of `call`, repeated for about SECONDS, at least 5 times."""
    call()
    durations = []
    end = time.perf_counter() + SECONDS
    while len(durations) < 5 or (time.perf_counter() < end and len(durations) < 20_000):
        start = time.perf_counter_ns()
        call()
        durations.append(time.perf_counter_ns() - start)
    return float(np.median(durations)) / 1000


def load_milliseconds() -> float:
    """How long loading the library takes: the median of new processes."""
    script = (
        "import ctypes, sys, time; start = time.perf_counter(); ctypes.CDLL(sys.argv[1]); "
        "print(1000 * (time.perf_counter() - start))"
    )
    command = [sys.executable, "-c", script, str(bindings.LIBRARY)]
    return float(np.median([float(subprocess.check_output(command)) for _ in range(9)]))


def arrays(kind: str, n: int) -> list[np.ndarray]:
    """Two inputs and an output of `n` floats, all touched."""
    make = bindings.pinned_empty if kind == "pinned" else np.empty
    made = [make(n, np.float32) for _ in range(3)]
    generator = np.random.default_rng(n)
    for array in made[:2]:
        generator.random(out=array, dtype=np.float32)
    made[2].fill(0)
    return made


def measure(n: int, kind: str, places: list) -> None:
    """Prints a row for each placement, of arrays of one length in one kind of memory."""
    a, b, out = arrays(kind, n)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (a, b, out)]
    numpy_us = median_microseconds(lambda: np.add(a, b, out=out))
    for place in places:
        bindings.lib.gpuvec_set_placement(place)
        us = median_microseconds(lambda: bindings.lib.vector_add(*pointers, n))
        run = bindings.last_run()
        backend = bindings.Backend(run.backend).name.lower()
        print(
            f"{n:11} {kind:8} {numpy_us:10.1f} {place.name.lower():9} {us:10.1f} "
            f"{numpy_us / us:8.2f}  {backend}, path {run.path}, {run.chunks} chunks",
            flush=True,
        )
    bindings.lib.gpuvec_set_placement(bindings.Place.AUTO)


def main() -> None:
    """Prints a row for each length, kind of memory and placement."""
    lengths = [int(argument) for argument in sys.argv[1:]] or [1000, 1_000_000, 100_000_000]
    has_gpu = bindings.lib.gpuvec_device_count() > 0
    name = bindings.lib.gpuvec_device_name(0).decode() if has_gpu else "no GPU"
    print(f"gpuvec {bindings.lib.gpuvec_version().decode()}, {name}, NumPy {np.__version__}")
    print(f"loading takes {load_milliseconds():.2f} ms")
    print(f"{'n':>11} {'memory':8} {'NumPy us':>10} {'placement':9} {'us':>10} {'x NumPy':>8}  ran")
    places = [place for place in bindings.Place if has_gpu or place != bindings.Place.GPU]
    for n in lengths:
        for kind in ("pageable", "pinned"):
            measure(n, kind, places)


if __name__ == "__main__":
    main()
