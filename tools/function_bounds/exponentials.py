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
from pieces import HALF, Reduction, around_zero, binades, error_bound, of_small

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


def exp(x):
    """Returns e^x, of a series or a ball, as do the functions below."""
    return x.exp()


def exp2(x):
    """Returns 2^x."""
    return (x * arb.const_log2()).exp()


def expm1(x):
    """Returns e^x - 1."""
    return x.exp() - 1


def sinh(x):
    """Returns sinh x."""
    return (x.exp() - (-x).exp()) / 2


def cosh(x):
    """Returns cosh x."""
    return (x.exp() + (-x).exp()) / 2


def tanh(x):
    """Returns tanh x."""
    square = (x * 2).exp()
    return (square - 1) / (square + 1)


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
    return max(bound, HALF + bound / 2)


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
    product = unscaled(recording)
    for k in ((LEAST_K, -1), (1, 1023)):
        reduction.check_radius(recording, k, product)
        for r in around_zero(NEARLY_ZERO, reduction.radius):
            yield partial(scaled, recording, function, reduction, k), r
    for low, high in around_zero(NEARLY_ZERO, reduction.radius):
        if low < 0.003:
            yield (
                partial(scaled, recording, function, reduction, (1023, 1024)),
                (low, min(high, 0.003)),
            )
    for r in around_zero(TINY / 2, reduction.radius):
        yield partial(scaled, recording, function, reduction, (0, 0)), r


def with_small(recording, function, ks: range, last: float) -> Iterator:
    """Yields the pieces of a function that is taken one K after the other, up to an argument."""
    for interval in binades(TINY, LN_2.radius):
        yield partial(of_small, recording, function), interval
    if ks.start < 0:
        for low, high in binades(TINY, LN_2.radius):
            yield partial(of_small, recording, function), (-high, -low)
    for k in ks:
        if k:
            LN_2.check_radius(recording, (k, k), half(recording), last)
            end = min(last - k * math.log(2), LN_2.radius)
            for low, high in around_zero(0.1, LN_2.radius):
                if low < end:
                    yield partial(shifted, recording, function, k), (low, min(high, end))


def tails(recording, function, low: float, high: float) -> Iterator:
    """Yields the pieces up to where a function does not change any more, as floats."""
    for interval in binades(low, high):
        yield partial(of_small, recording, function), interval


def check_tiny(function, tiny: float = TINY) -> None:
    """Proves that arguments below `tiny` are results: the quotient of both is monotone."""
    error = abs(function(arb(tiny)) / arb(tiny) - 1).upper() * arb(2) ** 53
    assert error < HALF


def of_expm1(recording) -> Iterator:
    """Yields the pieces of expm1, which does not change below -50."""
    check_tiny(expm1)
    yield from with_small(recording, expm1, range(-71, 1025), 709.79)
    yield from tails(recording, expm1, -50.0, -49.5)


def of_sinh(recording) -> Iterator:
    """Yields the pieces of sinh."""
    check_tiny(sinh)
    yield from with_small(recording, sinh, range(1026), 710.476)


def of_cosh(recording) -> Iterator:
    """Yields the pieces of cosh, which is 1 below."""
    yield from with_small(recording, cosh, range(1026), 710.476)


def of_tanh(recording) -> Iterator:
    """Yields the pieces of tanh, which does not change above 22."""
    check_tiny(tanh)
    yield from with_small(recording, tanh, range(32), 22)
    yield from tails(recording, tanh, 21.8, 22.0)


# What yields each function's pieces, with what bounds an error there, from its recording.
FUNCTIONS = {
    "exp": lambda recording: powers(recording, exp, LN_2),
    "exp2": lambda recording: powers(recording, exp2, UNIT),
    "expm1": of_expm1,
    "sinh": of_sinh,
    "cosh": of_cosh,
    "tanh": of_tanh,
}
