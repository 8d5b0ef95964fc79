"""Reductions inside formulas, which are computed in earlier passes."""

import gpuvec
import numpy as np
import pytest
from arrays import assert_same_bits
from bindings import Status, last_error
from formulas import SCALAR, TYPES, Compiled


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
    for text in ("sum(mean(x))", "x + sum(sum(x) * 2)"):
        with pytest.raises(gpuvec.ExpressionError, match="formulas of their own"):
            gpuvec.evaluate(text, x=x)
    inputs = {f"x{k}": x for k in range(20)}
    text = "x0 + " + " + ".join(f"sum(x{k % 20} * {k})" for k in range(13))
    with pytest.raises(gpuvec.ExpressionError, match="at most 32 together"):
        gpuvec.evaluate(text, inputs)
