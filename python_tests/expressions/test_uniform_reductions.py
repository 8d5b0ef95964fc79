"""Reductions of formulas that read no array: the exact result of n equal elements, at once."""

from collections.abc import Callable
from fractions import Fraction
from math import isfinite

import numpy as np
import pytest
from arrays import assert_same_bits
from bindings import Backend, Status, last_error, last_run, lib
from exact_sums import nearest
from formulas import NAMES, SCALAR, Compiled
from numpy_reductions import root
from oracles import QUIET_NAN, unsigned
from streams import KINDS
from surrounded import Surrounded

# The last is the largest number of elements of 8 bytes that an address space has.
LENGTHS = (1, 2, 3, 1000, 2**31 + 1, 10**15 + 7, 2**53 + 1, 2**60 - 1)

FLOATS = (0.1, -3.75, 1e-45, -0.0, 3.4e38, np.inf, -np.inf, np.nan)
DOUBLES = (*FLOATS[:3], 5e-324, 1.7e308, -1e-200, *FLOATS[5:])
INTEGERS = (0, 1, -7, 2**31 - 1, -(2**31))
VALUES = [
    *(np.float32(value) for value in FLOATS),
    *(np.float64(value) for value in DOUBLES),
    *(np.int32(value) for value in INTEGERS),
    *(np.int64(value) for value in (*INTEGERS, 2**63 - 1, -(2**63))),
]


def rounded(value: Fraction, dtype) -> np.ndarray:
    """Returns the element that is nearest to a value."""
    dtype = np.dtype(dtype)
    sign = (value < 0) << (8 * dtype.itemsize - 1)
    return np.array([sign | nearest(abs(value), dtype)], unsigned(dtype)).view(dtype)


def wrapped(value: int) -> np.ndarray:
    """Returns an integer as an i64 that wraps around."""
    return np.array([value % 2**64], np.uint64).view(np.int64)


def integer(x: np.generic) -> int:
    """Returns a value as the language's i64: toward zero, saturated, NaN as 0."""
    if not isfinite(x):
        return 0 if x != x else 2**63 - 1 if x > 0 else -(2**63)
    return min(max(int(x), -(2**63)), 2**63 - 1)


def canonical(values: np.ndarray) -> np.ndarray:
    """Replaces a NaN by the one quiet NaN."""
    is_nan = values != values
    return np.where(is_nan, QUIET_NAN[values.dtype], values) if is_nan.any() else values


def total(term: Callable, x: np.generic, n: int) -> np.ndarray:
    """Returns n times a term of a value."""
    if x.dtype.kind == "i":
        return wrapped(n * term(int(x)))
    if not isfinite(x):
        return canonical(np.array([term(x)], x.dtype))
    return rounded(n * term(Fraction(float(x))), x.dtype)


def mean(x: np.generic, n: int) -> np.ndarray:
    """Returns the value itself; the exact sum of zeros is +0."""
    dtype = x.dtype if x.dtype == np.float32 else np.dtype(np.float64)
    return canonical(np.array([x + 0], dtype))


def spread(x: np.generic, is_nan: bool = False) -> np.ndarray:
    """Returns the variance of equal elements."""
    dtype = x.dtype if x.dtype == np.float32 else np.dtype(np.float64)
    return canonical(np.array([np.nan if is_nan or not isfinite(x) else 0], dtype))


# Each reduction of one value `k`, with the result for n of them.
REDUCTIONS: dict[str, Callable] = {
    "sum(k)": lambda x, n: total(lambda k: k, x, n),
    "dot(k, k)": lambda x, n: total(lambda k: k * k, x, n),
    "dot(k, 3)": lambda x, n: total(lambda k: k * 3, x, n),
    "prod(i64(k))": lambda x, n: wrapped(pow(integer(x), n, 2**64)),
    "mean(k)": mean,
    "var(k)": lambda x, n: spread(x),
    "std(k, ddof=1)": lambda x, n: spread(x, is_nan=n == 1),
    "min(k)": lambda x, n: canonical(np.array([x])),
    "max(k)": lambda x, n: canonical(np.array([x])),
    "argmin(k)": lambda x, n: np.array([0]),
    "argmax(k)": lambda x, n: np.array([0]),
    "any(k != 0)": lambda x, n: np.array([x != 0]),
    "all(k != 0)": lambda x, n: np.array([x != 0]),
    "count(k == k)": lambda x, n: np.array([n if x == x else 0]),
}


def run(compiled: Compiled, inputs: list, out: int, n: int, stream=None) -> None:
    """Runs an expression, and checks that the calling core did it at once."""
    assert compiled.run(inputs, out, n, stream) == Status.OK, last_error()
    report = last_run()
    assert (report.backend, report.threads, report.chunks) == (Backend.CPU, 1, 1)


@pytest.mark.parametrize("text", REDUCTIONS)
def test_every_reduction_of_a_scalar(placement, text):
    """The exact result for each value, of every length."""
    for value in VALUES:
        scalar = np.array([value])
        with Compiled(text, {"k": NAMES[scalar.dtype] | SCALAR}) as compiled:
            for n in LENGTHS:
                right = REDUCTIONS[text](value, n)
                out = np.zeros(1, compiled.dtype())
                run(compiled, [scalar.ctypes.data], out.ctypes.data, n)
                assert_same_bits(out, right.astype(out.dtype, copy=False))


@pytest.mark.parametrize("n", LENGTHS)
def test_norms(placement, n):
    """The root of the exact sum of squares, rounded once."""
    for dtype, value in [("f4", 0.1), ("f4", -3.75), ("f8", 0.1), ("f8", 1e-100)]:
        scalar = np.array([value], dtype)
        squares = n * Fraction(float(scalar[0])) ** 2
        with Compiled("norm(k)", {"k": NAMES[scalar.dtype] | SCALAR}) as compiled:
            out = np.zeros(1, dtype)
            run(compiled, [scalar.ctypes.data], out.ctypes.data, n)
            assert_same_bits(out, rounded(root(squares), dtype))


@pytest.mark.parametrize("n", LENGTHS)
def test_formulas_of_constants(placement, n):
    """Numbers of the text alone, and an array that the text does not use."""
    for text, right in [
        ("sum(0.1)", rounded(n * Fraction(0.1), np.float64)),
        ("sum(1 + 2)", wrapped(3 * n)),
        ("sum(True)", np.array([n])),
        ("count(1 < 2)", np.array([n])),
        ("any(1 < 2)", np.array([True])),
        ("max(sqrt(4.0))", np.array([2.0])),
    ]:
        with Compiled(text, {"unused": "f4"}) as compiled:
            out = np.zeros_like(right)
            run(compiled, [None], out.ctypes.data, n)
            assert_same_bits(out, right)


@pytest.mark.parametrize("kind", KINDS)
def test_results_in_every_memory_behind_the_streams_work(placement, resources, kind):
    """A stream's earlier work is done before: a copy does not overwrite the result."""
    stream, n = resources.stream(), 10**17
    right = rounded(n * Fraction(0.1), np.float64)
    out = Surrounded(resources, kind, 1, np.zeros(1))
    before = Surrounded(resources, "pinned", 0, np.full(1, 7.0))
    with Compiled("sum(0.1)", {}) as compiled:
        assert lib.gpuvec_copy(out.address, before.address, 8, stream) == Status.OK, last_error()
        run(compiled, [], out.address, n, stream)
        assert lib.gpuvec_stream_synchronize(stream) == Status.OK, last_error()
    out.check(right)


@pytest.mark.parametrize(
    "text, largest", [("sum(1.0)", 2**60 - 1), ("sum(k)", 2**61 - 1), ("any(k > 0)", 2**63 - 1)]
)
def test_lengths_that_no_array_has(placement, text, largest):
    """As many elements as an array of the result's type may have, and not one more."""
    k, out = np.ones(1, np.float32), np.full(8, 7, np.uint8)
    with Compiled(text, {"k": NAMES[k.dtype] | SCALAR}) as compiled:
        width = compiled.dtype().itemsize
        for n in (largest + 1, 2**63, 2**64 - 1):
            assert compiled.run([k.ctypes.data], out.ctypes.data, n) == Status.ERROR_SIZE
            assert f"n is {n}: {n} elements of {width} bytes" in last_error()
        assert (out == 7).all()
        run(compiled, [k.ctypes.data], out.ctypes.data, largest)


def test_no_elements(placement):
    """The result is that of no elements, and an error where there is none."""
    for text, right in {"sum(2.0)": 0.0, "mean(2.0)": np.nan, "count(True)": 0}.items():
        with Compiled(text, {}) as compiled:
            out = np.full(1, 7, compiled.dtype())
            assert compiled.run([], out.ctypes.data, 0) == Status.OK, last_error()
            assert_same_bits(out, np.array([right], out.dtype))
    with Compiled("min(2.0)", {}) as compiled:
        out = np.full(1, 7.0)
        assert compiled.run([], out.ctypes.data, 0) == Status.ERROR_EMPTY
        assert out[0] == 7
