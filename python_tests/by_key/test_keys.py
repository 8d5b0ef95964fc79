"""Keys: arrays of every integer type, formulas, the number of groups, and keys outside them."""

import gpuvec
import numpy as np
import pytest
from arrays import assert_same_bits
from gpuvec import Status
from keyed import expected

X = np.arange(12, dtype=np.float32)
KEYS = np.array([0, 2, 1, 0, 2, 1, 0, 5, 1, 2, 2, 0])
INTEGERS = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_of_every_type(placement, dtype):
    right = expected("sum", X, KEYS, 6)
    assert_same_bits(gpuvec.sum(X, by=KEYS.astype(dtype)), right)
    top = min(np.iinfo(dtype).max, 70_000)
    many = gpuvec.evaluate("count(x == x)", x=X, by=np.full(12, top, dtype))
    assert many.size == top + 1 and many[top] == 12


def test_bools_are_0_and_1_as_in_bincount(placement):
    keys = KEYS > 1
    right = expected("sum", X, keys.astype(int), 2)
    assert_same_bits(gpuvec.sum(X, by=keys), right)
    assert np.bincount(keys, X).tolist() == right.tolist()
    assert_same_bits(gpuvec.sum(X, by=keys, groups=3), np.append(right, right.dtype.type(0)))


def test_keys_are_integers(placement):
    for keys in (KEYS.astype("f4"), KEYS.astype("f8")):
        with pytest.raises(gpuvec.ExpressionError, match="keys are integers, not f(32|64)"):
            gpuvec.sum(X, by=keys)
    with pytest.raises(gpuvec.ExpressionError, match="keys are integers, not f32"):
        gpuvec.evaluate("sum(x)", x=X, by="x")
    # One for all elements.
    assert gpuvec.sum(X, by=3).tolist() == [0, 0, 0, 66]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_formula_of_the_inputs(placement, dtype):
    """A weighted histogram, in one pass; the text may use numbers and arrays that nothing sums."""
    random = np.random.default_rng(1)
    x, w = random.random(5000).astype(dtype), random.normal(0, 1, 5000).astype(dtype)
    keys = (x * 32).astype(int)
    by = "i64(floor((x - lo) * scale))"
    found = gpuvec.evaluate("sum(w); count(w > 0)", x=x, w=w, lo=0.0, scale=32.0, by=by, groups=40)
    assert_same_bits(found[0], expected("sum", w, keys, 40))
    assert_same_bits(found[1], np.bincount(keys[w > 0], minlength=40))
    found = gpuvec.evaluate("sum(w)", x=x, w=w, lo=0.0, scale=32.0, by=by)
    assert_same_bits(found, expected("sum", w, keys, 32))
    assert np.array_equal(
        np.histogram(x, 32, (0, 1))[0], gpuvec.evaluate("count(x >= 0)", x=x, by="i32(x * 32)")
    )


@pytest.mark.parametrize("by", ["", "k +", "nothing", "k; k", "sum(k)", "k\0"])
def test_a_wrong_text_of_keys(placement, by):
    error = ValueError if "\0" in by else gpuvec.ExpressionError
    with pytest.raises(error):
        gpuvec.evaluate("sum(x)", x=X, k=KEYS, by=by, groups=9)


@pytest.mark.parametrize(
    "text", ["x", "sum(x) + 1", "x - mean(x)", "sum(x); x", "sum(x - mean(x))"]
)
def test_each_formula_is_a_reduction(placement, text):
    with pytest.raises(gpuvec.ExpressionError, match="by key, each formula is one reduction"):
        gpuvec.evaluate(text, x=X, by=KEYS)


def test_the_number_of_groups(placement):
    """By default the largest key and one."""
    assert gpuvec.sum(X, by=KEYS).shape == (6,)
    assert gpuvec.sum(X, by=KEYS, groups=np.int8(9)).shape == (9,)
    assert gpuvec.sum(X[:0], by=KEYS[:0]).shape == (0,)
    assert gpuvec.sum(X[:0], by=KEYS[:0], groups=4).tolist() == [0] * 4
    assert gpuvec.sum(X, by=KEYS - 9, outside="ignore").shape == (0,)
    assert gpuvec.sum(X, by=KEYS - 1, outside="ignore").shape == (5,)
    assert gpuvec.sum(X, by=KEYS, groups=0, outside="ignore").shape == (0,)
    for groups, error in (
        (-1, ValueError),
        (2**63, ValueError),
        (2.0, TypeError),
        (True, TypeError),
    ):
        with pytest.raises(error, match="^groups is "):
            gpuvec.sum(X, by=KEYS, groups=groups)


@pytest.mark.parametrize("name", ["sum", "min", "argmax", "var", "dot"])
@pytest.mark.parametrize("n", [12, 50_000])
def test_keys_outside_are_an_error(placement, name, n):
    """The error names the first such element, and no output is written."""
    x, keys = np.resize(X, n), np.resize(KEYS, n)
    dtype = np.int64 if name == "argmax" else np.float32
    text = "dot(x, x)" if name == "dot" else f"{name}(x)"
    for place, key in ((0, 6), (7, -1), (n - 1, 2**40), (n // 2, -(2**63))):
        wrong = np.where(np.arange(n) == place, key, keys)
        wrong[place + 1 :: 5] = 99
        out, counts = np.full(6, 7, dtype), np.full(6, 7)
        with pytest.raises(
            gpuvec.ArgumentError, match=f"^the key of element {place} is {key}, "
        ) as e:
            gpuvec.evaluate(f"{text}; count(x == x)", x=x, by=wrong, groups=6, out=(out, counts))
        assert e.value.status == Status.ERROR_VALUE and 'outside="ignore"' in str(e.value)
        assert (out == 7).all() and (counts == 7).all()
    with pytest.raises(gpuvec.ArgumentError, match="^the key of element 0 is 0, but there are 0"):
        gpuvec.sum(X, by=KEYS, groups=0)
    with pytest.raises(gpuvec.ArgumentError, match="^the key of element 3 is -1, "):
        gpuvec.sum(X[:4], by=np.array([1, 0, 2, -1]))


def test_unsigned_keys_do_not_wrap(placement):
    """A uint64 above the int64s is outside, whatever the number of groups."""
    keys = KEYS.astype("u8")
    keys[4] = 2**64 - 1
    with pytest.raises(gpuvec.ArgumentError, match="^the key of element 4 is "):
        gpuvec.sum(X, by=keys, groups=6)
    found = gpuvec.sum(X, by=keys, groups=6, outside="ignore")
    assert_same_bits(found, expected("sum", np.delete(X, 4), np.delete(KEYS, 4), 6))


@pytest.mark.parametrize("name", ["sum", "mean", "var", "min", "argmin"])
@pytest.mark.parametrize("n", [12, 50_000])
def test_keys_outside_may_be_ignored(placement, name, n):
    x, keys = np.resize(X, n), np.resize(KEYS, n).copy()
    keys[1::7], keys[2::11] = -3, 2**33
    keys[:6] = range(6)
    found = gpuvec.evaluate(f"{name}(x)", x=x, by=keys, groups=6, outside="ignore")
    assert_same_bits(found, expected(name, x, keys, 6))


def test_arguments_that_do_not_fit(placement):
    with pytest.raises(TypeError, match="^groups is 3, without keys: pass by="):
        gpuvec.sum(X, groups=3)
    with pytest.raises(TypeError, match="^groups is 3, without keys: pass by="):
        gpuvec.evaluate("sum(x)", x=X, groups=3)
    with pytest.raises(TypeError, match="^keepdims is True"):
        gpuvec.sum(X, by=KEYS, keepdims=True)
    with pytest.raises(ValueError, match="^outside is 'drop': pass"):
        gpuvec.sum(X, by=KEYS, outside="drop")
    with pytest.raises(ValueError, match="by has shape"):
        gpuvec.sum(X, by=KEYS[:5])
    with pytest.raises(ValueError, match="at least one axis"):
        gpuvec.sum(np.array(1.0), by=np.array(0))
    with pytest.raises(TypeError, match="^by is an input of the formula"):
        gpuvec.evaluate("sum(x * by)", x=X, by=KEYS)
    with pytest.raises(TypeError, match="^groups is an input of the formula"):
        gpuvec.evaluate("sum(x * groups)", x=X, by=KEYS, groups=3)


def test_inputs_named_as_keywords(placement):
    """In a mapping; the keys are another input then."""
    found = gpuvec.evaluate("sum(by * by_)", {"by": X, "by_": X}, by=KEYS)
    assert_same_bits(found, expected("sum", X * X, KEYS, 6))
    found = gpuvec.evaluate("sum(groups)", {"groups": X, "by": KEYS}, by="by")
    assert_same_bits(found, expected("sum", X, KEYS, 6))


def test_outputs(placement):
    """They have the result's type and shape, any strides, and overlap no input."""
    right = expected("sum", X, KEYS, 6)
    out = np.full((6, 2), -1, np.float32)
    assert gpuvec.sum(X, by=KEYS, out=out[::-1, 1]) is not None
    assert_same_bits(np.ascontiguousarray(out[::-1, 1]), right)
    assert (out[:, 0] == -1).all()
    first, second = gpuvec.evaluate("sum(x); count(x > 2)", x=X, by=KEYS, out=(out[:, 0], None))
    assert_same_bits(first.copy(), right)
    assert second.tolist() == np.bincount(KEYS[X > 2], minlength=6).tolist()
    with pytest.raises(ValueError, match=r"^out has shape \(5,\): pass the shape \(6,\)"):
        gpuvec.sum(X, by=KEYS, out=np.empty(5, np.float32))
    with pytest.raises(TypeError, match="^out has dtype float64: pass float32"):
        gpuvec.sum(X, by=KEYS, out=np.empty(6))
    with pytest.raises(ValueError, match="^out is read-only"):
        gpuvec.sum(X, by=KEYS, out=np.frombuffer(bytes(24), np.float32))


def test_overlaps_are_refused(placement):
    """Of an output with an input, even exactly, with the keys, and with another output."""
    x, keys = X.copy(), np.arange(12)
    for out in (x, x[::-1], np.concatenate([x, x])[:12]):
        if np.shares_memory(out, x):
            with pytest.raises(gpuvec.ArgumentError, match="out (partly )?overlaps x") as caught:
                gpuvec.evaluate("sum(x)", x=x, by=keys, out=out)
            assert caught.value.status == Status.ERROR_OVERLAP
    with pytest.raises(gpuvec.ArgumentError, match="overlaps by"):
        gpuvec.evaluate("count(x >= 0)", x=x, by=keys, out=keys)
    both = np.zeros(18, np.float32)
    with pytest.raises(gpuvec.ArgumentError, match="overlaps"):
        gpuvec.evaluate("sum(x); max(x)", x=x, by=keys, out=(both[:12], both[6:]))
    assert (x == X).all() and (keys == np.arange(12)).all() and (both == 0).all()


def test_a_stream(placement):
    """The call follows the stream's earlier work, and is done when it returns."""
    with gpuvec.Stream() as stream:
        doubled = np.empty_like(X)
        gpuvec.add(X, X, doubled, stream)
        found = gpuvec.sum(doubled, by=KEYS, stream=stream)
        assert_same_bits(np.asarray(found), expected("sum", 2 * X, KEYS, 6))


def test_device_arrays(placement):
    x, keys = gpuvec.to_device(X), gpuvec.to_device(KEYS)
    right = expected("sum", X, KEYS, 6)
    for one, by in ((x, keys), (x, KEYS), (X, keys)):
        for groups in (6, None):
            found = gpuvec.sum(one, by=by, groups=groups)
            assert isinstance(found, gpuvec.DeviceArray)
            assert_same_bits(found.to_host(), right)
    out = gpuvec.to_device(np.zeros(6, np.float32))
    assert gpuvec.sum(x, by=keys, out=out) is out
    assert_same_bits(out.to_host(), right)
