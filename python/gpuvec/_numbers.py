"""Converts numbers of Python and NumPy to an element type.

Floats are rounded in integer arithmetic: conversions by NumPy, ctypes and C depend on the thread's
floating-point modes, in which another library may have changed the rounding, or flushed subnormals.
"""

from __future__ import annotations

from reprlib import repr as shortened
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The kinds of numbers that are converted to a type, by the type's kind, and their names.
CONVERTED = {
    "b": ("b", "a bool"),
    "i": ("biu", "an integer"),
    "u": ("biu", "an integer"),
    "f": ("biuf", "a real number"),
}


def check_number(name: str, value: Any) -> None:
    """Raises TypeError unless a value is one number of Python or NumPy."""
    if not isinstance(value, (np.generic, float, int)):
        raise TypeError(
            f"{name} is {shortened(value)}, of type {type(value).__name__}: pass a number"
        )


def converted(
    name: str, value: Any, dtype: np.dtype[Any], holder: str, hint: str = ""
) -> NDArray[Any]:
    """Returns a number as an array of no axes; raises an error if the type does not hold it.

    ``holder`` is the type's name in errors; ``hint`` says what may hold a larger integer.
    """
    check_number(name, value)
    kind = _kind(value.dtype if isinstance(value, np.generic) else np.dtype(type(value)))
    kinds, wanted = CONVERTED[_kind(dtype)]
    if kind not in kinds:
        raise TypeError(f"{name} is {_shown(value)}, which {holder} does not hold: pass {wanted}")
    if dtype.kind in "iu":
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        if not least <= int(value) <= most:
            other = f", or {hint}" if hint and most < int(value) < 2**64 else ""
            raise OverflowError(
                f"{name} is {_shown(value)}, which {holder} does not hold: pass an integer from "
                f"{least} to {most}{other}"
            )
    if _kind(dtype) != "f":
        return np.asarray(value, dtype)
    try:
        return np.frombuffer(rounded(value, dtype), dtype).reshape(())
    except OverflowError:
        raise OverflowError(
            f"{name} is {_shown(value)}, which {holder} does not hold: pass a smaller number"
        ) from None


def _kind(dtype: np.dtype[Any]) -> str:
    """Returns NumPy's letter for the kind of a type: bfloat16 is a float, too."""
    return "f" if dtype.name == "bfloat16" else dtype.kind


def _shown(value: Any) -> str:
    """Returns the text of a number, unless it has too many digits for a message."""
    is_long = isinstance(value, int) and value.bit_length() > 128
    return f"an integer of {value.bit_length()} bits" if is_long else repr(value)


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
