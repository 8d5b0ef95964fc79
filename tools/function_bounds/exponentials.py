"""Bounds of the exponential and hyperbolic functions of f64.

Small arguments are taken as they are. Others are k ln 2 + r: for exp and exp2 with all k of one
sign at once, as 2^k only scales results; for the others one k after the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from flint import arb
from forms import Real
from interpreter import Run, encoding
from pieces import Reduction, around_zero, binades, check_tiny, each, error_bound, negated, of_small

LN_2 = Reduction(arb.const_log2(), 0.34658)
UNIT = Reduction(arb(1), 0.5)
TINY = 2.0**-54
# Reduced arguments up to this one are taken at once, unless K is zero.
NEARLY_ZERO = 2.0**-44
# From here on r is taken in fewer pieces.
LARGE = 40
# Below, results are less than 2^-1075, and zero; K may be 1024 up to the greatest result, near r =
# 0.
LEAST_K = -1075
# From this |K| on results are scaled in two steps.
FAR = 1000.0


# Functions of a series or a ball.
EXACT = {
    "exp": lambda x: x.exp(),
    "exp2": lambda x: (x * arb.const_log2()).exp(),
    "expm1": lambda x: x.exp() - 1,
    "sinh": lambda x: (x.exp() - (-x).exp()) / 2,
    "cosh": lambda x: (x.exp() + (-x).exp()) / 2,
    "tanh": lambda x: ((x * 2).exp() - 1) / ((x * 2).exp() + 1),
}
# The functions that are taken one K after the other: the range of K, the last argument, and the
# ends of the interval beyond which results, as floats, do not change.
ONE_BY_ONE = {
    "expm1": (range(-71, 1025), 709.79, (-50.0, -49.5)),
    "sinh": (range(1026), 710.476, None),
    "cosh": (range(1026), 710.476, None),
    "tanh": (range(32), 22, (21.8, 22.0)),
}


def unscaled(recording) -> int:
    """Returns the place of a result of exp or exp2 that is one product with a power of two.

    It is selected unless results may be subnormal or infinite. Two products are equal otherwise.
    """
    return next(
        node.operands[1]
        for node in recording.nodes
        if node.operation == "Select"
        and recording.nodes[node.operands[1]].operation == "MulFloat"
        and (compared := recording.nodes[node.operands[2]]).operation == "Less"
        and recording.nodes[compared.operands[0]].number == encoding(FAR)
    )


def scaled(recording, function, reduction, k: tuple, low: float, high: float) -> float:
    """Bounds the error of exp, exp2 or pow.

    Results that are subnormal are rounded once more: by half of their unit, which is at least twice
    the one before, so that the error before counts half.
    """
    run = reduction.run(recording, k, low, high)
    middle, whole, _ = reduction.series(low, high)
    bound = error_bound(run, Real(function(middle), function(whole)), run.of(unscaled(recording)))
    return max(bound, 0.5 + bound / 2)


def shifted(recording, function, k: int, low: float, high: float) -> float:
    """Bounds the error where x = k ln 2 + r, with r from `low` to `high`.

    Where results may overflow, their halves are compared, from which results are exact sums.
    """
    x, piece, choice = LN_2.argument((k, k), low, high)
    run = Run(recording, piece, [x], choice)
    exact = Real(function(x.real.middle), function(x.real.whole))
    if k < LARGE:
        return error_bound(run, exact)
    return error_bound(run, piece.scaled(exact, arb(0.5)), run.of(half(recording)))


def half(recording) -> int:
    """Returns the place of the half of a result, or of the result if no halves are computed."""
    added = [node.operands for node in recording.nodes if node.operation == "AddFloat"]
    return next((a for a, b in added if a == b), recording.result)


def powers(recording, function, reduction) -> Iterator:
    """Yields the pieces of exp, exp2 or pow."""
    intervals = around_zero(NEARLY_ZERO, reduction.radius)
    near_one = [(low, min(high, 0.003)) for low, high in intervals if low < 0.003]
    for k in ((LEAST_K, -1), (1, 1023)):
        reduction.check_radius(recording, k, unscaled(recording))
        yield from each(partial(scaled, recording, function, reduction, k), intervals)
    yield from each(partial(scaled, recording, function, reduction, (1023, 1024)), near_one)
    intervals = around_zero(TINY / 2, reduction.radius)
    yield from each(partial(scaled, recording, function, reduction, (0, 0)), intervals)


def one_by_one(name: str, recording) -> Iterator:
    """Yields the pieces of a function that is taken one K after the other."""
    function, (ks, last, tail) = EXACT[name], ONE_BY_ONE[name]
    if name != "cosh":
        # The hyperbolic cosine of tiny arguments is 1.
        check_tiny(function, TINY)
    small = partial(of_small, recording, function)
    intervals = binades(TINY, LN_2.radius)
    yield from each(small, intervals)
    if ks.start < 0:
        yield from each(small, negated(intervals))
    for k in filter(None, ks):
        LN_2.check_radius(recording, (k, k), half(recording), last)
        end = min(last - k * math.log(2), LN_2.radius)
        inside = [part for part in around_zero(0.1, LN_2.radius) if part[0] < end]
        clipped = [(low, min(high, end)) for low, high in inside]
        yield from each(partial(shifted, recording, function, k), clipped)
    if tail:
        yield from each(small, binades(*tail))


# Each function's pieces, with a function that bounds an error there, from its recording.
FUNCTIONS = {
    "exp": lambda recording: powers(recording, EXACT["exp"], LN_2),
    "exp2": lambda recording: powers(recording, EXACT["exp2"], UNIT),
    **{name: partial(one_by_one, name) for name in ONE_BY_ONE},
}
