"""Values of a function's operations over a piece of its arguments, with all their errors.

A value is an ideal, which depends on the argument as if no operation rounded, plus noise: a sum of
symbols, one for each rounding, times coefficients. A symbol stands for one unknown number, within a
bound, wherever it occurs, so that errors cancel which the operations take away again, as those of
sums in two parts do. All numbers are Arb's balls: what is computed with them is proved.

The ideal is a Taylor series in the distance h from the middle of the piece, twice: with the
coefficients at the middle, and with those that hold anywhere in the piece, which bound the
remainder (Lagrange).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from flint import arb, arb_series, ctx

ORDER = 12
ctx.prec = 180
ctx.cap = ORDER + 1

DIGITS = 53
LEAST = -1074
ZERO = arb(0)
HALF_OF_LEAST = arb(2) ** (LEAST - 1)


def upper(x: arb) -> float:
    """Returns a float that is not below the magnitude of any number of a ball."""
    return math.nextafter(float(abs(x).upper()), math.inf) if not x.is_zero() else 0.0


def rounded_down(x: arb) -> float:
    """Returns a float that is not above an exact number, and the number itself if it is a float."""
    nearest = float(x)
    return nearest if arb(nearest) <= x else math.nextafter(nearest, -math.inf)


def exponent(x: float) -> int:
    """Returns the exponent of the power of two that is not above |x|."""
    return max(math.frexp(x)[1] - 1, LEAST + DIGITS - 1) if x else LEAST + DIGITS - 1


def last_bit(x: float) -> int:
    """Returns the exponent of the last bit that is not zero."""
    if x == 0:
        return 1024
    numerator, denominator = abs(x).as_integer_ratio()
    return (numerator & -numerator).bit_length() - denominator.bit_length()


def coefficient(ideal, n: int) -> arb:
    """Returns a series' coefficient."""
    return ideal[n] if isinstance(ideal, arb_series) else (ideal if n == 0 else ZERO)


@dataclass(frozen=True)
class Real:
    """A number that depends on the argument, and on symbols: an ideal and noise."""

    middle: object
    whole: object
    noise: dict = field(default_factory=dict)


@dataclass
class Value:
    """A float that an operation makes: from `low` to `high`, and a multiple of 2^grid.

    `error` is the symbol of its own rounding, and `last` the symbol of the last one before exact
    scalings, with the factor since. If `whole_part` is (c, d), it is exactly c + d K; its ideal and
    noise then say the same. `scale` is d for a value that is to be multiplied by 2^(d K).
    """

    real: Real
    low: float
    high: float
    grid: int = LEAST
    error: int | None = None
    last: tuple | None = None
    whole_part: tuple | None = None
    scale: int = 0

    @property
    def constant(self) -> float | None:
        """The value, if it is one number."""
        is_constant = self.low == self.high and not self.real.noise and self.scale == 0
        return self.low if is_constant else None

    @property
    def least(self) -> float:
        """The least magnitude."""
        return 0.0 if self.low <= 0 <= self.high else min(abs(self.low), abs(self.high))

    @property
    def greatest(self) -> float:
        """The greatest magnitude."""
        return max(abs(self.low), abs(self.high))


def number(x: float) -> Value:
    """Returns a constant."""
    exact = arb(x) if math.isfinite(x) else ZERO
    return Value(Real(exact, exact), x, x, max(last_bit(x), LEAST) if math.isfinite(x) else LEAST)


class Piece:
    """A piece of the arguments: the half of its width, and the symbols of everything unknown."""

    def __init__(self, radius: arb):
        self.h = arb(0, radius)
        self.h_square = arb(radius * radius / 2, radius * radius / 2)
        self.bounds: list = []

    def symbol(self, bound: float | arb) -> int:
        """Makes a symbol for a number within a bound."""
        self.bounds.append(arb(bound))
        return len(self.bounds) - 1

    def ideal_range(self, real: Real) -> arb:
        """Returns what the ideal may be."""
        if not isinstance(real.whole, arb_series):
            return real.whole
        middle = coefficient(real.middle, 0) + coefficient(real.middle, 1) * self.h
        return middle + real.whole[2] * self.h_square

    def small_range(self, real: Real) -> arb:
        """Returns what the ideal may be, from all coefficients: tight for differences."""
        if not isinstance(real.whole, arb_series):
            return real.whole
        total = real.whole[ORDER]
        for n in reversed(range(ORDER)):
            total = coefficient(real.middle, n) + total * self.h
        return total

    def noise_bound(self, real: Real, without: int | None = None) -> arb:
        """Returns a bound of the noise."""
        total = ZERO
        for i, c in real.noise.items():
            if i != without:
                total += abs(c) * self.bounds[i]
        return total.upper()

    def range(self, real: Real) -> arb:
        """Returns what a number may be."""
        ideal = self.ideal_range(real)
        return ideal + arb(0, self.noise_bound(real)) if real.noise else ideal

    # Arithmetic without rounding.

    @staticmethod
    def scaled(x: Real, factor) -> Real:
        """Returns a multiple."""
        noise = {i: c * factor for i, c in x.noise.items()}
        return Real(x.middle * factor, x.whole * factor, noise)

    @staticmethod
    def plus(x: Real, y: Real, sign: int = 1) -> Real:
        """Returns x + y, or x - y."""
        noise = dict(x.noise)
        for i, c in y.noise.items():
            c = c if sign > 0 else -c
            if i not in noise:
                noise[i] = c
            else:
                total = noise[i] + c
                if total.is_zero():
                    del noise[i]
                else:
                    noise[i] = total
        if sign > 0:
            return Real(x.middle + y.middle, x.whole + y.whole, noise)
        return Real(x.middle - y.middle, x.whole - y.whole, noise)

    def times(self, x: Real, y: Real) -> Real:
        """Returns x · y. The product of both noises is a symbol of its own."""
        ideal_x, ideal_y = self.ideal_range(x), self.ideal_range(y)
        noise = {} if ideal_y.is_zero() else {i: c * ideal_y for i, c in x.noise.items()}
        if not ideal_x.is_zero():
            for i, c in y.noise.items():
                noise[i] = noise[i] + c * ideal_x if i in noise else c * ideal_x
        self.add_unknown(noise, self.noise_bound(x) * self.noise_bound(y))
        return Real(x.middle * y.middle, x.whole * y.whole, noise)

    def add_unknown(self, noise: dict, bound: float | arb) -> None:
        """Adds a new symbol to noise."""
        if bound > 0:
            noise[self.symbol(bound)] = arb(1)

    def of_ideal(self, x: Real, middle, whole, slope: arb, curve: arb) -> Real:
        """Returns a function of x, given its values at the ideal, its slope there, and a bound of
        half its second derivative anywhere.
        """
        noise = {i: c * slope for i, c in x.noise.items()}
        self.add_unknown(noise, (curve * self.noise_bound(x) ** 2).upper())
        return Real(middle, whole, noise)

    def inverse(self, x: Real) -> Real:
        """Returns 1 / x."""
        ideal, actual = self.ideal_range(x), self.range(x)
        curve = abs(1 / (ideal * ideal * actual)) if x.noise else ZERO
        return self.of_ideal(x, 1 / x.middle, 1 / x.whole, -1 / (ideal * ideal), curve)

    def root(self, x: Real) -> Real:
        """Returns √x."""
        root = self.ideal_range(x).sqrt()
        actual = self.range(x)
        curve = 1 / (8 * (arb(actual.lower()) ** 3).sqrt()) if x.noise else ZERO
        return self.of_ideal(x, x.middle.sqrt(), x.whole.sqrt(), 1 / (2 * root), curve)

    # Floats.

    def value(self, real: Real, grid: int = LEAST) -> Value:
        """Returns a float that is exactly some number."""
        actual = self.range(real)
        return Value(real, rounded_down(actual.lower()), -rounded_down(-actual.upper()), grid)

    def rounded(self, real: Real, grid: int) -> Value:
        """Rounds a number that is a multiple of 2^grid."""
        value = self.value(real, max(grid, LEAST))
        greatest = value.greatest
        if not math.isfinite(greatest):
            raise OverflowError
        if grid >= LEAST and greatest <= math.ldexp(1.0, min(grid + DIGITS, 1023)):
            return value
        actual = abs(self.range(real)).upper()
        if actual < HALF_OF_LEAST:
            zero = number(0.0)
            zero.error = self.symbol(HALF_OF_LEAST)
            return zero
        half_unit = arb(2) ** (exponent(greatest) - DIGITS)
        error = self.symbol(half_unit)
        noise = {**real.noise, error: arb(1)}
        rounded = self.value(Real(real.middle, real.whole, noise))
        rounded.grid = max(grid, LEAST, exponent(rounded.least) - DIGITS + 1)
        rounded.error, rounded.last = error, (error, arb(1))
        return rounded
