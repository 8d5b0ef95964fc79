"""Reductions along axes: cases, and the results of each slice alone."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy_reductions
from bindings import Status, last_error, lib
from formulas import Compiled
from streams import Resources, ok


@dataclass(frozen=True)
class Reduction:
    """A reduction of a formula; the formula in NumPy returns the values that it takes."""

    name: str
    formula: str
    inputs: dict[str, str]
    values: Callable = lambda *arrays: arrays

    @property
    def text(self) -> str:
        """The expression."""
        return f"{self.name}({self.formula})"

    def __str__(self) -> str:
        """The expression and its types, for a test's name."""
        return f"{self.text}-{'-'.join(self.inputs.values())}"

    def expected(self, slices: list[np.ndarray]) -> np.ndarray:
        """Returns the result for a slice of each input, which has elements."""
        with np.errstate(all="ignore"):
            taken = self.values(*slices)
            taken = taken if isinstance(taken, tuple) else (taken,)
            return np.asarray(numpy_reductions.REDUCTIONS[self.name](*taken))


NUMBERS = ("f4", "f8", "i4", "i8")
SPREADS = ("mean", "norm", "var", "std")
REDUCTIONS = [
    *(
        Reduction(name, "x", {"x": dtype})
        for name in ("sum", "min", "max", "argmin", "argmax")
        for dtype in NUMBERS
    ),
    *(Reduction(name, "x", {"x": dtype}) for name in SPREADS for dtype in NUMBERS),
    *(Reduction("dot", "x, y", {"x": dtype, "y": dtype}) for dtype in NUMBERS),
    *(Reduction("prod", "x", {"x": dtype}) for dtype in ("i4", "i8")),
    *(Reduction(name, "m", {"m": "?"}) for name in ("any", "all", "count")),
    Reduction("sum", "x * y", {"x": "f4", "y": "f4"}, lambda x, y: x * y),
    Reduction("argmax", "x - y", {"x": "f8", "y": "f8"}, lambda x, y: x - y),
    Reduction("count", "i < x", {"i": "u1", "x": "f4"}, lambda i, x: i < x),
    Reduction("max", "h", {"h": "i2"}, lambda h: h.astype("i4")),
]
LARGE = [r for r in REDUCTIONS if r.formula != "m" and r.name not in ("min", "norm", "std")]


def filled(random: np.random.Generator, dtype: np.dtype, n: int) -> np.ndarray:
    """Returns values of a type: of equal or of very different sizes, with many ties, or special."""
    kind = random.integers(4)
    if dtype.kind == "b":
        return random.random(n) < (0.5, 0.01, 0.99, 1)[kind]
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        ends = (limits.min, limits.max) if kind < 2 else (0, 3)
        return random.integers(*ends, n, dtype, endpoint=True)
    plain = random.normal(0, 1, n)
    if kind == 1:
        plain = np.ldexp(plain, random.integers(-100, 100, n))
    elif kind == 2:
        plain = np.round(plain)
    elif kind == 3:
        special = random.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3e38], n)
        plain = np.where(random.random(n) < random.choice([0.01, 0.5]), special, plain)
    return plain.astype(dtype)


def filled_arrays(random: np.random.Generator, reduction: Reduction, shape: tuple) -> list:
    """Returns values for each input of a reduction, of eight kinds one after the other."""
    count = int(np.prod(shape))
    arrays = []
    for dtype in reduction.inputs.values():
        parts = [filled(random, np.dtype(dtype), -(-count // 8)) for _ in range(8)]
        arrays.append(np.concatenate(parts)[:count].reshape(shape))
    return arrays


def kept_shape(shape: tuple, axes: tuple) -> tuple:
    """Returns the shape of results, in which reduced axes have the length 1."""
    return tuple(1 if axis in axes else length for axis, length in enumerate(shape))


def slices(arrays: list, axes: tuple) -> Iterator[tuple[tuple, list[np.ndarray]]]:
    """Yields the indexes of each result, and a contiguous copy of its slice of each array."""
    for index in np.ndindex(kept_shape(arrays[0].shape, axes)):
        part = tuple(slice(None) if axis in axes else i for axis, i in enumerate(index))
        yield index, [array[part].ravel() for array in arrays]


def bits(axes: tuple) -> int:
    """Returns `reduced_axes`."""
    return sum(1 << axis for axis in axes)


def reduce(reduction, arrays: list, axes: tuple, out: np.ndarray) -> None:
    """Reduces arrays along axes into an output of the shape of results."""
    with Compiled(reduction.text, reduction.inputs) as compiled:
        status = compiled.run_nd(arrays[0].shape, arrays, out, bits(axes))
        assert status == Status.OK, last_error()


def result_of(reduction, arrays: list, axes: tuple) -> np.ndarray:
    """Returns the results in C order."""
    with Compiled(reduction.text, reduction.inputs) as compiled:
        out = np.zeros(kept_shape(arrays[0].shape, axes), compiled.dtype())
    reduce(reduction, arrays, axes, out)
    return out


def one_by_one(reduction, arrays: list, axes: tuple) -> np.ndarray:
    """Returns the results of gpuvec_expr_run on a contiguous copy of each slice."""
    with Compiled(reduction.text, reduction.inputs) as compiled:
        out = np.zeros(kept_shape(arrays[0].shape, axes), compiled.dtype())
        one = np.zeros(1, out.dtype)
        for index, copies in slices(arrays, axes):
            addresses = [copy.ctypes.data for copy in copies]
            assert compiled.run(addresses, one.ctypes.data, copies[0].size) == Status.OK
            out[index] = one[0]
    return out


def result_in_memory(
    resources: Resources,
    reduction: Reduction,
    arrays: list,
    axis: int,
    stream: int | None = None,
    kinds: tuple = ("device",) * 3,
) -> np.ndarray:
    """Returns the results along an axis of copies of the arrays in memory of these kinds.

    The results are in memory of the last kind.
    """
    with Compiled(reduction.text, reduction.inputs) as compiled:
        shape = arrays[0].shape
        results = np.zeros(kept_shape(shape, (axis,)), compiled.dtype())
        # Pageable memory lasts as long as these objects.
        memories = [resources.array(kind, array) for kind, array in zip(kinds, arrays)]
        places = [(memory.address, array.strides) for memory, array in zip(memories, arrays)]
        out = resources.array(kinds[-1], results)
        to = (out.address, results.strides)
        assert compiled.run_nd(shape, places, to, 1 << axis, stream) == Status.OK, last_error()
        if stream:
            ok(lib.gpuvec_stream_synchronize(stream))
        results.view(np.uint8).reshape(-1)[:] = out.get()[: results.nbytes]
    return results
