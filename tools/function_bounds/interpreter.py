"""Runs recordings on values with errors: each operation adds its rounding, unless it is exact.

Exact are sums and products that are multiples of a power of two, and small enough; and the low
parts of sums and products in two parts (Dekker; Knuth; Muller and others, Handbook of
Floating-Point Arithmetic, 4.3).
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, replace
from fractions import Fraction

from flint import arb
from forms import DIGITS, LEAST, ZERO, Piece, Real, Value, exponent, number, upper
from recordings import Recording

TO_INTEGER = 6755399441055744.0
WORD = (1 << 64) - 1
SIGN = 1 << 63
EXPONENT = 1 << 52


class Undecided(Exception):
    """The outcome of an operation is not the same for the whole piece."""


def encoding(x: float) -> int:
    """Returns a float's bits."""
    return int.from_bytes(struct.pack(">d", x), "big")


def decoded(bits: int) -> float:
    """Returns the float with an encoding."""
    return struct.unpack(">d", bits.to_bytes(8, "big"))[0]


@dataclass(frozen=True)
class Bits:
    """64 bits: a number from `low` to `high`, plus `times` K.

    If there is a source, the number is the source's encoding plus `above`. If only some low bits
    are known, `known` is their value and their count.
    """

    low: int = 0
    high: int = 0
    times: int = 0
    source: Value | None = None
    above: int = 0
    known: tuple | None = None

    @property
    def constant(self) -> int | None:
        """The bits, if they are the same everywhere."""
        return self.low if self.low == self.high and not self.times and not self.known else None

    def plus(self, constant: int) -> Bits:
        """Adds a constant, which wraps."""
        if self.known:
            value, count = self.known
            return replace(self, known=((value + constant) % (1 << count), count))
        low, high = (self.low + constant) & WORD, (self.high + constant) & WORD
        if low > high:
            raise Undecided
        return replace(self, low=low, high=high, above=self.above + constant)

    def masked(self, mask: int) -> Bits:
        """Keeps the low bits."""
        above = ~mask & WORD
        if self.low & above != self.high & above:
            raise Undecided
        taken = self.low & above
        times = 0 if self.times % (mask + 1) == 0 else self.times
        return replace(
            self,
            low=self.low - taken,
            high=self.high - taken,
            times=times,
            above=self.above - taken,
        )


@dataclass
class Choice:
    """The whole part K of a reduction: its value, and its low bits if these alone are known."""

    value: Value
    low_bits: tuple | None = None


class Run:
    """A recording's values on a piece."""

    def __init__(
        self,
        recording: Recording,
        piece: Piece,
        arguments: list,
        k: Choice | None = None,
        replaced: dict | None = None,
    ):
        self.nodes = recording.nodes
        self.result_place = recording.result
        self.piece = piece
        self.k = k
        self.values: dict = dict(enumerate(arguments)) | (replaced or {})
        self.products: dict = {}
        self.whole_part_distance: Real | None = None

    def result(self) -> Value:
        """Returns the function's value."""
        return self.of(self.result_place)

    def of(self, place: int):
        """Returns the value of a node; those that are not selected are never computed."""
        if place not in self.values:
            node = self.nodes[place]
            operation = getattr(self, node.operation)
            self.values[place] = operation(place, *node.operands)
        return self.values[place]

    def is_node(self, place: int, operation: str) -> tuple | None:
        """Returns a node's operands if it is some operation."""
        node = self.nodes[place]
        return node.operands if node.operation == operation else None

    # Constants and signs.

    def Float(self, place):
        return number(decoded(self.nodes[place].number))

    def Bits(self, place):
        bits = self.nodes[place].number
        return Bits(bits, bits)

    def NegFloat(self, _, a):
        return self.scaled(self.of(a), -1)

    def scaled(self, x: Value, sign: int, shift: int = 0) -> Value:
        """Returns ± x · 2^shift, which is exact."""
        if x.constant is not None:
            return number(math.copysign(1.0, sign) * math.ldexp(x.constant, shift))
        if shift < 0 and x.grid + shift < LEAST and not math.ldexp(x.least, shift) >= 2.0**-1022:
            raise Undecided
        ends = sorted(sign * math.ldexp(end, shift) for end in (x.low, x.high))
        factor = arb(sign) * arb(2) ** shift
        last = x.last and (x.last[0], x.last[1] * factor)
        whole_part = (
            x.whole_part and tuple(sign * part for part in x.whole_part) if not shift else None
        )
        return Value(
            Piece.scaled(x.real, factor),
            *ends,
            max(x.grid + shift, LEAST),
            None,
            last,
            whole_part,
            x.scale,
        )

    # Arithmetic.

    def AddFloat(self, place, a, b):
        if a == b:
            return self.scaled(self.of(a), 1, 1)
        if (error := self.error_of_any_sum(a, b)) is not None:
            return error
        x, y = self.of(a), self.of(b)
        if y.constant == TO_INTEGER and x.constant is None:
            return self.to_integer(x)
        return self.sum(x, y, 1)

    def SubFloat(self, place, a, b):
        if (error := self.error_of_sum(a, b)) is not None:
            return error
        x, y = self.of(a), self.of(b)
        return self.sum(x, y, -1)

    def sum(self, x: Value, y: Value, sign: int) -> Value:
        """Returns x ± y, rounded."""
        if x.constant is not None and y.constant is not None:
            return number(x.constant + sign * y.constant)
        if y.constant == 0:
            return replace(x, error=None)
        if x.constant == 0:
            return self.scaled(y, sign)
        if x.scale or y.scale:
            raise NotImplementedError
        result = self.piece.rounded(self.piece.plus(x.real, y.real, sign), min(x.grid, y.grid))
        parts = [v.whole_part or (v.constant is not None and (v.constant, 0)) for v in (x, y)]
        if all(parts) and result.error is None:
            result.whole_part = tuple(p + sign * q for p, q in zip(*parts))
            result.low, result.high = float(math.ceil(result.low)), float(math.floor(result.high))
        return result

    def to_integer(self, x: Value) -> Value:
        """Adds 1.5 · 2^52, which rounds to an integer."""
        if x.whole_part:
            return self.sum(x, number(TO_INTEGER), 1)
        if self.k is not None:
            self.whole_part_distance = self.piece.plus(x.real, self.k.value.real, -1)
            return self.sum(self.k.value, number(TO_INTEGER), 1)
        low, high = x.low + TO_INTEGER, x.high + TO_INTEGER
        if low != high:
            raise Undecided
        return number(low)

    def error_of_sum(self, b, t):
        """Returns b - ((a + b) - a): what a + b rounds off, if it is representable."""
        inner = self.is_node(t, "SubFloat")
        added = inner and self.is_node(inner[0], "AddFloat")
        if not added or added != (inner[1], b):
            return None
        high, x, y = self.of(inner[0]), self.of(added[0]), self.of(added[1])
        if x.constant is not None and y.constant is not None:
            return None
        zero = x.constant == 0 or y.constant == 0
        ordered = exponent(x.least) >= exponent(y.greatest) and x.least > 0
        if not (zero or ordered or x.grid >= exponent(y.greatest) - DIGITS + 1):
            return None
        return self.minus_error(high)

    def error_of_any_sum(self, p, q):
        """Returns (a - (s - (s - a))) + (b - (s - a)) with s = a + b: what s rounds off."""
        first, second = self.is_node(p, "SubFloat"), self.is_node(q, "SubFloat")
        inner = first and self.is_node(first[1], "SubFloat")
        of_b = second and self.is_node(second[1], "SubFloat")
        if not inner or not of_b or inner[1] != second[1] or inner[0] != of_b[0]:
            return None
        added = self.is_node(inner[0], "AddFloat")
        if not added or added != (first[0], second[0]) or of_b[1] != first[0]:
            return None
        high, x, y = self.of(inner[0]), self.of(added[0]), self.of(added[1])
        if x.constant is not None and y.constant is not None:
            return None
        return self.minus_error(high)

    def minus_error(self, x: Value) -> Value:
        """Returns what an operation has rounded off."""
        if x.error is None:
            return number(0.0)
        bound = upper(self.piece.bounds[x.error])
        return Value(Real(ZERO, ZERO, {x.error: arb(-1)}), -bound, bound)

    def MulFloat(self, place, a, b):
        x, y = self.of(a), self.of(b)
        if x.constant is not None and y.constant is not None:
            return number(x.constant * y.constant)
        for one, other in ((x, y), (y, x)):
            if one.constant == 0:
                return one
            if (
                one.constant is not None
                and not other.scale
                and abs(math.frexp(one.constant)[0]) == 0.5
            ):
                sign, shift = int(math.copysign(1, one.constant)), math.frexp(one.constant)[1] - 1
                try:
                    return self.scaled(other, sign, shift)
                except Undecided:
                    break
        if x.scale or y.scale:
            return self.scaled_product(x, y)
        return self.piece.rounded(self.product(a, b), x.grid + y.grid)

    def scaled_product(self, x: Value, y: Value) -> Value:
        """Returns the product of a value and a power of two with an exponent of K, in range."""
        if y.constant is not None or not y.scale:
            x, y = y, x
        # 2^(d K), or that times a number whose product with a power of two is exact.
        if (
            x.scale == 0
            and y.low == y.high
            and not y.real.noise
            and abs(math.frexp(y.low)[0]) == 0.5
        ):
            return replace(self.scaled(x, 1, math.frexp(y.low)[1] - 1), scale=y.scale)
        if x.constant is not None and abs(math.frexp(x.constant)[0]) == 0.5:
            scaled = self.scaled(replace(y, scale=0), 1, math.frexp(x.constant)[1] - 1)
            return replace(scaled, scale=y.scale)
        raise NotImplementedError

    def product(self, a: int, b: int) -> Real:
        """Returns the exact product, the same whenever it is needed."""
        key = (min(a, b), max(a, b))
        if key not in self.products:
            self.products[key] = self.piece.times(self.of(a).real, self.of(b).real)
        return self.products[key]

    def Fma(self, place, a, b, c):
        x, y, z = self.of(a), self.of(b), self.of(c)
        if x.constant is not None and y.constant is not None and z.constant is not None:
            exact = Fraction(x.constant) * Fraction(y.constant) + Fraction(z.constant)
            return number(float(exact))
        negated = self.is_node(c, "NegFloat")
        if negated and self.is_node(negated[0], "MulFloat") in ((a, b), (b, a)):
            return self.error_of_product(negated[0])
        if x.constant == 0 or y.constant == 0:
            return z
        if x.scale or y.scale or z.scale:
            raise NotImplementedError
        if z.constant == 0:
            return self.piece.rounded(self.product(a, b), x.grid + y.grid)
        total = self.piece.plus(self.product(a, b), z.real)
        return self.piece.rounded(total, min(x.grid + y.grid, z.grid))

    def error_of_product(self, place: int) -> Value:
        """Returns what a product has rounded off; what is below the least float is lost."""
        product = self.of(place)
        error = self.minus_error(product)
        if error.constant == 0 or product.least >= 2.0**-960:
            return error
        if product.constant == 0:
            # The product vanishes here as it did there.
            return product
        noise = dict(error.real.noise)
        self.piece.add_unknown(noise, 2.0**LEAST)
        return self.piece.value(Real(ZERO, ZERO, noise))

    def DivFloat(self, place, a, b):
        x, y = self.of(a), self.of(b)
        if x.constant is not None and y.constant is not None:
            return number(x.constant / y.constant)
        if y.least == 0:
            raise Undecided
        quotient = self.piece.times(x.real, self.piece.inverse(y.real))
        return self.piece.rounded(quotient, LEAST - DIGITS)

    Quotient = DivFloat

    def Sqrt(self, place, a):
        x = self.of(a)
        if x.constant is not None:
            return number(math.sqrt(x.constant))
        if x.least == 0:
            raise Undecided
        return self.piece.rounded(self.piece.root(x.real), LEAST - DIGITS)

    # Choices.

    def ends(self, x: Value) -> tuple:
        """Returns the least and the greatest value, with its power of two."""
        if not x.scale:
            return x.low, x.high
        assert self.k is not None and x.low > 0
        powers = sorted(x.scale * int(k) for k in (self.k.value.low, self.k.value.high))
        return math.ldexp(x.low, powers[0]), math.ldexp(x.high, powers[1])

    def Less(self, place, a, b):
        (low, high), (other_low, other_high) = self.ends(self.of(a)), self.ends(self.of(b))
        if high < other_low:
            return True
        if low >= other_high:
            return False
        raise Undecided

    def Equal(self, place, a, b):
        (low, high), (other_low, other_high) = self.ends(self.of(a)), self.ends(self.of(b))
        if high < other_low or low > other_high:
            return False
        if low == high == other_low == other_high:
            return True
        raise Undecided

    def Select(self, place, a, b, c):
        return self.of(a if self.of(c) else b)

    # Encodings.

    def ToBits(self, place, a):
        x = self.of(a)
        if x.constant is not None:
            return Bits(encoding(x.constant), encoding(x.constant), 0, x)
        if x.whole_part and 2.0**52 <= x.low and x.high < 2.0**53:
            if self.k.low_bits is not None and x.whole_part[1] == 1:
                return Bits(known=self.k.low_bits)
            bits = encoding(x.whole_part[0])
            return Bits(bits, bits, int(x.whole_part[1]))
        if x.low < 0 < x.high:
            raise Undecided
        low, high = sorted((encoding(x.low), encoding(x.high)))
        return Bits(low, high, x.scale * EXPONENT, replace(x, scale=0) if x.scale else x)

    def with_constant(self, a: int, b: int) -> tuple:
        """Returns the bits of a node, and of another node that is a constant."""
        x, y = self.of(a), self.of(b)
        x, y = (y, x) if y.constant is None else (x, y)
        if y.constant is None:
            raise NotImplementedError
        return x, y.constant

    def AddBits(self, place, a, b):
        x, constant = self.with_constant(a, b)
        return x.plus(constant)

    def And(self, place, a, b):
        x, mask = self.with_constant(a, b)
        if mask == SIGN:
            sign = x.low & SIGN
            if sign != x.high & SIGN:
                raise Undecided
            return Bits(sign, sign)
        return x.masked(mask)

    def Or(self, place, a, b):
        x, constant = self.with_constant(a, b)
        if x.constant is not None:
            return Bits(x.constant | constant, x.constant | constant)
        if constant == 0:
            return x
        # All bits are below those of the constant, so that the sum is the same.
        ends = [x.times * int(k) for k in (self.k.value.low, self.k.value.high)] if x.times else [0]
        if x.low + min(ends) < 0 or x.high + max(ends) >= constant & -constant:
            raise Undecided
        return x.plus(constant)

    def Xor(self, place, a, b):
        x, constant = self.with_constant(a, b)
        if x.constant is not None:
            return Bits(x.constant ^ constant, x.constant ^ constant)
        if constant == 0:
            return x
        if constant != SIGN or (x.low ^ x.high) & SIGN:
            raise Undecided
        return x.plus(-SIGN if x.low & SIGN else SIGN)

    def ShiftRight(self, place, a):
        x, count = self.of(a), self.nodes[place].number
        if x.known:
            return Bits(known=(x.known[0] >> count, x.known[1] - count))
        if x.low >> count != x.high >> count or x.times % (1 << count):
            raise Undecided
        return Bits(x.low >> count, x.low >> count, x.times >> count)

    def ShiftLeft(self, place, a):
        x, count = self.of(a), self.nodes[place].number
        if x.known:
            value, known = x.known
            assert count + known >= 64
            shifted = value << count & WORD
            return Bits(shifted, shifted)
        if x.low != x.high:
            raise Undecided
        shifted = x.low << count & WORD
        return Bits(shifted, shifted, x.times << count)

    def ToFloat(self, place, a):
        x = self.of(a)
        if x.constant is not None:
            return number(decoded(x.constant))
        if x.times == EXPONENT and x.low == x.high:
            return replace(number(decoded(x.low)), scale=1)
        if x.times == -EXPONENT and x.low == x.high:
            return replace(number(decoded(x.low)), scale=-1)
        if x.times and x.low == x.high and decoded(x.low) >= 2.0**52 and decoded(x.low) < 2.0**53:
            # The whole part is in the low bits.
            base = number(decoded(x.low))
            return self.sum(base, self.sum_of_whole_part(x.times), 1)
        if x.source is not None and x.times and not x.above:
            return replace(x.source, scale=x.times // EXPONENT)
        if x.source is None or x.times:
            raise NotImplementedError
        above = (x.above + SIGN) % (1 << 64) - SIGN
        sign, above = (-1, above - SIGN) if above >= 1 << 62 else (1, above)
        sign, above = (-1, above + SIGN) if above < -(1 << 62) else (sign, above)
        if above % EXPONENT:
            raise Undecided
        shift = above // EXPONENT
        if shift and not x.source.least >= 2.0**-1022:
            raise Undecided
        return self.scaled(x.source, sign, shift) if shift or sign < 0 else x.source

    def sum_of_whole_part(self, times: int) -> Value:
        """Returns a multiple of K."""
        assert self.k is not None and abs(times) == 1
        return self.scaled(self.k.value, times)
