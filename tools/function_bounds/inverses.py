"""Bounds of the inverse trigonometric functions and of the error function of f64."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from flint import arb
from interpreter import Run
from pieces import HALF, argument, binades, near_one, of_small

LEAST = 2.0**-1074
# From here on atan x is π/2, and erf x is 1.
ATAN_END, ERF_END = 2.0**60, 6.0


def atan(x):
    """Returns the inverse tangent of a series or a ball, as do the functions below."""
    return x.atan()


def asin(x):
    """Returns the inverse sine."""
    return x.asin()


def acos(x):
    """Returns the inverse cosine."""
    return x.acos()


def erf(x):
    """Returns the error function."""
    return x.erf()


def check_end(recording, end: float, limit: arb, missing: arb) -> None:
    """Proves that the last result is nearest to the limit, which the function lacks little of."""
    x, piece = argument(end, end)
    result = Run(recording, piece, [x]).result().constant
    assert result is not None
    unit = math.ulp(math.nextafter(result, 0))
    assert abs(arb(result) - limit) + missing <= arb(HALF) * arb(unit)


def of_atan(recording) -> Iterator:
    """Yields the pieces of atan."""
    check_end(recording, ATAN_END, arb.pi() / 2, 1 / arb(ATAN_END))
    for interval in binades(LEAST, ATAN_END):
        yield partial(of_small, recording, atan), interval


def to_one(low: float) -> list:
    """Returns the floats from `low` to 1 as intervals."""
    return [interval for interval in near_one(low, 1.5) if interval[1] < 1]


def of_asin(recording) -> Iterator:
    """Yields the pieces of asin."""
    for interval in binades(LEAST, math.nextafter(0.5, 0)) + to_one(0.5) + [(1.0, 1.0)]:
        yield partial(of_small, recording, asin), interval


def of_acos(recording) -> Iterator:
    """Yields the pieces of acos."""
    tiny = 2.0**-60
    positive = [
        (0.0, math.nextafter(tiny, 0)),
        *binades(tiny, math.nextafter(0.5, 0)),
        *to_one(0.5),
    ]
    for low, high in positive:
        yield partial(of_small, recording, acos), (low, high)
        yield partial(of_small, recording, acos), (-high, -low if low else -LEAST)
    yield partial(of_small, recording, acos), (-1.0, -1.0)
    yield partial(of_small, recording, acos), (1.0, 1.0)


def of_erf(recording) -> Iterator:
    """Yields the pieces of erf."""
    check_end(recording, ERF_END, arb(1), arb(ERF_END).erfc())
    for interval in binades(LEAST, ERF_END):
        yield partial(of_small, recording, erf), interval


FUNCTIONS = {"asin": of_asin, "acos": of_acos, "atan": of_atan, "erf": of_erf}
