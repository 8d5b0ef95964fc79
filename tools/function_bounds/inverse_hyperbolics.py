"""Bounds of the inverse hyperbolic functions of f64."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from exponentials import check_tiny
from flint import arb
from forms import Real
from interpreter import Run
from inverses import to_one
from logarithms import ROOT_HALF, ROOT_TWO
from pieces import binades, divided, error_bound, near_one, of_small, scaled_argument

# Below TINY results are arguments, and beyond HUGE logarithms of twice the argument.
TINY, HUGE = 2.0**-28, 2.0**30
# The latter differ by less from asinh and acosh, 1 / 4x² in the main.
MISSING = arb(2) ** -61
# The exponents K of arguments 2^K m beyond HUGE, for all m from √½ to √2.
EXPONENTS = [(31, 63), (64, 127), (128, 255), (256, 511), (512, 1000), (1001, 1023)]


def asinh(x):
    """Returns the inverse hyperbolic sine of a series or a ball, as do the functions below."""
    return (x + (x * x + 1).sqrt()).log()


def acosh(x):
    """Returns the inverse hyperbolic cosine."""
    return (x + ((x - 1) * (x + 1)).sqrt()).log()


def atanh(x):
    """Returns the inverse hyperbolic tangent."""
    return ((1 + x) / (1 - x)).log() / 2


def of_huge(recording, k: tuple, low: float, high: float) -> float:
    """Bounds the error of asinh and acosh of 2^K m, for m in an interval, as of log 2x."""
    m, piece, choice = scaled_argument(k, low, high)
    parts = ((2 * part).log() for part in (m.real.middle, m.real.whole))
    logarithm = Real(*parts, {piece.symbol(MISSING): arb(1)})
    exact = piece.plus(logarithm, piece.scaled(choice.value.real, arb.const_log2()))
    return error_bound(Run(recording, piece, [m], choice), exact)


def huge(recording) -> Iterator:
    """Yields the pieces of asinh and acosh beyond HUGE."""
    below, above = (ROOT_HALF, math.nextafter(1, 0)), (1.0, ROOT_TWO)
    first = (math.nextafter(1, 2), ROOT_TWO)
    ranges = [((30, 30), first), ((1024, 1024), below)]
    ranges += [(k, interval) for k in EXPONENTS for interval in (below, above)]
    for k, interval in ranges:
        for part in divided(interval, 8):
            yield partial(of_huge, recording, k), part


def of_asinh(recording) -> Iterator:
    """Yields the pieces of asinh."""
    check_tiny(asinh, TINY)
    for interval in binades(TINY, HUGE):
        yield partial(of_small, recording, asinh), interval
    yield from huge(recording)


def of_acosh(recording) -> Iterator:
    """Yields the pieces of acosh: up to 2 by magnitudes of x - 1."""
    below_two = [part for part in near_one(0.5, math.nextafter(2, 1)) if part[0] >= 1]
    for interval in below_two + binades(2.0, HUGE):
        yield partial(of_small, recording, acosh), interval
    yield from huge(recording)


def of_atanh(recording) -> Iterator:
    """Yields the pieces of atanh."""
    check_tiny(atanh, TINY)
    for interval in binades(TINY, math.nextafter(0.5, 0)) + to_one(0.5):
        yield partial(of_small, recording, atanh), interval


FUNCTIONS = {"asinh": of_asinh, "acosh": of_acosh, "atanh": of_atanh}
