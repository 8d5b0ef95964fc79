"""Dot products as libraries return them, beside the exact result, rounded once."""

import math
from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from calls import package
from corpus import KINDS, Random, ill_conditioned
from exact_sums import by_exponents
from harness import Row
from peers import installed

Dot = Callable[[np.ndarray, np.ndarray], Any]
TITLES = {
    "PyTorch CPU": "`torch.dot`, CPU",
    "PyTorch CUDA": "`torch.dot`, GPU",
    "CuPy": "`cupy.dot`, GPU",
}


def inputs(n: int) -> dict[str, tuple[np.ndarray, ...]]:
    """Makes an ill-conditioned and a large input."""
    [kind] = [kind for kind in KINDS if kind.name == "dot_f64"]
    rng = np.random.default_rng(1)
    return {
        "1,000 `float64`, condition number 10^100": ill_conditioned(Random(kind, 1), 1000, 332),
        f"{n:,} `float32`": tuple(rng.standard_normal(n, np.float32) for _ in "ab"),
    }


def contenders() -> tuple[dict[str, Dot], dict[str, str]]:
    """Returns the functions by name, and why others are missing."""
    peers, missing = installed(list(TITLES))
    dots: dict[str, Dot] = {"`numpy.dot`": np.dot}
    for peer in peers:
        dots[TITLES[peer.name]] = partial(of_peer, peer)
    if hasattr(math, "sumprod"):
        dots["`math.sumprod`"] = lambda a, b: math.sumprod(a.tolist(), b.tolist())
    else:
        missing["math.sumprod"] = "it is of Python 3.12"
    dots["`gpuvec.dot`"] = package().dot
    return {**dots, "the exact value, rounded": lambda a, b: by_exponents(a, b)[0]}, missing


def of_peer(peer: Any, a: np.ndarray, b: np.ndarray) -> Any:
    """Returns a library's dot product of arrays that it copies."""
    return peer.library.dot(peer.array(a), peer.array(b)).item()


def run(given: Namespace) -> Iterator[Row]:
    """Yields the result of each library."""
    arrays = inputs(max(given.n or [100_000_000]))
    dots, missing = contenders()
    yield {"missing": missing}
    for name, dot in dots.items():
        values = {what: str(a.dtype.type(dot(a, b))) for what, (a, b) in arrays.items()}
        yield {"dot of two arrays of": name, **values}
