"""Measures expressions on device arrays of any strides, as shares of a contiguous copy's rate.

python3 benches/strided_rates.py [--n 134217728]      on a GPU machine

Each expression is first checked on smaller arrays, beside NumPy. The rate counts the bytes of
distinct elements that the expression reads and writes. The copy is the expression `a` on
contiguous arrays of as many bytes as the driver's copy, which is beside it.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "python_tests" / "support"))
from bindings import Place, last_error, lib, why_cpu
from formulas import Compiled
from streams import Resources, ok
from strided_cases import CASES, StridedCase

CALLS, ROUNDS = 10, 7
# Elements of the arrays on which results are checked: of whole packs and tiles, and of others.
CHECKED = [4096, 70_000, 1_100_000]


def seconds(stream: int, call: Callable[[], None]) -> float:
    """Returns the time of a queued call, the median of some rounds."""
    found = []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        ok(lib.gpuvec_stream_synchronize(stream))
        found.append((time.perf_counter() - start) / CALLS)
    return median(found[1:])


def distinct_bytes(view: np.ndarray) -> int:
    """Returns the bytes of a view's elements, each counted once."""
    axes = zip(view.shape, view.strides)
    return int(np.prod([length for length, stride in axes if stride])) * view.itemsize


def copy_rate(stream: int, size: int) -> tuple[float, float]:
    """Returns the rates of the driver's copy and of an expression's, in bytes per second."""
    with Resources() as resources, Compiled("a", {"a": "f4"}) as compiled:
        source, to = (resources.device_memory(size).address for _ in range(2))
        driver = seconds(stream, lambda: ok(lib.gpuvec_copy(to, source, size, stream)))
        own = seconds(stream, lambda: ok(compiled.run([source], to, size // 4, stream)))
    return 2 * size / driver, 2 * size / own


def measure(case: StridedCase, stream: int, n: int, copy: float) -> None:
    """Prints a case's line."""
    pairs = case.views(n)
    with Resources() as resources, Compiled(case.text, case.inputs()) as compiled:
        places = []
        for parent, view in pairs:
            memory = resources.device_memory(parent.nbytes)
            places.append((memory.address + view.ctypes.data - parent.ctypes.data, view.strides))
        *inputs, out = places
        shape = pairs[-1][1].shape

        def call() -> None:
            assert compiled.run_nd(shape, inputs, out, 0, stream) == 0, last_error()

        taken = seconds(stream, call)
    moved = sum(distinct_bytes(view) for _, view in pairs)
    print(
        f"{case.name:26} {1e3 * taken:8.3f} {moved / taken / 1e9:7.0f} {moved / taken / copy:6.3f}",
        flush=True,
    )


def main() -> None:
    """Checks, measures, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=lambda text: int(float(text)), default=1 << 27)
    n = parser.parse_args().n
    lib.gpuvec_set_placement(Place.GPU)
    if why_cpu():
        sys.exit(why_cpu())
    for case in CASES:
        for count in CHECKED:
            case.check(["device"] * 4, count, is_queued=True)
    print(f"{len(CASES) * len(CHECKED)} results are NumPy's")
    with Resources() as resources:
        stream = resources.stream()
        driver, own = copy_rate(stream, 4 * n)
        print(f"driver's copy {driver / 1e9:.0f} GB/s, expression's {own / 1e9:.0f} GB/s\n")
        print("expression                       ms    GB/s   of copy")
        for case in CASES:
            measure(case, stream, n, own)


if __name__ == "__main__":
    main()
