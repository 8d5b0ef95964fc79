"""A corpus of exact sums: data on which sums go wrong, and the hashes of the right results.

    python3 python_tests/support/corpus.py > python_tests/exact/corpus.sha256

prints the hash of the results' bits for each kind of sum. They come from the oracle, never from the
library. The data follow from seeds, by integers alone: the bit streams of NumPy's generators are
fixed, those of its distributions are not.
"""

import hashlib
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Callable, Optional

import numpy as np
from exact_sums import by_exponents, exact_integer

HASHES = Path(__file__).resolve().parents[1] / "exact" / "corpus.sha256"

Case = tuple[np.ndarray, Optional[np.ndarray]]


@dataclass(frozen=True)
class Kind:
    """The dot product or the sum of a type, and the type's format."""

    name: str
    dtype: type
    is_dot: bool
    # Bits of a significand; the least positive value is 2^least, finite ones are below 2^top.
    precision: int
    least: int
    top: int

    @property
    def low(self) -> int:
        """Returns the exponent of a unit that divides every term."""
        return (1 + self.is_dot) * self.least

    def __str__(self) -> str:
        """Returns the name, for tests' ids."""
        return self.name


KINDS = [
    Kind("dot_f32", np.float32, True, 24, -149, 128),
    Kind("sum_f32", np.float32, False, 24, -149, 128),
    Kind("dot_f64", np.float64, True, 53, -1074, 1024),
    Kind("sum_f64", np.float64, False, 53, -1074, 1024),
]


class Random:
    """Random data that any version of NumPy makes from a seed."""

    def __init__(self, kind: Kind, seed: int) -> None:
        self.kind = kind
        self.bits = np.random.PCG64(seed)

    def words(self, n: int) -> np.ndarray:
        """Returns words of 64 bits."""
        return self.bits.random_raw(n)

    def below(self, limit: int, n: int) -> np.ndarray:
        """Returns integers in [0, limit)."""
        return (self.words(n) >> np.uint64(1)).astype(np.int64) % limit

    def one(self, limit: int) -> int:
        """Returns an integer in [0, limit)."""
        return int(self.below(limit, 1)[0])

    def integer(self, bits: int) -> int:
        """Returns an integer of up to that many bits."""
        return int.from_bytes(self.words(bits // 64 + 1).astype("<u8").tobytes(), "little") >> (
            64 - bits % 64
        )

    def permutation(self, n: int) -> np.ndarray:
        """Returns the numbers below n in random order."""
        return np.argsort(self.words(n), kind="stable")

    def shuffled(self, case: Case) -> Case:
        """Returns the terms in random order."""
        order = self.permutation(case[0].size)
        return tuple(None if array is None else array[order] for array in case)

    def floats(self, n: int, low: int, high: int) -> np.ndarray:
        """Returns floats of either sign with 2^low <= |x| < 2^high, from full significands."""
        kind = self.kind
        words = self.words(n)
        exponents = np.maximum(low + self.below(high - low, n), kind.least)
        significands = (words >> np.uint64(65 - kind.precision)).astype(np.int64)
        significands |= 1 << (kind.precision - 1)
        unit = exponents - (kind.precision - 1)
        dropped = np.maximum(kind.least - unit, 0)
        signed = np.where(words & np.uint64(1), -1, 1) * (significands >> dropped)
        return np.ldexp(signed.astype(np.float64), unit + dropped).astype(kind.dtype)

    def ordinary(self, n: int) -> np.ndarray:
        """Returns floats around 0, distributed much like normal ones of variance 1."""
        quarters = [self.below(1 << 51, n) for _ in range(4)]
        integers = sum(quarters) - (1 << 52)
        return np.ldexp(integers.astype(np.float64), -51).astype(self.kind.dtype) * 2

    def case(self, n: int, low: int, high: int) -> Case:
        """Returns terms with 2^low <= |term| < 2^high, as far as there are such."""
        if not self.kind.is_dot:
            return self.floats(n, max(low, self.kind.least), min(high, self.kind.top)), None
        half, rest = low // 2, high - high // 2
        least, top = self.kind.least, self.kind.top
        return (
            self.floats(n, max(half, least), min(max(high // 2, half + 1), top)),
            self.floats(n, max(low - half, least), min(max(rest, low - half + 1), top)),
        )


def joined(*cases: Case) -> Case:
    """Returns the terms of all cases."""
    return tuple(None if arrays[0] is None else np.concatenate(arrays) for arrays in zip(*cases))


def negated(case: Case) -> Case:
    """Returns the terms with the other sign."""
    return -case[0], case[1]


def of_terms(kind: Kind, terms: Iterable[tuple[int, int]]) -> Case:
    """Returns terms of a signed integer, of no more bits than a significand, times 2^exponent."""
    a, b = [], []
    for integer, exponent in terms:
        own = max(kind.least, min(exponent // 2, kind.top - kind.precision))
        own = own if kind.is_dot else exponent
        a.append(np.ldexp(float(integer), own))
        b.append(np.ldexp(1.0, exponent - own))
    return np.array(a, kind.dtype), np.array(b, kind.dtype) if kind.is_dot else None


def pieces(kind: Kind, value: int) -> Case:
    """Returns terms whose sum is value * 2^kind.low, each of as many bits as a significand."""
    terms, sign = [], -1 if value < 0 else 1
    rest, exponent = abs(value), kind.low
    greatest = ((1 << kind.precision) - 1) << (kind.top - kind.precision - kind.low)
    while not kind.is_dot and rest > greatest:
        terms.append((sign * ((1 << kind.precision) - 1), kind.top - kind.precision))
        rest -= greatest
    while rest:
        zeros = (rest & -rest).bit_length() - 1
        rest, exponent = rest >> zeros, exponent + zeros
        # The last piece may have fewer bits, so that it is below 2^top.
        terms.append((sign * (rest & ((1 << kind.precision) - 1)), exponent))
        rest, exponent = rest >> kind.precision, exponent + kind.precision
    return of_terms(kind, terms)


def aimed(random: Random, case: Case, target: int) -> Case:
    """Adds terms, so that the exact sum is target * 2^kind.low, and shuffles."""
    kind = random.kind
    total, low = exact_integer(*case)
    missing = target - (total << (low - kind.low) if low >= kind.low else total >> (kind.low - low))
    return random.shuffled(joined(case, pieces(kind, missing)))


def lengths(kind: Kind, random: Random) -> Iterator[Case]:
    """Ordinary data of every short length, and around the widths of vectors, blocks and chunks."""
    powers = [1 << bits for bits in range(8, 18)]
    edges = [n + step for n in [*powers, 1536, 3072, 6144] for step in (-1, 0, 1)]
    for n in [*range(261), *edges, 300_001, 1_048_577]:
        yield random.ordinary(n), random.ordinary(n) if kind.is_dot else None


def ranges(kind: Kind, random: Random) -> Iterator[Case]:
    """Terms of many ranges of exponents, as they are, and with a small exact sum."""
    low, top = kind.low, (1 + kind.is_dot) * kind.top
    least_normal = low + (1 + kind.is_dot) * (kind.precision - 1)
    spans = [
        *[(-width, width) for width in (1, 4, 20, 60, 100, 250, 500, 900)],
        *[(low, top - 1), (low, least_normal), (least_normal - 8, least_normal + 8)],
        *[(top - 9, top - 1), (low, low + 3), (-40, -30), (30, 40)],
    ]
    for (first, last), n in itertools.product(spans, [3, 20, 70, 300, 1100, 5000]):
        case = random.case(n, max(first, low), min(last, top - 1))
        yield case
        # The terms that make the sum small must not be as large as the sum of many.
        if kind.is_dot or last < kind.top - 20:
            yield aimed(random, case, random.integer(1 + random.one(kind.top - low - 2)))


def patterns(kind: Kind, random: Random) -> Iterator[Case]:
    """Data whose magnitudes change, all at once, now and then, or from element to element."""
    wide = kind.top // 3
    for n in (150, 2000, 9001):
        small = random.case(n, -8, 2)
        for shift in (20, 50, 100, wide):
            scale = kind.dtype(2.0**shift)
            position = np.arange(n)
            for is_large in (
                *[position >= n // 2, position < n // 2, position % 2 == 0],
                *[position % 512 == 77, position // 1024 % 2 == 1, position == n - 1],
            ):
                for factor in (scale, 1 / scale):
                    yield np.where(is_large, small[0] * factor, small[0]), small[1]
        yield np.where(random.below(2, n) == 0, small[0] * 0, small[0]), small[1]
        yield np.rint(small[0] * 1000), small[1]
        yield np.full(n, small[0][0]), None if small[1] is None else np.full(n, small[1][0])


def conditions(kind: Kind, random: Random) -> Iterator[Case]:
    """Ill-conditioned data, to condition numbers of 1e300, as far as the type goes."""
    most = 300 if kind.top > 1000 else 60 if kind.is_dot else 35
    for digits, n in itertools.product(range(10, most + 1, 10), [10, 60, 400]):
        bits = digits * 3322 // 1000
        if kind.is_dot:
            yield ill_conditioned(random, n, bits)
        else:
            case = random.case(n, -bits // 2, bits // 2)
            yield aimed(random, case, random.integer(53) << max(0, -bits // 2 - 53 - kind.low))


def ill_conditioned(random: Random, n: int, bits: int) -> Case:
    """Makes a dot product of a condition number near 2^bits.

    Ogita, Rump and Oishi, "Accurate sum and dot product", SIAM Journal on Scientific Computing
    26(6), 2005, algorithm 6.1: products of many magnitudes, and then products that cancel them.
    """
    kind, half = random.kind, n // 2
    exponents = random.below(bits // 2 + 1, half)
    exponents[0], exponents[-1] = bits // 2 + 1, 0
    a, b = (scaled(random, exponents) for _ in range(2))
    falling = np.linspace(bits // 2, 0, n - half).astype(np.int64)
    wanted = scaled(random, falling)
    others = scaled(random, falling)
    # Not much smaller than they may be, so that no quotient overflows.
    others += np.copysign(np.ldexp(kind.dtype(1), falling), others)
    total, unit = exact_integer(a, b)
    total <<= unit - kind.low
    ends = []
    for x, y in zip(others, wanted):
        # y = (wanted - total) / x, rounded in any way.
        numerator, denominator = float(x).as_integer_ratio()
        rest = units(y, kind.low) - total
        end = kind.dtype(as_float(rest * denominator // numerator, kind.low))
        total += units(x, kind.least) * units(end, kind.least)
        ends.append(end)
    return random.shuffled(joined((a, b), (others, np.array(ends, kind.dtype))))


def scaled(random: Random, exponents: np.ndarray) -> np.ndarray:
    """Returns floats in (-1, 1) times powers of two."""
    integers = random.below(1 << 24, exponents.size) * 2 + 1 - (1 << 24)
    return np.ldexp(integers.astype(np.float64), exponents - 24).astype(random.kind.dtype)


def units(value: float, low: int) -> int:
    """Returns a float that is a multiple of 2^low as an integer in this unit."""
    numerator, denominator = float(value).as_integer_ratio()
    return (numerator << -low) // denominator


def as_float(value: int, low: int) -> float:
    """Returns value * 2^low, cut off to 53 bits."""
    dropped = max(abs(value).bit_length() - 53, 0)
    return float(np.ldexp(float(value >> dropped), low + dropped))


def ties(kind: Kind, random: Random) -> Iterator[Case]:
    """Sums half way between two floats at every exponent, and beside it at every distance."""
    info = kind.precision - 1
    exponents = range(kind.least, kind.top - kind.precision + 1)
    for number, unit in enumerate(exponents):
        # A tie needs one bit below the result's last, which a sum of subnormals does not have.
        if unit > kind.low:
            yield tie(random, unit, number, 0)
    wide = kind.top > 1000
    units_of_results = [kind.least, kind.least + 1, -info, 7, kind.top - kind.precision]
    for unit in units_of_results:
        is_full = unit == -info
        for position in range(kind.low, unit - 1, 1 if is_full or not wide else 17):
            for number in range(4) if is_full and not wide else [random.one(8)]:
                yield tie(random, unit, number, 1 << (position - kind.low))


def tie(random: Random, unit: int, number: int, distance: int) -> Case:
    """Makes a sum that is a distance from the middle between two floats, multiples of 2^unit.

    The number chooses the sign of the sum, the last bit below the middle, and the direction.
    """
    kind = random.kind
    q = random.integer(kind.precision - 1)
    if unit > kind.least:
        q |= 1 << (kind.precision - 1)
    q = (q & ~1) | (number >> 1 & 1)
    middle = (2 * q + 1) << (unit - kind.low - 1)
    target = middle + (distance if number & 4 else -distance)
    # Short ones pass through scalar code, long ones through vector code.
    n = [0, 3, 12, 40, 0, 150, 5, 25][random.one(8)] if random.one(40) else 2500
    spread = [10, 40, 120, 2000][random.one(4)]
    most = (kind.top - 20) * (1 + kind.is_dot)
    case = random.case(n, max(unit - spread, kind.low), min(unit + spread, most))
    return aimed(random, case, -target if number & 1 else target)


def cancellation(kind: Kind, random: Random) -> Iterator[Case]:
    """Sums of exactly 0, and of a single bit, at every position."""
    most = (1 + kind.is_dot) * kind.top - 1
    for n in (1, 5, 50, 300, 700, 2100, 4500):
        for width in (3, 40, 3000):
            half = random.case(n, max(-width, kind.low), min(width, most))
            yield joined(half, negated(half))
            yield random.shuffled(joined(half, negated(half)))
    for number, position in enumerate(range(kind.low, most)):
        bit = of_terms(kind, [((-1) ** number, position)])
        if number % 20 == 0:
            half = random.case(30 if number % 100 else 700, max(-300, kind.low), min(300, most))
        yield random.shuffled(joined(half, bit, negated(half)))


def underflow(kind: Kind, random: Random) -> Iterator[Case]:
    """Products whose rounding errors, or which themselves, are below the least float."""
    if not kind.is_dot:
        return
    least = kind.least if kind.top > 1000 else 2 * kind.least
    for s in range(least + 20, least + 180, 4):
        for step in (2, kind.precision // 2, kind.precision - 8, kind.precision - 1):
            root = np.ldexp(1 + 2.0**-step, s // 2)
            others = random.case(600 if s % 16 else 3000, least + 160, least + 190)
            # Alone, the others cancel: every bit of the result is the square's.
            odd = np.array([root], kind.dtype)
            if odd[0] == root:
                yield random.shuffled(joined(others, (odd, odd), negated(others)))
                yield random.shuffled(joined(others, (odd, odd)))
    yield from lost_errors(random) if kind.top > 1000 else ()
    for exponent in range(2 * kind.least + 2, kind.least + 40, 13):
        tiny = of_terms(kind, [(3, exponent), (-1, exponent)])
        half = random.case(700, -8, 8)
        yield random.shuffled(joined(half, tiny, negated(half)))


def lost_errors(random: Random) -> Iterator[Case]:
    """Squares that cancel up to their rounding errors, each too small for a float, amid others.

    (1 + 2^-a)^2 * 2^s is 1 + 2^(1 - a), rounded, and the error 2^-2a, times 2^s.
    """
    count = 200
    for a, error, top in itertools.product(
        (30, 38, 42, 45, 49), (-1075, -1076, -1079), (-870, -895, -905, -925, -950)
    ):
        s = (2 * a + error) // 2 * 2
        root = np.ldexp(1.0, s // 2)
        squares = np.full(count, root * (1 + 2.0**-a))
        rounded = np.full(count, -root), np.full(count, root * (1 + 2.0 ** (1 - a)))
        others = random.case(300, top - 25, top)
        yield random.shuffled(joined(others, (squares, squares), rounded, negated(others)))


def overflow(kind: Kind, random: Random) -> Iterator[Case]:
    """Partial sums that overflow, and sums at the boundary between the largest float and Inf."""
    ulp = kind.top - kind.precision - kind.low
    boundary = ((1 << (kind.precision + 1)) - 1) << (ulp - 1)
    largest = of_terms(kind, [((1 << kind.precision) - 1, kind.top - kind.precision)])
    for n in (1, 40, 900):
        large = joined(*[largest] * n)
        rest = random.case(2 * n, -30, 30)
        for case in (joined(large, rest, negated(large)), joined(large, negated(large), rest)):
            yield case
            yield random.shuffled(case)
        yield joined(large, large)
        yield negated(joined(large, large))
    for sign in (1, -1):
        for distance in (0, 1, 2, 1 << 30, 1 << (ulp - 2), 1 << (ulp - 1), 1 << ulp):
            for target in (boundary - distance, boundary + distance):
                for n in (0, 9, 800):
                    yield aimed(random, random.case(n, -60, 60), sign * target)
    if kind.is_dot:
        # Products far above every float, which cancel to a small sum.
        for exponent in range(kind.top, 2 * kind.top - 40, 41):
            case = random.case(300, exponent - 20, exponent + 20)
            yield random.shuffled(joined(case, random.case(3, -9, 9), negated(case)))
            yield random.shuffled(joined(case, random.case(3, exponent, exponent + 9)))


def specials(kind: Kind, random: Random) -> Iterator[Case]:
    """Infinities, NaNs of any kind, 0 * Inf, and zeros of both signs, at any place."""
    infinity, nan, largest = np.inf, np.nan, float(np.finfo(kind.dtype).max)
    payload = -np.array([(1 << 63 | 0x7FF0 << 48) + 1], np.uint64).view(np.float64)[0]
    alone = [[infinity], [-infinity], [nan], [-nan], [payload], [0.0], [-0.0], [-0.0, -0.0]]
    mixed = [[infinity, -infinity], [infinity, infinity], [-infinity, nan], [largest, -infinity]]
    pairs = [
        *[[(x, 1.0) for x in values] for values in alone + mixed],
        *[[(0.0, infinity)], [(-infinity, -0.0)], [(infinity, -2.0)], [(-infinity, -infinity)]],
        *[[(nan, 0.0)], [(infinity, nan)], [(largest, largest)], [(infinity, 1e-40), (1.0, nan)]],
        *[[(-0.0, 1.0), (0.0, -1.0)], [(infinity, 1.0), (0.0, infinity)], [(1e-40, -1e-40)]],
    ]
    for values in pairs if kind.is_dot else [[(x, 1.0) for x in row] for row in alone + mixed]:
        with np.errstate(all="ignore"):
            a, b = np.array(values, np.float64).astype(kind.dtype).T.copy()
        yield a, b if kind.is_dot else None
        for n in (10, 130, 700, 5000):
            case = tuple(x if x is None else x.copy() for x in random.case(n, -9, 9))
            places = [0, n - 1, n // 2, random.one(n)]
            for place in places[random.one(2) :: 2]:
                at = (place + np.arange(a.size)) % n
                case[0][at] = a
                if kind.is_dot:
                    case[1][at] = b
                yield tuple(x if x is None else x.copy() for x in case)
    zeros = np.zeros(3000, kind.dtype)
    for n in (1, 9, 3000):
        yield -zeros[:n], np.ones(n, kind.dtype) if kind.is_dot else None
        yield zeros[:n], -np.ones(n, kind.dtype) if kind.is_dot else None


def outliers(kind: Kind, random: Random) -> Iterator[Case]:
    """Large terms that cancel in the same lane of a vector, and tiny ones, amid ordinary data."""
    n = 4200
    for bits in range(8, kind.top - 2, 5 if kind.top < 200 else 37):
        half = random.ordinary(n), random.ordinary(n) if kind.is_dot else None
        place, apart = 900 + random.one(2500), 1 << random.one(9)
        if kind.is_dot:
            half[1][[place, place + apart]] = 1
        half[0][[place, place + apart]] = np.ldexp([1.0, -1.0], bits)
        yield half
        tiny = of_terms(kind, [(1, max(-bits, kind.low)), (1, max(-3 * bits, kind.low))])
        ordinary = half[0][:2000], None if half[1] is None else half[1][:2000]
        others = random.shuffled(negated(ordinary))
        yield joined(ordinary, tiny, others)


def orders(kind: Kind, random: Random) -> Iterator[Case]:
    """The same terms in many orders."""
    most = (1 + kind.is_dot) * kind.top - 60
    for n, width in [*itertools.product((90, 2500), (12, 100, 2000)), (150_000, 90)]:
        case = random.case(n, max(-width, kind.low), min(width, most))
        if kind.is_dot or width < 100:
            case = aimed(random, case, random.integer(60) << -kind.low)
        by_value = np.argsort(case[0], kind="stable")
        by_magnitude = np.argsort(np.abs(case[0]), kind="stable")
        for order in [by_value, by_value[::-1], by_magnitude, random.permutation(case[0].size)]:
            yield tuple(x if x is None else x[order] for x in case)


GROUPS: list[Callable[[Kind, Random], Iterator[Case]]] = [
    *[lengths, ranges, patterns, conditions, ties, cancellation],
    *[underflow, overflow, specials, outliers, orders],
]


@dataclass
class Corpus:
    """The cases of a kind, one behind the other, so that their arrays begin at any offset."""

    kind: Kind
    a: np.ndarray
    b: Optional[np.ndarray]
    # Case i is from bounds[i] to bounds[i + 1].
    bounds: np.ndarray
    # The group of each case.
    groups: list[str] = field(repr=False)

    def __len__(self) -> int:
        """Counts the cases."""
        return len(self.groups)

    def case(self, number: int) -> Case:
        """Returns the arrays of a case."""
        part = slice(self.bounds[number], self.bounds[number + 1])
        return self.a[part], None if self.b is None else self.b[part]

    def text(self, number: int) -> str:
        """Says which case it is."""
        n = self.bounds[number + 1] - self.bounds[number]
        return f"{self.kind}, case {number} of {len(self)}, {self.groups[number]}, n = {n}"

    def save(self, folder: Path) -> None:
        """Stores the corpus for other processes."""
        arrays = {"a": self.a, "b": self.b, "bounds": self.bounds, "groups": self.groups}
        stored = {name: array for name, array in arrays.items() if array is not None}
        np.savez(folder / f"{self.kind}.npz", **stored)

    @staticmethod
    def load(folder: str, kind: Kind) -> "Corpus":
        """Reads a corpus that was stored."""
        with np.load(Path(folder, f"{kind}.npz")) as file:
            arrays = [file[name] if name in file else None for name in ("a", "b", "bounds")]
            return Corpus(kind, *arrays, file["groups"].tolist())

    def expected(self) -> np.ndarray:
        """Returns the oracle's results."""
        return np.concatenate([by_exponents(*self.case(number)) for number in range(len(self))])


@cache
def corpus(kind: Kind) -> Corpus:
    """Makes the corpus of a kind."""
    cases, groups = [], []
    for seed, group in enumerate(GROUPS):
        with np.errstate(all="ignore"):
            cases += group(kind, Random(kind, 1000 * seed + KINDS.index(kind)))
        groups += [group.__name__] * (len(cases) - len(groups))
    bounds = np.cumsum([0, *[a.size for a, _ in cases]])
    a, b = joined(*cases)
    return Corpus(kind, a, b, bounds, groups)


def digest(results: np.ndarray) -> str:
    """Returns the hash of the results' bits."""
    return hashlib.sha256(results.tobytes()).hexdigest()


def committed() -> dict[str, str]:
    """Returns the hashes of the right results, by the names of the kinds."""
    lines = HASHES.read_text().splitlines()
    return {name: hashed for hashed, name in map(str.split, lines)}


if __name__ == "__main__":
    for kind in KINDS:
        print(f"{digest(corpus(kind).expected())}  {kind}")
