"""Elements of f16, bf16 and u64, against NumPy and against arithmetic on integers."""

import gpuvec
import numpy as np
import pytest
from arrays import assert_same_bits
from bindings import Status, last_error
from formulas import TYPES, Compiled
from oracles import canonical

BF16 = TYPES["GPUVEC_BF16"]

# Every value of 16 bits, as f16.
EVERY = np.arange(2**16, dtype=np.uint16).view(np.float16)


def bf16_values(bits: np.ndarray) -> np.ndarray:
    """Returns the values of bf16, as f32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def bf16_bits(values: np.ndarray) -> np.ndarray:
    """Returns the bits of the nearest bf16, ties to even."""
    bits = values.view(np.uint32).astype(np.uint64)
    rest, below = bits & 0xFFFF, bits >> 16
    rounded = below + ((rest > 0x8000) | ((rest == 0x8000) & (below & 1 == 1)))
    return np.where(np.isnan(values), 0x7FC0, rounded).astype(np.uint16)


def near(values: np.ndarray) -> np.ndarray:
    """Returns f32 that are values, halfway between two of them, or next to that."""
    values = np.sort(values[np.isfinite(values)].astype(np.float32))
    middles = (values[:-1].astype(np.float64) + values[1:]) / 2
    exact = np.concatenate([values, middles.astype(np.float32), np.float32([65520, 65536, 1e38])])
    bits = exact.view(np.uint32)
    around = [(bits + np.uint32(step % 2**32)).view(np.float32) for step in (-1, 0, 1)]
    return np.concatenate([*around, np.float32([np.inf, -np.inf, np.nan, -0.0])])


def run(text: str, inputs: dict, arrays: list, out: np.ndarray) -> np.ndarray:
    """Evaluates a formula by the C functions."""
    with Compiled(text, inputs) as compiled:
        addresses = [array.ctypes.data for array in arrays]
        assert compiled.run(addresses, out.ctypes.data, len(arrays[0])) == Status.OK, last_error()
    return out


def test_every_f16_is_loaded_and_stored(placement):
    """NaNs become the quiet one."""
    assert_same_bits(gpuvec.evaluate("f32(x)", x=EVERY), canonical(EVERY.astype(np.float32)))
    assert_same_bits(gpuvec.evaluate("x", x=EVERY), canonical(EVERY))
    assert_same_bits(gpuvec.evaluate("f64(x)", x=EVERY), canonical(EVERY.astype(np.float64)))


def test_f16_is_rounded_to_nearest(placement):
    """Ties, subnormals and what overflows, as NumPy rounds them: from f32, f64 and integers."""
    x = near(EVERY)
    wide = np.concatenate([x * (1 + 2.0**-40), x * (1 - 2.0**-40), x.astype(np.float64)])
    i = np.concatenate([np.arange(-70_000, 70_000), 2 ** np.arange(62), -(2 ** np.arange(62))])
    with np.errstate(all="ignore"):
        assert_same_bits(gpuvec.evaluate("f16(x)", x=x), canonical(x.astype(np.float16)))
        assert_same_bits(gpuvec.evaluate("f16(x)", x=wide), canonical(wide.astype(np.float16)))
        assert_same_bits(gpuvec.evaluate("f16(i)", i=i), i.astype(np.float16))
        # In the middle of a formula, too.
        inner = x.astype(np.float16).astype(np.float32) * np.float32(3)
        assert_same_bits(gpuvec.evaluate("f32(f16(x)) * 3", x=x), canonical(inner))


def test_every_bf16_is_loaded_and_stored(placement):
    """Through C, where the type has a number."""
    bits = EVERY.view(np.uint16)
    values = bf16_values(bits)
    found = run("f32(x)", {"x": BF16}, [bits], np.empty(len(bits), np.float32))
    assert_same_bits(found, canonical(values))
    found = run("x", {"x": BF16}, [bits], np.empty_like(bits))
    assert_same_bits(found, np.where(np.isnan(values), np.uint16(0x7FC0), bits))


def test_bf16_is_rounded_to_nearest(placement):
    """Ties, subnormals and what overflows, from f32 and f64."""
    x = near(bf16_values(EVERY.view(np.uint16)))
    assert_same_bits(run("bf16(x)", {"x": "f4"}, [x], np.empty(len(x), np.uint16)), bf16_bits(x))
    # Beside a tie, by less than f32 has.
    ties = x[(x.view(np.uint32) & 0xFFFF == 0x8000) & (np.abs(x) > 1e-30) & np.isfinite(x)]
    for toward, expected in [(2.0**-40, 1), (-(2.0**-40), 0)]:
        wide = ties.astype(np.float64) * (1 + toward)
        found = run("bf16(x)", {"x": "f8"}, [wide], np.empty(len(ties), np.uint16))
        assert_same_bits(found, ((ties.view(np.uint32) >> 16) + expected).astype(np.uint16))


@pytest.mark.parametrize("n", [1, 2, 7, 33, 1000, 70_001])
def test_formulas_of_f16_are_rounded_once(placement, n):
    """All operations are f32's; the result is rounded where it is stored."""
    random = np.random.default_rng(n)
    a, b = random.normal(size=(2, n)).astype(np.float16)
    wide = a.astype(np.float32) * b.astype(np.float32) - a.astype(np.float32)
    assert_same_bits(gpuvec.evaluate("a * b - a", a=a, b=b), wide.astype(np.float16))
    # In place of an input.
    assert gpuvec.evaluate("a * b - a", a=a, b=b, out=a) is a
    assert_same_bits(a, wide.astype(np.float16))


def test_types_of_results(placement):
    """NumPy's types, but f32 for sums of f16; bf16 is like f16 beside all others."""
    h, i8, i16, f4, f8 = (np.ones(3, dtype) for dtype in ("f2", "i1", "i2", "f4", "f8"))
    u8, i64 = np.ones(3, np.uint64), np.ones(3, np.int64)
    for text, dtype in {
        "h + h": "f2",
        "h * 0.1 + 2": "f2",
        "h + i8": "f2",
        "h + i16": "f4",
        "h + i64": "f8",
        "h + u8": "f8",
        "h + f4": "f4",
        "h + f8": "f8",
        "sqrt(h)": "f2",
        "clip(h, 0, 1)": "f2",
        "degrees(h)": "f2",
        "h < h": "?",
        "max(h)": "f2",
        "argmax(h)": "i8",
        "sum(h)": "f4",
        "mean(h)": "f4",
        "dot(h, h)": "f4",
        "norm(h)": "f4",
        "var(h)": "f4",
        "u8 + u8": "u8",
        "u8 + 1": "u8",
        "u8 + i64": "f8",
        "u8 / u8": "f8",
        "-u8 // 3 % 5": "u8",
        "~u8 & u8": "u8",
        "sum(u8)": "u8",
        "prod(u8)": "u8",
        "min(u8)": "u8",
        "mean(u8)": "f8",
    }.items():
        found = gpuvec.evaluate(text, h=h, i8=i8, i16=i16, i64=i64, u8=u8, f4=f4, f8=f8)
        assert found.dtype == dtype, text


def test_reductions_of_f16_are_exact(placement):
    """Sums are f32 of the exact sum, beyond the largest f16; the largest and the least are f16."""
    x = np.random.default_rng(1).normal(0, 1000, 10_001).astype(np.float16)
    exact = x.astype(np.float64)
    assert gpuvec.evaluate("sum(abs(x))", x=x) == np.float32(np.abs(exact).sum())
    assert gpuvec.evaluate("mean(x)", x=x) == np.float32(exact.sum() / len(x))
    assert gpuvec.evaluate("dot(x, x)", x=x) == np.float32((exact * exact).sum())
    results = gpuvec.evaluate(
        "min(x); max(x); argmin(x); argmax(x); count(x > 0); any(x == 0)", x=x
    )
    assert results == (x.min(), x.max(), x.argmin(), x.argmax(), (x > 0).sum(), (x == 0).any())
    # A value that is computed is rounded once.
    assert gpuvec.evaluate("max(x * x)", x=np.float16([3.001, -3.5])) == np.float16(12.25)
    assert gpuvec.evaluate("max(x * x)", x=x) == np.float16(np.inf)
    assert np.isnan(gpuvec.evaluate("min(x)", x=np.append(x, np.float16(np.nan))))


def test_results_inside_formulas_are_not_rounded_to_f16(placement):
    """Results of reductions inside formulas are f32, in which the formulas are computed."""
    x = np.float16([1, -300.5, 400.25])
    wide = x.astype(np.float32) ** 2
    found = gpuvec.evaluate("x * x / max(x * x)", x=x)
    assert_same_bits(found, (wide / wide.max()).astype(np.float16))
    found = gpuvec.evaluate("x - f16(min(x * 1.0001))", x=x)
    least = np.float16(x.min() * np.float32(1.0001)).astype(np.float32)
    assert_same_bits(found, (x.astype(np.float32) - least).astype(np.float16))
    u = np.uint64([3, 2**63 + 5, 7])
    assert_same_bits(gpuvec.evaluate("max(u) - u + min(u)", u=u), u.max() - u + u.min())


@pytest.mark.parametrize("dtype", [np.float16, np.uint64])
def test_strides_and_axes(placement, dtype):
    """Arrays that are not contiguous, and reductions along their axes."""
    random = np.random.default_rng(3)
    table = random.integers(0, 1000, (7, 36, 5)).astype(dtype)
    for view in (table, table[::-1, ::3], table.transpose(2, 0, 1), table[:, 1:, :3]):
        doubled = (view + view).astype(dtype)
        assert_same_bits(gpuvec.evaluate("x + x", x=view), doubled)
        for axis in (0, 1, 2, (0, 2)):
            for text in ("min", "max"):
                found = gpuvec.evaluate(f"{text}(x)", x=view, axis=axis)
                assert_same_bits(found, getattr(view, text)(axis=axis))
            expected = view.astype(np.float64).sum(axis=axis)
            total = gpuvec.evaluate("sum(x)", x=view, axis=axis)
            assert total.dtype == (np.float32 if dtype == np.float16 else dtype)
            assert (total == expected).all()
        one = gpuvec.evaluate("argmax(x)", x=view, axis=1)
        assert (one == view.argmax(axis=1)).all()


def test_u64_beyond_i64(placement):
    """Order, division, shifts and conversions are those of unsigned integers."""
    limits = [0, 1, 2, 3, 10, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**63 + 1025, 2**64 - 1]
    a, b = (axis.ravel() for axis in np.meshgrid(np.uint64(limits), np.uint64(limits)))
    with np.errstate(all="ignore"):
        for text, expected in {
            "a + b": a + b,
            "a - b": a - b,
            "a * b": a * b,
            "a // b": a // b,
            "a % b": a % b,
            "a < b": a < b,
            "a <= b": a <= b,
            "minimum(a, b)": np.minimum(a, b),
            "maximum(a, b)": np.maximum(a, b),
            "a >> b": a >> b,
            "a << b": a << b,
            "a ^ b": a ^ b,
            "~a": ~a,
            "-a": np.negative(a),
            "abs(a)": a,
            "sign(a)": np.sign(a),
            "f64(a)": a.astype(np.float64),
            "f32(a)": a.astype(np.float32),
            "i64(a)": a.astype(np.int64),
            "i32(a)": a.astype(np.int32),
            "a / b": a / b,
            "where(a < 10, a, b)": np.where(a < 10, a, b),
        }.items():
            assert_same_bits(gpuvec.evaluate(text, a=a, b=b), canonical_floats(expected))
        floats = np.array([0, -1.5, 0.99, 2.0**63, 2.0**64, 1e30, -np.inf, np.inf, np.nan])
        found = gpuvec.evaluate("u64(x)", x=floats)
    assert found.tolist() == [0, 0, 0, 2**63, 2**64 - 1, 2**64 - 1, 0, 2**64 - 1, 0]
    assert gpuvec.evaluate("sum(a); prod(a | 1); dot(a, b)", a=a, b=b) == (
        a.sum(),
        np.prod(a | np.uint64(1)),
        (a * b).sum(),
    )
    assert gpuvec.evaluate("min(a)", a=a[a > 5]) == 10
    assert gpuvec.evaluate("argmax(a)", a=a) == a.argmax()


def canonical_floats(values: np.ndarray) -> np.ndarray:
    """Replaces NaNs, if the values are floats."""
    return canonical(values) if values.dtype.kind == "f" else values


def test_u64_beside_integers_that_may_be_negative(placement):
    """Comparisons are exact, as NumPy's; Python integers that u64 lacks are refused elsewhere."""
    u = np.uint64([0, 1, 2**63 - 1, 2**63, 2**64 - 1, 5])
    i = np.int64([-1, 1, 2**63 - 1, -(2**63), -1, -5])
    for text, expected in {
        "u < i": u < i,
        "u <= i": u <= i,
        "u == i": u == i,
        "u != i": u != i,
        "i < u": i < u,
        "i <= u": i <= u,
        "u >= -1": np.ones(6, bool),
        "u < k": np.zeros(6, bool),
        "u < 2**64": np.ones(6, bool),
    }.items():
        assert (gpuvec.evaluate(text, u=u, i=i, k=-7) == expected).all(), text
    with pytest.raises(gpuvec.Error, match="k is -7.*not negative"):
        gpuvec.evaluate("u + k", u=u, k=-7)
    with pytest.raises(OverflowError, match=r"k is 9223372036854775808.*, or np.uint64\(k\)"):
        gpuvec.evaluate("u + k", u=u, k=2**63)
    assert_same_bits(gpuvec.evaluate("u + k", u=u, k=np.uint64(2**63)), u + np.uint64(2**63))
    with pytest.raises(gpuvec.ExpressionError, match="-1 does not fit into u64"):
        gpuvec.evaluate("u + -1", u=u)


def test_operations_of_the_package(placement):
    """Operations without a function of the type in C are formulas."""
    h, u = np.float16([1, 2.5, -3]), np.uint64([2**63, 3, 4])
    for name, function in [("add", np.add), ("sub", np.subtract), ("mul", np.multiply)]:
        for x in (h, u):
            assert_same_bits(getattr(gpuvec, name)(x, x), function(x, x))
    assert_same_bits(gpuvec.div(h, h), h / h)
    assert_same_bits(gpuvec.scale(0.5, h), h / 2)
    assert_same_bits(gpuvec.axpy(2, h, h), h * 3)
    assert gpuvec.sum(h) == 0.5 and gpuvec.dot(h, h) == 16.25 and gpuvec.max(h) == 2.5
    assert gpuvec.sum(u) == 2**63 + 7 and gpuvec.min(u) == 3
    out = np.empty(3, np.float16)
    assert gpuvec.add(h, h, out=out) is out
    assert_same_bits(out, h + h)


def test_device_arrays(placement):
    """Operators, casts and assignments."""
    h, u = np.float16([1, 2.5, -3]), np.uint64([2**63, 3, 4])
    for x in (h, u):
        on_device = gpuvec.to_device(x)
        assert_same_bits((on_device + x).to_host(), x + x)
        assert_same_bits(on_device.astype(np.float32).to_host(), x.astype(np.float32))
        on_device *= 2
        assert on_device.dtype == x.dtype
        assert_same_bits(on_device.to_host(), x * x.dtype.type(2))
        assert_same_bits(
            gpuvec.to_device(np.float32([1, 2])).astype(x.dtype).to_host(), x.dtype.type([1, 2])
        )


def test_neighbours_of_f16_are_refused():
    """Their neighbours of f32 would be rounded to the numbers themselves."""
    with pytest.raises(gpuvec.ExpressionError, match="nextafter takes f32 and f64, not f16"):
        gpuvec.evaluate("nextafter(h, 1)", h=np.ones(3, np.float16))
