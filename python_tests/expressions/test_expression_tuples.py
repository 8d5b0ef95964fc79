"""Several formulas in Python: tuples of texts, results and outputs."""

import pickle
import re

import gpuvec
import numpy as np
import pytest
from arrays import assert_same_bits


def arrays(n: int = 1000) -> tuple[np.ndarray, np.ndarray]:
    """Returns two arrays."""
    random = np.random.default_rng(n)
    x, v = random.normal(size=(2, n)).astype(np.float32)
    return x, v


@pytest.mark.parametrize(
    "text", ["x + dt*v; v - dt*x", ("x + dt*v", "v - dt*x"), "x + dt*v;\nv - dt*x\n"]
)
def test_each_formula_has_its_result(text):
    """In the order of the formulas, given as a text or as a tuple."""
    x, v = arrays()
    dt = np.float32(0.5)
    step = gpuvec.Expression(text, x="f4", v="f4", dt=float)
    for result in (gpuvec.evaluate(text, x=x, v=v, dt=0.5), step(x=x, v=v, dt=0.5)):
        assert type(result) is tuple
        assert_same_bits(result[0], x + dt * v)
        assert_same_bits(result[1], v - dt * x)
    assert step.dtypes == (np.dtype("f4"),) * 2
    assert step.reductions == (False, False)


def test_reductions_among_others():
    """Scalars of NumPy's, whatever the shape of the arrays."""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    least, doubled, place, total = gpuvec.evaluate("min(x); x * 2; argmax(x); sum(x)", x=x)
    assert (least, place, total) == (0, 11, 66)
    assert (type(least), type(place)) == (np.float32, np.int64)
    assert_same_bits(doubled, x * np.float32(2))


def test_a_tuple_of_one_text():
    """Gives a tuple of one result."""
    x, _ = arrays(3)
    [result] = gpuvec.evaluate(("x + 1",), x=x)
    assert_same_bits(result, x + np.float32(1))
    one = gpuvec.Expression(("sum(x)",), x="f4")
    assert (one.dtype, one.is_reduction) == (np.float32, True)
    again = pickle.loads(pickle.dumps(one))
    assert type(again(x=x)) is tuple
    assert type(pickle.loads(pickle.dumps(gpuvec.Expression("sum(x)", x="f4")))(x=x)) is np.float32


def test_outputs_in_place_of_inputs():
    """All formulas use the inputs as they were before the call."""
    x, v = arrays()
    old_x, old_v = x.copy(), v.copy()
    first, second, total = gpuvec.evaluate("v; x; sum(x)", x=x, v=v, out=(x, v, None))
    assert first is x and second is v
    assert_same_bits(x, old_v)
    assert_same_bits(v, old_x)
    assert total == gpuvec.sum(old_x)


def test_arrays_of_every_kind():
    """New outputs are where the inputs are, but those of reductions are scalars."""
    x, v = arrays()
    there = gpuvec.to_device(x)
    doubled, total = gpuvec.evaluate("x * 2; sum(x * v)", x=there, v=v)
    assert type(doubled) is gpuvec.DeviceArray
    assert_same_bits(doubled.to_host(), x * np.float32(2))
    assert total == gpuvec.evaluate("sum(x * v)", x=x, v=v)
    out = gpuvec.pinned_empty(1000, np.float32), gpuvec.pinned_empty((), np.float32)
    stream = gpuvec.Stream()
    result = gpuvec.evaluate("x * 2; sum(x * v)", x=there, v=v, out=out, stream=stream)
    stream.synchronize()
    assert result[0] is out[0] and result[1] is out[1]
    assert_same_bits(out[0], x * np.float32(2))
    assert out[1] == total


def test_without_arrays():
    """The shape is that of an output that is given."""
    assert gpuvec.evaluate("k + 1; k * 2", k=1.5) == (2.5, 3.0)
    out = np.zeros((2, 3))
    result = gpuvec.evaluate("k * 2; sum(k)", k=1.5, out=(out, None))
    assert (out == 3).all() and result == (out, 9.0)


def test_descriptions_of_one_output_refuse_several():
    """And say what to read."""
    two = gpuvec.Expression("x; sum(x)", x="f4")
    with pytest.raises(ValueError, match="the text has 2 formulas: read dtypes"):
        two.dtype  # noqa: B018
    with pytest.raises(ValueError, match="the text has 2 formulas: read reductions"):
        two.is_reduction  # noqa: B018
    assert two.text == "x; sum(x)"
    assert repr(two) == "<gpuvec.Expression: 'x; sum(x)' of x: float32, float32, float32>"
    assert (two.program.count("output:"), two.ptx.count(".entry")) == (2, 2)
    assert pickle.loads(pickle.dumps(two)).dtypes == two.dtypes


@pytest.mark.parametrize(
    "out, error, words",
    [
        (np.zeros(4, np.float32), TypeError, "out is of type ndarray: pass a tuple of 2"),
        ([None, None], TypeError, "out is of type list: pass a tuple of 2"),
        ((None,), ValueError, "out has 1 elements: pass a tuple of 2: an array for each formula"),
        ((None, np.zeros(4)), TypeError, "out[1] has dtype float64: pass float32"),
        ((np.zeros(5, "f4"), None), ValueError, "out[0] has shape (5,): pass the shape (4,)"),
        (
            (None, np.zeros(2, "f4")),
            ValueError,
            "out[1] has shape (2,): pass an array of one element",
        ),
        ((None, np.float32(1)), ValueError, "out[1] is read-only"),
    ],
    ids=str,
)
def test_wrong_outputs(out, error, words):
    """Errors name the output."""
    with pytest.raises(error, match=re.escape(words)):
        gpuvec.evaluate("x + 1; sum(x)", x=np.ones(4, np.float32), out=out)


def test_outputs_that_overlap():
    """The library's errors name outputs and inputs as Python does."""
    x = np.ones(8, np.float32)
    for out, words in [
        ((x[:4], x[4:], x[4:5]), "out[2] overlaps out[1]"),
        ((None, x[2:6], None), "out[1] partly overlaps x"),
    ]:
        with pytest.raises(gpuvec.ArgumentError, match=re.escape(words)):
            gpuvec.evaluate("x + 1; x - 1; sum(x)", x=x[:4], out=out)


def test_wrong_texts():
    """A text that is none, and one whose formula is missing."""
    x = np.ones(3, np.float32)
    for text, error, words in [
        (("x", b"x"), TypeError, "text is of type bytes: pass a str, or a tuple of them"),
        ((), gpuvec.ExpressionError, "the expression is empty"),
        ("x;", gpuvec.ExpressionError, "no formula follows this ';': remove it\nx;\n ^"),
        (("x", ""), gpuvec.ExpressionError, "no formula follows this ';'"),
        ("; ".join("x" * 9), gpuvec.ExpressionError, "more than 8 formulas: split"),
        (("x", "y"), gpuvec.ExpressionError, "no array is named 'y'\nx; y\n   ^"),
    ]:
        with pytest.raises(error, match=re.escape(words)):
            gpuvec.evaluate(text, x=x)
    with pytest.raises(ValueError, match=re.escape("pass x.ravel()")):
        gpuvec.evaluate("x + 1; dot(x, x)", x=np.ones((2, 2), np.float32))
