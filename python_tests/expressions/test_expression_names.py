"""NumPy's names in expressions: operators, functions that are formulas, and bits of integers.

`test_numpy_expressions.py` compares them in random texts; here are all values where they change
their ways, and the errors of those that are rounded.
"""

import operator
from decimal import Decimal, localcontext

import gpuvec
import numpy as np
import pytest
from arrays import assert_same_bits
from oracles import canonical

INTEGERS = [np.dtype(t) for t in ("i4", "i8")]
FLOATS = [np.dtype(t) for t in ("f4", "f8")]


def pairs(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns all pairs of values."""
    x, y = np.meshgrid(values, values)
    return x.ravel(), y.ravel()


def integers(dtype: np.dtype) -> np.ndarray:
    """Returns integers of every size, and counts around the width."""
    limits, bits = np.iinfo(dtype), 8 * dtype.itemsize
    edges = [limits.min, limits.min + 1, limits.max, bits - 1, bits, bits + 1, 2 * bits, 255, 256]
    return np.array([*range(-9, 10), *edges, -bits, 0x5A5A5A5A], dtype)


def floats(dtype: np.dtype) -> np.ndarray:
    """Returns floats beside neighbours of another sign, kind or distance, and some between."""
    limits = np.finfo(dtype)
    powers = np.ldexp(dtype.type(1), np.arange(limits.minexp - limits.nmant, limits.maxexp, 7))
    edges = np.array([0, 1, 1.5, 2.5, 3.5, 0.1, 1e-3, 7, limits.max, limits.tiny, np.inf], dtype)
    values = np.concatenate([powers, edges, 2 * edges[-2:-1], [limits.smallest_subnormal]])
    with np.errstate(over="ignore"):
        near = [np.nextafter(values, dtype.type(to)) for to in (0, np.inf)]
    values = np.concatenate([values, *near]).astype(dtype)
    return np.concatenate([values, -values, np.array([np.nan, -np.nan], dtype)])


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", ["and_", "or_", "xor", "lshift", "rshift"])
def test_bits_of_all_pairs(placement, name, dtype):
    """Counts that are negative, or not less than the width, have NumPy's results."""
    symbol = dict(and_="&", or_="|", xor="^", lshift="<<", rshift=">>")[name]
    x, y = pairs(integers(dtype))
    expected = getattr(operator, name)(x, y)
    assert_same_bits(gpuvec.evaluate(f"x {symbol} y", x=x, y=y), expected)
    for count in (-1, 0, 3, 31, 63, 64):
        expected = getattr(operator, name)(x, count)
        assert_same_bits(gpuvec.evaluate(f"x {symbol} k", x=x, k=count), expected)


@pytest.mark.parametrize("symbol", "&|^")
def test_bits_of_bools(placement, symbol):
    x, y = pairs(np.array([False, True]))
    function = {"&": np.logical_and, "|": np.logical_or, "^": np.logical_xor}[symbol]
    assert_same_bits(gpuvec.evaluate(f"x {symbol} y", x=x, y=y), function(x, y))
    assert_same_bits(gpuvec.evaluate("~x", x=x), ~x)


def test_comparisons_beside_bits_need_parentheses(placement):
    x = np.arange(-40, 40, dtype=np.int32)
    result = gpuvec.evaluate("(x > 3) & ((x & 5) != 4)", x=x)
    assert_same_bits(result, (x > 3) & ((x & 5) != 4))
    assert_same_bits(gpuvec.evaluate("3 < x & 5 < 5", x=x), (3 < (x & 5)) & ((x & 5) < 5))


@pytest.mark.parametrize("name", ["fmin", "fmax", "fmod", "nextafter"])
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=str)
def test_functions_of_all_pairs(placement, name, dtype):
    x, y = pairs(floats(dtype) if dtype.kind == "f" else integers(dtype))
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x, y)
    if name in ("fmin", "fmax"):
        # "-0 < +0"; NumPy takes either.
        is_zero = (x == 0) & (y == 0) & (expected.dtype.kind == "f")
        combine = np.logical_or if name == "fmin" else np.logical_and
        zeros = np.where(combine(np.signbit(x), np.signbit(y)), -0.0, 0.0).astype(expected.dtype)
        expected = np.where(is_zero, zeros, expected)
    if expected.dtype.kind == "f":
        expected = canonical(expected)
    assert_same_bits(gpuvec.evaluate(f"{name}(x, y)", x=x, y=y), expected)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=str)
@pytest.mark.parametrize("name", ["isnan", "isinf", "isposinf", "isneginf", "isfinite", "signbit"])
def test_predicates(placement, name, dtype):
    x = floats(dtype) if dtype.kind == "f" else integers(dtype)
    expected = getattr(np, name)(x)
    if name == "signbit":
        expected &= ~np.isnan(x)
    assert_same_bits(gpuvec.evaluate(f"{name}(x)", x=x), expected)
    count = gpuvec.evaluate(f"count({name}(x))", x=x)
    assert count == np.count_nonzero(expected)


def test_round_is_to_even_and_leaves_integers(placement):
    for dtype in FLOATS:
        x = np.array([0.5, 1.5, 2.5, -0.5, -2.5, 0.49999997, 1e20, np.inf], dtype)
        assert_same_bits(gpuvec.evaluate("round(x)", x=x), np.round(x))
    x = np.int64([2**62 + 1, -3])
    assert_same_bits(gpuvec.evaluate("round(x)", x=x), x)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=str)
def test_clip(placement, dtype):
    x = floats(dtype) if dtype.kind == "f" else integers(dtype)
    expected = np.clip(x, dtype.type(-2), dtype.type(3))
    expected = canonical(expected) if dtype.kind == "f" else expected
    assert_same_bits(gpuvec.evaluate("clip(x, low, high)", x=x, low=-2, high=3), expected)
    assert_same_bits(gpuvec.evaluate("clip(x, 3, -2)", x=x)[:3], np.full(3, -2, dtype))
    if dtype.kind == "f":
        for low, high in [(np.nan, 1), (1, np.nan)]:
            result = gpuvec.evaluate("clip(x, low, high)", x=x, low=float(low), high=float(high))
            assert np.isnan(result).all()


def test_any_exponent(placement):
    """Those that are not whole numbers up to 64, or 0.5, have the bits of `pow`."""
    x, y = np.float32([0.5, 2, 3, -2, np.inf]), np.float32([0.25, -3.5, 0, 3, -1])
    same = [("x**y", "pow(x, y)"), ("x**0.3", "pow(x, 0.3)"), ("2**y", "pow(2, y)")]
    for text, call in [*same, ("x**k", "pow(x, k)"), ("-x**-y", "-pow(x, -y)")]:
        inputs = {"x": x, "y": y, "k": 7}
        used = {name: inputs[name] for name in inputs if name in text}
        assert_same_bits(gpuvec.evaluate(text, **used), gpuvec.evaluate(call, **used))
    with pytest.raises(gpuvec.ExpressionError, match="write x\\*\\*n for a literal n, or pow"):
        gpuvec.evaluate("x**x", x=np.arange(3))


# The exact functions, of numbers with more digits than f64 has.
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")
EXACT = {
    "degrees": lambda x: x * 180 / PI,
    "radians": lambda x: x * PI / 180,
    "rsqrt": lambda x: 1 / x.sqrt(),
}


@pytest.mark.parametrize("name", EXACT)
def test_errors_of_f64(placement, name):
    """Less than 0.51 ulp, and 1 ulp for results beside which their corrections are subnormal."""
    chance = np.random.default_rng(3)
    bits = chance.integers(1, 0x7FEF_FFFF_FFFF_FFFF, 3000)
    near_one = chance.uniform(0.1, 10, 3000)
    x = np.concatenate([floats(np.dtype("f8")), bits.view(np.float64), near_one])
    with np.errstate(all="ignore"):
        near = {"degrees": np.degrees, "radians": np.radians, "rsqrt": lambda x: 1 / np.sqrt(x)}
        rounded = near[name](x)
    result = gpuvec.evaluate(f"{name}(x)", x=x)
    exact = np.isfinite(rounded) & (x != 0)
    assert_same_bits(result[~exact], canonical(rounded[~exact]))
    with localcontext() as context:
        context.prec = 60
        for each, found in zip(x[exact].tolist(), result[exact].tolist()):
            ulp = Decimal(float(np.spacing(abs(found))))
            error = abs(EXACT[name](Decimal(each)) - Decimal(found)) / ulp
            assert error < (Decimal("0.51") if abs(found) > 2.0**-960 else 1), each


@pytest.mark.parametrize("name", ["degrees", "radians"])
def test_angles_of_f32_are_correctly_rounded(placement, name):
    """Of every significand, by NumPy's long doubles.

    Their errors are 2^-62 of a result, and none is nearer than 2^-51 to the middle of two floats,
    also of floats with fewer digits, as subnormal ones are.
    """
    angle = {"degrees": "57.29577951308232087679815481410517", "radians": "0.01745329251994329577"}
    factor = np.longdouble(angle[name])
    for first in range(2**23, 2**24, 2**20):
        x = np.arange(first, first + 2**20, dtype=np.float32)
        exact = x.astype(np.longdouble) * factor
        assert_same_bits(gpuvec.evaluate(f"{name}(x)", x=x), exact.astype(np.float32))
    x = floats(np.dtype("f4"))
    with np.errstate(all="ignore"):
        exact = canonical((x.astype(np.longdouble) * factor).astype(np.float32))
    assert_same_bits(gpuvec.evaluate(f"{name}(x)", x=x), exact)


def test_rsqrt_of_f32_is_correctly_rounded(placement):
    """Of every significand with an odd and an even exponent, by integers."""
    for exponent in (0, 1):
        for first in range(2**23, 2**24, 2**20):
            whole = np.arange(first, first + 2**20, dtype=np.int64)
            x = (whole * 2.0 ** (exponent - 23)).astype(np.float32)
            result = gpuvec.evaluate("rsqrt(x)", x=x).astype(np.float64)
            assert (result[x == 1] == 1).all() and (result[x > 1] < 1).all()
            # Results from 1/2 to 1, and the middles beside them, are whole times 2^-25.
            result = (result * 2.0**25).astype(np.int64)[x > 1]
            lower, upper, whole = result - 1, result + 1, whole[x > 1]
            # result^2 * whole is less than 2^63 away from 2^(73 - exponent), which wraps to 0.
            assert (lower * lower * whole < 0).all() and (upper * upper * whole > 0).all()
    x = np.float32([0.0, -0.0, 1, 4, 0.25, np.inf, -1, -np.inf, np.nan, 2.0**-148])
    expected = np.float32([np.inf, -np.inf, 1, 0.5, 2, 0, np.nan, np.nan, np.nan, 2.0**74])
    assert_same_bits(gpuvec.evaluate("rsqrt(x)", x=x), canonical(expected))


def test_names_run_on_strided_arrays(placement):
    """Of any shape, in one pass, and beside reductions."""
    table = np.arange(-30, 30, dtype=np.int64).reshape(5, 12)
    x, y = table[:, ::2], table.T[::2, 1:2].T
    expected = np.bitwise_xor(np.left_shift(x, 2), np.clip(y, -3, 3))
    assert_same_bits(gpuvec.evaluate("left_shift(x, 2) ^ clip(y, -3, 3)", x=x, y=y), expected)
    total = gpuvec.evaluate("sum(fmod(x, 7))", x=x, axis=0)
    assert_same_bits(total, np.fmod(x, 7).sum(axis=0))
