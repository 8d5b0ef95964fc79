"""Pieces of functions' arguments, and the bound of a function's error on each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Callable

from flint import arb, arb_series
from forms import DIGITS, Piece, Real, Value, coefficient, exponent, number, rounded_down, upper
from interpreter import Choice, Run, Undecided, decoded, encoding
from recordings import Node

HALF = 0.5
UNIT = arb(2) ** -DIGITS
# A bound is not much less on pieces that are narrower by this power of two.
DEPTH = 12


def series(low: float, high: float) -> tuple:
    """Returns the series of a number between two others, at the middle and everywhere; and the
    radius."""
    middle = (arb(low) + arb(high)) / 2
    radius = (arb(high) - arb(low)) / 2
    if low == high:
        return middle, middle, radius
    return arb_series([middle, 1]), arb_series([arb(middle, radius), 1]), radius


def series_of_real(low: float, high: float) -> tuple:
    """Returns the series of a number that need not be a float: from `low` up to the float beyond
    `high`, where the next interval of magnitudes begins."""
    if low < 0:
        return series(math.nextafter(low, -math.inf), high)
    return series(low, math.nextafter(high, math.inf))


def argument(low: float, high: float) -> tuple:
    """Returns a float between two others as a value, and its piece."""
    if low == high:
        return number(low), Piece(arb(0))
    middle, whole, radius = series(low, high)
    least = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
    return Value(Real(middle, whole), low, high, exponent(least) - DIGITS + 1), Piece(radius)


def whole_part(piece: Piece, low: int, high: int, low_bits: tuple | None = None) -> Choice:
    """Returns a whole number between two others."""
    if low == high:
        return Choice(number(float(low)), low_bits)
    middle = (arb(low) + arb(high)) / 2
    symbol = piece.symbol((high - low) / 2)
    real = Real(middle, middle, {symbol: arb(1)})
    return Choice(Value(real, float(low), float(high), 0, whole_part=(0, 1)), low_bits)


def scaled_argument(k: tuple, low: float, high: float) -> tuple:
    """Returns m of an argument 2^K m, between two floats, its piece, and K, within a range."""
    middle, whole, radius = series(low, high)
    piece = Piece(radius)
    m = Value(Real(middle, whole), low, high, exponent(low) - DIGITS + 1, scale=1)
    return m, piece, whole_part(piece, *k)


def pair_near(piece: Piece, ideal: Real, apart: arb, error: arb) -> tuple:
    """Returns a pair of floats within `error` of an ideal, and the first one within `apart` of
    it."""
    first, both = piece.symbol(apart), piece.symbol(error)
    high = piece.value(Real(ideal.middle, ideal.whole, {**ideal.noise, first: arb(1)}))
    high.grid = exponent(high.least) - DIGITS + 1
    return high, piece.value(Real(arb(0), arb(0), {first: arb(-1), both: arb(1)}))


def quotient_errors() -> tuple:
    """Returns how far `quotient` in crates/math/src/double/pair.rs may be from a / b, relative to
    it: its first part, and the pair.

    The parts of a and b are high and low ones, and u = 2^-53. The first part is a₀ / b₀ with two
    roundings, and a₀ and b₀ are a and b within u. It leaves a₀ - high b₀, at most the two roundings
    of a₀, and a₁ - high b₁, of which both terms are at most about u a₀. Both, and their sum, are
    rounded. The sum is divided by b₀ instead of b, with two roundings.
    """
    grown = 1 + UNIT
    apart = grown**3 / (1 - UNIT) - 1
    left = (grown**2 - 1) + UNIT * (1 + grown**2)
    roundings = UNIT * left * (1 + grown)
    division = (grown**3 - 1) * grown**2 * left
    return apart, (roundings + division) / (1 - UNIT)


def quotient_places(recording) -> tuple:
    """Returns the places of the parts of the one quotient in a recording, after a check that it has
    the operations of `quotient`."""
    nodes = recording.nodes
    (inverse,) = [place for place, node in enumerate(nodes) if node.operation == "DivFloat"]
    first, second = [place for place, node in enumerate(nodes) if inverse in node.operands]
    (a, _), (rest, _) = nodes[first].operands, nodes[second].operands
    of_high, of_low = (nodes[term] for term in nodes[rest].operands)
    minus, b = nodes.index(Node("NegFloat", (first,))), nodes[inverse].operands[1]
    assert of_high == Node("Fma", (minus, b, a))
    assert of_low.operation == "Fma" and of_low.operands[0] == minus
    assert [nodes[place].operation for place in (first, rest, second)] == [
        "MulFloat",
        "AddFloat",
        "MulFloat",
    ]
    return first, second


def error_bound(run: Run, reference: Real, result: Value | None = None) -> float:
    """Returns a bound of the error of a run's result in units in the last place.

    The last rounding errs by half a unit of the exact result, or by less than what came before.
    """
    piece, result = run.piece, result or run.result()
    difference = piece.plus(result.real, reference, -1)
    symbol = None
    if result.last is not None:
        symbol, factor = result.last
        assert (difference.noise[symbol] - factor).is_zero()
    wrong = abs(piece.small_range(difference)).upper() + piece.noise_bound(difference, symbol)
    if wrong.is_zero():
        return 0.0 if symbol is None else HALF
    exact = piece.range(reference)
    least = abs(exact).lower()
    if not least > 0:
        raise Undecided
    unit = math.ldexp(1.0, exponent(math.nextafter(float(least), 0)) - DIGITS + 1)
    before = upper(wrong / arb(unit))
    if symbol is None:
        return before
    return HALF + before if before < HALF else 1 + before


def binades(low: float, high: float) -> list:
    """Returns the floats from `low` to `high` as intervals within binades."""
    if low < 0 and high > 0:
        return binades(low, -0.0) + binades(0.0, high)
    if high <= 0 and low < 0:
        return negated(binades(abs(high), abs(low)))
    intervals = []
    while low <= high:
        end = decoded(encoding(low) | (1 << 52) - 1)
        intervals.append((low, min(end, high)))
        low = math.nextafter(end, math.inf)
    return intervals


def around_zero(least: float, radius: float) -> list:
    """Returns the numbers from -radius to radius: binades from `least` on, and one interval
    between them."""
    above = binades(least, radius)
    return [*negated(above), (-least, least), *above]


def negated(intervals: list) -> list:
    """Returns intervals of the negatives."""
    return [(-high, -low) for low, high in intervals]


def each(evaluate: Callable, intervals: list) -> list:
    """Returns pieces: what bounds the error, and each interval."""
    return [(evaluate, interval) for interval in intervals]


def divided(interval: tuple, count: int) -> list:
    """Returns an interval of floats of one sign in `count` parts."""
    if interval[0] < 0 < interval[1]:
        return [(interval[0], -0.0), (0.0, interval[1])]
    low, high = encoding(abs(interval[0])), encoding(abs(interval[1]))
    sign = math.copysign(1, interval[0] or interval[1])
    low, high = min(low, high), max(low, high)
    count = min(count, high - low + 1)
    ends = [low + (high - low + 1) * i // count for i in range(count + 1)]
    parts = [sorted((sign * decoded(a), sign * decoded(b - 1))) for a, b in zip(ends, ends[1:])]
    return [tuple(part) for part in parts]


def near_one(low: float, high: float) -> list:
    """Returns the floats from `low` < 1 to `high` > 1 as intervals by the magnitude of their
    difference to 1."""
    ends = [low] + [1 - 2.0**-j for j in range(2, 54) if 1 - 2.0**-j > low]
    below = [(a, math.nextafter(b, 0)) for a, b in zip(ends, ends[1:])] + [(ends[-1], ends[-1])]
    ends = [1 + 2.0**-j for j in range(52, 0, -1) if 1 + 2.0**-j < high] + [math.nextafter(high, 2)]
    above = [(a, math.nextafter(b, 0)) for a, b in zip(ends, ends[1:])]
    return below + [(1.0, 1.0)] + above


def to_one(low: float) -> list:
    """Returns the floats from `low` to 1 as intervals."""
    return [interval for interval in near_one(low, 1.5) if interval[1] < 1]


def check_tiny(function, tiny: float) -> None:
    """Proves that arguments below `tiny` are results: the quotient of both is monotone."""
    error = abs(function(arb(tiny)) / arb(tiny) - 1).upper() * arb(2) ** DIGITS
    assert error < HALF


def of_small(recording, function, low: float, high: float) -> float:
    """Bounds the error of arguments taken as they are."""
    x, piece = argument(low, high)
    exact = Real(function(x.real.middle), function(x.real.whole))
    return error_bound(Run(recording, piece, [x]), exact)


@dataclass
class Reduction:
    """A reduction of arguments: x = K unit + r, where K is the whole number nearest to x / unit."""

    unit: arb
    radius: float

    def series(self, low: float, high: float) -> tuple:
        """Returns the series of r from `low` to `high`, or where the next interval begins."""
        at_end = low == high and abs(low) == self.radius
        return series(low, high) if at_end else series_of_real(low, high)

    def argument(self, k: tuple, low: float, high: float, low_bits: tuple | None = None) -> tuple:
        """Returns an argument with K in a range and r from `low` to `high`: its value, its piece,
        K."""
        middle, whole, radius = self.series(low, high)
        piece = Piece(radius)
        choice = whole_part(piece, *k, low_bits)
        x = piece.value(piece.plus(piece.scaled(choice.value.real, self.unit), Real(middle, whole)))
        rests = [coefficient(middle, 0) + sign * radius for sign in (-1, 1)]
        ends = sorted(self.unit * end + r for end in k for r in rests)
        x.low, x.high = rounded_down(ends[0].lower()), -rounded_down(-ends[-1].upper())
        # Unless K is zero, x is at least the unit less the radius.
        least = float(self.unit.lower()) - self.radius if 0 not in k else 0.0
        x.grid = exponent(max(x.least, least)) - DIGITS + 1
        return x, piece, choice

    def run(self, recording, k: tuple, low: float, high: float) -> Run:
        """Returns the run of a recording on such arguments."""
        x, piece, choice = self.argument(k, low, high)
        return Run(recording, piece, [x], choice)

    def check_radius(self, recording, k: tuple, place: int, last: float = math.inf) -> None:
        """Proves that a greater r has another K, where a node's value needs K.

        Arguments end before `last`.
        """
        for r in (-self.radius, self.radius):
            if self.unit * k[1] + r > last:
                continue
            run = self.run(recording, k, r, r)
            run.of(place)
            assert run.whole_part_distance is not None
            assert abs(run.piece.range(run.whole_part_distance)).lower() >= HALF


def refined(evaluate: Callable, interval: tuple, limit: float) -> tuple:
    """Returns the greatest bound of an interval's pieces, and the piece.

    Pieces are divided where a choice depends on the argument, or the bound is above the limit: down
    to single floats for a choice, and so long as that may help for a bound.
    """
    worst, where, todo = 0.0, interval, [(*interval, 0)]
    while todo:
        low, high, depth = todo.pop()
        try:
            bound = evaluate(low, high)
        except (Undecided, AssertionError, OverflowError):
            bound = math.inf
        if bound > limit and low < high and (depth < DEPTH or bound == math.inf):
            todo += [(*part, depth + 1) for part in divided((low, high), 2)]
        elif bound > worst:
            worst, where = bound, (low, high)
            if bound > limit:
                break
    return worst, where
