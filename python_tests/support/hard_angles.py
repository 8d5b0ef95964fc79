"""Finds the doubles nearest to multiples of π/2, on which reductions of angles lose most bits.

The doubles m 2^e of a binade and the multiples n π/2 make a lattice in the plane, with the points
(m, m 2^e 2/π - n). A flat box contains few of them, and a reduced basis of the lattice, which the
continued fraction of 2^e 2/π yields as well, finds them all (Muller, Elementary Functions, 11.3.2).
"""

import math

# The bits of 2/π that are computed.
PRECISION = 1400
# Each double of a binade is m 2^e, for 2^52 <= m < 2^53.
MIDDLE, RADIUS = 3 << 51, 1 << 51


def arc_tangent_of_inverse(n: int, unit: int) -> int:
    """Returns atan(1 / n) in units, by Taylor's series, with an error of some hundred units."""
    total, power, k = 0, unit // n, 1
    while power:
        total += power // k if k % 4 == 1 else -(power // k)
        power //= n * n
        k += 2
    return total


def two_over_pi(bits: int) -> int:
    """Returns 2/π times 2^bits, rounded down, by Machin's formula."""
    unit = 1 << (bits + 64)
    quarter = 4 * arc_tangent_of_inverse(5, unit) - arc_tangent_of_inverse(239, unit)
    return (unit << bits) // (2 * quarter)


TWO_OVER_PI = two_over_pi(PRECISION)


def reduced(a: tuple, b: tuple) -> tuple:
    """Returns a basis of the same lattice whose vectors are as short as possible (Gauss)."""

    def square(v: tuple) -> int:
        return v[0] * v[0] + v[1] * v[1]

    while True:
        if square(a) > square(b):
            a, b = b, a
        times = (2 * (a[0] * b[0] + a[1] * b[1]) + square(a)) // (2 * square(a))
        if times == 0:
            return a, b
        b = (b[0] - times * a[0], b[1] - times * a[1])


def in_square(a: tuple, b: tuple, centre: tuple, half: int):
    """Yields the points i a + j b of a lattice in a square around the centre."""

    def cross(v: tuple, w: tuple) -> int:
        return v[0] * w[1] - v[1] * w[0]

    def between(first: int, second: int, divisor: int) -> range:
        low, high = sorted((first, second)) if divisor > 0 else sorted((-first, -second))
        return range(-(-low // abs(divisor)), high // abs(divisor) + 1)

    corners = [(centre[0] + dx, centre[1] + dy) for dx in (-half, half) for dy in (-half, half)]
    heights = [cross(a, corner) for corner in corners]
    for j in between(min(heights), max(heights), cross(a, b)):
        ranges = [
            between(c - half - j * w, c + half - j * w, v) for c, v, w in zip(centre, a, b) if v
        ]
        for i in range(max(r.start for r in ranges), min(r.stop for r in ranges)):
            point = (i * a[0] + j * b[0], i * a[1] + j * b[1])
            if all(abs(p - c) <= half for p, c in zip(point, centre)):
                yield point


def near_multiples(exponent: int, is_odd: bool, count: int) -> list:
    """Returns the doubles from 2^exponent that are nearest to even or odd multiples of π/2.

    They come nearest first, about `count` of them, each with its distance in quarter-turns.
    """
    # Angles are integers: `unit` is two quarter-turns, `step` the last bit of a double here.
    unit = 1 << (PRECISION + 54)
    step = (TWO_OVER_PI << (exponent + 1)) % unit
    half = unit * count >> 53
    scale = half // RADIUS
    a, b = reduced((scale, step), (0, unit))
    centre = (MIDDLE * scale, unit // 2 if is_odd else 0)
    found = [
        (abs(v - centre[1]), mantissa // scale)
        for mantissa, v in in_square(a, b, centre, half)
        if MIDDLE - RADIUS <= mantissa // scale < MIDDLE + RADIUS
    ]
    return [
        (math.ldexp(mantissa, exponent - 52), 2 * (distance / unit))
        for distance, mantissa in sorted(found)[:count]
    ]
