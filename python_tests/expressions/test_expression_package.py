"""`gpuvec.evaluate` and `gpuvec.Expression` with every kind of argument."""

import array
import pickle

import gpuvec
import numpy as np
import pytest
from arrays import assert_same_bits
from bindings import lib
from threads import in_threads

A = np.linspace(-3, 3, 1001, dtype=np.float32)
B = A[::-1].copy()


def test_results(placement):
    """A new array, or `out`; a scalar of a reduction."""
    right = A * B + np.float32(1)
    assert_same_bits(gpuvec.evaluate("a*b + 1", a=A, b=B), right)
    out = np.empty_like(A)
    assert gpuvec.evaluate("a*b + 1", a=A, b=B, out=out) is out
    assert_same_bits(out, right)
    count = gpuvec.evaluate("count(a < b)", a=A, b=B)
    assert isinstance(count, np.int64) and count == (A < B).sum()
    total = np.empty(1, np.int64)
    assert gpuvec.evaluate("count(a < b)", a=A, b=B, out=total) is total
    assert total[0] == count
    assert gpuvec.evaluate("a + 1", a=np.ones((2, 3))).shape == (2, 3)
    assert gpuvec.evaluate("a + 1", a=np.ones((0, 3))).shape == (0, 3)
    assert gpuvec.evaluate("a + 1", a=np.ones(())) == 2
    assert gpuvec.evaluate("1 + 2") == 3


def test_inputs_in_a_mapping(placement):
    """All names are possible, also those of keywords."""
    names = ("self", "text", "inputs", "out", "stream", "axis", "keepdims", "expression")
    for name in names:
        expected = A * 2 + B
        columns = {name: A, "b": B}
        out = np.empty_like(A)
        text = f"{name}*2 + b"
        expression = gpuvec.Expression(text, {name: np.float32, "b": np.float32})
        for found in (
            gpuvec.evaluate(text, columns),
            gpuvec.evaluate(text, columns, out=out),
            gpuvec.evaluate(text, {name: A}, b=B),
            expression(columns),
            expression(columns, out=out),
            expression({name: A}, b=B),
        ):
            assert_same_bits(found, expected)
        declared = gpuvec.Expression(text, **{name: np.float32}, b=np.float32)
        assert_same_bits(declared(columns, stream=gpuvec.Stream()), expected)
    assert_same_bits(gpuvec.Expression("self + 1", self=np.float32)(self=A), A + 1)


def test_a_column_named_out_is_not_written():
    """A mapping has inputs alone; a keyword that may be an input is refused."""
    columns = {"x": A, "out": B.copy(), "stream": B}
    assert_same_bits(gpuvec.evaluate("x*2", columns), A * 2)
    assert_same_bits(columns["out"], B)
    expression = gpuvec.Expression("x + out", {"x": np.float32, "out": np.float32})
    for call in (
        lambda: gpuvec.evaluate("x + out", x=A, out=columns["out"]),
        lambda: gpuvec.evaluate("x + out", {"x": A}, out=columns["out"]),
        lambda: expression(x=A, out=columns["out"]),
    ):
        with pytest.raises(TypeError, match="^out is an input of the formula.*mapping"):
            call()
    with pytest.raises(TypeError, match="^stream is an input of the formula.*mapping"):
        gpuvec.evaluate("x + stream", x=A, stream=B)
    assert_same_bits(columns["out"], B)


@pytest.mark.parametrize(
    "inputs, keywords, words",
    [
        ([A], {}, "^inputs is a list: pass a mapping"),
        (A, {}, "^inputs is a ndarray: pass a mapping"),
        ({1: A}, {}, "^inputs has the name 1"),
        ({"a": A}, {"a": A}, "^a is in the mapping and a keyword"),
    ],
)
def test_wrong_mappings(inputs, keywords, words):
    """The error says what was found."""
    expression = gpuvec.Expression("a + 1", a=np.float32)
    for call in (lambda *a, **k: gpuvec.evaluate("a + 1", *a, **k), expression):
        with pytest.raises(TypeError, match=words):
            call(inputs, **keywords)


def test_names_are_never_the_caller_s():
    """Only what is passed is known."""
    a = B  # noqa: F841
    with pytest.raises(gpuvec.ExpressionError, match="no array is named 'a'"):
        gpuvec.evaluate("a + b", b=B)


@pytest.mark.parametrize(
    "value, dtype",
    [
        (2.5, np.float32),
        (2, np.float32),
        (True, np.float32),
        (np.float32(2.5), np.float32),
        (np.float64(2.5), np.float64),
        (np.int16(2), np.float32),
        (np.int32(2), np.float64),
    ],
    ids=repr,
)
def test_numbers_have_numpy_s_types(placement, value, dtype):
    """A Python number is weak, and a NumPy scalar is not, as in NumPy 2."""
    text = "where(k, a, b)" if value is True else "a * k"
    inputs = {"a": A, "b": B} if value is True else {"a": A}
    found = gpuvec.evaluate(text, **inputs, k=value)
    assert_same_bits(found, A if value is True else A.astype(dtype) * dtype(value))


def test_a_number_in_an_expression_of_two_types(placement):
    """It is rounded to the type of the partner that it meets."""
    x = A.astype(np.float64)
    assert_same_bits(gpuvec.evaluate("a*k + x", a=A, x=x, k=0.1), A * np.float32(0.1) + x)
    assert_same_bits(gpuvec.evaluate("x*k + a", a=A, x=x, k=0.1), x * 0.1 + A)
    i = np.arange(5, dtype=np.int32)
    assert_same_bits(gpuvec.evaluate("i*k", i=i, k=3), i * np.int32(3))
    assert_same_bits(gpuvec.evaluate("i*k", i=i, k=0.1), i * 0.1)


def test_every_kind_of_array(placement):
    """NumPy arrays, also read-only; buffers; device arrays; in any mix."""
    read_only = A.copy()
    read_only.flags.writeable = False
    right = A + B
    others = [read_only, array.array("f", B), memoryview(B), gpuvec.pinned_like(B)]
    others[-1][:] = B
    if placement.name != "CPU" or lib.gpuvec_device_count() == 0:
        others.append(gpuvec.to_device(B))
    expression = gpuvec.Expression("a + b", a=np.float32, b="float32")
    for other in others:
        values = A if other is read_only else B
        for found in (gpuvec.evaluate("a + b", a=A, b=other), expression(a=A, b=other)):
            host = found.to_host() if isinstance(found, gpuvec.DeviceArray) else found
            assert_same_bits(host, A + values)
    assert_same_bits(expression(a=A, b=B.tobytes()), right)
    out = bytearray(A.nbytes)
    assert expression(a=A, b=B, out=out) is out
    assert_same_bits(np.frombuffer(out, np.float32), right)


def test_device_arrays(placement):
    """A result in device memory if an input is there; an output of another type."""
    x, y = gpuvec.to_device(A), gpuvec.to_device(B)
    found = gpuvec.evaluate("f64(x) / y > 1", x=x, y=y)
    assert isinstance(found, gpuvec.DeviceArray) and found.dtype == bool
    with np.errstate(all="ignore"):
        assert_same_bits(found.to_host(), A.astype(float) / B > 1)
    assert gpuvec.evaluate("x + y", x=x, y=y, out=x) is x
    assert_same_bits(x.to_host(), A + B)


def test_streams(placement):
    """Queued expressions run in order, and keep what they use alive."""
    x = gpuvec.to_device(A)
    with gpuvec.Stream() as stream:
        for _ in range(20):
            gpuvec.evaluate("x + k*y", x=x, y=gpuvec.to_device(B), k=0.5, out=x, stream=stream)
    right = A
    for _ in range(20):
        right = right + np.float32(0.5) * B
    assert_same_bits(x.to_host(), right)


def test_expression():
    """Its types, names, texts, and a copy by pickle."""
    expression = gpuvec.Expression(
        "where(m, k*a, s)", m=bool, a="f4", k=float, s=gpuvec.Scalar(np.float32)
    )
    assert expression.text == "where(m, k*a, s)"
    assert expression.dtype == np.float32 and not expression.is_reduction
    assert dict(expression.inputs) == {"m": bool, "a": np.float32, "k": np.float64, "s": np.float32}
    assert expression.program.endswith("output: f32 = %6\n")
    assert ".entry" in expression.ptx
    assert repr(expression) == (
        "<gpuvec.Expression: 'where(m, k*a, s)' of m: bool, a: float32, k: number float64, "
        "s: scalar float32, float32>"
    )
    expression.prepare()
    copy = pickle.loads(pickle.dumps(expression))
    mask = A > 0
    arguments = {"s": 7, "k": 2, "a": A, "m": mask}
    assert_same_bits(copy(**arguments), np.where(mask, A * 2, np.float32(7)))
    assert_same_bits(expression(**arguments), copy(**arguments))


@pytest.mark.parametrize(
    "arguments, error, words",
    [
        ({"a": A}, TypeError, "b is missing: the formula's inputs are a, b"),
        ({"a": A, "b": B, "c": 1}, TypeError, "c is not an input"),
        ({"a": A, "b": 1.5}, TypeError, "b is a number, but was declared as an array"),
        ({"a": A, "b": B.astype(float)}, TypeError, "b has dtype float64: pass float32"),
        ({"a": A, "b": B[:-1]}, ValueError, r"b has shape \(1000,\) and a has \(1001,\)"),
        ({"a": A, "b": [1.0]}, TypeError, "b is a builtins.list: pass a NumPy array"),
        ({"a": A, "b": B, "out": np.empty(3, np.float32)}, ValueError, "out has shape"),
        ({"a": A, "b": B, "out": np.empty(1001)}, TypeError, "out has dtype float64"),
        ({"a": A, "b": B, "stream": 1}, TypeError, "stream is of type int"),
        (
            {"a": A[1:], "b": B[1:], "out": A[:-1]},
            gpuvec.ArgumentError,
            "out partly overlaps a: pass",
        ),
    ],
)
def test_wrong_arguments(arguments, error, words):
    """The error names the argument and what was found."""
    before = A.copy()
    with pytest.raises(error, match=words):
        gpuvec.Expression("a + b", a=np.float32, b=np.float32)(**arguments)
    assert_same_bits(A, before)


@pytest.mark.parametrize(
    "arguments, error, words",
    [
        ({"a": A.astype(np.longdouble)}, TypeError, "a has dtype float.*: pass bool, uint8"),
        ({"a": A.astype(complex)}, TypeError, "a has dtype complex128"),
        ({"a": A.astype(">f4")}, TypeError, "of the other byte order"),
        ({"a": bytes(8)}, TypeError, "a is bytes without a type: pass np.frombuffer"),
        ({"a": "1"}, TypeError, "a is a builtins.str"),
        ({"a": 2**63}, OverflowError, "a is 9223372036854775808, which int64 does not hold"),
    ],
)
def test_wrong_arguments_of_evaluate(arguments, error, words):
    """Types that the language lacks."""
    with pytest.raises(error, match=words):
        gpuvec.evaluate("a + 1", **arguments)


def test_wrong_texts():
    """The exception is a ValueError with a status, and its text has the caret."""
    with pytest.raises(ValueError, match="named 'c'") as caught:
        gpuvec.Expression("a + c", a=np.float32)
    assert isinstance(caught.value, gpuvec.ExpressionError)
    assert caught.value.status == gpuvec.Status.ERROR_EXPRESSION
    assert str(caught.value).splitlines()[1:] == ["a + c", "    ^"]
    for wrong, error in [(1, TypeError), ("a\0", ValueError), ("\ud800", ValueError)]:
        with pytest.raises(error):
            gpuvec.Expression(wrong, a=np.float32)


def test_no_elements():
    """The smallest of none is an error, as in NumPy."""
    with pytest.raises(gpuvec.ArgumentError) as caught:
        gpuvec.evaluate("min(a)", a=A[:0])
    assert caught.value.status == gpuvec.Status.ERROR_EMPTY
    assert gpuvec.evaluate("sum(a)", a=A[:0]) == 0


def test_more_formulas_than_are_remembered():
    """Those that were forgotten are compiled again; in many threads at once."""

    def work(number: int) -> None:
        for k in range(200):
            shift = number * 100 + k
            assert gpuvec.evaluate(f"a + {shift}", a=np.int32([1]))[0] == 1 + shift

    in_threads(work, 4)
