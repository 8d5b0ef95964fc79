"""Measures reductions along axes of device arrays, as shares of a contiguous copy's rate.

    python3 benches/axes_rates.py [--n 268435456] [--text "sum(x)"] [--type f4] [--unlike] [--json]

Runs on a GPU machine. Results are checked first, on smaller arrays of the same kinds, beside those
of cores. The rate counts the bytes of the elements, which a reduction reads once, and the copy's
reads and writes. The elements are alike in size, or as unlike as floats of 32 bits are. CuPy and
PyTorch reduce the same arrays in the same run, where they are installed and have the reduction.
"""

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "python_tests" / "support"))
import rows
from bindings import Place, Status, last_error, lib, placed, why_cpu
from device import DeviceMemory
from formulas import Compiled
from rows import Row
from streams import Resources, ok
from strided_rates import copies, copy_rate, seconds, seconds_of, text

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


# Of a peer: its name, and how it reduces the array at an address; returns what waits for it.
Reduce = Callable[[DeviceMemory, tuple[int, int], int], tuple[Callable, Callable]]


def of_cupy(function: str) -> Reduce:
    """Returns CuPy's reduction."""
    cupy = importlib.import_module("cupy")

    def reduce(memory: DeviceMemory, shape: tuple[int, int], axis: int) -> tuple:
        x = cupy.asarray(memory).reshape(shape)
        return (lambda: getattr(x, function)(axis=axis)), cupy.cuda.Stream.null.synchronize

    return reduce


def of_torch(function: str) -> Reduce:
    """Returns PyTorch's reduction."""
    torch = importlib.import_module("torch")

    def reduce(memory: DeviceMemory, shape: tuple[int, int], axis: int) -> tuple:
        x = torch.as_tensor(memory, device="cuda").reshape(shape)
        return (lambda: getattr(torch, function)(x, dim=axis)), torch.cuda.synchronize

    return reduce


def peers(expression: str) -> dict[str, Reduce]:
    """Returns the installed libraries that have the reduction; none for a formula."""
    name = re.fullmatch(r"(\w+)\(x\)", expression)
    found = {}
    for peer, make in (("CuPy", of_cupy), ("PyTorch", of_torch)):
        try:
            found[peer] = make(name[1] if name else "")
        except ImportError as error:
            print(f"without {peer}: {error}", file=sys.stderr)
    return found if name else {}


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

    def measure(
        self, resources: Resources, stream: int, n: int, copy: float, unlike: bool, beside: dict
    ) -> Row:
        """Makes a row: gpuvec's rate, and the shares of the copy's that the peers reach."""
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
        moved = rows * columns * size
        found: Row = {"what": f"{rows} × {columns}, {'rows' if self.axis else 'columns'}"}
        found |= {"ms": 1e3 * taken, "GB/s": moved / taken / 1e9, "of copy": moved / taken / copy}
        memory = DeviceMemory(source, rows * columns, self.dtype)
        for name, reduce in beside.items():
            taken = seconds_of(*reduce(memory, (rows, columns), self.axis))
            found[name] = moved / taken / copy
        return found


def line(row: Row) -> str:
    """Makes a row's line."""
    others = (f"{name} {row[name]:6.3f}" for name in ("CuPy", "PyTorch") if name in row)
    return "  ".join([text(row), *others])


def measured(n: int, expression: str, dtype: str, unlike: bool) -> Iterator[Row]:
    """Checks and measures the cases, after the rows of two copies."""
    lib.gpuvec_set_placement(Place.GPU)
    if why_cpu():
        sys.exit(why_cpu())
    with Resources() as resources:
        driver, own = copy_rate(resources.stream(), 4 * n)
        yield from copies(8 * n, driver, own)
    beside = peers(expression)
    for columns, axis in CASES:
        with Resources() as resources:
            stream = resources.stream()
            case = Reduction(resources, expression, dtype, columns, axis)
            case.check(resources, stream)
            yield case.measure(resources, stream, n, own, unlike, beside)


def main() -> None:
    """Prints the rows."""
    parser = rows.parser(__doc__)
    parser.add_argument("--n", type=lambda text: int(float(text)), default=1 << 28)
    parser.add_argument("--text", default="sum(x)")
    parser.add_argument("--type", default="f4")
    parser.add_argument("--unlike", action="store_true")
    given = parser.parse_args()
    found = measured(given.n, given.text, given.type, given.unlike)
    rows.show(found, line, given.is_json)


if __name__ == "__main__":
    main()
