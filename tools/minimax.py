"""Finds the coefficients of crates/math: polynomials of least greatest error, rounded to f64.

Remez's exchange on a fine grid of Chebyshev points. Coefficients are rounded one after the other,
lowest first, and those that remain are fitted again. Needs mpmath:

    python tools/minimax.py           prints every polynomial with its relative error
    python tools/minimax.py sine      prints some of them
"""

import sys

import mpmath
from mpmath import asin, atan, atanh, cos, cosh, erf, erfc, log, mpf, pi, sin, sinh, sqrt

mpmath.mp.prec = 240


def chebyshev_points(low, high, count):
    """Returns points of [low, high] that are denser towards its ends, and without these."""
    middle, radius = (low + high) / 2, (high - low) / 2
    return [middle - radius * cos((2 * i + 1) * pi / (2 * count)) for i in range(count)]


def evaluate(coefficients, z):
    """Returns the polynomial's value at z, by Horner's rule."""
    value = mpf(0)
    for c in reversed(coefficients):
        value = value * z + c
    return value


def remez(points, target, weight, first, count):
    """Fits `count` coefficients, of z^first and the next powers, to a target with weights."""
    n = len(points)
    powers = [[z ** (first + j) for j in range(count)] for z in points]
    chosen = [round(i * (n - 1) / count) for i in range(count + 1)]
    for _ in range(30):
        system = mpmath.matrix(count + 1)
        right = mpmath.matrix(count + 1, 1)
        for row, i in enumerate(chosen):
            for j in range(count):
                system[row, j] = powers[i][j]
            system[row, count] = (-1) ** row / weight[i]
            right[row] = target[i]
        solution = mpmath.lu_solve(system, right)
        fitted = [solution[j] for j in range(count)]
        errors = [
            (target[i] - sum(c * p for c, p in zip(fitted, powers[i]))) * weight[i]
            for i in range(n)
        ]
        peaks = alternating_peaks(errors)
        while len(peaks) > count + 1:
            peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
        if len(peaks) < count + 1 or peaks == chosen:
            break
        chosen = peaks
    return fitted


def alternating_peaks(errors):
    """Returns the index of the greatest error in each run of errors of one sign."""
    peaks = [0]
    for i, error in enumerate(errors):
        if (error > 0) != (errors[peaks[-1]] > 0):
            peaks.append(i)
        elif abs(error) > abs(errors[peaks[-1]]):
            peaks[-1] = i
    return peaks


def minimax(function, weight, low, high, count, nearest=float):
    """Returns coefficients, rounded by `nearest`, and the greatest weighted error."""
    points = chebyshev_points(mpf(low), mpf(high), 24 * count)
    values = [function(z) for z in points]
    weights = [mpf(weight(z)) for z in points]
    rounded = []
    if low < 0:
        # Powers that vanish inside the interval do not form a Chebyshev system: all coefficients
        # are fitted once.
        rounded = [mpf(nearest(c)) for c in remez(points, values, weights, 0, count)]
    while len(rounded) < count:
        rest = [v - evaluate(rounded, z) for v, z in zip(values, points)]
        fitted = remez(points, rest, weights, len(rounded), count - len(rounded))
        rounded.append(mpf(nearest(fitted[0])))
    error = max(abs(evaluate(rounded, z) - v) * w for z, v, w in zip(points, values, weights))
    return rounded, error


HALF_LN2 = log(2) / 2 * 1.0001
TAN_PI_8 = sqrt(mpf(2)) - 1
HALF_PI_HIGH = mpf(float(pi / 2))
TWO_OVER_ROOT_PI_HIGH = mpf(float(2 / sqrt(pi)))
FAR_FROM = mpf(11) / 16
# Intervals end a little beyond the arguments.
MORE = mpf("1.0001")


def of_odd(function):
    """Returns the function p of an odd function x + x³ p(x²)."""
    return lambda z: (function(sqrt(z)) / sqrt(z) - 1) / z


def over_turns(z):
    """Returns sqrt(z) quarter-turns in radians."""
    return sqrt(z) * pi / 2


# name: function of the polynomial's argument, weight, the argument's range, number of coefficients.
# A weight makes the polynomial's error relative to the result that it becomes part of.
POLYNOMIALS = {
    "SINH": (of_odd(sinh), lambda z: z, 0, HALF_LN2**2, 5),
    "COSH": (lambda z: (cosh(sqrt(z)) - 1) / z, lambda z: sqrt(z), 0, HALF_LN2**2, 6),
    "ARTANH": (
        lambda z: (2 * atanh(sqrt(z)) / sqrt(z) - 2) / z,
        *(lambda z: z / 2, 0, TAN_PI_8**4 * MORE, 7),
    ),
    "SINE": (
        lambda z: sin(over_turns(z)) / sqrt(z) - HALF_PI_HIGH,
        *(lambda z: sqrt(z) / sin(over_turns(z)), 0, mpf("0.2501"), 7),
    ),
    "COSINE": (
        lambda z: (cos(over_turns(z)) - 1) / z,
        *(lambda z: z / cos(over_turns(z)), 0, mpf("0.2501"), 7),
    ),
    "ARC_TANGENT": (of_odd(atan), lambda z: z, 0, TAN_PI_8**2 * MORE, 12),
    "SHORT_ARC_TANGENT": (of_odd(atan), lambda z: z, 0, TAN_PI_8**2 * MORE, 8),
    "ARC_SINE": (of_odd(asin), lambda z: z, 0, mpf("0.25"), 13),
    "NEAR": (
        lambda z: erf(sqrt(z)) / sqrt(z) - TWO_OVER_ROOT_PI_HIGH,
        *(lambda z: sqrt(z) / erf(sqrt(z)), 0, mpf(1), 14),
    ),
    "FAR": (lambda t: erf(t + mpf("2.5")), lambda t: 1, mpf("-1.5"), mpf("1.5"), 27),
    # The functions of f64 need these as well.
    "ARTANH_TAIL": (
        lambda z: (2 * atanh(sqrt(z)) / sqrt(z) - 2 - mpf(2) / 3 * z - mpf(2) / 5 * z**2) / z**3,
        *(lambda z: z**3 / 2, 0, TAN_PI_8**4 * MORE, 7),
    ),
    "SINE_RADIANS": (
        of_odd(sin),
        *(lambda z: z * sqrt(z) / sin(sqrt(z)), 0, (pi / 4) ** 2 * MORE, 7),
    ),
    "COSINE_RADIANS": (
        lambda z: (cos(sqrt(z)) - 1 + z / 2) / z**2,
        *(lambda z: z**2 / cos(sqrt(z)), 0, (pi / 4) ** 2 * MORE, 6),
    ),
    "LOG_ERFC": (
        lambda t: log(erfc(t + FAR_FROM) / erfc(FAR_FROM)) / t,
        *(lambda t: t * erfc(t + FAR_FROM), 0, 6 - FAR_FROM, 19),
    ),
}


def print_rust(name):
    """Prints a polynomial as a Rust constant."""
    coefficients, error = minimax(*POLYNOMIALS[name])
    print(f"/// Relative error 2^{float(log(error, 2)):.1f}.")
    print(f"const {name}: [f64; {len(coefficients)}] = [")
    for c in coefficients:
        print(f"    {float(c)!r},")
    print("];", flush=True)


if __name__ == "__main__":
    wanted = [name.upper() for name in sys.argv[1:]]
    for polynomial in wanted or POLYNOMIALS:
        print_rust(polynomial)
