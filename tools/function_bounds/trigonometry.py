"""Bounds of the trigonometric functions of f64.

An argument is n π/2 + r. Without a reduction, for n = 0, r is taken as it is. Up to 2^30,
`reduce_near` is run on all n at once. `reduce_far` is not run: what it may lose is bounded by
`far_error`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from flint import arb
from forms import DIGITS, ZERO, Real, Value, exponent
from interpreter import TO_INTEGER, Run, decoded
from pieces import Reduction, binades, check_tiny, each, error_bound, negated, of_small

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python_tests" / "support"))
from hard_angles import near_multiples, two_over_pi  # noqa: E402

QUARTER = Reduction(arb.pi() / 2, 0.78541)
FAR = 2.0**30
NEAR_TURNS = (1, math.ceil(FAR * 2 / math.pi))
# No double but zero is nearer to a multiple of π/2: checked by `check_distances`.
NEAREST = 2.0**-61.7
# The relative error of r in two parts, from `reduce_far`: checked by `far_error`.
FAR_ERROR = 2.0**-76
# Below, the tangent is its argument.
TINY = 2.0**-28


def turned(name: str, quarters: int):
    """Returns the function of r that is a function of r and some quarter-turns, of a series or a
    ball."""
    if name == "tan":
        return (lambda r: -r.cos() / r.sin()) if quarters % 2 else (lambda r: r.sin() / r.cos())
    quarters = (quarters + (name == "cos")) % 4
    sign = -1 if quarters >= 2 else 1
    return (lambda r: r.cos() * sign) if quarters % 2 else (lambda r: r.sin() * sign)


def choices(recording) -> tuple:
    """Returns the place of the comparison with 2^30, and the places of the three choices by it."""
    nodes = list(enumerate(recording.nodes))
    less = [(place, node) for place, node in nodes if node.operation == "Less"]
    (is_far,) = [place for place, node in less if constant(recording, node.operands[0]) == FAR]
    selects = [(place, node) for place, node in nodes if node.operation == "Select"]
    return is_far, [place for place, node in selects if node.operands[2] == is_far]


def constant(recording, place: int) -> float | None:
    """Returns a node's value if it is a constant."""
    node = recording.nodes[place]
    return decoded(node.number) if node.operation == "Float" else None


def exact_of(name: str, quarters: int, low: float, high: float) -> Real:
    """Returns the function's value."""
    middle, whole, _ = QUARTER.series(low, high)
    function = turned(name, quarters)
    return Real(function(middle), function(whole))


def near(recording, name: str, quarters: int, low: float, high: float) -> float:
    """Bounds the error of arguments from π/4 to 2^30 with r from `low` to `high`."""
    x, piece, choice = QUARTER.argument(NEAR_TURNS, low, high, (quarters, 2))
    run = Run(recording, piece, [x], choice, {choices(recording)[0]: False})
    return error_bound(run, exact_of(name, quarters, low, high))


def far(recording, name: str, quarters: int, low: float, high: float) -> float:
    """Bounds the error of greater arguments, with r as `reduce_far` has it: high + low = r (1 +
    error)."""
    x, piece, choice = QUARTER.argument(NEAR_TURNS, low, high, (quarters, 2))
    middle, whole, _ = QUARTER.series(low, high)
    greatest = max(abs(low), abs(high)) * (1 + 2.0**-50)
    rounding = piece.symbol(math.ldexp(1.0, exponent(greatest) - DIGITS))
    wrong = piece.symbol(FAR_ERROR * greatest)
    first = piece.value(Real(middle, whole, {wrong: arb(1), rounding: arb(-1)}))
    second = piece.value(Real(ZERO, ZERO, {rounding: arb(1)}))
    place, selected = choices(recording)
    turns = Value(Real(ZERO, ZERO), TO_INTEGER, TO_INTEGER + 3, whole_part=(TO_INTEGER, 1))
    replaced = dict(zip(selected, (turns, first, second))) | {place: True}
    return error_bound(
        Run(recording, piece, [x], choice, replaced), exact_of(name, quarters, low, high)
    )


def far_error(recording) -> float:
    """Bounds the relative error of r from `reduce_far`, in the order of its operations.

    After the skips x is at most 2^102, and five words w of 48 bits are taken, the i-th times x
    2^(-48 i). Sums in two parts are exact. Their rests, in the order of the terms, are at most half
    a last bit of what is added.
    """
    check_words(recording)
    unit = 2.0**-DIGITS
    term = [2.0 ** (102 - 48 * i) for i in range(6)]
    # The words after the fifth, and the last term's rounding.
    lost = 1.01 * term[5] + unit * 1.01 * term[4]
    # The last two rests are of the sums of d and less. Those before are of sums of c, which is
    # below 2^6, and of five terms up to four.
    small, large = 1.1 * unit * term[3], 1.1 * unit * (term[2] + 5 * 4)
    lost += unit * 2 * small
    # The terms that are added to the distance, and the rests of these sums: the low part.
    high = NEAREST + 2 * 5 * large
    low = 2 * small + 5 * unit * high
    lost += 5 * unit * low
    error = lost / NEAREST
    # The product with π/2: two roundings, the product of both low parts, and what π/2 lacks.
    share = low / NEAREST + 2 * unit
    return error + 2 * unit * share + share * 2.0**-54 + 2.0**-109


def check_words(recording) -> None:
    """Proves that the recording has the words of 2/π."""
    constants = {constant(recording, place) for place in range(len(recording.nodes))}
    for i in range(25):
        bits = two_over_pi(48 * (i + 1)) % 2**48
        assert bits * 2.0**-48 in constants


def check_distances() -> None:
    """Proves that no double from ½ on is nearer to a multiple of π/2 than NEAREST quarter-turns."""
    for exponent_of_x in range(-1, 1024):
        for is_odd in (False, True):
            for _, distance in near_multiples(exponent_of_x, is_odd, 1):
                assert distance > NEAREST


def of_function(name: str, recording) -> Iterator:
    """Yields the pieces of a function."""
    tiny = 2.0**-30
    if name == "tan":
        check_tiny(turned(name, 0), TINY)
        tiny = TINY
    check_distances()
    assert far_error(recording) < FAR_ERROR
    small = partial(of_small, recording, turned(name, 0))
    if name == "cos":
        yield small, (0.0, math.nextafter(tiny, 0))
    elif name == "sin":
        yield from each(small, binades(2.0**-1074, math.nextafter(tiny, 0)))
    yield from each(small, binades(tiny, QUARTER.radius))
    intervals = binades(2.0**-62, QUARTER.radius)
    # The tangent is the same after a half turn.
    for quarters in range(2 if name == "tan" else 4):
        for evaluate in (near, far):
            bound = partial(evaluate, recording, name, quarters)
            yield from each(bound, intervals + negated(intervals))


FUNCTIONS = {name: partial(of_function, name) for name in ("sin", "cos", "tan")}
