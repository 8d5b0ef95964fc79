"""Arrays of Arrow's C data interface, which an object exports by ``__arrow_c_array__``."""

from __future__ import annotations

from ctypes import POINTER, Structure, c_char_p, c_int64, c_void_p
from typing import TYPE_CHECKING, Any

import numpy as np

from ._dlpack import described, get_pointer

if TYPE_CHECKING:
    from numpy.typing import NDArray

# NumPy's typestrs of Arrow's formats of numbers. Bools are bits.
TYPESTRS = {
    b"c": "|i1",
    b"C": "|u1",
    b"s": "<i2",
    b"S": "<u2",
    b"i": "<i4",
    b"I": "<u4",
    b"l": "<i8",
    b"L": "<u8",
    b"e": "<f2",
    b"f": "<f4",
    b"g": "<f8",
}
BOOLS = b"b"


class Schema(Structure):
    """`ArrowSchema`, as far as its release."""

    _fields_ = [
        ("format", c_char_p),
        ("name", c_char_p),
        ("metadata", c_char_p),
        ("flags", c_int64),
        ("children_count", c_int64),
        ("children", c_void_p),
        ("dictionary", c_void_p),
        ("release", c_void_p),
    ]


class Array(Structure):
    """`ArrowArray`, as far as its release."""

    _fields_ = [
        ("length", c_int64),
        ("null_count", c_int64),
        ("offset", c_int64),
        ("buffers_count", c_int64),
        ("children_count", c_int64),
        ("buffers", POINTER(c_void_p)),
        ("children", c_void_p),
        ("dictionary", c_void_p),
        ("release", c_void_p),
    ]


def exported(name: str, producer: Any) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Returns an array's elements, and which of them are valid; None if all are.

    Numbers are not copied. The capsules stay unconsumed: they free the memory when the last array
    on it is gone.
    """
    capsules = producer.__arrow_c_array__()
    schema = Schema.from_address(get_pointer(capsules[0], b"arrow_schema"))
    array = Array.from_address(get_pointer(capsules[1], b"arrow_array"))
    if not (schema.release and array.release):
        # Another consumer has moved the structure, and frees its buffers.
        raise ValueError(f"{name} exports an Arrow array that was released: pass one that was not")
    typestr = TYPESTRS.get(schema.format)
    if schema.dictionary or (typestr is None and schema.format != BOOLS):
        kind = "a dictionary" if schema.dictionary else f"of Arrow's format {_shown(schema.format)}"
        raise TypeError(f"{name} is {kind}: pass an array of bools, integers or floats")
    if array.length < 0 or array.offset < 0 or array.buffers_count != 2 or not array.buffers:
        raise ValueError(
            f"{name} is an Arrow array of {array.length} elements from {array.offset} on, in "
            f"{array.buffers_count} buffers: pass an array of two buffers"
        )
    if typestr is None:
        found = _bits(name, array, 1, capsules)
    else:
        start = (array.buffers[1] or 0) + array.offset * np.dtype(typestr).itemsize
        found = described(name, start, (array.length,), typestr, None, True, capsules)
    has_nulls = array.null_count != 0 and array.buffers[0]
    valid = _bits(name, array, 0, capsules) if has_nulls else None
    return found, None if valid is None or valid.all() else valid


def _shown(format: bytes | None) -> str:
    return "NULL" if format is None else repr(format.decode(errors="replace"))


def _bits(name: str, array: Array, number: int, owner: object) -> NDArray[np.bool_]:
    """Returns a buffer of bits as bools."""
    first = array.offset % 8
    size = (first + array.length + 7) // 8 if array.length else 0
    start = (array.buffers[number] or 0) + array.offset // 8
    packed = described(name, start, (size,), "|u1", None, True, owner)
    bits = np.unpackbits(packed, count=first + array.length, bitorder="little")
    return bits[first:].view(np.bool_)
