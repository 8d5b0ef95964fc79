"""Special values, and the exact sums."""

import math

import numpy as np
import pytest
from arrays import assert_same_bits, compute
from exact_sums import by_rationals
from operations import CLASSIC, OPERATIONS, Operation, any_bits, named, specials
from oracles import QUIET_NAN

ADD_F32, ADD_I32, DOT_F32 = CLASSIC
INF, NAN, TINY = np.inf, np.nan, np.finfo(np.float32).smallest_subnormal
NORMAL, HUGE = np.finfo(np.float32).tiny, np.finfo(np.float32).max


def f32(*values) -> np.ndarray:
    """Makes an array of floats."""
    return np.array(values, np.float32)


def special_pairs(dtype) -> tuple:
    """Pairs every special value with every special value."""
    values = specials(dtype)
    return np.repeat(values, values.size), np.tile(values, values.size)


def alphas(operation: Operation) -> list:
    """Returns the special values if the operation takes alpha; Python loses a NaN's payload."""
    return specials(operation.dtype).tolist() if operation.shape.takes_alpha else [None]


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_every_pair_of_special_values(placement, operation):
    """Zeros, subnormals, infinities, NaNs, and the ends of a range, with each other."""
    a, b = special_pairs(operation.dtype)
    for alpha in alphas(operation):
        if operation.kind == "elementwise":
            assert_same_bits(compute(operation, a, b, alpha), operation.oracle(a, b, alpha))
            continue
        for pair in range(a.size):
            one = slice(pair, pair + 1)
            assert_same_bits(compute(operation, a[one], b[one]), operation.oracle(a[one], b[one]))


@pytest.mark.parametrize("operation", [row for row in OPERATIONS if row.shape.takes_alpha], ids=str)
@pytest.mark.parametrize("alpha", [0.0, -0.0, 1.0, -1.0, 1e-30, 3.3e30, np.inf, np.nan])
def test_any_values_with_any_alpha(placement, operation, alpha):
    """The multiplication uses alpha in the elements' type."""
    a, b = operation.data(np.random.default_rng(1), 10_000)
    alpha = float(operation.dtype(alpha))
    assert_same_bits(compute(operation, a, b, alpha), operation.oracle(a, b, alpha))


WRAPPING = {"add": int.__add__, "sub": int.__sub__, "mul": int.__mul__}


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("name", WRAPPING)
def test_integers_wrap_around(placement, name, bits):
    """Results are the low bits of the exact ones, which Python's integers hold."""
    operation = named(f"gpuvec_{name}_i{bits}")
    a, b = special_pairs(operation.dtype)
    exact = [WRAPPING[name](x, y) % 2**bits for x, y in zip(a.tolist(), b.tolist())]
    assert_same_bits(compute(operation, a, b), np.array(exact, f"u{bits // 8}").view(a.dtype))


@pytest.mark.parametrize("bits", [32, 64])
def test_sums_of_integers_wrap_around_in_64_bits(placement, bits):
    """Products too: exact for 32 bits, wrapped for 64."""
    a, b = special_pairs(np.dtype(f"i{bits // 8}").type)
    of_pairs = sum(x * y for x, y in zip(a.tolist(), b.tolist()))
    for name, exact in (("dot", of_pairs), ("sum", sum(a.tolist()))):
        expected = np.array([exact % 2**64], np.uint64).view(np.int64)
        assert_same_bits(compute(named(f"gpuvec_{name}_i{bits}"), a, b), expected)


FLOATS = [row for row in OPERATIONS if np.issubdtype(row.dtype, np.floating)]


@pytest.mark.parametrize("operation", FLOATS, ids=str)
@pytest.mark.parametrize("n", [1, 4097])
def test_every_nan_is_stored_as_the_quiet_one(placement, operation, n):
    """The result is the same for any sign, payload and place of the NaN that went in."""
    quiet = np.array([QUIET_NAN[np.dtype(operation.dtype)]])
    values = specials(operation.dtype)
    at = n // 2 if operation.kind == "elementwise" else 0
    for nan in np.flatnonzero(np.isnan(values)):
        for where in range(operation.shape.arity):
            inputs = [np.ones(n, operation.dtype) for _ in range(2)]
            inputs[where][n // 2 : n // 2 + 1] = values[nan : nan + 1]
            assert_same_bits(compute(operation, *inputs)[at : at + 1], quiet)


@pytest.mark.parametrize("n", [1, 33, 4097, 65_537, 1_048_577])
@pytest.mark.parametrize("bits", [0x7F800001, 0x7FFFFFFF, 0xFF800001, 0xFFC00000, 0xFFFFFFFF])
def test_a_nan_is_stored_as_the_quiet_one(placement, bits, n):
    """The result is the same for any sign and payload of the NaN that went in."""
    a, b = np.ones(n, np.float32), np.ones(n, np.float32)
    a[n // 2] = np.uint32(bits).view(np.float32)
    quiet = np.uint32(0x7FC00000).view(np.float32)
    for x, y in ((a, b), (b, a), (a, a)):
        assert_same_bits(compute(ADD_F32, x, y)[n // 2 : n // 2 + 1], f32(quiet))
        assert_same_bits(compute(DOT_F32, x, y), f32(quiet))


@pytest.mark.parametrize(
    "a, b, expected",
    [
        pytest.param([-0.0], [1.0], 0.0, id="minus zero becomes plus zero"),
        pytest.param([-0.0, -0.0], [1.0, 1.0], 0.0, id="minus zeros become plus zero"),
        pytest.param([1.0, -1.0], [1.0, 1.0], 0.0, id="what cancels is plus zero"),
        pytest.param([TINY], [1.0], TINY, id="subnormal kept"),
        pytest.param([NORMAL], [0.5], NORMAL / 2, id="subnormal made of normals"),
        pytest.param([TINY, TINY], [0.5, 0.5], TINY, id="halves of the least subnormal"),
        pytest.param([TINY], [TINY], 0.0, id="underflow"),
        pytest.param([HUGE, HUGE], [1.0, 1.0], INF, id="overflow"),
        pytest.param([HUGE, HUGE, -HUGE], [HUGE, 1.0, HUGE], HUGE, id="no overflow on the way"),
        pytest.param([HUGE, HUGE], [-HUGE, 1.0], -INF, id="overflow to minus infinity"),
        pytest.param([INF], [2.0], INF, id="infinity"),
        pytest.param([INF, 1.0], [-1.0, 1.0], -INF, id="minus infinity"),
        pytest.param([INF], [0.0], NAN, id="infinity times zero"),
        pytest.param([INF, -INF], [1.0, 1.0], NAN, id="infinity less infinity"),
        pytest.param([1.0, 2.0**-24], [1.0, 1.0], 1.0, id="tie to even"),
        pytest.param([1.0, 2.0**-24, 2.0**-50], [1.0] * 3, 1 + 2.0**-23, id="above the tie"),
        pytest.param([1 + 2.0**-12], [1 + 2.0**-12], 1 + 2.0**-11, id="rounded once"),
    ],
)
def test_special_dot_products(placement, a, b, expected):
    """Exact zeros, subnormals, overflow, infinities and rounding."""
    assert_same_bits(compute(DOT_F32, f32(*a), f32(*b)), f32(expected))


@pytest.mark.parametrize("n", [4096, 65_536, 1_048_576])
def test_special_dot_products_far_apart(placement, n):
    """Terms cancel or overflow across parts of an array that different workers add."""
    a, b = np.zeros(n, np.float32), np.ones(n, np.float32)
    for first, last, expected in ((INF, -INF, NAN), (HUGE, HUGE, INF), (-0.0, -0.0, 0.0)):
        a[0], a[-1] = first, last
        assert_same_bits(compute(DOT_F32, a, b), f32(expected))


@pytest.mark.parametrize("n", [1, 2, 100, 4096, 10_000])
@pytest.mark.parametrize("data", ["uniform", "cancelling", "any"])
def test_dot_product_is_the_exact_sum_rounded_once(placement, data, n):
    """The exact sum is computed in fractions."""
    rng = np.random.default_rng(n)
    if data == "uniform":
        a, b = rng.random(n, np.float32), rng.random(n, np.float32)
    elif data == "cancelling":
        a, b = DOT_F32.data(rng, n)
    else:
        a, b = (np.nan_to_num(any_bits(rng, n, np.float32)) for _ in range(2))
    assert_same_bits(compute(DOT_F32, a, b), by_rationals(a, b))


@pytest.mark.parametrize("n", [1_000_003])
def test_long_dot_product_is_the_exact_sum_rounded_once(placement, n):
    """The exact sum of terms that double holds, rounded to double, is math.fsum's."""
    a, b = DOT_F32.data(np.random.default_rng(n), n)
    exact = math.fsum(a.astype(np.float64) * b)
    assert_same_bits(compute(DOT_F32, a, b), f32(exact))
