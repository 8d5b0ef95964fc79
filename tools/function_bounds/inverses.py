"""Bounds of the inverse trigonometric functions and of the error function of f64."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from operator import methodcaller

from flint import arb
from forms import DIGITS, Piece, Real, number
from interpreter import Run, decoded
from pieces import (
    HALF,
    argument,
    around_zero,
    binades,
    each,
    error_bound,
    negated,
    of_small,
    pair_near,
    quotient_errors,
    quotient_places,
    series_of_real,
    to_one,
)

LEAST = 2.0**-1074
# From here on atan x is π/2, and erf x is 1.
ATAN_END, ERF_END = 2.0**60, 6.0
TINY_QUOTIENT = 2.0**-960
# Half of the least float, and more than the roundings of what is below it.
UNDERFLOW = arb(2) ** -1075 * (1 + arb(2) ** -40)


# Functions of a series or a ball.
atan, asin, acos, erf = map(methodcaller, ("atan", "asin", "acos", "erf"))


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
    yield from each(partial(of_small, recording, atan), binades(LEAST, ATAN_END))


@dataclass(frozen=True)
class Sector:
    """A sector where atan2 is base ± atan q, w to the right of the origin and h above it.

    q is h / w near the axis, (h - w) / (h + w) in the middle, and -w / h far from the axis.
    """

    name: str
    base: float
    is_left: bool

    def ideal(self, q) -> object:
        """Returns the angle of a series or a ball."""
        angle = arb.pi() * self.base + q.atan()
        return arb.pi() - angle if self.is_left else angle


def comparisons(recording) -> tuple:
    """Returns the places where a height is compared with a width times tan 3π/8, and times tan
    π/8."""
    nodes, found = recording.nodes, {}
    for place, node in enumerate(nodes):
        if node.operation == "Less" and nodes[node.operands[0]].operation == "MulFloat":
            factor = nodes[nodes[node.operands[0]].operands[1]]
            found[decoded(factor.number)] = place
    return found[math.sqrt(2) + 1], found[math.sqrt(2) - 1]


def unsigned(recording) -> int:
    """Returns the place of a result before it has the sign of an argument."""
    place = recording.result
    while recording.nodes[place].operation != "AddFloat":
        place = recording.nodes[place].operands[0]
    return place


def in_sector(recording, sector: Sector, low: float, high: float) -> float:
    """Bounds the error of atan2 where the quotient q is in an interval.

    The quotient is a pair with a known error (quotient_errors), which replaces the sequence's. It
    does not depend on the size of x and y but for what underflows:

    - Both are multiplied by 2^600, exactly, or if the greater one is from 2^400 on, by 2^-60. Then
      a lesser height underflows only where q is below 2^-1362.
    - 2^-700 is added to the width, and is rounded off if that is from 2^-646 on. A lesser one is
      zero, or beside a height from 2^340 on: q is below 2^-226 with it or without it, or if both
      arguments are zero, is zero.
    - Both parts of q may be subnormal. What is left of the division does not underflow: where q is
      at least 2^-1076 its terms are from 2^-736 on, and multiples of 2^-842. Both parts of a lesser
      q are zero.

    The result has its sign from y, but was positive: that does not increase the error.
    """
    middle, whole, radius = series_of_real(low, high)
    piece = Piece(radius)
    greatest = arb(math.nextafter(max(abs(low), abs(high)), 1))
    apart, error = (greatest * relative + UNDERFLOW for relative in quotient_errors())
    if sector.name == "far":
        error += arb(2) ** -226
    pair = pair_near(piece, Real(middle, whole), apart, error)
    far, between = comparisons(recording)
    known = {far: sector.name == "far", between: sector.name != "near"}
    known |= dict(zip(quotient_places(recording), pair))
    x, y = number(-1.0 if sector.is_left else 1.0), number(1.0)
    run = Run(recording, piece, [y, x], replaced=known)
    exact = Real(sector.ideal(middle), sector.ideal(whole))
    return error_bound(run, exact, run.of(unsigned(recording)))


def of_tiny_quotient(low: float, high: float) -> float:
    """Bounds the error of atan2 near the axis, to the right, for quotients q below 2^-960.

    There p t³ is rounded off, and the result is the rounded sum of q's parts. Both are multiples of
    2^-1074 that together are q within half of that and what quotient_errors says, 20 u² q. So up to
    2^-1021 their sum is exact, and above they add a quarter of a unit or less to half a unit; also
    if the sum is above a power of two and q is below, or if atan q is below, which lacks q³ / 3 of
    q: as the sum is that close to the power, its rounding adds no more than it is above.
    """
    del low, high
    _, error = quotient_errors()
    return HALF + float((error * arb(2) ** DIGITS + arb(0.25) + arb(2) ** -40).upper())


def of_atan2(recording) -> Iterator:
    """Yields the pieces of atan2 by sectors. To the right, results near the axis are as small as
    q."""
    end = math.sqrt(2) - 1 + 2.0**-50
    around = around_zero(2.0**-60, end)
    yield of_tiny_quotient, (0.0, TINY_QUOTIENT)
    for is_left in (False, True):
        near = [part for part in around if part[1] > 0] if is_left else binades(TINY_QUOTIENT, end)
        far = [part for part in around if part[0] < 0]
        sectors = (("near", 0, near), ("middle", 0.25, around), ("far", 0.5, far))
        for name, base, intervals in sectors:
            sector = Sector(name, base, is_left)
            yield from each(partial(in_sector, recording, sector), intervals)


def of_asin(recording) -> Iterator:
    """Yields the pieces of asin."""
    intervals = binades(LEAST, math.nextafter(0.5, 0)) + to_one(0.5) + [(1.0, 1.0)]
    yield from each(partial(of_small, recording, asin), intervals)


def of_acos(recording) -> Iterator:
    """Yields the pieces of acos."""
    tiny = 2.0**-60
    intervals = [(0.0, math.nextafter(tiny, 0)), *binades(tiny, math.nextafter(0.5, 0))]
    intervals += [*to_one(0.5), (1.0, 1.0)]
    yield from each(partial(of_small, recording, acos), intervals + negated(intervals))


def of_erf(recording) -> Iterator:
    """Yields the pieces of erf."""
    check_end(recording, ERF_END, arb(1), arb(ERF_END).erfc())
    yield from each(partial(of_small, recording, erf), binades(LEAST, ERF_END))


FUNCTIONS = {"asin": of_asin, "acos": of_acos, "atan": of_atan, "atan2": of_atan2, "erf": of_erf}
