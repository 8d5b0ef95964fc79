"""Reductions by key through the C functions."""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_int32, c_int64, c_void_p

from bindings import Status, last_error, lib
from formulas import array_arguments, declared
from header import defines

IGNORE_OUTSIDE = defines()["GPUVEC_IGNORE_OUTSIDE"]


class ByKey:
    """A handle of reductions by key, destroyed at the end of a block."""

    def __init__(self, text: str, by: str, inputs: dict):
        types = declared(inputs)
        names = (c_char_p * len(types))(*(name.encode() for name in types))
        numbers = (c_int32 * len(types))(*types.values())
        handle = c_void_p()
        status = lib.gpuvec_expr_compile_by(
            text.encode(),
            by.encode(),
            ctypes.addressof(names),
            ctypes.addressof(numbers),
            len(types),
            ctypes.addressof(handle),
        )
        assert status == Status.OK, last_error()
        self.handle = handle.value

    def __enter__(self) -> ByKey:
        """Returns the handle's object."""
        return self

    def __exit__(self, *_: object) -> None:
        """Destroys the handle."""
        assert lib.gpuvec_expr_destroy(self.handle) == Status.OK

    def run(self, shape, arrays, outputs, groups, axes=1, flags=0, stream=None) -> int:
        """Calls gpuvec_expr_run_by and returns its status."""
        lengths = (c_int64 * len(shape))(*shape)
        given, _kept = array_arguments([*arrays, *outputs])
        at = ctypes.addressof(given)
        place = at + len(arrays) * (ctypes.sizeof(given) // len(given))
        return lib.gpuvec_expr_run_by(
            self.handle,
            len(shape),
            ctypes.addressof(lengths),
            at,
            place,
            axes,
            groups,
            flags,
            stream,
        )
