"""The table of operations: each exported one with its element type, oracle and test data.

The oracles are NumPy's, and know nothing of the library but what its documentation promises.
"""

from dataclasses import dataclass
from typing import Callable

import numpy as np

TILE = 4096
LANES = 128

# Elements of arrays that automatic placement gives to a GPU, if there is one.
FOR_A_GPU = 6_000_001

# Bit patterns where arithmetic is special: zeros, subnormals, the ends of the normal numbers,
# one, infinities, NaNs with payloads; and the extremes of an integer.
SPECIAL_BITS = [
    *[0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x807FFFFF],
    *[0x00800000, 0x80800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F800000, 0xBF800000],
    *[0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF, 0x7FFFFFFF],
]


def canonical(values: np.ndarray) -> np.ndarray:
    """Floats with the one quiet NaN in place of every NaN."""
    return np.where(np.isnan(values), np.uint32(0x7FC00000).view(np.float32), values)


def add_f32(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`a + b`, with canonical NaN."""
    with np.errstate(all="ignore"):
        return canonical(a + b)


def add_i32(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`a + b`, wrapping."""
    return (a.view(np.uint32) + b.view(np.uint32)).view(np.int32)


def dot_f32(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The dot product, summed in float64 in the documented order, rounded once.

    Tiles of 4096 terms; in each, 128 lanes that add every 128th term from +0, then halve; over the
    tiles a binary tree. Missing terms are +0, which changes no lane.
    """
    with np.errstate(all="ignore"):
        terms = np.zeros(-(-a.size // TILE) * TILE)
        terms[: a.size] = a.astype(np.float64) * b.astype(np.float64)
        rows = terms.reshape(-1, TILE // LANES, LANES)
        lanes = np.zeros((rows.shape[0], LANES))
        for row in range(TILE // LANES):
            lanes += rows[:, row]
        while lanes.shape[1] > 1:
            half = lanes.shape[1] // 2
            lanes = lanes[:, :half] + lanes[:, half:]
        return canonical(np.array([tree(lanes[:, 0])]).astype(np.float32))


def tree(sums: np.ndarray) -> float:
    """Neighbours added level by level; one without a partner goes up unchanged."""
    while sums.size > 1:
        paired = sums[: sums.size // 2 * 2]
        sums = np.concatenate([paired[0::2] + paired[1::2], sums[paired.size :]])
    return sums[0] if sums.size else 0.0


Pair = tuple[np.ndarray, np.ndarray]


def any_bits(rng: np.random.Generator, n: int) -> np.ndarray:
    """Random 32-bit patterns, one in eight a special one."""
    bits = rng.integers(0, 1 << 32, n, dtype=np.uint32)
    special = rng.random(n, dtype=np.float32) < 0.125
    bits[special] = rng.choice(np.array(SPECIAL_BITS, np.uint32), special.sum())
    return bits


def any_f32(rng: np.random.Generator, n: int) -> Pair:
    """Any floats whatever."""
    return any_bits(rng, n).view(np.float32), any_bits(rng, n).view(np.float32)


def any_i32(rng: np.random.Generator, n: int) -> Pair:
    """Any integers whatever."""
    return any_bits(rng, n).view(np.int32), any_bits(rng, n).view(np.int32)


def cancelling_f32(rng: np.random.Generator, n: int) -> Pair:
    """Floats of many magnitudes whose products nearly cancel.

    What is left of their sum is mostly the rounding of its partial sums, so that another order
    of adding gives other bits.
    """
    half = n // 2
    a = np.ldexp(rng.standard_normal(n), rng.integers(-12, 12, n)).astype(np.float32)
    b = np.ldexp(rng.standard_normal(n), rng.integers(-12, 12, n)).astype(np.float32)
    shuffled = rng.permutation(n)
    these, those = shuffled[:half], shuffled[half : 2 * half]
    a[those], b[those] = a[these], -b[these]
    return a, b


def repeated(operation: "Operation", n: int) -> Pair:
    """Inputs of any length that are made quickly."""
    a, b = operation.data(np.random.default_rng(1), 1000)
    return np.resize(a, n), np.resize(b, n)


@dataclass(frozen=True)
class Operation:
    """A row of the table."""

    name: str
    dtype: type
    oracle: Callable[[np.ndarray, np.ndarray], np.ndarray]
    kind: str
    data: Callable[[np.random.Generator, int], Pair]

    def outputs(self, n: int) -> int:
        """How many elements the output has for inputs of `n`."""
        return n if self.kind == "elementwise" else 1

    def __str__(self) -> str:
        """The name, for tests' ids."""
        return self.name


OPERATIONS = [
    Operation("vector_add", np.float32, add_f32, "elementwise", any_f32),
    Operation("add_arrays", np.int32, add_i32, "elementwise", any_i32),
    Operation("dot_product", np.float32, dot_f32, "reduction", cancelling_f32),
]
