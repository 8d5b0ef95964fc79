"""Measures expressions on device arrays of any strides, as shares of a contiguous copy's rate.

    python3 benches/strided_rates.py [--n 134217728] [--json]      on a GPU machine

Each expression is first checked on smaller arrays, beside NumPy. The rate counts the bytes of
distinct elements that the expression reads and writes. The copy is the expression `a` on
contiguous arrays of as many bytes as the driver's copy, which is beside it.
"""

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "python_tests" / "support"))
import rows
from bindings import Place, last_error, lib, why_cpu
from formulas import Compiled
from rows import Row
from streams import Resources, ok
from strided_cases import CASES, StridedCase

CALLS, ROUNDS = 10, 7
# Seconds from which on a call is not repeated in a round.
LONG = 0.005
# Elements of the arrays on which results are checked: of whole packs and tiles, and of others.
CHECKED = [4096, 70_000, 1_100_000]


def seconds(stream: int, call: Callable[[], object]) -> float:
    """Returns the time of a call that is queued on a stream."""
    return seconds_of(call, lambda: ok(lib.gpuvec_stream_synchronize(stream)))


def seconds_of(call: Callable[[], object], wait: Callable[[], object]) -> float:
    """Returns the time of a queued call, the median of some rounds."""

    def each(calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            call()
        wait()
        return (time.perf_counter() - start) / calls

    each(1)
    calls = CALLS if each(1) < LONG else 1
    return median(each(calls) for _ in range(ROUNDS))


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


def measure(case: StridedCase, stream: int, n: int, copy: float) -> Row:
    """Makes a case's row."""
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
    rate = moved / taken
    return {"what": case.name, "ms": 1e3 * taken, "GB/s": rate / 1e9, "of copy": rate / copy}


def text(row: Row) -> str:
    """Makes a row's line."""
    return f"{row['what']:30} {row['ms']:8.3f} {row['GB/s']:7.0f} {row['of copy']:6.3f}"


def measured(n: int) -> Iterator[Row]:
    """Checks and measures the cases, after the rows of two copies."""
    lib.gpuvec_set_placement(Place.GPU)
    if why_cpu():
        sys.exit(why_cpu())
    for case in CASES:
        for count in CHECKED:
            case.check(["device"] * 4, count, is_queued=True)
    with Resources() as resources:
        stream = resources.stream()
        driver, own = copy_rate(stream, 4 * n)
        yield from copies(8 * n, driver, own)
        for case in CASES:
            yield measure(case, stream, n, own)


def copies(moved: int, driver: float, own: float) -> Iterator[Row]:
    """Makes the rows of two copies, from the bytes that they move and their rates."""
    for what, rate in (("the driver's copy", driver), ("copy, as an expression", own)):
        yield {"what": what, "ms": 1e3 * moved / rate, "GB/s": rate / 1e9, "of copy": rate / own}


def main() -> None:
    """Prints the rows."""
    parser = rows.parser(__doc__)
    parser.add_argument("--n", type=lambda text: int(float(text)), default=1 << 27)
    given = parser.parse_args()
    rows.show(measured(given.n), text, given.is_json)


if __name__ == "__main__":
    main()
