"""Times the functions of f32 on one thread beside NumPy's and PyTorch's, in one process.

    python3 benches/functions.py [FUNCTION ...] [--json]

GPUVEC_LIB selects the library, GPUVEC_VECTORS its instructions; the others always use the newest.
Prints nanoseconds per element of arrays of 100,000 elements: the least of many calls.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Optional

os.environ.setdefault("GPUVEC_PLACEMENT", "cpu")
os.environ.setdefault("GPUVEC_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
import gpuvec
import numpy as np
import rows
from rows import Row

torch = None
with suppress(ImportError):
    import torch

    torch.set_num_threads(1)

N = 100_000
SECONDS = 0.3

# Each function's usual arguments: normal ones of a deviation, uniform ones in a range.
DATA = {
    "exp": ("normal", 3),
    "exp2": ("normal", 3),
    "expm1": ("normal", 3),
    "sinh": ("normal", 3),
    "cosh": ("normal", 3),
    "tanh": ("normal", 2),
    "log": (0, 100),
    "log2": (0, 100),
    "log10": (0, 100),
    "log1p": (0, 100),
    "sin": ("normal", 10),
    "cos": ("normal", 10),
    "tan": ("normal", 10),
    "asin": (-1, 1),
    "acos": (-1, 1),
    "atan": ("normal", 3),
    "asinh": ("normal", 3),
    "acosh": (1, 100),
    "atanh": (-1, 1),
    "erf": ("normal", 1),
    "cbrt": ("normal", 10),
}
# Those of each function of two arguments; squares of whole numbers, of which many are in the middle
# of two floats.
OF_TWO = {
    "pow": ((0, 10), ("normal", 3)),
    "square": ("whole", (2, 2)),
    "atan2": (("normal", 1), ("normal", 1)),
    "hypot": (("normal", 1), ("normal", 1)),
}
NAMES_OF_NUMPY = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "atan2": "arctan2",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
    "pow": "power",
    "square": "power",
}
NAMES = ("gpuvec", "NumPy", "PyTorch")
NAMES_OF_TORCH = {"square": "pow"}


def data(kind: tuple | str, seed: int = 1) -> np.ndarray:
    """Returns a function's arguments."""
    random = np.random.default_rng(seed)
    if kind == "whole":
        return random.integers(0, 6000, N).astype(np.float32)
    if kind[0] == "normal":
        return (random.standard_normal(N) * kind[1]).astype(np.float32)
    return random.uniform(*kind, N).astype(np.float32)


def nanoseconds(call) -> float:
    """Returns the time of an element, in the fastest of many calls."""
    least = float("inf")
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - start)
    return 1e9 * least / N


def row(name: str) -> Row:
    """Times one function, in nanoseconds per element."""
    x, *others = map(data, OF_TWO.get(name) or [DATA[name]], (1, 2))
    out = np.empty_like(x)
    text = f"{'pow' if name == 'square' else name}({'x, y' if others else 'x'})"
    arguments = dict(zip("xy", (x, *others), strict=False))
    ours = nanoseconds(lambda: gpuvec.evaluate(text, **arguments, out=out))
    figures = [ours, of_numpy(name, x, *others), of_torch(name, x, *others)]
    return {"what": name, **dict(zip(NAMES, figures, strict=True))}


def of_numpy(name: str, *arguments: np.ndarray) -> Optional[float]:
    """Times NumPy's function, if it has one."""
    function = getattr(np, NAMES_OF_NUMPY.get(name, name), None)
    out = np.empty_like(arguments[0])
    return function and nanoseconds(lambda: function(*arguments, out=out))


def of_torch(name: str, *arguments: np.ndarray) -> Optional[float]:
    """Times PyTorch's function, if it is installed and has one."""
    function: Optional[Callable] = torch and getattr(torch, NAMES_OF_TORCH.get(name, name), None)
    if function is None:
        return None
    tensors = [torch.from_numpy(array) for array in arguments]
    out = torch.empty_like(tensors[0])
    return nanoseconds(lambda: function(*tensors, out=out))


def text(row: Row) -> str:
    """Makes a row's line."""
    figures = (row[name] for name in NAMES)
    cells = ("–".rjust(8) if ns is None else f"{ns:8.2f}" for ns in figures)
    return f"{row['what']:8}" + "".join(cells)


def measured(names: list[str]) -> Iterator[Row]:
    """Times the functions."""
    return map(row, names)


def main() -> None:
    """Prints a line for each function."""
    parser = rows.parser(__doc__)
    parser.add_argument("functions", nargs="*", default=[*DATA, *OF_TWO])
    given = parser.parse_args()
    if not given.is_json:
        print(f"{'':8}" + "".join(f"{name:>8}" for name in NAMES))
    rows.show(measured(given.functions), text, given.is_json)


if __name__ == "__main__":
    main()
