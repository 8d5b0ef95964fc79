"""Exact sums and dot products of floats, rounded once: two oracles that share no code.

Each takes one array, or two whose elements it multiplies, and returns the result as an array of one
element: rounded to nearest, ties to even; the quiet NaN for a NaN, 0 * Inf or Inf - Inf; +0 for an
exact zero.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import Optional

import numpy as np
from oracles import QUIET_NAN, unsigned

# The number of elements that `by_exponents` adds at a time, so that no sum of halves exceeds 2^53.
CHUNK = 1 << 18

Second = Optional[np.ndarray]


def by_rationals(a: np.ndarray, b: Second = None) -> np.ndarray:
    """Sums terms as fractions, one by one; for some thousand elements."""
    others = [1.0] * a.size if b is None else b.tolist()
    total, special = Fraction(0), set()
    for x, y in zip(a.tolist(), others):
        if math.isfinite(x) and math.isfinite(y):
            total += Fraction(x) * Fraction(y)
        else:
            special.add(str(x * y))
    if special in ({"inf"}, {"-inf"}):
        return np.array([float(special.pop())], a.dtype)
    if special:
        return np.array([QUIET_NAN[a.dtype]])
    bits = unsigned(a.dtype)
    sign = (total < 0) << (8 * bits.itemsize - 1)
    return np.array([sign | nearest(abs(total), a.dtype)], bits).view(a.dtype)


def nearest(value: Fraction, dtype) -> int:
    """Returns the encoding that is nearest to a value of at least 0, by bisection."""
    below, above = 0, encoding_of_infinity(dtype)
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (middle, above) if value_of(middle, dtype) <= value else (below, middle)
    middle = (value_of(below, dtype) + value_of(above, dtype)) / 2
    is_even = below % 2 == 0
    return below if value < middle or (value == middle and is_even) else above


@cache
def value_of(encoding: int, dtype) -> Fraction:
    """Returns the value of an encoding; Inf's is that of one more step."""
    if encoding == encoding_of_infinity(dtype):
        return 2 * value_of(encoding - 1, dtype) - value_of(encoding - 2, dtype)
    return Fraction(float(np.array([encoding], unsigned(dtype)).view(dtype)[0]))


def encoding_of_infinity(dtype) -> int:
    """Returns the bits of +Inf."""
    return int(np.array([np.inf], dtype).view(unsigned(dtype))[0])


def by_exponents(a: np.ndarray, b: Second = None) -> np.ndarray:
    """Sums integers, grouped by their exponents; for any length."""
    special = special_result(a, b)
    return np.array([special]) if special is not None else rounded(*exact_integer(a, b), a.dtype)


def exact_integer(a: np.ndarray, b: Second = None) -> tuple[int, int]:
    """Returns the exact sum of finite terms, as an integer and the exponent of its unit."""
    counts: dict[int, int] = defaultdict(int)
    for start in range(0, a.size, CHUNK):
        chunk = slice(start, start + CHUNK)
        for values, exponents in terms(a[chunk], None if b is None else b[chunk]):
            add_grouped(counts, values, exponents)
    low = min(counts, default=0)
    return sum(count << (exponent - low) for exponent, count in counts.items()), low


def special_result(a: np.ndarray, b: Second):
    """Returns the result of arithmetic with infinities if a term is not finite."""
    if np.isfinite(a).all() and (b is None or np.isfinite(b).all()):
        return None
    # Finite terms do not matter; factors are replaced by their signs, so that no product overflows.
    signs = [np.where(np.isfinite(x), np.sign(x), x) for x in ([a] if b is None else [a, b])]
    matters = ~np.isfinite(signs[0]) | ~np.isfinite(signs[-1])
    with np.errstate(invalid="ignore"):
        result = np.sum(np.prod([values[matters] for values in signs], axis=0))
    return QUIET_NAN[a.dtype] if np.isnan(result) else result.astype(a.dtype)


def terms(a: np.ndarray, b: Second) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields integers of at most 54 bits and their exponents, which add up to the terms."""
    x, x_exponents = integers(a)
    if b is None:
        yield x, x_exponents
        return
    y, y_exponents = integers(b)
    exponents = x_exponents + y_exponents
    if a.dtype == np.float32:
        yield x * y, exponents
        return
    (x_high, x_low), (y_high, y_low) = halves(x, 27), halves(y, 27)
    yield x_high * y_high, exponents + 54
    yield x_high * y_low + x_low * y_high, exponents + 27
    yield x_low * y_low, exponents


def integers(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns floats as integers of as many bits as the significand, and their exponents."""
    bits = np.finfo(values.dtype).nmant + 1
    fractions, exponents = np.frexp(values)
    return np.ldexp(fractions, bits).astype(np.int64), exponents.astype(np.int64) - bits


def halves(values: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Splits integers: high * 2^bits + low, with low in [0, 2^bits)."""
    return values >> bits, values & ((1 << bits) - 1)


def add_grouped(counts: dict[int, int], values: np.ndarray, exponents: np.ndarray) -> None:
    """Adds the sum of integers of each exponent to its count.

    `bincount` sums in float64: exact, since 2^18 halves of up to 2^27 are at most 2^45.
    """
    if not values.size:
        return
    low = int(exponents.min())
    groups = exponents - low
    for half, shift in zip(halves(values, 27), (27, 0)):
        sums = np.bincount(groups, half)
        for group in np.flatnonzero(sums):
            counts[low + int(group)] += int(sums[group]) << shift


def rounded(total: int, low: int, dtype) -> np.ndarray:
    """Rounds total * 2^low: keeps as many leading bits as the format has there."""
    info = np.finfo(dtype)
    least = info.minexp - info.nmant
    dropped = max(abs(total).bit_length() - (info.nmant + 1), least - low, 0)
    kept, rest = divmod(abs(total), 1 << dropped)
    kept += 2 * rest + kept % 2 > 1 << dropped
    # Nothing is left to round: ldexp only overflows.
    with np.errstate(over="ignore"):
        magnitude = np.ldexp(np.dtype(dtype).type(kept), low + dropped)
    return np.array([-magnitude if total < 0 else magnitude], dtype)
