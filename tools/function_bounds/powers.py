"""Bounds of the power of f64, x^y = e^(y log x), in three steps, each with pieces of its own:

1. log m, for x = 2^K m and m from √½ to √2, is a pair with a relative error below FRACTION's.
2. log x = K ln 2 + log m is one with a relative error below LOGARITHM's, for all K.
3. e^p of the product p = y log x, as exp's of an argument: all p from -746 to 710 are K ln 2 + r.

A step takes the pair of the one before as any pair within its errors. Signs and special values
do not add errors: an exponent beyond 2^80 has the result of 2^80, as log x is at least 2^-53 or is
zero; and where p is clamped, results are zero or infinite.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from exponentials import EXACT, LN_2, powers
from flint import arb
from forms import Piece, Real, number
from interpreter import Run, decoded, encoding
from logarithms import NEGATIVE, POSITIVE, ROOT_HALF, ROOT_TWO, for_each_k
from pieces import (
    UNIT,
    Reduction,
    argument,
    divided,
    each,
    near_one,
    pair_near,
    quotient_errors,
    quotient_places,
    scaled_argument,
    whole_part,
)
from recordings import Node

# ln 2 in two parts, as the sequence has them, and 1 / ln 2.
HIGH_LN_2, LOW_LN_2 = decoded(0x3FE62E42FEFA3800), decoded(0x3D2EF35793C76730)
LOG2_E = decoded(0x3FF71547652B82FE)
# The second part of ln 2, where the first part is the double nearest to it.
EXACT_LOW_LN_2 = decoded(0x3C7ABC9E3B39803F)
# The error of a step that is above what the next step takes: no bound allows it.
NOT_PROVED = 1.0


@dataclass(frozen=True)
class Errors:
    """Bounds of a pair's errors, relative to what it stands for: of its first part, and of both."""

    apart: arb
    both: arb

    def pair(self, piece: Piece, ideal: Real) -> tuple:
        """Returns a pair with such errors, and with what may underflow beside them."""
        greatest = abs(piece.range(ideal)).upper()
        tiny = arb(2) ** -1000
        return pair_near(piece, ideal, self.apart * greatest + tiny, self.both * greatest + tiny)

    def hold(self, piece: Piece, ideal: Real, pair: tuple) -> bool:
        """True for a pair that has such errors at most."""
        apart = piece.plus(pair[0].real, ideal, -1)
        both = piece.plus(apart, pair[1].real)
        least = abs(piece.range(ideal)).lower()
        bounds = ((apart, self.apart), (both, self.both))
        return all(difference(piece, real) <= share * least for real, share in bounds)


def difference(piece: Piece, real: Real) -> arb:
    """Returns a bound of a number whose ideal is small."""
    return abs(piece.small_range(real)).upper() + piece.noise_bound(real)


FRACTION = Errors(8 * UNIT, arb(2) ** -67)
LOGARITHM = Errors(arb(2) ** -42, FRACTION.both * arb(1.125))


def product_errors() -> Errors:
    """Returns the errors of the product with y: the first part's is rounded, and then the second
    part, which is what that rounds off and y times the logarithm's second part."""
    apart = (1 + LOGARITHM.apart) * (1 + UNIT) - 1
    second = UNIT * (1 + LOGARITHM.apart) + LOGARITHM.apart + LOGARITHM.both
    return Errors(apart, LOGARITHM.both + UNIT * second)


@dataclass(frozen=True)
class Places:
    """The places of the pairs with which the steps end."""

    fraction: tuple
    logarithm: tuple
    product: tuple


def places(recording) -> Places:
    """Finds the pairs by the constants with which they are multiplied, or that are next to them."""
    nodes = recording.nodes

    def user(operation: str, operand: int | float) -> tuple:
        """Returns the only such operation with an operand: its place, and the other operands."""
        if isinstance(operand, float):
            operand = nodes.index(Node("Float", (), encoding(operand)))
        (place,) = [
            place
            for place, node in enumerate(nodes)
            if node.operation == operation and operand in node.operands
        ]
        return place, *(other for other in nodes[place].operands if other != operand)

    power, _ = user("MulFloat", HIGH_LN_2)
    low_power, _ = user("MulFloat", LOW_LN_2)
    logarithm, fraction = user("AddFloat", power)
    low_sum, low_fraction = user("AddFloat", low_power)
    low_logarithm, _ = user("AddFloat", low_sum)
    _, product = user("MulFloat", LOG2_E)
    _, _, minus_low = user("Fma", EXACT_LOW_LN_2)
    low_product = nodes[minus_low].operands[0]
    # The product has the operations that `product_errors` assumes.
    low, y, rest = user("Fma", low_logarithm)
    _, log, rounded_off = nodes[rest].operands
    minus_high = nodes.index(Node("NegFloat", (nodes.index(Node("MulFloat", (y, log))),)))
    assert nodes[rounded_off] == Node("Fma", (y, log, minus_high))
    assert nodes[low_product].operands[0] == low
    return Places((fraction, low_fraction), (logarithm, low_logarithm), (product, low_product))


def fraction(recording, pair: tuple, low: float, high: float) -> float:
    """Returns 0 if log x is a pair within FRACTION's errors, for x in an interval, where K is 0.

    The quotient s is a pair with a known error (quotient_errors), which replaces the sequence's.
    """
    x, piece = argument(low, high)
    ideal = Real(*((part - 1) / (part + 1) for part in (x.real.middle, x.real.whole)))
    s = Errors(*quotient_errors()).pair(piece, ideal)
    run = Run(recording, piece, [x], replaced=dict(zip(quotient_places(recording), s)))
    exact = Real(x.real.middle.log(), x.real.whole.log())
    return 0.0 if FRACTION.hold(piece, exact, tuple(map(run.of, pair))) else NOT_PROVED


def logarithm(recording, found: Places, k: tuple, low: float, high: float) -> float:
    """Returns 0 if log x is a pair within LOGARITHM's errors, for 2^K m and m in an interval."""
    m, piece, choice = scaled_argument(k, low, high)
    of_m = Real(m.real.middle.log(), m.real.whole.log())
    of_fraction = dict(zip(found.fraction, FRACTION.pair(piece, of_m)))
    run = Run(recording, piece, [m], choice, of_fraction)
    exact = piece.plus(of_m, piece.scaled(choice.value.real, arb.const_log2()))
    holds = LOGARITHM.hold(piece, exact, tuple(map(run.of, found.logarithm)))
    return 0.0 if holds else NOT_PROVED


@dataclass
class Product(Reduction):
    """The reduction of the product p, whose parts are at two places."""

    parts: tuple

    def run(self, recording, k: tuple, low: float, high: float) -> Run:
        """Returns the run of a recording on pairs for products K ln 2 + r."""
        middle, whole, radius = self.series(low, high)
        piece = Piece(radius)
        choice = whole_part(piece, *k)
        product = piece.plus(piece.scaled(choice.value.real, self.unit), Real(middle, whole))
        pair = product_errors().pair(piece, product)
        return Run(recording, piece, [], choice, dict(zip(self.parts, pair)))


def of_pow(recording) -> Iterator:
    """Yields the pieces of pow."""
    found = places(recording)
    at_one = Run(recording, Piece(arb(0)), [number(1.0)])
    assert all(at_one.of(place).constant == 0 for place in found.fraction)
    of_fraction = partial(fraction, recording, found.fraction)
    for interval in near_one(ROOT_HALF, ROOT_TWO):
        if interval != (1.0, 1.0):
            yield from each(of_fraction, divided(interval, 4))
    yield from for_each_k(partial(logarithm, recording, found), NEGATIVE + POSITIVE)
    yield from powers(recording, EXACT["exp"], Product(LN_2.unit, LN_2.radius, found.product))


FUNCTIONS = {"pow": of_pow}
