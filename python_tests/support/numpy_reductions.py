"""The reductions of expressions by NumPy, and by Python's fractions where sums are exact."""

import math
from fractions import Fraction
from operator import mul
from typing import Any, Callable

import numpy as np

BOOL, I32, I64, F32, F64 = map(np.dtype, ("?", "i4", "i8", "f4", "f8"))


class Refused(Exception):
    """The expression is one that gpuvec refuses, for the reason that is given."""


class Empty(Refused):
    """A reduction of no elements has no result."""


def nearest(exact: Fraction, dtype: np.dtype) -> Any:
    """Returns the float that is nearest to a fraction."""
    size = abs(exact)
    try:
        result = float(size)
    except OverflowError:
        result = math.inf
    if dtype == F32 and result < math.inf and Fraction(result) != size:
        # Rounded to odd, so that the second rounding to 24 bits is right.
        below = result if Fraction(result) < size else math.nextafter(result, 0)
        result = float((np.float64(below).view(I64) | 1).view(F64))
    with np.errstate(over="ignore", under="ignore"):
        return dtype.type(-result if exact < 0 else result)


def numbers(values: np.ndarray) -> None:
    """Refuses bools."""
    if values.dtype == BOOL:
        raise Refused("it takes numbers")


def scaled(values: list[Any]) -> tuple[list[int], int]:
    """Returns finite numbers as integers, and the power of two that multiplied them."""
    ratios = [x.as_integer_ratio() for x in values]
    unit = max((denominator for _, denominator in ratios), default=1)
    return [numerator * (unit // denominator) for numerator, denominator in ratios], unit


def exact_sum(values: list[Any]) -> Any:
    """Returns the exact sum of floats: a fraction, or NaN or an infinity."""
    special = {str(x) for x in values if not math.isfinite(x)}
    if special:
        return float(special.pop()) if len(special) == 1 else math.nan
    integers, unit = scaled(values)
    return Fraction(sum(integers), unit)


def exact_dot(a: list[Any], b: list[Any]) -> Any:
    """Returns the exact sum of products: a fraction, or NaN or an infinity."""
    special = [x * y for x, y in zip(a, b) if not (math.isfinite(x) and math.isfinite(y))]
    if special:
        return exact_sum(special)
    (left, unit_of_left), (right, unit_of_right) = scaled(a), scaled(b)
    return Fraction(sum(map(mul, left, right)), unit_of_left * unit_of_right)


def root(exact: Fraction) -> Fraction:
    """Returns a fraction that is rounded as the root is: leading bits, and one for the rest."""
    bits = max(0, exact.denominator.bit_length() - exact.numerator.bit_length()) // 2 + 130
    shifted, rest = divmod(exact.numerator << 2 * bits, exact.denominator)
    of_shifted = math.isqrt(shifted)
    has_more = rest > 0 or of_shifted * of_shifted != shifted
    return Fraction(2 * of_shifted + has_more, 2 << bits)


def sum_(values: np.ndarray) -> Any:
    """Sums: floats exactly, rounded once; integers as i64, which wrap."""
    if values.dtype.kind != "f":
        return np.sum(values, dtype=I64)
    return finished(exact_sum(values.ravel().tolist()), values.dtype)


def finished(total: Any, dtype: np.dtype) -> Any:
    """Rounds an exact sum."""
    return nearest(total, dtype) if isinstance(total, Fraction) else dtype.type(total)


def dot(a: np.ndarray, b: np.ndarray) -> Any:
    """Sums products: of integers as i64."""
    numbers(a)
    if a.dtype.kind != "f":
        return np.sum(a.astype(I64) * b.astype(I64))
    return finished(exact_dot(a.ravel().tolist(), b.ravel().tolist()), a.dtype)


def float_type(values: np.ndarray) -> np.dtype:
    """Returns the type of a mean: that of floats, and f64 of other elements."""
    return values.dtype if values.dtype.kind == "f" else F64


def mean(values: np.ndarray) -> Any:
    """Divides the exact sum by the number of elements, rounded once."""
    total = exact_sum(values.ravel().tolist()) if values.size else math.nan
    exact = total / values.size if isinstance(total, Fraction) else total
    return finished(exact, float_type(values))


def norm(values: np.ndarray) -> Any:
    """Returns the root of the exact sum of squares, rounded once."""
    numbers(values)
    total = exact_dot(*[values.ravel().tolist()] * 2)
    return finished(root(total) if isinstance(total, Fraction) else total, float_type(values))


def least(function: Callable[..., Any], pick: Callable[..., Any]) -> Callable[..., Any]:
    """Makes min or max: NumPy's, with "-0 < +0"."""

    def apply(values: np.ndarray) -> Any:
        numbers(values)
        result = pick_one(function, values)
        if result.dtype.kind != "f" or result != 0:
            return result
        signs = np.signbit(values[values == 0])
        return np.copysign(result, -1 if pick(signs) else 1)

    return apply


def pick_one(function: Callable[..., Any], values: np.ndarray) -> Any:
    """Picks an element of numbers: there must be one."""
    numbers(values)
    if values.size == 0:
        raise Empty("it needs at least one element")
    return np.asarray(function(values))


def of_bools(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a reduction of bools alone."""

    def apply(values: np.ndarray) -> Any:
        if values.dtype != BOOL:
            raise Refused("it takes bools")
        return np.asarray(function(values))

    return apply


def product(values: np.ndarray) -> Any:
    """Multiplies integers, wrapping."""
    numbers(values)
    if values.dtype.kind == "f":
        raise Refused("it takes integers")
    return np.multiply.reduce(values.ravel().astype(I64))


def exact_variance(values: np.ndarray, ddof: int) -> Any:
    """Returns the exact variance: a fraction, or NaN or infinity."""
    n, every = values.size, values.ravel().tolist()
    if n == 0 or not all(map(math.isfinite, every)):
        return math.nan
    integers, unit = scaled(every)
    # n times the sum of the squares of x - mean, in integers.
    spread = n * sum(x * x for x in integers) - sum(integers) ** 2
    if n <= ddof:
        return math.inf if spread else math.nan
    return Fraction(spread, n * (n - ddof) * unit**2)


def variance(values: np.ndarray, ddof: int = 0) -> Any:
    """Rounds the exact variance once."""
    return finished(exact_variance(values, ddof), float_type(values))


def deviation(values: np.ndarray, ddof: int = 0) -> Any:
    """Rounds the root of the exact variance once."""
    exact = exact_variance(values, ddof)
    return finished(root(exact) if isinstance(exact, Fraction) else exact, float_type(values))


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": sum_,
    "mean": mean,
    "dot": dot,
    "prod": product,
    "norm": norm,
    "var": variance,
    "std": deviation,
    "min": least(np.min, np.any),
    "max": least(np.max, np.all),
    "argmin": lambda values: pick_one(np.argmin, values),
    "argmax": lambda values: pick_one(np.argmax, values),
    "any": of_bools(np.any),
    "all": of_bools(np.all),
    "count": of_bools(np.count_nonzero),
}
