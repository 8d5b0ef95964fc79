"""Means, norms, variances and standard deviations: the exact value, rounded once."""

import gpuvec
import numpy as np
import numpy_reductions
import pytest
from arrays import assert_same_bits

NAMES = ("mean", "norm", "var", "std")
LENGTHS = (1, 2, 3, 6, 31, 32, 257, 2051)
I64, U64 = np.iinfo("i8"), np.iinfo("u8")


def right(name: str, rows: np.ndarray) -> np.ndarray:
    """Returns the result of each row."""
    return np.array([numpy_reductions.REDUCTIONS[name](row) for row in rows])


def kinds(dtype: str, rows: int, n: int) -> list[np.ndarray]:
    """Returns rows of several kinds: of small or extreme numbers, or with results near ties."""
    random = np.random.default_rng(n)
    few = random.integers(-3 if dtype != "u8" else 0, 4, (rows, n)).astype(dtype)
    if dtype == "i8":
        ends = random.choice([I64.min, I64.min + 1, -1, 0, 2**53 + 1, 2**62, I64.max], (rows, n))
        return [few, 2**62 + few, 2**53 + few, random.integers(I64.min, I64.max, (rows, n)), ends]
    if dtype == "u8":
        ends = random.choice(np.array([0, 1, 2**53 + 1, 2**63, U64.max], dtype), (rows, n))
        return [few, U64.max - few, random.integers(0, U64.max, (rows, n), dtype), ends]
    limits = np.finfo(dtype)
    unit = limits.smallest_subnormal
    wide = np.ldexp(random.normal(0, 1, (rows, n)), random.integers(-100, 100, (rows, n)))
    return [
        random.normal(0, 1, (rows, n)).astype(dtype),
        1 + few * limits.eps,
        np.where(random.random((rows, n)) < 0.1, unit, 1 + few * limits.eps).astype(dtype),
        few * unit,
        limits.max * (1 - np.abs(few) * limits.eps),
        wide.astype(dtype),
    ]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "u8"])
def test_results_are_rounded_once(placement, name, dtype):
    """Of all elements, of rows and of columns, of arrays and of formulas."""
    for n in LENGTHS:
        for rows in kinds(dtype, 3, n):
            results = right(name, rows)
            for text in (f"{name}(x)", f"{name}(x + 0)"):
                assert_same_bits(gpuvec.evaluate(text, x=rows, axis=1), results)
                columns = gpuvec.evaluate(text, x=np.ascontiguousarray(rows.T), axis=0)
                assert_same_bits(columns, results)
            of_first = [
                gpuvec.evaluate(f"{name}(x)", x=rows[0]),
                gpuvec.evaluate(f"max(x); {name}(x)", x=rows[0])[1],
            ]
            assert_same_bits(np.array(of_first), np.array([results[0]] * 2))


def test_many_columns_of_every_length(placement):
    """Sums in vectors, where most means are near to ties, and others need integers."""
    random = np.random.default_rng(1)
    for n in (2, 3, 5, 6, 7, 12, 100):
        for dtype in ("f4", "f8"):
            rows = (1 + random.integers(-3, 4, (300, n)) * np.finfo(dtype).eps).astype(dtype)
            rows[::7] = random.normal(0, 1, rows[::7].shape)
            columns = np.ascontiguousarray(rows.T)
            for name in ("mean", "norm"):
                assert_same_bits(
                    gpuvec.evaluate(f"{name}(x)", x=columns, axis=0), right(name, rows)
                )


def test_a_mean_lies_among_its_elements(placement):
    """So that equal elements have no difference from it, whatever their number."""
    for dtype in ("f4", "f8", "i8", "u8"):
        for n in range(1, 200):
            x = np.full(n, 0.1 if dtype[0] == "f" else 2**53 - 1).astype(dtype)
            assert gpuvec.evaluate("mean(x)", x=x) == x[0]
            assert gpuvec.evaluate("count(x - mean(x) != 0)", x=x) == 0


def test_known_results(placement):
    """Results that a second rounding changes."""
    assert gpuvec.evaluate("mean(x)", x=np.array([0.1] * 3)) == 0.1
    tie = np.array([2 + 2**-22, 2, 2**-60, 0], "f4")
    assert gpuvec.evaluate("mean(x)", x=tie) == np.float32(1.0000001)
    assert gpuvec.evaluate("var(x)", x=np.array([2**62, 2**62 + 1])) == 0.25
    assert gpuvec.evaluate("norm(x)", x=np.array([3.0, 4.0]) * 2.0**660) == 5 * 2.0**660
    integers = np.array([2**53 + 1, 2**53 + 3, 2**53 + 3, 2**53 + 5])
    assert gpuvec.evaluate("mean(x)", x=integers) == 2**53 + 4
    assert gpuvec.evaluate("std(x)", x=np.array([U64.max, U64.max - 1], "u8")) == 0.5


def test_integers_of_device_arrays_and_streams(placement):
    """A device's arrays, of several chunks of a stream, too."""
    x = np.random.default_rng(2).integers(I64.min, I64.max, (2, 3000))
    with gpuvec.Stream() as stream:
        for name in NAMES:
            on_device = gpuvec.to_device(x)
            results = gpuvec.evaluate(f"{name}(x)", x=on_device, axis=1)
            assert_same_bits(
                results.to_host() if hasattr(results, "to_host") else results, right(name, x)
            )
            out = np.zeros(2)
            gpuvec.evaluate(f"{name}(x)", x=x, axis=1, out=out, stream=stream)
            stream.synchronize()
            assert_same_bits(out, right(name, x))


def test_a_python_integer(placement):
    """One value for all elements is as exact as an array of it."""
    a = np.zeros(5, "f8")
    for k in (2**62 + 1, -(2**63), 2**53 + 1, 7):
        exact = np.array([k] * 5)
        found = gpuvec.evaluate("mean(k + i64(a)); var(k + i64(a)); norm(k + i64(a))", a=a, k=k)
        for name, result in zip(("mean", "var", "norm"), found):
            assert_same_bits(np.array([result]), right(name, exact[None]))
