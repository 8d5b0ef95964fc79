"""Bounds of the logarithms and of the inverse hyperbolic functions of f64.

The argument of a logarithm is 2^K m with m from √½ to √2, as the functions have it. K is taken in
ranges of one magnitude, so that results have nearly the same unit; where K is zero, m is near 1 in
pieces of one magnitude of m - 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from flint import arb
from forms import ZERO, Real, Value
from interpreter import Run, decoded, encoding
from pieces import (
    argument,
    binades,
    check_tiny,
    divided,
    each,
    error_bound,
    near_one,
    negated,
    of_small,
    scaled_argument,
    to_one,
)

# The least m, as crates/math/src/logarithm.rs has it.
ROOT_HALF = float.fromhex("0x1.6a09e667f3bcdp-1")
ROOT_TWO = math.nextafter(2 * ROOT_HALF, 0)
# All m below 1, and from 1 on.
BELOW, ABOVE = (ROOT_HALF, math.nextafter(1, 0)), (1.0, ROOT_TWO)
# Balls are not so narrow that pieces may end at the float where K changes.
NEAR_ENDS = 1 << 23
# From this K on 1 + x is x.
ABSORBS = 55
# Ranges of K: of subnormal arguments, of the least normal ones, and by magnitudes.
NEGATIVE = [(-1074, -1023), (-1022, -1022), (-1021, -512)]
NEGATIVE += [(1 - 2 ** (j + 1), -(2**j)) for j in range(9)]
POSITIVE = [(2**j, 2 ** (j + 1) - 1) for j in range(10)]
# Below TINY inverse hyperbolic functions are their arguments, and beyond HUGE asinh and acosh are
# logarithms of twice the argument, from which they differ by less than MISSING, mainly 1 / 4x².
TINY, HUGE, MISSING = 2.0**-28, 2.0**30, arb(2) ** -61
# Ranges of K beyond HUGE for all m, and beyond the K from which 1 + x is x.
BEYOND_HUGE = [(31, 63), (64, 127), (128, 255), (256, 511), (512, 1000), (1001, 1023)]
BEYOND_ABSORBED = [(ABSORBS, 127), *BEYOND_HUGE[2:]]
# The inverse hyperbolic functions of a series or a ball.
INVERSE = {
    "asinh": lambda x: (x + (x * x + 1).sqrt()).log(),
    "acosh": lambda x: (x + ((x - 1) * (x + 1)).sqrt()).log(),
    "atanh": lambda x: ((1 + x) / (1 - x)).log() / 2,
}


def logarithm(base: arb | None):
    """Returns the logarithm to a base, e if it is not given, of a series or a ball."""
    return lambda x: x.log() if base is None else x.log() / base


def for_each_k(evaluate, ks: list) -> Iterator:
    """Yields the pieces of 2^K m for ranges of K and all m, and for the greatest K."""
    intervals = divided(BELOW, 8) + divided(ABOVE, 8)
    for k in ks:
        yield from each(partial(evaluate, k), intervals)
    yield from each(partial(evaluate, (1024, 1024)), divided(BELOW, 8))


def scaled(recording, base: arb | None, k: tuple, low: float, high: float) -> float:
    """Bounds the error of the logarithms of 2^K m."""
    m, piece, choice = scaled_argument(k, low, high)
    function = logarithm(base)
    exact = piece.scaled(choice.value.real, function(arb(2)))
    exact = piece.plus(Real(function(m.real.middle), function(m.real.whole)), exact)
    return error_bound(Run(recording, piece, [m], choice), exact)


def of_logarithm(base: arb | None, recording) -> Iterator:
    """Yields the pieces of a logarithm."""
    small = partial(of_small, recording, logarithm(base))
    yield from each(small, near_one(ROOT_HALF, ROOT_TWO))
    yield from for_each_k(partial(scaled, recording, base), NEGATIVE + POSITIVE)


def log1p(x):
    """Returns log(1 + x) of a series or a ball."""
    return (1 + x).log()


def log1p_of_small(recording, low: float, high: float) -> float:
    """Bounds the error of log1p for arguments up to 2^-20, by five terms of its series and a bound
    of the rest."""
    x, piece = argument(low, high)
    greatest = arb(max(abs(low), abs(high)))
    exact = []
    for part in (x.real.middle, x.real.whole):
        total = arb(0)
        for n in range(6, 0, -1):
            total = (arb((-1) ** (n + 1)) / n + total) * part
        exact.append(total)
    rest = arb(0, (greatest**7).upper())
    return error_bound(Run(recording, piece, [x]), Real(exact[0] + rest, exact[1]))


def log1p_of_large(recording, k: tuple, low: float, high: float) -> float:
    """Bounds the error of log1p of x = 2^K m from 2^(ABSORBS - 1/2) on: x + 1 is x, and the rest
    is 1.

    The rest's share, 2^-K times about 1 / m, and 1 / x, by which log(1 + x) is more than log x, are
    below 2^(1 - K).
    """
    nodes = list(enumerate(recording.nodes))
    one = next(
        place for place, node in nodes if node.operation == "Float" and decoded(node.number) == 1
    )
    sums = [(place, node.operands) for place, node in nodes if node.operation == "AddFloat"]
    (total,) = [place for place, operands in sums if operands == (0, one)]
    rests = {
        place
        for place, parts in sums
        if all(recording.nodes[p].operation == "SubFloat" for p in parts)
    }
    products = [(place, node.operands) for place, node in nodes if node.operation == "MulFloat"]
    (product,) = [place for place, operands in products if operands[0] in rests]
    m, piece, choice = scaled_argument(k, low, high)
    tiny = 2.0 ** (1 - k[0])
    share = Value(Real(ZERO, ZERO, {piece.symbol(tiny): arb(1)}), 0.0, tiny)
    exact = Real(m.real.middle.log(), m.real.whole.log(), {piece.symbol(tiny): arb(1)})
    exact = piece.plus(exact, piece.scaled(choice.value.real, arb.const_log2()))
    return error_bound(Run(recording, piece, [m], choice, {total: m, product: share}), exact)


def of_log1p(recording) -> Iterator:
    """Yields the pieces of log1p: those of x near 0, of 1 + x below √½, and above √2."""
    tiny, above = 2.0**-20, math.nextafter(ROOT_TWO - 1, 1)
    intervals = binades(2.0**-1074, math.nextafter(tiny, 0))
    yield from each(partial(log1p_of_small, recording), intervals + negated(intervals))
    intervals = binades(tiny, above) + negated(binades(tiny, 0.5))
    for j in range(1, 53):
        intervals.append((2.0 ** -(j + 1) - 1, math.nextafter(2.0**-j - 1, -1)))
    intervals.append((2.0**-53 - 1, 2.0**-53 - 1))
    # K changes near these floats.
    ends = [encoding(math.ldexp(ROOT_HALF, k) - 1) for k in range(1, ABSORBS + 1)]
    intervals.append((above, decoded(ends[0] + NEAR_ENDS)))
    for end, following in zip(ends, ends[1:]):
        intervals.append((decoded(end - NEAR_ENDS), decoded(end + NEAR_ENDS)))
        intervals += binades(decoded(end + NEAR_ENDS + 1), decoded(following - NEAR_ENDS - 1))
    intervals.append((decoded(ends[-1] - NEAR_ENDS), math.ldexp(ROOT_HALF, ABSORBS)))
    yield from each(partial(of_small, recording, log1p), intervals)
    yield from for_each_k(partial(log1p_of_large, recording), BEYOND_ABSORBED)


def of_huge(recording, k: tuple, low: float, high: float) -> float:
    """Bounds the error of asinh and acosh of 2^K m, for m in an interval, as of log 2x."""
    m, piece, choice = scaled_argument(k, low, high)
    parts = ((2 * part).log() for part in (m.real.middle, m.real.whole))
    logarithm = Real(*parts, {piece.symbol(MISSING): arb(1)})
    exact = piece.plus(logarithm, piece.scaled(choice.value.real, arb.const_log2()))
    return error_bound(Run(recording, piece, [m], choice), exact)


def of_inverse(name: str, recording) -> Iterator:
    """Yields the pieces of an inverse hyperbolic function."""
    if name == "acosh":
        # By magnitudes of x - 1 up to 2.
        intervals = [part for part in near_one(0.5, math.nextafter(2, 1)) if part[0] >= 1]
        intervals += binades(2.0, HUGE)
    else:
        check_tiny(INVERSE[name], TINY)
        intervals = binades(TINY, HUGE if name == "asinh" else math.nextafter(0.5, 0))
        intervals += to_one(0.5) if name == "atanh" else []
    yield from each(partial(of_small, recording, INVERSE[name]), intervals)
    if name != "atanh":
        first = (math.nextafter(1, 2), ROOT_TWO)
        yield from each(partial(of_huge, recording, (30, 30)), divided(first, 8))
        yield from for_each_k(partial(of_huge, recording), BEYOND_HUGE)


FUNCTIONS = {
    "log1p": of_log1p,
    "log": partial(of_logarithm, None),
    "log2": partial(of_logarithm, arb.const_log2()),
    "log10": partial(of_logarithm, arb.const_log10()),
    **{name: partial(of_inverse, name) for name in INVERSE},
}
