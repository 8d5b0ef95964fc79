"""Each exported operation: its oracle, shape and test data. The header declares the functions."""

from dataclasses import dataclass
from typing import Callable, NamedTuple, Optional

import header
import numpy as np
from exact_sums import by_exponents
from oracles import (
    Oracle,
    fused,
    largest,
    rounded,
    smallest,
    unsigned,
    wrapping,
    wrapping_dot,
    wrapping_sum,
)

# A length of arrays at which placement auto takes a GPU, if there is one.
FOR_A_GPU = 6_000_001

# The default factor of scale and axpy, which every type rounds.
ALPHA = -1.7

# Special bit patterns, by the size of an element: zeros, subnormals, the smallest and largest
# normal numbers, one, infinities, NaNs with payloads; and the extremes of an integer.
SPECIAL_BITS = {
    4: [
        *[0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x807FFFFF],
        *[0x00800000, 0x80800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F800000, 0xBF800000],
        *[0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF, 0x7FFFFFFF],
    ],
    8: [
        *[0x0000000000000000, 0x8000000000000000, 0x0000000000000001, 0x8000000000000001],
        *[0x000FFFFFFFFFFFFF, 0x800FFFFFFFFFFFFF, 0x0010000000000000, 0x8010000000000000],
        *[0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF, 0x3FF0000000000000, 0xBFF0000000000000],
        *[0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000, 0xFFF8000000000000],
        *[0x7FF0000000000001, 0xFFFFFFFFFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0x00000000FFFFFFFF],
        *[0x0000000080000000, 0xFFFFFFFF80000000, 0x0000000100000000],
    ],
}

Pair = tuple[np.ndarray, np.ndarray]


def specials(dtype) -> np.ndarray:
    """Returns the special bit patterns as elements."""
    bits = unsigned(dtype)
    return np.array(SPECIAL_BITS[bits.itemsize], bits).view(dtype)


def any_bits(rng: np.random.Generator, n: int, dtype) -> np.ndarray:
    """Returns random bit patterns; one in eight is special."""
    bits = unsigned(dtype)
    values = rng.integers(0, np.iinfo(bits).max, n, dtype=bits, endpoint=True).view(dtype)
    special = rng.random(n, dtype=np.float32) < 0.125
    values[special] = rng.choice(specials(dtype), special.sum())
    return values


def anything(rng: np.random.Generator, n: int, dtype) -> Pair:
    """Returns random elements."""
    return any_bits(rng, n, dtype), any_bits(rng, n, dtype)


def close(rng: np.random.Generator, n: int, dtype) -> Pair:
    """Returns floats whose multiply-add shows how often it is rounded.

    A third are any floats; in a third only the product's rounding error remains; in a third the
    addends' bits overlap.
    """
    a, b = anything(rng, n, dtype)
    with np.errstate(all="ignore"):
        opposite = -dtype(ALPHA) * a
        exponents = np.frexp(opposite)[1] + rng.integers(-60, 60, n)
        overlapping = np.ldexp(np.frexp(b)[0], exponents.astype(np.int32))
    return a, np.choose(rng.integers(0, 3, n), [b, opposite, overlapping])


def cancelling(span: int) -> Callable[[np.random.Generator, int, type], Pair]:
    """Returns floats of many magnitudes, whose sum and products cancel almost entirely.

    The remainder is smaller than the rounding errors of sums that are not exact.
    """

    def data(rng: np.random.Generator, n: int, dtype) -> Pair:
        half = n // 2
        a = np.ldexp(rng.standard_normal(n), rng.integers(-span, span, n)).astype(dtype)
        b = np.ldexp(rng.standard_normal(n), rng.integers(-span, span, n)).astype(dtype)
        shuffled = rng.permutation(n)
        these, those = shuffled[:half], shuffled[half : 2 * half]
        a[those], b[those] = -a[these], b[these]
        a[shuffled[2 * half :]] *= dtype(2.0**-40)
        return a, b

    return data


def comparable(rng: np.random.Generator, n: int, dtype) -> Pair:
    """Returns random elements; of the float arrays a quarter has NaNs, and a quarter only zeros."""
    a, b = anything(rng, n, dtype)
    if np.issubdtype(dtype, np.floating):
        kind = rng.integers(0, 4)
        if kind > 0:
            a = np.where(np.isnan(a), dtype(rng.standard_normal()), a)
        if kind == 1:
            a = np.copysign(dtype(0), a)
        if kind == 2:
            a = rng.choice([-1, 1]).astype(dtype) * np.abs(a)
    return a, b


class Shape(NamedTuple):
    """The inputs and output of an operation: `kind` is elementwise or reduction."""

    kind: str
    arity: int
    takes_alpha: bool = False
    # Set if a reduction of integers returns an int64.
    is_wide: bool = False
    # Set if there is a result for no elements.
    has_empty_result: bool = True


BINARY = Shape("elementwise", 2)
SCALED = Shape("elementwise", 1, takes_alpha=True)
SCALED_BINARY = Shape("elementwise", 2, takes_alpha=True)
OF_PAIRS = Shape("reduction", 2, is_wide=True)
OF_ONE = Shape("reduction", 1, is_wide=True)
EXTREME = Shape("reduction", 1, has_empty_result=False)


@dataclass(frozen=True)
class Operation:
    """A function of the library, with its oracle and test data."""

    name: str
    formula: Oracle
    dtype: type
    shape: Shape
    values: Callable[[np.random.Generator, int, type], Pair]

    @property
    def kind(self) -> str:
        """Returns elementwise or reduction."""
        return self.shape.kind

    @property
    def out_dtype(self) -> type:
        """Returns the output's element type."""
        is_wide = self.shape.is_wide and np.issubdtype(self.dtype, np.integer)
        return np.int64 if is_wide else self.dtype

    @property
    def alpha(self) -> Optional[float]:
        """Returns the default factor; None for operations without one."""
        return float(self.dtype(ALPHA)) if self.shape.takes_alpha else None

    @property
    def may_be_in_place(self) -> bool:
        """Returns whether the output may be an input, which needs elements of the same type."""
        return self.out_dtype == self.dtype

    @property
    def takes_stream(self) -> bool:
        """Returns whether the last argument is a stream."""
        return self.name.startswith("gpuvec_")

    @property
    def arrays(self) -> list[str]:
        """Returns the names of the arguments that are arrays."""
        return [*"ab"[: self.shape.arity], "out"]

    def outputs(self, n: int) -> int:
        """Returns the output's length for inputs of `n` elements."""
        return n if self.kind == "elementwise" else 1

    def staged_bytes(self, n: int) -> dict[str, int]:
        """Returns the bytes of each array that gpuvec stages if the array is pageable.

        A reduction's output is never staged, because the host stores it.
        """
        size = n * np.dtype(self.dtype).itemsize
        of_output = size if self.kind == "elementwise" else 0
        return {name: of_output if name == "out" else size for name in self.arrays}

    def data(self, rng: np.random.Generator, n: int) -> Pair:
        """Returns inputs `a` and `b` of `n` elements; an operation on one array ignores `b`."""
        return self.values(rng, n, self.dtype)

    def inputs(self, a, b, alpha: Optional[float] = None) -> tuple:
        """Returns the arguments before the output, as far as the operation has them."""
        of_arrays = (a, b)[: self.shape.arity]
        if not self.shape.takes_alpha:
            return of_arrays
        return (self.alpha if alpha is None else alpha, *of_arrays)

    def oracle(self, a: np.ndarray, b: np.ndarray, alpha: Optional[float] = None) -> np.ndarray:
        """Returns the right result."""
        return self.formula(*self.inputs(a, b, alpha))

    def __reduce__(self) -> tuple:
        """Pickles the operation as its name."""
        return named, (self.name,)

    def __str__(self) -> str:
        """Returns the name, for tests' ids."""
        return self.name


def sized(classic: list, family: list) -> list:
    """Pairs operations with sizes at which they have results, the classic ones with their own."""
    return [
        (operation, n)
        for operations, sizes in ((CLASSIC, classic), (FAMILY, family))
        for operation in operations
        for n in sizes
        if n > 0 or operation.shape.has_empty_result
    ]


def named(name: str) -> Operation:
    """Returns the operation of that name."""
    return next(operation for operation in OPERATIONS if operation.name == name)


def repeated(operation: Operation, n: int) -> Pair:
    """Makes long inputs quickly, by repetition."""
    a, b = operation.data(np.random.default_rng(1), 1000)
    return np.resize(a, n), np.resize(b, n)


class Row(NamedTuple):
    """An operation's shape, and its oracle and test data, of floats and of integers."""

    shape: Shape
    floats: Oracle
    integers: Optional[Oracle] = None
    data: Callable[[np.random.Generator, int, type], Pair] = anything
    data_of_integers: Callable[[np.random.Generator, int, type], Pair] = anything

    def of(self, name: str, dtype: type) -> Operation:
        """Returns the row on one element type."""
        if np.issubdtype(dtype, np.floating):
            return Operation(name, self.floats, dtype, self.shape, self.data)
        assert self.integers is not None, f"ROWS has no oracle of integers for {name}"
        return Operation(name, self.integers, dtype, self.shape, self.data_of_integers)


ROWS = {
    "add": Row(BINARY, rounded(np.add), wrapping(np.add)),
    "sub": Row(BINARY, rounded(np.subtract), wrapping(np.subtract)),
    "mul": Row(BINARY, rounded(np.multiply), wrapping(np.multiply)),
    "div": Row(BINARY, rounded(np.divide)),
    "scale": Row(SCALED, rounded(np.multiply)),
    "axpy": Row(SCALED_BINARY, fused, data=close),
    "dot": Row(OF_PAIRS, by_exponents, wrapping_dot, cancelling(12)),
    "sum": Row(OF_ONE, by_exponents, wrapping_sum, cancelling(30)),
    "min": Row(EXTREME, smallest, smallest, comparable, comparable),
    "max": Row(EXTREME, largest, largest, comparable, comparable),
}
ELEMENTS = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64}

CLASSIC = [
    ROWS["add"].of("vector_add", np.float32),
    ROWS["add"].of("add_arrays", np.int32),
    ROWS["dot"].of("dot_product", np.float32),
]

# The functions that the header declares; test_every_operation_is_tested finds one without a row.
FAMILY = [
    row.of(f"gpuvec_{name}_{element}", dtype)
    for name, row in ROWS.items()
    for element, dtype in ELEMENTS.items()
    if f"gpuvec_{name}_{element}" in header.operations()
]

OPERATIONS = CLASSIC + FAMILY

# A sample for slow tests, with every shape and every element size.
OTHERS = ("scale_f64", "axpy_f32", "dot_f64", "sum_i64", "max_f32")
SAMPLE = CLASSIC + [named(f"gpuvec_{kernel}") for kernel in OTHERS]
