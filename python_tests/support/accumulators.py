"""Accumulators through the C interface."""

import ctypes
from ctypes import c_int64

import numpy as np
from axes_cases import bits
from bindings import last_error, lib
from corpus import Kind
from formulas import array_arguments
from header import enumeration
from streams import ok

NUMBERS = {
    name.removeprefix("GPUVEC_ACCUMULATOR_").lower(): number
    for name, number in enumeration("gpuvec_accumulator_kind").items()
}


def lengths(shape: tuple) -> ctypes.Array:
    """Returns a shape as the library's functions take it."""
    return (c_int64 * len(shape))(*shape)


class Sums:
    """An accumulator with a shape, destroyed at the end of a block."""

    def __init__(self, kind: Kind, shape: tuple = (), state: bytes | None = None):
        """Makes one without elements, or of the bytes of its states."""
        self.kind, self.shape = kind, shape
        passed = NUMBERS[kind.name], len(shape), ctypes.addressof(lengths_ := lengths(shape))
        self.handle = (
            lib.gpuvec_accumulator_create_nd(*passed)
            if state is None
            else lib.gpuvec_accumulator_deserialize_nd(*passed, state, len(state))
        )
        assert self.handle, last_error()
        del lengths_

    def __enter__(self) -> "Sums":
        """Returns the accumulator."""
        return self

    def __exit__(self, *_: object) -> None:
        """Destroys the accumulator."""
        ok(lib.gpuvec_accumulator_destroy(self.handle))

    def add(self, shape: tuple, arrays: list, reduced_axes: int, stream=None) -> int:
        """Calls gpuvec_accumulator_add_nd and returns its status."""
        given, _kept = array_arguments(arrays)
        given_shape = lengths(shape)
        return lib.gpuvec_accumulator_add_nd(
            self.handle,
            len(shape),
            ctypes.addressof(given_shape),
            ctypes.addressof(given),
            reduced_axes,
            stream,
        )

    def add_along(self, arrays: list[np.ndarray], axes: tuple, stream=None) -> None:
        """Adds arrays of one shape along axes."""
        ok(self.add(arrays[0].shape, arrays, bits(axes), stream))

    def value(self) -> np.ndarray:
        """Returns the values."""
        out = np.full(self.shape, -1, self.kind.dtype)
        ok(lib.gpuvec_accumulator_value(self.handle, out.ctypes.data))
        return out

    def state(self) -> bytes:
        """Returns the bytes of the states."""
        each = lib.gpuvec_accumulator_bytes(NUMBERS[self.kind.name])
        out = np.zeros(each * int(np.prod(self.shape, dtype=int)), np.uint8)
        ok(lib.gpuvec_accumulator_serialize(self.handle, out.ctypes.data, out.nbytes))
        return out.tobytes()
