"""Exact sums of 2^28 elements, which only `make check-all` has time for."""

import numpy as np
import pytest
from arrays import assert_same_bits, compute
from exact_sums import by_exponents
from operations import named

pytestmark = pytest.mark.large

N = 1 << 28
BLOCK = 1 << 22


def ordinary(rng: np.random.Generator, n: int) -> np.ndarray:
    """Returns normally distributed numbers."""
    return rng.standard_normal(n, np.float32)


def wide(rng: np.random.Generator, n: int) -> np.ndarray:
    """Returns numbers of 100 binades."""
    return np.ldexp(rng.standard_normal(n, np.float32), rng.integers(-50, 50, n))


def filled(values, seed: int, dtype) -> np.ndarray:
    """Makes an array block by block; a quarter of it cancels another."""
    rng = np.random.default_rng(seed)
    array = np.empty(N, dtype)
    for start in range(0, N, BLOCK):
        array[start : start + BLOCK] = values(rng, BLOCK)
    array[N // 4 : N // 2] = -array[: N // 4][::-1]
    return array


@pytest.mark.parametrize("values", [ordinary, wide], ids=lambda values: values.__name__)
@pytest.mark.parametrize("name", ["dot_f32", "sum_f32", "dot_f64", "sum_f64"])
def test_268_million_elements(name, values):
    operation = named(f"gpuvec_{name}")
    a = filled(values, 1, operation.dtype)
    b = filled(values, 2, operation.dtype) if operation.shape.arity == 2 else a
    expected = by_exponents(*operation.inputs(a, b))
    assert_same_bits(compute(operation, a, b), expected)
