"""Bounds of the cube root and of the hypotenuse of f64, derived step by step.

Their last step is one of Newton's method, whose correction is small: with the rest of a product in
two parts it has a relative error of some last bits, so that little but its rounding remains.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from flint import arb, arb_poly
from interpreter import TO_INTEGER, decoded, encoding
from pieces import HALF, binades, divided, each

UNIT = 2.0**-53
# The constants of crates/math/src/inverse.rs, which the recording must have.
START = TO_INTEGER + 1_430_186_664
SERIES = [-1.0 / 3.0, 2.0 / 9.0, -14.0 / 81.0, 35.0 / 243.0, -91.0 / 729.0]


def constants(recording) -> set:
    """Returns a recording's constants."""
    return {decoded(node.number) for node in recording.nodes if node.operation == "Float"}


def step(wrong: arb, terms: int, roundings: int) -> arb:
    """Returns the error of y (1 + h p(h)) relative to x^(-1/3), where y's is `wrong` and h = x y³
    - 1.

    It is a polynomial in y's error e: h = (1 + e)³ - 1. Roundings change h by three units, and the
    result by three times as much of its slope, which is below one, and by the rounding of the
    correction and the result.
    """
    h = arb_poly([0, 3, 3, 1])
    series = arb_poly([0])
    for c in reversed(SERIES[:terms]):
        series = series * h + arb_poly([arb(c)])
    error = arb_poly([1, 1]) * (1 + h * series) - 1
    bound = arb(0)
    for n in range(error.degree() + 1):
        bound += abs(error[n]) * wrong**n
    return (bound + roundings * arb(UNIT)).upper()


def cbrt(low: float, high: float) -> float:
    """Bounds the error for arguments between two numbers in [1, 8), and for those times powers of
    8.

    Powers of 8 are whole numbers in the encoding's high word, of which a third is taken, within
    0.51.
    """
    starts = []
    for x, direction in ((low, 1), (high, -1)):
        start = (START - TO_INTEGER) - arb(encoding(x) >> 32) / 3
        starts.append(start + direction * arb("0.51"))
    first = [decoded(int(math.ceil(float(starts[0].upper()))) << 32)]
    first.append(decoded(int(math.floor(float(starts[1].lower()))) << 32))
    errors = [arb(y) * arb(x).root(3) - 1 for y in first for x in (low, high)]
    wrong = max((abs(e).upper() for e in errors), key=float)
    # h is a fused operation on two products: three roundings of numbers near 1; y h, its series
    # and the sum.
    wrong = step(wrong, 5, 8)
    wrong = step(wrong, 2, 8)
    # x y², with three roundings.
    root = 2 * wrong + wrong**2 + 4 * UNIT
    # The correction: a third, the fused sums of the excess, the products, and y² for 1 / root².
    share = 8 * UNIT + 2 * root + 2 * wrong
    before = root * share + 2 * root**2
    # Relative to the result; a unit is at least 2^-53 of it.
    return HALF + float(before.upper()) * 2.0**53


def of_cbrt(recording) -> Iterator:
    """Yields the pieces of cbrt: those from 1 to 8 stand for all. Smaller numbers are scaled by
    2^300."""
    assert {START, *SERIES} <= constants(recording)
    for interval in binades(1.0, math.nextafter(8, 0)):
        yield from each(cbrt, divided(interval, 64))


def hypot(low: float, high: float) -> float:
    """Bounds the error for all arguments, relative to the result r.

    a² + b² is square + rests, exactly, and the rests are at most 2 u r² with u = 2^-53: their sums
    have two roundings of that. The root is that of the square within u, so `lack` is at most 4 u
    r², with one rounding. Its half over the root has five roundings or errors of u. Newton's method
    leaves an eighth of (lack / r²)².

    The least scaled argument is 2^-474, so what underflows is below 2^-120 of r². A result that is
    scaled to a subnormal number is rounded once more, by half of a unit at least twice as large.
    """
    del low, high
    unit = arb(UNIT)
    rests = 2 * 2 * unit * unit + arb(2) ** -120
    lack = 4 * unit
    before = rests / 2 + lack * unit / 2 + lack * 5 * unit / 2 + lack**2 / 8
    bound = HALF + float(before.upper()) * 2.0**53
    return max(bound, HALF + bound / 2)


def of_hypot(recording) -> Iterator:
    """Yields one piece for all arguments."""
    assert {2.0**-600, 2.0**600, 2.0**500, 2.0**-400} <= constants(recording)
    yield hypot, (1.0, 2.0)


FUNCTIONS = {"cbrt": of_cbrt, "hypot": of_hypot}
