"""The reductions of expressions by NumPy, and by Python's fractions where sums are exact."""

import math
from fractions import Fraction
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
        return dtype.type(math.copysign(result, exact))


def numbers(values: np.ndarray) -> None:
    """Refuses bools."""
    if values.dtype == BOOL:
        raise Refused("it takes numbers")


def exact_sum(values: list[Any]) -> Any:
    """Returns the exact sum of floats: a fraction, or NaN or an infinity."""
    special = {str(value) for value in values if not math.isfinite(value)}
    if special:
        return float(special.pop()) if len(special) == 1 else math.nan
    return sum(map(Fraction, values), Fraction(0))


def products(a: np.ndarray, b: np.ndarray) -> list[Any]:
    """Returns exact products: fractions, and floats that are not finite."""
    pairs = zip(a.tolist(), b.tolist())
    return [
        Fraction(x) * Fraction(y) if math.isfinite(x) and math.isfinite(y) else x * y
        for x, y in pairs
    ]


def scaled(total: Fraction, step: int) -> tuple[float, int]:
    """Returns a float and a multiple of `step`, the exponent of its unit, near 1 in magnitude."""
    exponent = total.numerator.bit_length() - total.denominator.bit_length()
    exponent -= exponent % step
    return float(total / Fraction(2) ** exponent), exponent


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
    return finished(exact_sum(products(a.ravel(), b.ravel())), a.dtype)


def mean(values: np.ndarray) -> Any:
    """Divides the exact sum of floats, rounded to f64, by the number of elements."""
    dtype = values.dtype if values.dtype.kind == "f" else F64
    if values.size == 0:
        return dtype.type(math.nan)
    total = exact_sum(values.ravel().astype(F64).tolist())
    if not isinstance(total, Fraction):
        return dtype.type(total)
    unit, exponent = scaled(total, 1)
    return dtype.type(math.ldexp(unit / values.size, exponent))


def norm(values: np.ndarray) -> Any:
    """Returns the root of the exact sum of squares, rounded to f64."""
    numbers(values)
    dtype = values.dtype if values.dtype.kind == "f" else F64
    values = values.astype(dtype).ravel()
    total = exact_sum(products(values, values))
    if not isinstance(total, Fraction):
        return dtype.type(total)
    unit, exponent = scaled(total, 2)
    try:
        return dtype.type(math.ldexp(math.sqrt(unit), exponent // 2))
    except OverflowError:
        return dtype.type(math.inf)


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
    n, finite = values.size, [x for x in values.ravel().tolist() if math.isfinite(x)]
    if n == 0 or len(finite) < n:
        return math.nan
    exact = [Fraction(x) for x in finite]
    mean = sum(exact) / n
    spread = sum((x - mean) ** 2 for x in exact)
    if n <= ddof:
        return math.inf if spread else math.nan
    return spread / (n - ddof)


def variance(values: np.ndarray, ddof: int = 0) -> Any:
    """Rounds the exact variance once."""
    dtype = values.dtype if values.dtype.kind == "f" else F64
    return finished(exact_variance(values.astype(dtype), ddof), dtype)


def deviation(values: np.ndarray, ddof: int = 0) -> Any:
    """Rounds the root of the exact variance once."""
    dtype = values.dtype if values.dtype.kind == "f" else F64
    exact = exact_variance(values.astype(dtype), ddof)
    if isinstance(exact, Fraction):
        # Enough bits below the root's first one, and a bit for those that follow.
        bits = max(0, exact.denominator.bit_length() - exact.numerator.bit_length()) // 2 + 130
        shifted, rest = divmod(exact.numerator << 2 * bits, exact.denominator)
        root = math.isqrt(shifted)
        has_more = rest > 0 or root * root != shifted
        exact = Fraction(2 * root + has_more, 2 << bits)
    return finished(exact, dtype)


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
