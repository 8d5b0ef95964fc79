"""Reductions by key: each result has the bits of its group's elements alone."""

import math

import gpuvec
import numpy as np
import pytest
from arrays import assert_same_bits
from corpus import KINDS, corpus
from corpus_calls import check
from keyed import expected, has_empty_result

FLOATS, INTEGERS = ["f2", "f4", "f8"], ["u1", "i1", "u2", "i2", "u4", "i4", "i8", "u8"]
OF_NUMBERS = ["sum", "mean", "dot", "norm", "var", "std", "min", "max", "argmin", "argmax"]
# Short, and around the lengths of vectors, blocks and tiles.
SIZES = [0, 1, 31, 32, 33, 255, 256, 257, 2051]
SPECIAL = [0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan]


def numbers(dtype: str, n: int, kind: int = 0) -> np.ndarray:
    """Returns ordinary numbers; of a wide range of exponents, with subnormals; special ones."""
    random, dtype = np.random.default_rng(n), np.dtype(dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return random.integers(limits.min, limits.max, n, dtype, endpoint=True)
    if kind == 2:
        return random.choice(SPECIAL, n).astype(dtype)
    limits = np.finfo(dtype)
    exponents = random.integers(limits.minexp - limits.nmant, limits.maxexp, n) if kind else 0
    with np.errstate(over="ignore"):
        values = np.ldexp(random.normal(0, 1, n), exponents)
    return values.clip(limits.min, limits.max).astype(dtype)


def keys_of(n: int, groups: int) -> np.ndarray:
    """Returns keys that are in every group, if there are enough."""
    random = np.random.default_rng(groups)
    return random.permutation(np.append(np.arange(groups), random.integers(0, groups, n))[:n])


@pytest.mark.parametrize("groups", [1, 2, 100])
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_every_reduction_of_every_type(placement, dtype, groups):
    """All in one pass and each alone, of short arrays and of several blocks."""
    names = [*OF_NUMBERS, *(["prod"] if dtype[0] != "f" else [])]
    for n in SIZES:
        for kind in range(3 if dtype[0] == "f" else 1):
            x, keys = numbers(dtype, n, kind), keys_of(n, groups).astype("i4")
            # For few elements some groups are empty.
            known = [name for name in names if n >= groups or has_empty_result(name)]
            for few in (known[:6], known[6:], *([name] for name in known if n == 257)):
                texts = tuple(f"{'dot(x, x)' if name == 'dot' else name + '(x)'}" for name in few)
                found = gpuvec.evaluate(texts, x=x, by=keys, groups=groups) if few else ()
                for name, result in zip(few, found):
                    assert_same_bits(result, expected(name, x, keys, groups))


@pytest.mark.parametrize("n", SIZES)
def test_reductions_of_bools(placement, n):
    x, keys = np.random.default_rng(n).random(n) < 0.3, keys_of(n, 9)
    found = gpuvec.evaluate("any(x); all(x); count(x); sum(x)", x=x, by=keys, groups=9)
    for name, result in zip(("any", "all", "count", "count"), found):
        assert_same_bits(result, expected(name, x, keys, 9).astype(result.dtype))
        assert result.dtype == (bool if name in ("any", "all") else np.int64)


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=() if kind == KINDS[1] else pytest.mark.long) for kind in KINDS],
    ids=str,
)
def test_the_corpus_of_exact_sums(placement, kind):
    """Each case is a group, and its elements are among those of all other cases."""
    cases = corpus(kind)
    keys = np.repeat(np.arange(len(cases)), np.diff(cases.bounds))
    order = np.random.default_rng(1).permutation(keys.size)
    for places in (slice(None), order):
        a = cases.a[places]
        if cases.b is None:
            found = gpuvec.sum(a, by=keys[places], groups=len(cases))
        else:
            found = gpuvec.dot(a, cases.b[places], by=keys[places], groups=len(cases))
        check(cases, found)


@pytest.mark.parametrize("dtype", FLOATS[1:])
def test_groups_are_as_their_elements_alone(placement, dtype):
    """The functions of the package return the bits of the same functions without keys."""
    x, y = numbers(dtype, 20_011), numbers(dtype, 20_011)[::-1]
    keys = keys_of(x.size, 13)
    for name in ("sum", "min", "max", "var", "std"):
        function = getattr(gpuvec, name)
        alone = [function(x[keys == group]) for group in range(13)]
        assert_same_bits(function(x, by=keys), np.array(alone))
    alone = [gpuvec.dot(x[keys == group], y[keys == group]) for group in range(13)]
    assert_same_bits(gpuvec.dot(x, y, by=keys), np.array(alone))
    alone = [gpuvec.var(x[keys == group], ddof=1) for group in range(13)]
    assert_same_bits(gpuvec.var(x, by=keys, ddof=1), np.array(alone))
    for name in ("mean", "norm"):
        text = f"{name}(x)"
        alone = [gpuvec.evaluate(text, x=x[keys == group]) for group in range(13)]
        assert_same_bits(gpuvec.evaluate(text, x=x, by=keys), np.array(alone))


@pytest.mark.parametrize("dtype", FLOATS)
def test_order_and_threads_do_not_matter(placement, dtype):
    texts = "sum(x); mean(x); var(x); min(x); norm(x)"
    x, keys = numbers(dtype, 30_000, kind=1), keys_of(30_000, 50)
    right = gpuvec.evaluate(texts, x=x, by=keys)
    threads = gpuvec.get_num_threads()
    try:
        for number in (1, 2, 5):
            gpuvec.set_num_threads(number)
            order = np.random.default_rng(number).permutation(x.size)
            for places in (slice(None), order):
                found = gpuvec.evaluate(texts, x=x[places], by=keys[places])
                for one, other in zip(found, right):
                    assert_same_bits(one, other)
    finally:
        gpuvec.set_num_threads(threads)


def test_groups_without_elements(placement):
    x = np.float32([1, 2, 4])
    texts = "sum(x); count(x > 0); mean(x); var(x); norm(x); dot(x, x); any(x > 0); all(x > 0)"
    found = gpuvec.evaluate(texts, x=x, by=np.array([3, 3, 3]), groups=5)
    empty = [0, 0, math.nan, math.nan, 0, 0, False, True]
    for result, right in zip(found, empty):
        np.testing.assert_array_equal(np.delete(result, 3), np.full(4, right, result.dtype))
    assert gpuvec.evaluate("prod(i)", i=np.array([1, 2, 4]), by=np.array([3, 3, 3])).tolist() == [
        1,
        1,
        1,
        8,
    ]


@pytest.mark.parametrize("name", ["min", "max", "argmin", "argmax"])
def test_a_minimum_needs_elements(placement, name):
    """The error names the first group without elements, and nothing is written."""
    x, keys = np.arange(8.0), np.array([0, 1, 3, 3, 1, 0, 5, 5])
    out = np.full(6, 7, np.int64 if name.startswith("arg") else np.float64)
    sums = np.full(6, 7.0)
    with pytest.raises(gpuvec.ArgumentError, match="^group 2 has no elements") as caught:
        gpuvec.evaluate(f"{name}(x); sum(x)", x=x, by=keys, groups=6, out=(out, sums))
    assert caught.value.status == gpuvec.Status.ERROR_EMPTY
    assert (out == 7).all() and (sums == 7).all()
    with pytest.raises(gpuvec.ArgumentError, match="^group 0 has no elements"):
        gpuvec.evaluate(f"{name}(x)", x=x[:0], by=keys[:0], groups=6)
    assert gpuvec.evaluate(f"{name}(x)", x=x[:0], by=keys[:0]).shape == (0,)


def fixed(dtype: str, n: int) -> np.ndarray:
    """Returns numbers whose sums are exact in float64: multiples of 2^-20 below 8."""
    return (np.random.default_rng(n).integers(-(2**23), 2**23, n) * 2.0**-20).astype(dtype)


@pytest.mark.parametrize("groups", [3, 100, 65_536, 1 << 20])
@pytest.mark.parametrize("dtype", FLOATS[1:])
@pytest.mark.parametrize("n", [1 << 16, 1_000_003])
@pytest.mark.long
def test_many_elements_and_groups(placement, dtype, n, groups):
    x, keys = fixed(dtype, n), np.random.default_rng(groups).integers(0, groups, n)
    sums = np.bincount(keys, x, groups)
    counts = np.bincount(keys, None, groups)
    found = gpuvec.evaluate("sum(x); count(x == x); mean(x)", x=x, by=keys, groups=groups)
    assert_same_bits(found[0], sums.astype(dtype))
    assert_same_bits(found[1], counts)
    with np.errstate(invalid="ignore"):
        if dtype == "f8":
            assert_same_bits(np.abs(found[2]), np.abs(sums / counts))
    is_full = counts > 0
    present = np.flatnonzero(is_full)
    numbered = (np.cumsum(is_full) - 1)[keys]
    least = np.full(present.size, np.inf, dtype)
    np.minimum.at(least, numbered, x)
    assert_same_bits(gpuvec.min(x, by=numbered), least)
    places = gpuvec.evaluate("argmin(x)", x=x, by=numbered)
    assert (numbered[places] == np.arange(present.size)).all() and (x[places] == least).all()


@pytest.mark.parametrize("dtype", FLOATS[1:])
@pytest.mark.long
def test_many_hard_elements(placement, dtype):
    """Of the whole range of exponents, in every group."""
    x, keys = numbers(dtype, 1_000_003, kind=1), keys_of(1_000_003, 40)
    found = gpuvec.evaluate("sum(x); mean(x); dot(x, x)", x=x, by=keys)
    for text, result in zip(("sum(x)", "mean(x)", "dot(x, x)"), found):
        alone = [gpuvec.evaluate(text, x=x[keys == group]) for group in range(40)]
        assert_same_bits(result, np.array(alone))
