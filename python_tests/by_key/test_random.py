"""Random calls by key, compared with a model that reduces one group after the other."""

import gpuvec
import numpy as np
import pytest
from arrays import assert_same_bits
from hypothesis import given, settings
from hypothesis import strategies as st
from keyed import expected_along, has_empty_result
from numpy_reductions import Empty

TYPES = ["f2", "f4", "f8", "u1", "i2", "u4", "i4", "i8", "u8"]
KEYS = ["u1", "i1", "u2", "i4", "i8", "u8"]
NAMES = ["sum", "mean", "dot", "norm", "var", "std", "min", "max", "argmin", "argmax"]


@st.composite
def calls(draw):
    """Makes values, keys of the same shape, groups, axes and reductions."""
    lengths = st.sampled_from([0, 1, 2, 3, 5, 8, 17, 33, 70])
    shape = tuple(draw(st.lists(lengths, min_size=1, max_size=3)))
    axes = draw(st.sets(st.integers(0, len(shape) - 1), min_size=1).map(sorted).map(tuple))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    dtype, groups = np.dtype(draw(st.sampled_from(TYPES))), draw(st.sampled_from([0, 1, 2, 9, 100]))
    if dtype.kind == "f":
        exponents = random.integers(0, draw(st.sampled_from([1, 20, 1000])), shape)
        with np.errstate(over="ignore", under="ignore"):
            x = np.ldexp(random.normal(0, 1, shape), draw(st.sampled_from([1, -1])) * exponents)
            x = np.where(random.random(shape) < 0.01, random.choice([np.nan, np.inf, -0.0]), x)
            x = x.astype(dtype)
    else:
        limits = np.iinfo(dtype)
        x = random.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    keys = random.integers(0, max(groups, 1), shape).astype(draw(st.sampled_from(KEYS)))
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4))
    # Some elements are outside the groups, or none.
    outside = random.random(shape) < draw(st.sampled_from([0, 0, 0.01]))
    order = draw(st.permutations(range(len(shape))))
    return x, keys, outside, groups, axes, names, tuple(order)


def compare(x, keys, outside, groups, axes, names, order):
    """Calls gpuvec on arrays whose axes are in some order in memory."""
    number = min(np.iinfo(keys.dtype).max, 2**40)
    keys = np.where(outside, keys.dtype.type(number), keys)
    views = [np.ascontiguousarray(one.transpose(order)) for one in (x, keys)]
    x, keys = (one.transpose(np.argsort(order)) for one in views)
    is_outside = keys.astype(object) >= groups if keys.size else np.zeros(keys.shape, bool)
    texts = tuple("dot(x, x)" if name == "dot" else f"{name}(x)" for name in names)
    call = {"by": keys, "axis": axes, "groups": groups}
    if is_outside.any():
        with pytest.raises(gpuvec.ArgumentError, match="^the key of element "):
            gpuvec.evaluate(texts, x=x, **call)
    wide = np.where(is_outside.astype(bool), -1, keys.astype(np.int64))
    try:
        right = [expected_along(name, x, wide, groups, axes) for name in names]
    except Empty:
        with pytest.raises(gpuvec.ArgumentError, match="^group .* has no elements"):
            gpuvec.evaluate(texts, x=x, **call, outside="ignore")
        return
    found = gpuvec.evaluate(texts, x=x, **call, outside="ignore")
    for name, result, model in zip(names, found, right):
        assert result.shape == model.shape
        if result.size:
            assert_same_bits(result, model)
        assert has_empty_result(name) or not groups or result.size == model.size


@given(calls())
@settings(max_examples=40)
def test_random_calls(placement, call):
    compare(*call)


@given(calls())
@settings(max_examples=1500)
@pytest.mark.long
def test_many_random_calls(placement, call):
    compare(*call)
