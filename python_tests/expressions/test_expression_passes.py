"""Reductions inside formulas, which are computed in earlier passes."""

import itertools
import random
import re

import gpuvec
import numpy as np
import pytest
from arrays import assert_same_bits, guarded
from bindings import Status, last_error
from formulas import NUMBER, SCALAR, TYPES, Compiled


def one(text: str, **inputs) -> np.ndarray:
    """Returns the result of a formula without reductions inside, as one of the passes."""
    return gpuvec.evaluate(text, inputs)


def standardised(x):
    """Subtracts the mean, and divides by the standard deviation."""
    return one("(x - m) / s", x=x, m=one("mean(x)", x=x), s=one("std(x)", x=x))


def softmax(x):
    """Divides exponentials by their sum."""
    exponentials = one("exp(x - m)", x=x, m=one("max(x)", x=x))
    return one("e / s", e=exponentials, s=one("sum(e)", e=exponentials))


TEXTS = {
    "x / sum(x)": lambda x: one("x / s", x=x, s=one("sum(x)", x=x)),
    "(x - mean(x)) / std(x)": standardised,
    "exp(x - max(x)) / sum(exp(x - max(x)))": softmax,
    "sum(x / sum(x))": lambda x: one("sum(x / s)", x=x, s=one("sum(x)", x=x)),
    "x * count(x > 0)": lambda x: one("x * c", x=x, c=one("count(x > 0)", x=x)),
    "x + var(x, ddof=1)": lambda x: one("x + v", x=x, v=one("var(x, ddof=1)", x=x)),
}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"])
@pytest.mark.parametrize("n", [1, 2, 1000, 70_001])
def test_passes_one_after_the_other(placement, text, dtype, n):
    """The bits are those of formulas of their own, also of arrays with strides, and in place."""
    x = np.random.default_rng(n).normal(3, 20, 2 * n).astype(dtype)
    for part in (x[:n], x[::2], x[::-1].reshape(2, n), x.reshape(2, n).T):
        right = TEXTS[text](part)
        found = gpuvec.evaluate(text, x=part)
        assert found.shape == right.shape and found.dtype == right.dtype
        assert_same_bits(np.atleast_1d(found).copy(), np.atleast_1d(right).copy())
        out = np.asarray(part).copy()
        if right.shape == out.shape and right.dtype == out.dtype:
            gpuvec.evaluate(text, x=out, out=out)
            assert_same_bits(out, np.ascontiguousarray(right))


OF_RESULTS = {
    "sum(x) / 2": lambda x, y: gpuvec.sum(x) / x.dtype.type(2),
    "mean(x*y) - mean(x)*mean(y)": lambda x, y: (
        one("mean(x*y)", x=x, y=y) - one("mean(x)", x=x) * one("mean(y)", y=y)
    ),
    "-max(x) < min(y)": lambda x, y: -gpuvec.max(x) < gpuvec.min(y),
    "count(x > 0) // 2": lambda x, y: one("count(x > 0)", x=x) // 2,
    "0 * sum(x)": lambda x, y: x.dtype.type(0) * gpuvec.sum(x),
    "k * sum(x)": lambda x, y: x.dtype.type(0.5) * gpuvec.sum(x),
}


@pytest.mark.parametrize("text", OF_RESULTS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("n", [1, 1000, 70_001])
def test_formulas_of_results_alone(placement, text, dtype, n):
    """Are one value, as reductions are: computed with the bits of the results' own types."""
    x, y = np.random.default_rng(n).normal(-1, 20, (2, n)).astype(dtype)
    inputs = {"x": x, "y": y, "k": 0.5}
    inputs = {name: value for name, value in inputs.items() if name in text}
    right = OF_RESULTS[text](x, y)
    found = gpuvec.evaluate(text, inputs)
    assert np.shape(found) == () and found.dtype == np.asarray(right).dtype
    assert_same_bits(np.atleast_1d(found).copy(), np.atleast_1d(right).copy())
    views = {name: np.repeat(value, 2)[::2] for name, value in inputs.items() if name != "k"}
    assert gpuvec.evaluate(text, {**inputs, **views}, keepdims=True).tolist() == [found]
    out = np.zeros(1, found.dtype)
    assert gpuvec.evaluate(text, inputs, out=out) is out and out[0] == found
    assert gpuvec.evaluate((text, "x - max(x)"), {"x": x, **inputs})[0] == found


def test_formulas_of_results_alone_of_no_elements(placement):
    """The sum of no elements is 0, of arrays of any shape."""
    for x in (np.zeros(0), np.zeros((3, 0)), np.zeros((0, 4))[:, ::2]):
        assert gpuvec.evaluate("sum(x) / 2 + k", x=x, k=1) == 1


# Formulas of an array `a` and a number `k` by NumPy, and whether they are one value. All are exact.
KINDS = {
    "k": (lambda a, k: np.full(a.size, k), False),
    "k < 8": (lambda a, k: np.full(a.size, k < 8), False),
    "a + k": (lambda a, k: a + np.float32(k), False),
    "a - sum(a)": (lambda a, k: a - a.sum(dtype=np.float32), False),
    "sum(k)": (lambda a, k: np.float64(a.size * k), True),
    "count(a > 2)": (lambda a, k: np.count_nonzero(a > 2), True),
    "sum(a) / 2": (lambda a, k: a.sum(dtype=np.float32) / np.float32(2), True),
    "sum(k) - k": (lambda a, k: np.float64(a.size * k - k), True),
    "sum(a) * a**0": (lambda a, k: np.full(a.size, a.sum(dtype=np.float32)), False),
    "count(a > 2) < 2**70": (lambda a, k: np.True_, True),
    "count(a > 2) == 0": (lambda a, k: np.count_nonzero(a > 2) == 0, True),
    "u64(count(a > 2)) - 1": (
        lambda a, k: np.array(np.count_nonzero(a > 2)).astype(np.uint64) - np.uint64(1),
        True,
    ),
}
SEVERAL = [
    *([text] for text in KINDS),
    *(list(pair) for pair in itertools.permutations(KINDS, 2)),
    list(KINDS)[:8],
    list(KINDS)[:-9:-1],
]


@pytest.mark.parametrize("n", [0, 2, 6, 3000])
def test_the_kind_of_an_output_is_its_own(placement, n):
    """Whatever other formulas the call has: n elements, or one value; nothing else is written."""
    a, k = (np.arange(n) % 7).astype(np.float32), np.float64([7])
    inputs = {"a": np.float32, "k": TYPES["GPUVEC_F64"] | NUMBER}
    for texts in SEVERAL:
        with np.errstate(over="ignore"):
            right = [np.atleast_1d(KINDS[text][0](a, 7.0)) for text in texts]
        with Compiled("; ".join(texts), inputs) as compiled:
            assert compiled.reductions() == [KINDS[text][1] for text in texts]
            assert compiled.dtypes() == [result.dtype for result in right]
            given = [a.ctypes.data, k.ctypes.data]
            axes = int(any(compiled.reductions()))
            for shape in (None, [n], [2, n // 2]):
                outs = [guarded("pageable", result.dtype, result.size) for result in right]
                places = [out.address for out in outs]
                if shape is None:
                    ok(compiled.run_outputs(given, places, n))
                else:
                    ok(compiled.run_nd(shape, given, places, (2 * len(shape) - 1) * axes))
                for out, result in zip(outs, right):
                    assert out.guards_are_intact()
                    assert_same_bits(out.array, result)


def test_outputs_are_checked_before_any_is_written(placement):
    """Also those that are one value, which are computed last."""
    a, k = np.ones(64, np.float32), np.float32([1])
    inputs = {"a": np.float32, "k": TYPES["GPUVEC_F32"] | SCALAR}
    out, value = np.zeros(64, np.float32), np.zeros(1, np.float32)
    wrong = {
        None: Status.ERROR_NULL,
        value.ctypes.data + 1: Status.ERROR_MISALIGNED,
        out.ctypes.data + 8: Status.ERROR_OVERLAP,
        a.ctypes.data + 8: Status.ERROR_OVERLAP,
    }
    with Compiled("a + k; sum(a) / 2", inputs) as compiled:
        given = [a.ctypes.data, k.ctypes.data]
        for address, status in wrong.items():
            assert compiled.run_outputs(given, [out.ctypes.data, address], 64) == status
            assert compiled.run_nd([64], given, [out.ctypes.data, address], 1) == status
            assert not out.any()
        # The value may be the first element of an input, and a scalar that of an output.
        at, to = a.ctypes.data, out.ctypes.data
        ok(compiled.run_outputs([at, to], [to, at], 64))
        assert (out == 1).all() and a[0] == 32 and (a[1:] == 1).all()
    with Compiled("a + k; sum(a) / k", inputs) as compiled:
        ok(compiled.run_outputs([at, at], [at, value.ctypes.data], 64))
        assert a[0] == 64 and (a[1:] == 33).all() and value[0] == np.float32(95) / 32


UNSIGNED = {
    "max(x) - min(x)": lambda x: x.max() - x.min(),
    "sum(x) + 1": lambda x: x.sum() + np.uint64(1),
    "-max(x)": lambda x: -x.max(),
    "sum(x) % 10": lambda x: x.sum() % np.uint64(10),
    "prod(x) ^ dot(x, x)": lambda x: x.prod() ^ (x * x).sum(),
    "where(sum(x) > max(x), max(x), 3)": lambda x: x.max() if x.sum() > x.max() else np.uint64(3),
    "u64(sum(i64(x)))": lambda x: x.sum(),
    "x + 1; sum(x) + 1": lambda x: (x + np.uint64(1), x.sum() + np.uint64(1)),
}


@pytest.mark.parametrize("text", UNSIGNED)
def test_one_value_of_u64(placement, text):
    """Is as those of other types."""
    x = np.array([3, 2**64 - 5, 2**63, 17, 2**63 - 1], np.uint64)
    with np.errstate(over="ignore"):
        right = UNSIGNED[text](x)
    found = gpuvec.evaluate(text, x=x)
    assert np.all(np.asarray(found[-1]) == right[-1]) if ";" in text else found == right
    assert np.asarray(found[-1] if ";" in text else found).dtype == np.uint64


BOOLS = {np.dtype(bool)}
ALL_TYPES = "? u1 i1 u2 i2 u4 i4 u8 i8 f2 f4 f8".split()
REDUCTIONS = {
    "?": ["sum", "mean", "var", "std", "any", "all", "count"],
    "f": ["sum", "mean", "var", "std", "norm", "min", "max", "argmin", "argmax"],
    "i": ["sum", "mean", "var", "std", "prod", "norm", "min", "max", "argmin", "argmax"],
}


@pytest.mark.parametrize("dtype", ALL_TYPES)
def test_every_kind_of_output_of_every_type(placement, dtype):
    """Texts of all kinds: the types and bits of formulas of their own, one after the other."""
    limits = (0, 2) if dtype == "?" else (0, 120)
    x = np.random.default_rng(5).integers(*limits, 100).astype(dtype)
    if dtype in ("u8", "i8"):
        x[:2] = np.iinfo(dtype).max, np.iinfo(dtype).max - 9
    names = REDUCTIONS[{"b": "?", "f": "f"}.get(x.dtype.kind, "i")]
    results = {f"r{at}": one(f"{name}(x)", x=x) for at, name in enumerate(names)}
    # Elements of 16 bits are rounded where they are stored alone.
    values = {name: np.atleast_1d(value) for name, value in results.items()}
    inner = {f"r{at}": f"{name}(x)" for at, name in enumerate(names)}
    elementwise = ["x", "x == x"] if dtype == "?" else ["x", "-x", "x < 3", "x + x", "x / 2"]
    checks = [(text, text, {"x": x}) for text in elementwise]
    checks += [(f"{name}(x)", f"{name}(x)", {"x": x}) for name in names]
    for a, b in itertools.product(values, repeat=2):
        for op in ("+", "<", "//", "/"):
            if op != "<" and BOOLS & {values[a].dtype, values[b].dtype}:
                continue
            text = f"{a} {op} {b}"
            checks.append((re.sub("r[0-9]+", lambda name: inner[name[0]], text), text, values))
    random.Random(dtype).shuffle(checks)
    for first in range(0, len(checks), 8):
        some = checks[first : first + 8]
        found = gpuvec.evaluate(tuple(text for text, _, _ in some), x=x)
        for (text, own, inputs), result in zip(some, found):
            used = {name: value for name, value in inputs.items() if re.search(rf"\b{name}\b", own)}
            right = np.atleast_1d(one(own, **used))
            assert np.asarray(result).dtype == right.dtype, text
            assert np.ndim(result) == ("(" not in text), text
            assert_same_bits(np.atleast_1d(result).copy(), right.copy())


def test_several_formulas_and_results(placement):
    """Outputs may be inputs, which all passes read as they were; a dozen results share passes."""
    x = np.arange(1.0, 1001)
    old = x.copy()
    found = gpuvec.evaluate("x / sum(x); max(x); dot(x - mean(x), x)", x=x, out=(x, None, None))
    assert_same_bits(x, old / gpuvec.sum(old))
    mean = gpuvec.evaluate("mean(x)", x=old)
    assert found[1:] == (1000, gpuvec.dot(old - mean, old))
    text = " + ".join(f"sum(x * {k})" for k in range(12))
    total = sum(gpuvec.sum(old * k) for k in range(12))
    assert_same_bits(gpuvec.evaluate(f"x + ({text})", x=old), old + total)


@pytest.mark.parametrize("text", ["k * x / sum(x)", "k * sum(x)"])
def test_functions_of_the_header(placement, text):
    """Take the declared inputs, and tell whether the result is one value."""
    x, k = np.arange(1, 1001, dtype=np.float32), np.float32([3])
    right = np.atleast_1d(gpuvec.evaluate(text, x=x, k=k[0]))
    is_value = right.size == 1
    inputs = {"x": np.float32, "k": TYPES["GPUVEC_F32"] | SCALAR}
    with Compiled(text, inputs) as compiled:
        assert compiled.reductions() == [is_value] and compiled.is_reduction() == is_value
        out = np.zeros_like(right)
        ok(compiled.run([x.ctypes.data, k.ctypes.data], out.ctypes.data, x.size))
        assert_same_bits(out, right)
        gaps, wide = np.repeat(x, 3)[::3], np.zeros(2 * right.size, np.float32)[::2]
        ok(compiled.run_nd(x.shape, [gaps, k.ctypes.data], wide, int(is_value)))
        assert_same_bits(wide.copy(), right)


def ok(status: int) -> None:
    """Fails with the library's message unless a call succeeded."""
    assert status == Status.OK, last_error()


def test_device_arrays_and_streams():
    """The call waits for the stream's earlier work."""
    a = np.arange(1, 5001, dtype=np.float32)
    stream = gpuvec.Stream()
    on_device = gpuvec.to_device(a)
    doubled = gpuvec.add(on_device, on_device, stream=stream)
    found = gpuvec.evaluate("x / sum(x)", x=doubled, stream=stream)
    stream.synchronize()
    assert_same_bits(found.to_host(), (a + a) / gpuvec.sum(a + a))
    text = "x / sum(x); sum(x) / 2; sum(k); k"
    found = gpuvec.evaluate(text, x=doubled, k=3.0, stream=stream)
    stream.synchronize()
    right = [(a + a) / gpuvec.sum(a + a), gpuvec.sum(a), 15_000, np.full(5000, 3.0)]
    for each, value in zip(found, right):
        assert (getattr(each, "to_host", lambda each=each: each)() == value).all()
    first = doubled[:1]
    gpuvec.evaluate("x + 1; sum(x) / 2", x=doubled, out=(on_device, first), stream=stream)
    stream.synchronize()
    assert_same_bits(on_device.to_host(), a + a + np.float32(1))
    assert first.to_host() == gpuvec.sum(a)


def test_no_elements(placement):
    """Sums have a result, which nothing needs; a maximum has none."""
    x = np.zeros(0)
    assert gpuvec.evaluate("x / sum(x)", x=x).shape == (0,)
    with pytest.raises(gpuvec.ArgumentError, match="maximum"):
        gpuvec.evaluate("x - max(x)", x=x)


def test_what_is_refused_says_what_to_write():
    """Axes, other shapes, and formulas without arrays of their own."""
    x = np.ones((3, 4))
    with pytest.raises(TypeError, match="keepdims=True first"):
        gpuvec.evaluate("x / sum(x)", x=x, axis=0)
    with pytest.raises(TypeError, match="keepdims=True first"):
        gpuvec.evaluate("sum(x / sum(x))", x=x, axis=0)
    with pytest.raises(ValueError, match="evaluate the reduction first"):
        gpuvec.evaluate("x / sum(w)", x=x, w=x[0])
    with pytest.raises(TypeError, match="keepdims=True first"):
        gpuvec.evaluate("sum(x) / 2", x=x, axis=0)
    for text in ("sum(mean(x))", "x + sum(sum(x) * 2)", "sum(std(x)**0)"):
        with pytest.raises(gpuvec.ExpressionError, match="formulas of their own"):
            gpuvec.evaluate(text, x=x)
    inputs = {f"x{k}": x for k in range(20)}
    text = "x0 + " + " + ".join(f"sum(x{k % 20} * {k})" for k in range(13))
    with pytest.raises(gpuvec.ExpressionError, match="at most 32 together"):
        gpuvec.evaluate(text, inputs)
