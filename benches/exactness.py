"""Dot products as libraries return them, beside the exact result, rounded once."""

import math
from argparse import Namespace
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Optional

import numpy as np
from calls import package
from corpus import KINDS, Random, ill_conditioned
from exact_sums import by_exponents
from harness import Row

Dot = Callable[[np.ndarray, np.ndarray], Any]


def inputs(n: int) -> dict[str, tuple[np.ndarray, ...]]:
    """Makes an ill-conditioned and a large input."""
    [kind] = [kind for kind in KINDS if kind.name == "dot_f64"]
    rng = np.random.default_rng(1)
    return {
        "1,000 `float64`, condition number 10^100": ill_conditioned(Random(kind, 1), 1000, 332),
        f"{n:,} `float32`": tuple(rng.standard_normal(n, np.float32) for _ in "ab"),
    }


def module(name: str) -> Any:
    """Imports a module; returns None if it or one of its dependencies is missing."""
    try:
        return import_module(name)
    except ImportError:
        return None


def contenders() -> dict[str, Optional[Dot]]:
    """Returns the functions by name; None for those that are missing."""
    torch, cupy, sumprod = module("torch"), module("cupy"), getattr(math, "sumprod", None)

    def of_torch(device: str) -> Optional[Dot]:
        if torch is None or (device == "cuda" and not torch.cuda.is_available()):
            return None
        return lambda a, b: torch.dot(*(torch.from_numpy(x).to(device) for x in (a, b))).item()

    has_cupy = cupy is not None and cupy.cuda.is_available()
    return {
        "`numpy.dot`": np.dot,
        "`torch.dot`, CPU": of_torch("cpu"),
        "`torch.dot`, GPU": of_torch("cuda"),
        "`cupy.dot`, GPU": (lambda a, b: cupy.dot(*map(cupy.asarray, (a, b))).item())
        if has_cupy
        else None,
        "`math.sumprod`": sumprod and (lambda a, b: sumprod(a.tolist(), b.tolist())),
        "`gpuvec.dot`": package().dot,
        "the exact value, rounded": lambda a, b: by_exponents(a, b)[0],
    }


def run(given: Namespace) -> Iterator[Row]:
    """Yields the result of each library."""
    arrays = inputs(max(given.n or [100_000_000]))
    for name, dot in contenders().items():
        if dot is None:
            yield {"missing": {name: "it is not installed"}}
            continue
        values = {what: str(a.dtype.type(dot(a, b))) for what, (a, b) in arrays.items()}
        yield {"dot of two arrays of": name, **values}
