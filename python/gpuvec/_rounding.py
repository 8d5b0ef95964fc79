"""Rounds numbers to floats by integers alone.

Conversions of NumPy, ctypes and C depend on the thread's floating-point modes: another library may
have set another rounding, or that subnormals count as zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# The bits of the fraction of each float, and the exponent of its least bit.
_FORMATS = {
    "float16": (10, -24),
    "bfloat16": (7, -133),
    "float32": (23, -149),
    "float64": (52, -1074),
}


def rounded(number: Any, dtype: np.dtype[Any]) -> bytes:
    """Returns the bytes of the float of a type that is nearest to a number of Python's or NumPy's.

    An int that no float64 holds is an OverflowError.
    """
    if isinstance(number, (int, np.integer, np.bool_)):
        float(number)
        integer = int(number)
        return _encoded(integer < 0, abs(integer), 0, dtype)
    number = np.float64(number) if isinstance(number, float) else number
    if number.dtype == dtype or not np.isfinite(number):
        return np.asarray(number, dtype).tobytes()
    return _encoded(*_exact(number), dtype)


def _exact(number: Any) -> tuple[bool, int, int]:
    """Returns a float's sign, and an integer and a power of two whose product is its magnitude."""
    if number.dtype.name not in _FORMATS:
        # A long double.
        numerator, denominator = number.as_integer_ratio()
        return bool(np.signbit(number)), abs(numerator), 1 - denominator.bit_length()
    fraction, least = _FORMATS[number.dtype.name]
    bits = int.from_bytes(number.tobytes(), "little")
    sign, magnitude = divmod(bits, 1 << (8 * number.dtype.itemsize - 1))
    field, integer = divmod(magnitude, 1 << fraction)
    if not field:
        return bool(sign), integer, least
    return bool(sign), integer + (1 << fraction), least + field - 1


def _encoded(is_negative: bool, integer: int, exponent: int, dtype: np.dtype[Any]) -> bytes:
    """Returns the bytes of the float that is nearest to an integer times a power of two."""
    fraction, least = _FORMATS[dtype.name]
    sign = 1 << (8 * dtype.itemsize - 1)
    infinity = sign - (1 << fraction)
    # The exponent of the last bit of the result.
    last = max(integer.bit_length() + exponent - 1 - fraction, least)
    shift = last - exponent
    if shift > 0:
        # A tie goes to the even neighbour.
        integer = (integer + (1 << (shift - 1)) - 1 + (integer >> shift & 1)) >> shift
    else:
        integer <<= -shift
    magnitude = min(((last - least) << fraction) + integer, infinity) if integer else 0
    return (magnitude + is_negative * sign).to_bytes(dtype.itemsize, "little")
