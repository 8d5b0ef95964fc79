"""Hashes of results: of every operation, every function of expressions, and formulas.

    python3 python_tests/support/result_hashes.py

prints those of the library's results, which no processor, placement or version changes;
`make baselines` stores them in python_tests/operations/results.sha256. The data
follow from seeds by integers alone, as those of the corpus of exact sums do (corpus.py).
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from arrays import compute
from bindings import Status, last_error
from formulas import FORMULAS, Compiled
from functions import OF_ONE, OF_TWO
from operations import OPERATIONS
from oracles import unsigned

HASHES = Path(__file__).resolve().parents[1] / "operations" / "results.sha256"
# Around the widths of vectors and of blocks.
SIZES = [1, 31, 33, 1000, 4097]


def values(seed: int, n: int, dtype: np.dtype, is_any: bool) -> np.ndarray:
    """Returns integers of any bits, or floats: half of any bits if `is_any`, else from -8 to 8."""
    words = np.random.PCG64(seed).random_raw(n)
    if dtype.kind == "b":
        return words % np.uint64(2) == 0
    bits = words.astype(unsigned(dtype)).view(dtype)
    if dtype.kind != "f":
        return bits
    integers = (words >> np.uint64(40)).astype(np.int64) - (1 << 23)
    ordinary = (integers / 2.0**20).astype(dtype)
    return np.where(words >> np.uint64(63) == 0, ordinary, bits) if is_any else ordinary


def data(types: list, n: int, is_any: bool) -> list[np.ndarray]:
    """Returns an array of each type."""
    return [values(1 + i, n, np.dtype(dtype), is_any) for i, dtype in enumerate(types)]


def of_formula(text: str, inputs: dict[str, str], is_reduction: bool) -> Iterator[np.ndarray]:
    """Yields the results of an expression, for each size."""
    with Compiled(text, inputs) as compiled:
        for n in SIZES:
            arrays = data(list(inputs.values()), n, not is_reduction)
            out = np.zeros(1 if is_reduction else n, compiled.dtype())
            addresses = [array.ctypes.data for array in arrays]
            assert compiled.run(addresses, out.ctypes.data, n) == Status.OK, last_error()
            yield out


def results() -> Iterator[tuple[str, Iterator[np.ndarray]]]:
    """Yields a name and arrays of results."""
    for operation in OPERATIONS:
        is_any = operation.shape.kind == "elementwise"
        pairs = (data([operation.dtype] * 2, n, is_any) for n in SIZES)
        yield operation.name, (compute(operation, a, b) for a, b in pairs)
    for dtype in ("f4", "f8"):
        for name in OF_ONE:
            yield f"{name} {dtype}", of_formula(f"{name}(x)", {"x": dtype}, False)
        for name in OF_TWO:
            yield f"{name} {dtype}", of_formula(f"{name}(x, y)", {"x": dtype, "y": dtype}, False)
    for formula in FORMULAS:
        yield formula.text, of_formula(formula.text, formula.inputs, formula.is_reduction)


def lines() -> Iterator[str]:
    """Yields a line for each: the hash of its bits, and its name."""
    for name, arrays in results():
        bits = hashlib.sha256()
        for array in arrays:
            bits.update(array.tobytes())
        yield f"{bits.hexdigest()}  {name}"


if __name__ == "__main__":
    print(*lines(), sep="\n")
