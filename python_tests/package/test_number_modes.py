"""Numbers are rounded to nearest, whatever floating-point mode the caller has."""

import struct
from fractions import Fraction

import gpuvec
import numpy as np
import pytest
from arrays import assert_same_bits
from float_modes import MODES, python_in_mode
from gpuvec import _operations
from gpuvec._numbers import rounded
from hypothesis import given
from hypothesis import strategies as st

ONES = np.ones(3, np.float32)
F32 = gpuvec.Scalar(np.float32)
SCALED = gpuvec.Expression("k * a", a="f4", k=F32)
PLUS = gpuvec.Expression("a + k", a="f8", k=gpuvec.Scalar("f8"))
# Numbers, and the nearest f32 to each.
NUMBERS = {
    0.1: "0x1.99999ap-4",
    -0.3: "-0x1.333334p-2",
    1e-40: "0x0.022d84p-126",
    1 + 2**-24 + 2**-40: "0x1.000002p+0",
    1 + 2**-24: "0x1p+0",
    3e-46: "0x0p+0",
    np.float32(1e-40): "0x0.022d84p-126",
    np.float16(0.1): "0x1.998p-4",
    np.longdouble("0.1"): "0x1.99999ap-4",
    np.float64(2.5): "0x1.4p+1",
    2**60 + 2**36 + 1: "0x1.000002p+60",
    np.int64(2**25 + 3): "0x1.000002p+25",
}
CALLS = {
    "scale": lambda alpha: gpuvec.scale(alpha, ONES),
    "scale with a stream": lambda alpha: gpuvec.scale(alpha, ONES, stream=gpuvec.Stream()),
    "axpy": lambda alpha: gpuvec.axpy(alpha, ONES, np.zeros(3, np.float32)),
    "a strided view": lambda alpha: gpuvec.scale(alpha, np.ones(6, np.float32)[::2]),
    "bytes": lambda alpha: gpuvec.scale(alpha, memoryview(ONES)),
    "without the extension": lambda alpha: _operations.Operation("scale").general(
        ONES, ONES, None, None, _operations._factor(alpha)
    ),
    "a scalar": lambda alpha: SCALED(a=ONES, k=alpha),
}
# Factors become float64 first.
CASES = [
    (call, number)
    for call in CALLS
    for number in NUMBERS
    if call == "a scalar" or not isinstance(number, (int, np.integer, np.longdouble))
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("call, number", CASES, ids=repr)
def test_numbers_become_the_nearest_f32(call_with_mxcsr, call, number, mode):
    """A factor, and a scalar that a formula declares."""
    found = python_in_mode(call_with_mxcsr, MODES[mode], lambda: CALLS[call](number))
    wanted = np.full(3, float.fromhex(NUMBERS[number]), np.float32)
    assert_same_bits(np.asarray(found), wanted)


@pytest.mark.parametrize("mode", MODES)
def test_scalars_of_numpy_keep_their_bits(call_with_mxcsr, mode):
    """Those of float32, also as float64: subnormals count in any mode."""
    tiny = np.float32(1e-45)
    kept = python_in_mode(
        call_with_mxcsr, MODES[mode], lambda: gpuvec.evaluate("k*a", k=tiny, a=ONES)
    )
    assert_same_bits(kept, np.full(3, tiny))
    wide = python_in_mode(call_with_mxcsr, MODES[mode], lambda: PLUS(a=np.zeros(2), k=tiny))
    assert_same_bits(wide, np.full(2, 2.0**-149))


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["f2", "f4"]))
def test_rounding_is_to_the_nearest(number, kind):
    """And of two as near to the even one: no neighbour is nearer."""
    dtype = np.dtype(kind)
    [found] = np.frombuffer(rounded(number, dtype), dtype)
    with np.errstate(all="ignore"):
        assert_same_bits(np.array([found]), np.array([number]).astype(dtype))
        near = [np.nextafter(found, dtype.type(side)) for side in (-np.inf, np.inf)]
    if np.isfinite(found):
        distances = [
            abs(Fraction(float(one)) - Fraction(number)) for one in near if np.isfinite(one)
        ]
        assert abs(Fraction(float(found)) - Fraction(number)) <= min(distances)


@given(st.floats(allow_nan=False))
def test_factors_are_rounded_as_c_rounds_them(number):
    """In the default modes the extension's rounding is that of `struct`, which converts in C."""
    try:
        [wanted] = struct.unpack("f", struct.pack("f", number))
    except OverflowError:
        wanted = np.copysign(np.inf, number)
    assert_same_bits(gpuvec.scale(number, ONES), np.full(3, wanted, np.float32))
