"""Derives bounds for the errors of pow, atan2 and hypot of f32, beside those in the source.

Needs python-flint, whose balls (Arb) contain every exact value:

    python tools/function_bounds/two_arguments.py

A bound holds for a sequence's operations, which are repeated here: each adds half a last bit of the
greatest result (Higham, Accuracy and Stability of Numerical Algorithms, section 2.2) to the errors
of its operands. Nothing that counts underflows: arguments are f32, and no term is below 2^-900.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from flint import arb, ctx

ctx.prec = 300
SOURCE = Path(__file__).resolve().parents[2] / "crates" / "math" / "src"
UNIT = arb(2) ** -53
ZERO = arb(0)
# Parts into which intervals of arguments are divided.
PARTS = 64


def constants(file: str, name: str) -> list[arb]:
    """Returns a constant of the source as its numbers."""
    text = (SOURCE / file).read_text()
    body = re.search(rf"const {name}: [^=]*= ([^;]*);", text, re.DOTALL)
    assert body, f"{name} is not in {file}"
    return [arb(float(word)) for word in re.findall(r"-?\d+\.\d+(?:e-?\d+)?", body[1])]


def promised(file: str, words: str) -> arb:
    """Returns the power of two that the source states next, after some words."""
    found = re.search(rf"{words}[^-;]*(-\d+)", (SOURCE / file).read_text())
    assert found, f"{words} is not in {file}"
    return arb(2) ** int(found[1])


def hull(low: arb, high: arb) -> arb:
    """Returns a ball with all numbers between two."""
    return low.union(high)


def divided(low: arb, high: arb) -> Iterator[arb]:
    """Yields balls that cover an interval."""
    width = (high - low) / PARTS
    for part in range(PARTS):
        yield hull(low + width * part, low + width * (part + 1))


def largest(x: arb) -> arb:
    """Returns a bound for a ball's magnitudes."""
    return arb(x.abs_upper())


@dataclass
class Number:
    """A computed number: the ball of the exact one, and a bound for the difference."""

    exact: arb
    error: arb = ZERO

    def size(self) -> arb:
        """Returns a bound for the computed number's magnitude."""
        return largest(self.exact) + self.error

    def rounded(self) -> "Number":
        """Returns the number after a rounding."""
        return Number(self.exact, self.error + self.size() * UNIT)

    def plus(self, other: "Number") -> "Number":
        """Returns the exact sum of computed numbers."""
        return Number(self.exact + other.exact, self.error + other.error)

    def times(self, other: "Number") -> "Number":
        """Returns the exact product of computed numbers."""
        return Number(
            self.exact * other.exact, self.error * other.size() + largest(self.exact) * other.error
        )


def add(a: Number, b: Number) -> Number:
    """Returns a + b, rounded."""
    return a.plus(b).rounded()


def multiply(a: Number, b: Number) -> Number:
    """Returns a · b, rounded."""
    return a.times(b).rounded()


def fma(a: Number, b: Number, c: Number) -> Number:
    """Returns a · b + c, rounded once."""
    return a.times(b).plus(c).rounded()


def polynomial(x: Number, coefficients: list[arb], fit: arb = ZERO) -> Number:
    """Evaluates a polynomial by Horner's rule, whose coefficients add the error `fit`."""
    last, *numbers = (Number(c) for c in reversed(coefficients))
    value = reduce(lambda total, c: fma(total, x, c), numbers, last)
    return Number(value.exact, value.error + fit)


@dataclass
class Pair:
    """A computed pair: the exact number's ball, bounds for the error and for the second part."""

    exact: arb
    error: arb = ZERO
    low: arb = ZERO

    def high(self) -> arb:
        """Returns a bound for the first part's magnitude."""
        return largest(self.exact) + self.error + self.low

    def times(self, exact: arb, scale: arb) -> "Pair":
        """Returns the pair of another number, whose bounds are greater by a factor."""
        return Pair(exact, self.error * scale, self.low * scale)


def constant_pair(exact: arb) -> Pair:
    """Makes a constant, whose second part is rounded."""
    return Pair(exact, largest(exact) * UNIT * UNIT, largest(exact) * UNIT)


def sum_of_pairs(a: Pair, b: Pair) -> Pair:
    """Adds pairs as crate::precise::add: the first parts exactly, then two roundings."""
    exact = a.exact + b.exact
    rest = (a.high() + b.high()) * UNIT
    lows = (a.low + b.low) * (1 + UNIT)
    error = a.error + b.error + (a.low + b.low) * UNIT + (rest + lows) * UNIT
    return Pair(exact, error, (rest + lows) * (1 + UNIT))


def product_of_pairs(a: Pair, b: Pair) -> Pair:
    """Multiplies pairs as double::pair::multiply: a term is left out, and two sums are rounded."""
    exact = a.exact * b.exact
    rest = a.high() * b.high() * UNIT
    first = (a.low * b.high() + rest) * (1 + UNIT)
    second = (a.high() * b.low + first) * (1 + UNIT)
    left_out = a.low * b.low + (first + second) * UNIT
    from_errors = a.error * (largest(b.exact) + b.error) + largest(a.exact) * b.error
    return Pair(exact, from_errors + left_out, second)


def normalized(a: Pair) -> Pair:
    """Returns the exact sum of the parts in two new parts."""
    return Pair(a.exact, a.error, a.high() * UNIT)


def quotient_of_pairs(a: Pair, b: Pair) -> Pair:
    """Divides pairs as double::pair::quotient.

    The first part has a relative error of two roundings and of b's second part. What is left is the
    difference of exact products, with three roundings, and is divided by the first part of b with
    two.
    """
    exact = a.exact / b.exact
    least = arb(b.exact.abs_lower()) - b.error - b.low
    high = a.high() / least * (1 + UNIT) ** 2
    rest = 2 * UNIT * high * b.high() + a.low + high * b.low
    low = rest / least
    error = rest * 4 * UNIT / least + low * (b.low / least + 2 * UNIT)
    from_errors = (a.error + largest(exact) * b.error) / least
    return Pair(exact, error + from_errors, low * (1 + UNIT) ** 3)


def series(x: Pair, coefficients: list[arb], pairs: int) -> Pair:
    """Sums a series as crate::precise::series; the caller adds the error of omitted terms."""
    rest = Number(ZERO)
    first = Number(x.exact, x.error + x.low)
    for c in reversed(coefficients[pairs:]):
        rest = fma(rest, first, Number(c, largest(c) * UNIT))
    total = Pair(rest.exact, rest.error)
    for c in reversed(coefficients[:pairs]):
        total = sum_of_pairs(constant_pair(c), product_of_pairs(x, total))
    return total


def remainder(x: arb, coefficient: arb, terms: int) -> arb:
    """Bounds the rest after some terms of a series whose coefficients fall."""
    size = largest(x)
    return size**terms * coefficient / (1 - size)


def odd(count: int) -> list[arb]:
    """Returns the coefficients of artanh s / s."""
    return [1 / arb(2 * i + 1) for i in range(count)]


def factorials(count: int) -> list[arb]:
    """Returns the coefficients of the exponential function."""
    return [1 / arb(i).fac() for i in range(count)]


def fit_error(fitted: list[arb], taylor: list[arb], bound: arb) -> arb:
    """Bounds the difference of polynomials from 0 to a bound.

    It is the greatest one at Chebyshev's points, divided by cos(πn / 2m), for the degree n and m
    points (Ehlich and Zeller, Schwankung von Polynomen zwischen Gitterpunkten, 1964).
    """
    difference = [(fitted[i] if i < len(fitted) else ZERO) - c for i, c in enumerate(taylor)]
    points = 8 * len(taylor)
    greatest = ZERO
    for k in range(points):
        x = bound * (1 + arb.cos_pi(arb(2 * k + 1) / (2 * points))) / 2
        value = reduce(lambda total, c: total * x + c, reversed(difference), ZERO)
        greatest = greatest.max(largest(value))
    return greatest / arb.cos_pi(arb(len(taylor) - 1) / (2 * points))


LN_2 = arb(2).log()
# Of the fraction 1 + f, of s = f / (2 + f), and of a reduced exponent.
ROOT = arb(2).sqrt()
GREATEST_S = (ROOT - 1) / (ROOT + 1)
GREATEST_R = LN_2 / 2 + arb(2) ** -40
# tan π/8.
GREATEST_T = ROOT - 1
# The angles to which an inverse tangent is added, but for 0.
BASES = [arb.pi() * quarters / 4 for quarters in (1, 2, 3, 4)]
# Powers from 2^-160 to 2^130, and the products from which they come.
GREATEST_PRODUCT = arb(110)


def fractions():
    """Yields balls that cover all f but 0: of a sign and less than a binade."""
    for sign, greatest in ((1, ROOT - 1), (-1, 1 - ROOT / 2)):
        for binade in range(-24, 0):
            for f in divided(arb(2) ** binade, arb(2) ** (binade + 1)):
                if not f.lower() > greatest:
                    yield hull(arb(f.lower()), arb(f.upper()).min(greatest + arb(2) ** -60)) * sign


def natural_error() -> arb:
    """Bounds the relative error of crate::logarithm::natural of an f32."""
    coefficients = constants("logarithm.rs", "ARTANH")
    square = GREATEST_S**2
    taylor = [2 * c for c in odd(41)[1:]]
    fit = fit_error(coefficients, taylor, square) + remainder(square, arb(1), 40)
    # Both parts of ln 2 have 42 and 53 bits; a product with an exponent is rounded with the sum.
    low_part = arb(2) ** -43
    greatest = ZERO
    for f in fractions():
        # f, its square and 2 + f have less than 53 bits.
        s = Number(f / (2 + f)).rounded()
        z = multiply(s, s)
        p = polynomial(z, coefficients, fit)
        half = Number(f * f / 2)
        rest = add(multiply(s, fma(z, p, half)), Number(-half.exact))
        exact = (1 + f).log()
        # For k = 0; |k| ≥ 1 leaves ln 2 / 2 or more of k ln 2.
        alone = add(Number(f), rest)
        greatest = greatest.max(alone.rounded().error / arb(exact.abs_lower()))
        low = Number(rest.exact + hull(-low_part, low_part), rest.error).rounded()
        with_power = add(Number(f), low)
        absolute = with_power.error + 160 * low_part * UNIT * UNIT
        # The error of the exponent's own term grows with it, as the result does.
        greatest = greatest.max(absolute / (LN_2 / 2) + UNIT * (1 + UNIT) + 160 * UNIT * low_part)
    # f = 0: k ln 2, with a product and a sum that are rounded.
    return greatest.max(3 * UNIT)


def exponential_error() -> arb:
    """Bounds the relative error of crate::exponential::exponential."""
    sinh, cosh = (constants("exponential.rs", name) for name in ("SINH", "COSH"))
    square = GREATEST_R**2
    sinh_taylor = [1 / arb(2 * i + 3).fac() for i in range(24)]
    cosh_taylor = [1 / arb(2 * i + 2).fac() for i in range(24)]
    sinh_fit = fit_error(sinh, sinh_taylor, square) + remainder(square, arb(2) ** -100, 0)
    cosh_fit = fit_error(cosh, cosh_taylor, square) + remainder(square, arb(2) ** -100, 0)
    greatest = ZERO
    for r in divided(-GREATEST_R, GREATEST_R):
        # k LN_2 is subtracted with one rounding, k LN_2_LOW with another one; ln 2 has 106 bits.
        reduced = Number(r, arb(2) ** -95).rounded().rounded()
        z = multiply(reduced, reduced)
        sinh_p, cosh_p = polynomial(z, sinh, sinh_fit), polynomial(z, cosh, cosh_fit)
        whole = fma(z, add(multiply(reduced, sinh_p), cosh_p), reduced)
        result = add(Number(arb(1)), whole)
        greatest = greatest.max(result.error / arb(r.exp().abs_lower()))
    return greatest


def fast_power() -> arb:
    """Bounds the relative error of a power in 64 bits, with the rounding of an end."""
    product = GREATEST_PRODUCT * ((1 + natural_error()) * (1 + UNIT) - 1)
    return (product.exp() * (1 + exponential_error()) * (1 + UNIT)) - 1


def fast_angle() -> arb:
    """Bounds the relative error of an angle in 64 bits, with the rounding of an end."""
    coefficients = constants("two_arguments.rs", "SHORT_ARC_TANGENT")
    square = GREATEST_T**2
    taylor = [c * (-1) ** (i + 1) for i, c in enumerate(odd(81)[1:])]
    # In units of t, as it counts: times t².
    zero = [ZERO]
    fit = fit_error(zero + coefficients, zero + taylor, square) + remainder(square, arb(1), 80)
    greatest = ZERO
    for z in divided(ZERO, square):
        # In units of t, whose magnitude does not matter: a quotient of exact numbers.
        t = Number(arb(1)).rounded()
        squared = Number(z, (3 * UNIT + 3 * UNIT**2) * largest(z))
        p = polynomial(squared, coefficients)
        angle = add(t, fma(multiply(t, squared), p, Number(ZERO)))
        greatest = greatest.max((angle.error + fit) / arb((1 + z * p.exact).abs_lower()))
        # Beside a multiple of π/4, the result is above π/8; t is a quotient of rounded sums.
        size = largest(z).sqrt()
        for base in BASES:
            t = Number(hull(-size, size), 3 * size * UNIT + 4 * size * UNIT**2)
            squared = multiply(t, t)
            rest = Number(base * UNIT / 2, base * UNIT**2)
            p = polynomial(Number(z, squared.error), coefficients)
            angle = add(t, fma(multiply(t, squared), p, rest))
            result = Number(base + hull(-size, size).atan(), angle.error + size * fit).rounded()
            greatest = greatest.max(result.error / arb(result.exact.abs_lower()))
    return (1 + greatest) * (1 + UNIT) - 1


def fast_length() -> arb:
    """Bounds the relative error of a length in 64 bits, with the rounding of an end."""
    # The squares are exact.
    return (1 + UNIT).sqrt() * (1 + UNIT) * (1 + UNIT) - 1


def precise_natural() -> arb:
    """Bounds the relative error of crate::precise::natural."""
    greatest = ZERO
    # In units of s, whose magnitude does not matter.
    s = quotient_of_pairs(Pair(arb(1)), Pair(arb(1)))
    for z in divided(ZERO, GREATEST_S**2):
        artanh = series(product_of_pairs(s, s).times(z, largest(z)), odd(21), 10)
        artanh = Pair(artanh.exact, artanh.error + remainder(z, 1 / arb(43), 21), artanh.low)
        alone = product_of_pairs(s, artanh)
        greatest = greatest.max(alone.error / arb(artanh.exact.abs_lower()))
        # With |k| ≥ 1 the sum is above ln 2 / 2, and grows with k: k = 1 is the worst.
        size = 2 * largest(z).sqrt()
        log = alone.times(hull(-size, size) * artanh.exact, size)
        power = product_of_pairs(Pair(arb(1)), constant_pair(LN_2))
        total = sum_of_pairs(power, log)
        greatest = greatest.max(total.error / (LN_2 / 2))
    return greatest


def precise_power() -> arb:
    """Bounds the absolute error of e^r in crate::precise::power, where e^r is from √½ to √2."""
    exact = hull(-GREATEST_PRODUCT, GREATEST_PRODUCT)
    log = Pair(arb(1), precise_natural(), UNIT)
    of_unit = product_of_pairs(Pair(arb(1)), log)
    low = of_unit.low * GREATEST_PRODUCT
    k = largest(exact) / LN_2 + 1
    # The second part of ln 2 is below 2^-44, and the third below 2^-101.
    term = k * arb(2) ** -44
    lowest = k * arb(2) ** -101
    rests = (GREATEST_R + term) * UNIT + low + term * UNIT + lowest
    reduced_error = of_unit.error * GREATEST_PRODUCT + 3 * UNIT * rests + 2 * UNIT * lowest
    greatest = ZERO
    for r in divided(-GREATEST_R, GREATEST_R):
        result = series(Pair(r, reduced_error, GREATEST_R * UNIT), factorials(23), 14)
        error = remainder(r, 1 / arb(23).fac(), 23) + largest(r.exp()) * reduced_error
        greatest = greatest.max(result.error + error)
    return greatest


def precise_angle() -> arb:
    """Bounds the relative error of crate::precise::angle."""
    greatest = ZERO
    # Exact sums in two parts, in units of t.
    part_of_sum = Pair(arb(1), ZERO, UNIT)
    t = normalized(quotient_of_pairs(part_of_sum, part_of_sum))
    for z in divided(ZERO, GREATEST_T**2):
        slope = series(product_of_pairs(t, t).times(-z, largest(z)), odd(40), 20)
        slope = Pair(slope.exact, slope.error + remainder(z, 1 / arb(81), 40), slope.low)
        alone = product_of_pairs(t, slope)
        total = sum_of_pairs(Pair(ZERO), alone)
        greatest = greatest.max(total.error / arb(slope.exact.abs_lower()))
        size = largest(z).sqrt()
        for base in BASES:
            angle = alone.times(hull(-size, size).atan(), size)
            # π has a second part that is rounded twice.
            pi = Pair(base, 2 * base * UNIT**2, base * UNIT)
            total = sum_of_pairs(pi, angle)
            greatest = greatest.max(total.error / arb(total.exact.abs_lower()))
    return greatest


# Each sequence's bound, with the file and the words that state it in the source.
BOUNDS = {
    "pow in 64 bits": (fast_power, "two_arguments.rs", "POWER_BOUND: f64"),
    "pow, precisely": (precise_power, "precise.rs", "EXACT_BELOW: f64"),
    "atan2 in 64 bits": (fast_angle, "two_arguments.rs", "ANGLE_BOUND: f64"),
    "atan2, precisely": (precise_angle, "two_arguments.rs", "angles have an error below"),
    "hypot in 64 bits": (fast_length, "two_arguments.rs", "LENGTH_BOUND: f64"),
}


def main() -> None:
    """Prints each bound beside the one in the source, and fails if one is above that."""
    failed = False
    for name, (derive, *source) in BOUNDS.items():
        bound, limit = derive(), promised(*source)
        failed |= not bound < limit
        derived, allowed = (float((x.log() / LN_2).mid()) for x in (bound, limit))
        print(
            f"{name:16} 2^{derived:.2f}, {'within' if bound < limit else 'ABOVE'} 2^{allowed:.0f}"
        )
    sys.exit(failed)


if __name__ == "__main__":
    main()
