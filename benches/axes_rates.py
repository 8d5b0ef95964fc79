"""Measures reductions along axes of device arrays, as shares of a contiguous copy's rate.

python3 benches/axes_rates.py [--n 268435456] [--text "sum(x)"] [--type f4] [--unlike]

Runs on a GPU machine. Results are checked first, on smaller arrays of the same kinds, beside those
of cores. The rate counts the bytes of the elements, which a reduction reads once, and the copy's
reads and writes. The elements are alike in size, or as unlike as floats of 32 bits are.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "python_tests" / "support"))
from bindings import Place, Status, last_error, lib, placed, why_cpu
from formulas import Compiled
from streams import Resources, ok
from strided_rates import copy_rate, seconds

# The number of columns, and the axis that is reduced. The number of rows follows from the elements.
CASES = [
    (16384, 1),
    (16384, 0),
    (64, 1),
    (64, 0),
    (1 << 22, 1),
    (1 << 22, 0),
    (3, 0),
    (4, 1),
    (512, 1),
    (512, 0),
]
CHECKED = 1 << 20


def values(seed: int, n: int, unlike: bool) -> np.ndarray:
    """Returns normal values, times any powers of two if they are unlike."""
    random = np.random.default_rng(seed)
    plain = random.normal(0, 1, n)
    return np.ldexp(plain, random.integers(-120, 110, n)) if unlike else plain


class Reduction:
    """A reduction of device arrays that lie in C order, along one of two axes."""

    def __init__(self, resources: Resources, text: str, dtype: str, columns: int, axis: int):
        self.axis, self.columns = axis, columns
        self.compiled = resources.enter_context(Compiled(text, {"x": dtype}))
        self.dtype = np.dtype(dtype)

    def shape(self, n: int) -> tuple[int, int]:
        """Returns the lengths of the axes of about `n` elements."""
        columns = min(self.columns, max(n // 64, 3))
        return n // columns, columns

    def kept(self, n: int) -> tuple[int, int]:
        """Returns the shape of the results."""
        rows, columns = self.shape(n)
        return (1, columns) if self.axis == 0 else (rows, 1)

    def run(self, n: int, source: object, to: object, stream: int | None = None) -> None:
        """Reduces; fails if the call does."""
        status = self.compiled.run_nd(self.shape(n), [source], to, 1 << self.axis, stream)
        assert status == Status.OK, last_error()

    def check(self, resources: Resources, stream: int) -> None:
        """Fails unless the results are those of cores, of values of like and of unlike sizes."""
        n = int(np.prod(self.shape(CHECKED)))
        for unlike in (False, True):
            elements = values(self.columns, n, unlike)
            x = elements.astype(self.dtype).reshape(self.shape(CHECKED))
            wanted = np.zeros(self.kept(CHECKED), self.compiled.dtype())
            with placed(Place.CPU):
                self.run(CHECKED, x, wanted)
            memory = resources.array("device", x)
            out = resources.array("device", np.full_like(wanted, 7))
            strides = (x.strides, wanted.strides)
            self.run(CHECKED, (memory.address, strides[0]), (out.address, strides[1]), stream)
            ok(lib.gpuvec_stream_synchronize(stream))
            assert out.get()[: wanted.nbytes].tobytes() == wanted.tobytes(), "other results"

    def measure(self, resources: Resources, stream: int, n: int, copy: float, unlike: bool) -> None:
        """Prints a line."""
        rows, columns = self.shape(n)
        size, results = self.dtype.itemsize, int(np.prod(self.kept(n)))
        source = resources.device_memory(rows * columns * size).address
        # Not a power of two, after which each column would have the same element in all rows.
        elements = values(1, (1 << 20) + 7, unlike).astype(self.dtype)
        part = resources.array("device", elements)
        for first in range(0, rows * columns, elements.size):
            count = min(elements.size, rows * columns - first)
            ok(lib.gpuvec_copy(source + first * size, part.address, count * size, stream))
        width = self.compiled.dtype().itemsize
        to = resources.device_memory(results * width).address
        places = ((source, (columns * size, size)), (to, (width * self.kept(n)[1], width)))
        taken = seconds(stream, lambda: self.run(n, *places, stream))
        rate = rows * columns * size / taken
        name = f"{rows} x {columns}, {'rows' if self.axis else 'columns'}"
        print(f"{name:30} {1e3 * taken:8.3f} {rate / 1e9:7.0f} {rate / copy:6.3f}", flush=True)


def main() -> None:
    """Checks, measures, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=lambda text: int(float(text)), default=1 << 28)
    parser.add_argument("--text", default="sum(x)")
    parser.add_argument("--type", default="f4")
    parser.add_argument("--unlike", action="store_true")
    options = parser.parse_args()
    lib.gpuvec_set_placement(Place.GPU)
    if why_cpu():
        sys.exit(why_cpu())
    with Resources() as resources:
        stream = resources.stream()
        driver, own = copy_rate(stream, 4 * options.n)
        print(f"driver's copy {driver / 1e9:.0f} GB/s, expression's {own / 1e9:.0f} GB/s\n")
    print(f"{options.text:30}       ms    GB/s   of copy")
    for columns, axis in CASES:
        with Resources() as resources:
            stream = resources.stream()
            case = Reduction(resources, options.text, options.type, columns, axis)
            case.check(resources, stream)
            case.measure(resources, stream, options.n, own, options.unlike)


if __name__ == "__main__":
    main()
