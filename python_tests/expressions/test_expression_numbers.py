"""Numbers in expressions have NumPy's types and values; scalars follow NumPy's same_kind."""

import itertools
import re
from decimal import Decimal
from fractions import Fraction

import gpuvec
import numpy as np
import pytest
from arrays import assert_same_bits

ARRAYS = {
    "f4": np.float32([0, -1.5, 2.5, 1e30, np.inf, np.nan]),
    "f8": np.array([0, -1.5, 2.5, 1e300, np.inf, np.nan]),
    "i4": np.int32([0, -5, 7, 2**31 - 1, -(2**31)]),
    "i8": np.int64([0, -5, 7, 2**63 - 1, -(2**63)]),
    "?": np.array([True, False, True]),
}
TIE = 2**60 + 2**36 + 1


def where(condition, k: int, a):
    """NumPy's where. A number beside floats is rounded once: versions of NumPy differ in that."""
    return np.where(condition, np.int64(k).astype(a.dtype) if a.dtype.kind == "f" else k, a)


def literal(text: str, **numbers) -> str:
    """Returns a formula with literals in place of names."""
    for name, number in numbers.items():
        text = re.sub(rf"\b{name}\b", f"({number!r})", text)
    return text


@pytest.mark.parametrize(
    "dtype, text, k",
    [
        (dtype, text, k)
        for text, ks in {
            "-k*a": [2, -3, TIE],
            "(k + 1)*a": [2, -3, TIE],
            "k**2*a": [2, -3, 2**30 + 1],
            "k*a": [1, TIE, -TIE, 2**53 + 1, 2**62 - 1],
            "a - k//3*2": [-7, 8],
            "a + k%3": [-7, 8],
            "a*(k/2)": [3, -1],
            "a*k**-2": [3],
            "a*k**0.5": [3],
            "a < k": [0, 7, 2**31, -(2**40), TIE],
            "a >= -k": [0, 7, 2**40],
            "k == a": [0, -5, 2**31 - 1, 2**40],
            "a*(k*0.5 + 1)": [3],
            "where(a > 0, k, a)": [3, -1, TIE],
            "minimum(a, k + 1)": [3, -8],
            "maximum(-k, a)": [3, -8],
        }.items()
        for dtype in ARRAYS
        for k in ks
    ],
)
def test_what_is_made_of_an_integer(placement, dtype, text, k):
    """Of an input and of a literal: NumPy's type and bits, or an error where NumPy has one."""
    a = ARRAYS[dtype]
    numpy = {"a": a, "k": k, "where": where, "minimum": np.minimum, "maximum": np.maximum}
    try:
        with np.errstate(all="ignore"):
            expected = eval(text, numpy)
    except (OverflowError, TypeError):
        expected = None
    # NumPy's where wraps a Python integer that its partner lacks, and subtracting bools is refused.
    fits = dtype != "i4" or -(2**31) <= k < 2**31 or "where" not in text
    for call in (
        lambda: gpuvec.evaluate(text, a=a, k=k),
        lambda: gpuvec.Expression(text, a=a.dtype, k=int)(a=a, k=k),
        lambda: gpuvec.evaluate(literal(text, k=k), a=a),
    ):
        if expected is None or not fits:
            with pytest.raises((gpuvec.ArgumentError, gpuvec.ExpressionError)):
                call()
        else:
            assert_same_bits(call(), expected)


LARGE = [
    *(sign * (2**bits + add) for bits in (31, 32, 63) for sign in (1, -1) for add in (-1, 0, 1))
]
FUNCTIONS_OF_INTEGERS = {
    "abs(k)": lambda k, j: abs(k),
    "sign(k)": lambda k, j: (k > 0) - (k < 0),
    "minimum(k, j)": min,
    "maximum(k, j)": max,
    "fmin(k, j)": min,
    "fmax(k, j)": max,
    "clip(k, j, 5)": lambda k, j: min(max(k, j), 5),
    "fmod(k, j)": lambda k, j: (
        k - j * (abs(k) // abs(j) * ((k > 0) - (k < 0)) * (1 if j > 0 else -1))
    ),
    "k // j": lambda k, j: k // j,
    "k % j": lambda k, j: k % j,
    "floor(k)": lambda k, j: k,
}


@pytest.mark.parametrize("function", FUNCTIONS_OF_INTEGERS)
@pytest.mark.parametrize("dtype", ["i4", "i8", "u8"])
def test_functions_of_integers_are_pythons(placement, dtype, function):
    """Of literals and of inputs: exact, or an error if the partner's type lacks the result."""
    a, limits = np.zeros(1, dtype), np.iinfo(dtype)
    for k, j in itertools.product(LARGE, [-64, 3, *LARGE]):
        exact = FUNCTIONS_OF_INTEGERS[function](k, j)
        calls = [lambda k=k, j=j: gpuvec.evaluate("a + " + literal(function, k=k, j=j), a=a)]
        if all(-(2**63) <= each < 2**63 for each in (k, j, exact)):
            numbers = {"k": k, "j": j} if "j" in function else {"k": k}
            calls.append(lambda of=numbers: gpuvec.evaluate("a + " + function, a=a, **of))
        for call in calls:
            if limits.min <= exact <= limits.max:
                assert call()[0] == exact, (function, k, j)
            else:
                with pytest.raises((gpuvec.ArgumentError, gpuvec.ExpressionError)):
                    call()


@pytest.mark.parametrize("text", ["k + 1 + a", "(-k - 2)*a", "k*k - a", "where(a > 0, k + 1, a)"])
def test_an_integer_beyond_64_bits_is_an_error(placement, text):
    """In Python it would go on; the output stays as it was."""
    a, out = np.zeros(3, np.float32), np.full(3, 7, np.float32)
    with pytest.raises(gpuvec.ArgumentError, match="k is 9223372036854775807: an integer comp"):
        gpuvec.evaluate(text, a=a, k=2**63 - 1, out=out)
    assert (out == 7).all()


def test_an_integer_made_of_a_number_must_fit_its_partner(placement):
    a = np.int32([1])
    assert gpuvec.evaluate("a + (k - 1)", a=a, k=2**31 - 1) == 2**31 - 1
    with pytest.raises(gpuvec.ArgumentError, match="does not fit into i32, the other operand'"):
        gpuvec.evaluate("a + (k + 1)", a=a, k=2**31 - 1)


def test_functions_of_numbers_alone_are_numbers(placement):
    a = np.float32([1, 2])
    for text in ("a*sqrt(k)", "a*abs(-k)", "a*minimum(k, 5)", "a*sqrt(2)", "a*maximum(1, 2)"):
        assert gpuvec.evaluate(text, a=a, **({"k": 2} if "k" in text else {})).dtype == np.float32


DTYPES = "? u1 i1 u2 i2 u4 i4 i8 f4 f8".split()
VALUES = [
    True,
    np.True_,
    0,
    -1,
    255,
    256,
    300,
    2**31,
    2**63,
    10**400,
    1.5,
    3.0,
    float("nan"),
    np.int8(-3),
    np.uint64(2**64 - 1),
    np.int64(300),
    np.float32(0.1),
    np.float16(2),
    np.longdouble(1) / 3,
    1j,
    np.complex64(1),
    "3",
    np.str_("3"),
    np.bytes_(b"3"),
    np.timedelta64(3, "s"),
    np.datetime64("2020-01-01"),
    None,
    Decimal(3),
    Fraction(3),
    [3],
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:30])
def test_values_of_scalars(dtype, value):
    """They keep their value or are refused; the error names the argument and what to pass."""
    expression = gpuvec.Expression("value", value=gpuvec.Scalar(dtype))
    dtype = np.dtype(dtype)
    is_integer = isinstance(value, (int, np.integer)) and not isinstance(value, np.timedelta64)
    is_bool = isinstance(value, (bool, np.bool_))
    is_float = isinstance(value, (float, np.floating))
    if is_bool or (dtype.kind == "f" and is_float):
        assert_same_bits(expression(value=value), np.array(value).astype(expression.dtype)[()])
    elif dtype.kind == "b" or not (is_integer or (dtype.kind == "f" and is_float)):
        with pytest.raises(TypeError, match="^value is .*: pass a"):
            expression(value=value)
    elif dtype.kind == "f" and abs(int(value)) < 2**1024:
        assert_same_bits(expression(value=value), np.array(float(value)).astype(dtype)[()])
    elif dtype.kind != "f" and np.iinfo(dtype).min <= int(value) <= np.iinfo(dtype).max:
        assert expression(value=value) == int(value)
    else:
        with pytest.raises(OverflowError, match=f"^value is .*, which {dtype} does not hold: pass"):
            expression(value=value)


@pytest.mark.parametrize("value", [1j, "3", np.str_("3"), None, [3], 2.5, np.float32(2)])
def test_values_of_python_integers(value):
    with pytest.raises(TypeError, match="^k is .*: pass a"):
        gpuvec.Expression("k + 1", k=int)(k=value)
