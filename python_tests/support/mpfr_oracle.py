"""The errors of functions of f64 in units of the last place (ulp) of the exact result, by MPFR."""

import math

import gmpy2
import numpy as np

TWO_1024 = gmpy2.exp2(1024)


def oracle(name: str):
    """Returns MPFR's function."""
    return (lambda x, y: x**y) if name == "pow" else getattr(gmpy2, name)


def units(result: float, exact) -> float:
    """Returns how much a result is above the exact one, in units of the exact one's last place."""
    exponent = min(max(gmpy2.get_exp(exact), -1021), 1024)
    return float(gmpy2.mul_2exp(gmpy2.mpfr(result) - exact, 53 - exponent))


def error(result: float, exact) -> float:
    """Returns the error of a result; infinite if it is of the wrong kind."""
    if gmpy2.is_nan(exact) or gmpy2.is_infinite(exact) or exact == 0:
        good = math.isnan(result) if gmpy2.is_nan(exact) else result == exact
        return 0.0 if good else math.inf
    # Infinity stands for 2^1024, and is right for all greater results.
    if math.isinf(result):
        exact = max(-TWO_1024, min(exact, TWO_1024))
        result = TWO_1024 if result > 0 else -TWO_1024
    return abs(units(result, exact))


def precise():
    """Returns a context of 140 bits, in which nothing overflows."""
    return gmpy2.context(precision=140, emin=-(10**9), emax=10**9)


def worst(name: str, points: np.ndarray, results: np.ndarray) -> tuple:
    """Returns the greatest error of the results at some points, and its arguments."""
    function = oracle(name)
    greatest, where = 0.0, None
    with precise():
        for xs, result in zip(points.tolist(), results.tolist()):
            found = error(result, function(*map(gmpy2.mpfr, xs)))
            if not found <= greatest:
                greatest, where = found, xs
    return greatest, where
