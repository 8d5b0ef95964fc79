"""Prints a table of dot products: what libraries return, and the exact result, rounded once.

    PYTHONPATH=python .venv/bin/python benches/exact_table.py

CuPy and PyTorch have rows if they are installed. The truth is the tests' oracle.
"""

import math
import sys
from importlib import import_module
from pathlib import Path
from typing import Callable, Optional

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python_tests/support"))
import gpuvec
from corpus import KINDS, Random, ill_conditioned
from exact_sums import by_exponents

Dot = Callable[[np.ndarray, np.ndarray], float]


def inputs() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Makes the ill-conditioned and the large input."""
    [kind] = [kind for kind in KINDS if kind.name == "dot_f64"]
    rng = np.random.default_rng(1)
    return {
        "1,000 `float64`, condition number 10^100": ill_conditioned(Random(kind, 1), 1000, 332),
        "100 million `float32`": tuple(rng.standard_normal(100_000_000, np.float32) for _ in "ab"),
    }


def module(name: str):
    """Imports a module; returns None if it or one of its dependencies is missing."""
    try:
        return import_module(name)
    except ImportError:
        return None


def of_cupy(cupy) -> Optional[Dot]:
    """Returns CuPy's dot product, on arrays on the GPU."""
    if cupy is None or cupy.cuda.runtime.getDeviceCount() == 0:
        return None
    return lambda a, b: cupy.dot(cupy.asarray(a), cupy.asarray(b)).item()


def of_torch(torch, device: str) -> Optional[Dot]:
    """Returns PyTorch's dot product on a device."""
    if torch is None or (device == "cuda" and not torch.cuda.is_available()):
        return None
    return lambda a, b: torch.dot(*(torch.from_numpy(x).to(device) for x in (a, b))).item()


def of_python() -> Optional[Dot]:
    """Returns the dot product of Python 3.12 and later."""
    sumprod = getattr(math, "sumprod", None)
    return sumprod and (lambda a, b: a.dtype.type(sumprod(a.tolist(), b.tolist())))


def contenders() -> dict[str, Optional[Dot]]:
    """Returns the functions by name; None for those that are missing."""
    torch = module("torch")
    return {
        "`numpy.dot`": np.dot,
        "`torch.dot`, CPU": of_torch(torch, "cpu"),
        "`torch.dot`, GPU": of_torch(torch, "cuda"),
        "`cupy.dot`, GPU": of_cupy(module("cupy")),
        "`math.sumprod`": of_python(),
        "`gpuvec.dot`": gpuvec.dot,
        "the exact value, rounded": lambda a, b: by_exponents(a, b)[0],
    }


def main() -> None:
    """Prints the table; names the missing libraries."""
    arrays = inputs()
    rows = {name: dot for name, dot in contenders().items() if dot}
    print(f"| dot of two arrays of | {' | '.join(arrays)} |\n|---|{'---|' * len(arrays)}")
    for name, dot in rows.items():
        values = [a.dtype.type(dot(a, b)) for a, b in arrays.values()]
        print(f"| {name} | {' | '.join(str(value) for value in values)} |", flush=True)
    missing = [name for name, dot in contenders().items() if not dot]
    if missing:
        print(f"missing here: {', '.join(missing)}", file=sys.stderr)


if __name__ == "__main__":
    main()
