"""Exact sums of any bits, and the effects of order, scale, sign and cancelling terms."""

import numpy as np
import pytest
from arrays import assert_same_bits, call, compute, filled, output
from bindings import last_error
from exact_sums import by_exponents, by_rationals
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from operations import CLASSIC, SPECIAL_BITS, any_bits, named
from oracles import unsigned

SUMS = [named(f"gpuvec_{name}") for name in ("dot_f32", "sum_f32", "dot_f64", "sum_f64")]
each_sum = pytest.mark.parametrize("operation", SUMS, ids=str)


def elements(dtype, n: int):
    """Arrays of any bits, special ones more often than by chance."""
    bits = unsigned(dtype)
    words = st.one_of(
        st.sampled_from(SPECIAL_BITS[bits.itemsize]), st.integers(0, np.iinfo(bits).max)
    )
    return hnp.arrays(bits, n, elements=words).map(lambda array: array.view(dtype))


def pairs(operation, most: int = 60):
    """Two arrays of one length."""
    return st.integers(0, most).flatmap(
        lambda n: st.tuples(elements(operation.dtype, n), elements(operation.dtype, n))
    )


def finite(operation, seed: int, n: int, spread: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns finite values of many magnitudes, whose products and sums are far from overflow."""
    rng = np.random.default_rng(seed)
    a, b = (
        np.ldexp(rng.standard_normal(n), rng.integers(-spread, spread + 1, n)) for _ in range(2)
    )
    return a.astype(operation.dtype), b.astype(operation.dtype)


def result(operation, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Returns the library's result."""
    return compute(operation, a.copy(), b.copy())


@each_sum
@given(data=st.data())
def test_any_bits(placement, operation, data):
    """The sum of fractions, rounded once, has the result's bits."""
    a, b = data.draw(pairs(operation))
    assert_same_bits(result(operation, a, b), by_rationals(*operation.inputs(a, b)))


@each_sum
@pytest.mark.parametrize("width", [4, 8, 16, 64, 128, 512, 1024, 2048, 4096, 8192, 65_536])
@pytest.mark.parametrize("kinds", [("pageable+1", "pinned+3"), ("pinned", "pageable+7")], ids=str)
def test_around_the_widths_of_vectors_blocks_and_chunks(placement, operation, width, kinds):
    for n in (width - 1, width, width + 1, 2 * width + 1, 3 * width - 1):
        a, b = (filled(kind, values) for kind, values in zip(kinds, finite(operation, n, n, 40)))
        out = output(operation, "pageable+1", n)
        assert call(operation, a.array, b.array, out.array) == 0, last_error()
        expected = by_exponents(*operation.inputs(a.array, b.array))
        assert_same_bits(out.array, expected)
        assert all(block.guards_are_intact() for block in (a, b, out))


@each_sum
@given(seed=st.integers(0, 2**32), n=st.integers(0, 9000), spread=st.sampled_from([0, 9, 40]))
def test_any_order(placement, operation, seed, n, spread):
    """Reversed, sorted and shuffled terms have the same sum."""
    a, b = finite(operation, seed, n, spread)
    expected = result(operation, a, b)
    shuffled = np.random.default_rng(seed).permutation(n)
    for order in (slice(None, None, -1), np.argsort(a), np.argsort(np.abs(b)), shuffled):
        assert_same_bits(result(operation, a[order], b[order]), expected)


@each_sum
@given(seed=st.integers(0, 2**32), n=st.integers(0, 3000))
def test_special_values_in_any_order(placement, operation, seed, n):
    rng = np.random.default_rng(seed)
    a, b = (any_bits(rng, n, operation.dtype) for _ in range(2))
    order = rng.permutation(n)
    assert_same_bits(result(operation, a, b), result(operation, a[order], b[order]))


@each_sum
@given(
    seed=st.integers(0, 2**32),
    n=st.integers(1, 3000),
    spread=st.sampled_from([0, 9, 40]),
    exponent=st.integers(-9, 9),
)
def test_scaled_and_negated(placement, operation, seed, n, spread, exponent):
    """A power of two scales the result exactly; the other sign negates it, but for an exact 0."""
    a, b = finite(operation, seed, n, spread)
    expected = result(operation, a, b)
    scaled = np.ldexp(a, exponent)
    if np.array_equal(np.ldexp(scaled, -exponent), a):
        assert_same_bits(result(operation, scaled, b), np.ldexp(expected, exponent))
    assert_same_bits(result(operation, -a, b), 0 - expected if expected == 0 else -expected)


@each_sum
@given(seed=st.integers(0, 2**32), n=st.integers(1, 5000), spread=st.sampled_from([0, 9, 40]))
def test_terms_that_cancel_change_nothing(placement, operation, seed, n, spread):
    """Nor does it matter where they are."""
    a, b = finite(operation, seed, n, spread)
    more, others = finite(operation, seed + 1, 700, 60)
    at = np.sort(np.random.default_rng(seed).integers(0, n + 1, 1400))
    longer = np.insert(a, at, np.concatenate([more, -more]))
    wider = np.insert(b, at, np.concatenate([others, others]))
    assert_same_bits(result(operation, longer, wider), result(operation, a, b))


@given(data=st.data())
def test_the_classic_function_is_the_same(placement, data):
    """dot_product and gpuvec_dot_f32 are one operation."""
    a, b = data.draw(pairs(SUMS[0], 300))
    assert_same_bits(result(CLASSIC[2], a, b), result(SUMS[0], a, b))


@each_sum
def test_one_array_twice(placement, operation):
    """Both inputs may be the same array, or overlap."""
    values, _ = finite(operation, 1, 5003, 20)
    for a, b in ((values[:5000], values[:5000]), (values[:5000], values[3:])):
        expected = by_exponents(*operation.inputs(a, b))
        assert_same_bits(compute(operation, a, b), expected)
