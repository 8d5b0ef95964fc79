"""Numbers of Python's and NumPy's, converted to an element type."""

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
    """Raises TypeError unless a value is one number of Python's or NumPy's."""
    if not isinstance(value, (np.generic, float, int)):
        raise TypeError(
            f"{name} is {shortened(value)}, of type {type(value).__name__}: pass a number"
        )


def converted(
    name: str, value: Any, dtype: np.dtype[Any], holder: str, hint: str = ""
) -> NDArray[Any]:
    """Returns a number as an array of no axes; raises an error if the type does not hold it.

    The holder is the type's name in errors, and the hint what else may hold a large integer.
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
    try:
        # A float beyond the type's largest is infinite.
        with np.errstate(over="ignore"):
            return np.asarray(value, dtype)
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
