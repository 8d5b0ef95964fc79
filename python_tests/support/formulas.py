"""Formulas with their oracles in NumPy, and the functions of expressions called through ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_char_p, c_int32, c_int64, c_size_t, c_void_p
from dataclasses import dataclass

import numpy as np
from bindings import Status, last_error, lib
from header import defines, enumeration

TYPES = enumeration("gpuvec_type")
SCALAR, NUMBER = (defines()[f"GPUVEC_{name}"] for name in ("SCALAR", "NUMBER"))
FORMS = enumeration("gpuvec_expr_form")
NAMES = {
    np.dtype(dtype): TYPES[f"GPUVEC_{name}"]
    for name, dtype in {
        "BOOL": np.bool_,
        "U8": np.uint8,
        "I8": np.int8,
        "U16": np.uint16,
        "I16": np.int16,
        "U32": np.uint32,
        "I32": np.int32,
        "I64": np.int64,
        "U64": np.uint64,
        "F16": np.float16,
        "F32": np.float32,
        "F64": np.float64,
    }.items()
}


@dataclass(frozen=True)
class Formula:
    """A formula of arrays, and the same in NumPy, with the same bits."""

    text: str
    inputs: dict[str, str]
    oracle: Callable[..., np.ndarray]
    is_reduction: bool = False

    def __str__(self) -> str:
        """The text, for a test's name."""
        return self.text

    def __hash__(self) -> int:
        """The text's."""
        return hash(self.text)

    def data(self, n: int, seed: int = 1) -> dict[str, np.ndarray]:
        """Returns inputs of that length."""
        random = np.random.default_rng(seed)
        return {name: values(random, np.dtype(dtype), n) for name, dtype in self.inputs.items()}

    def expected(self, data: dict[str, np.ndarray]) -> np.ndarray:
        """Returns the result; of a reduction an array of one element."""
        with np.errstate(all="ignore"):
            result = np.atleast_1d(self.oracle(**data))
        if result.dtype.kind == "f":
            result = np.where(np.isnan(result), result.dtype.type(np.nan), result)
        return result


def values(random: np.random.Generator, dtype: np.dtype, n: int) -> np.ndarray:
    """Returns values of a type, some of them special."""
    if dtype.kind == "b":
        return random.integers(0, 2, n).astype(bool)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        special = np.array([0, 1, limits.max, limits.min], dtype)
        plain = random.integers(limits.min, limits.max, n, dtype, endpoint=True)
    else:
        special = np.array([0.0, -0.0, 1.5, np.inf, -np.inf, np.nan], dtype)
        plain = random.normal(0, 100, n).astype(dtype)
    return np.where(random.random(n) < 0.1, random.choice(special, n), plain).astype(dtype)


ELEMENTWISE = [
    Formula("a + b", {"a": "f4", "b": "f4"}, lambda a, b: a + b),
    Formula("a*b + 1", {"a": "f8", "b": "f8"}, lambda a, b: a * b + 1),
    Formula("sqrt(a*a + b*b)", {"a": "f4", "b": "f4"}, lambda a, b: np.sqrt(a * a + b * b)),
    Formula(
        "where(a < b, a / b, 2*b - a)",
        {"a": "f8", "b": "f8"},
        lambda a, b: np.where(a < b, a / b, 2 * b - a),
    ),
    Formula("i * 3 + j", {"i": "i4", "j": "i4"}, lambda i, j: i * np.int32(3) + j),
    Formula("k - i", {"k": "i8", "i": "i4"}, lambda k, i: k - i),
    Formula("f32(b) + f", {"b": "u1", "f": "f4"}, lambda b, f: b.astype("f4") + f),
    Formula("s * x", {"s": "i2", "x": "f8"}, lambda s, x: s * x),
    Formula("u + w", {"u": "u4", "w": "u2"}, lambda u, w: u.astype("i8") + w),
    Formula("c < d", {"c": "i1", "d": "i1"}, lambda c, d: c < d),
    Formula("(x > 0) & m", {"x": "f4", "m": "?"}, lambda x, m: (x > 0) & m),
    Formula("floor(x) - ceil(y)", {"x": "f4", "y": "f4"}, lambda x, y: np.floor(x) - np.ceil(y)),
    Formula(
        "h * g + 0.1",
        {"h": "f2", "g": "f2"},
        lambda h, g: (h.astype("f4") * g.astype("f4") + np.float32(0.1)).astype("f2"),
    ),
    Formula("f16(x)", {"x": "f8"}, lambda x: x.astype("f2")),
    Formula("h + x", {"h": "f2", "x": "f4"}, lambda h, x: h.astype("f4") + x),
    Formula(
        "u % 1000 + (u >> 3)", {"u": "u8"}, lambda u: u % np.uint64(1000) + (u >> np.uint64(3))
    ),
    Formula("(u < k) | (k == u)", {"u": "u8", "k": "i8"}, lambda u, k: (u < k) | (k == u)),
    Formula("u * 0.5", {"u": "u8"}, lambda u: u.astype("f8") * 0.5),
]

REDUCTIONS = [
    Formula("count(a < b)", {"a": "f4", "b": "f4"}, lambda a, b: np.int64((a < b).sum()), True),
    Formula("any(m & (x > 99))", {"m": "?", "x": "f8"}, lambda m, x: (m & (x > 99)).any(), True),
    Formula("all(x == x)", {"x": "f4"}, lambda x: (x == x).all(), True),
    Formula("sum(i + j)", {"i": "i8", "j": "i2"}, lambda i, j: (i + j).sum(), True),
    Formula("dot(i, j)", {"i": "i8", "j": "i8"}, lambda i, j: (i * j).sum(), True),
    Formula("max(abs(i // 2))", {"i": "i4"}, lambda i: np.abs(i // np.int32(2)).max(), True),
    Formula("min(x)", {"x": "f8"}, lambda x: x.min() if x.min() != 0 else x.min(), True),
    Formula("argmin(i)", {"i": "i4"}, lambda i: np.int64(i.argmin()), True),
    Formula("argmax(x * 2)", {"x": "f4"}, lambda x: np.int64((x * 2).argmax()), True),
    Formula("max(h)", {"h": "f2"}, lambda h: h.max(), True),
    Formula("argmin(h)", {"h": "f2"}, lambda h: np.int64(h.argmin()), True),
    Formula("min(u)", {"u": "u8"}, lambda u: u.min(), True),
    Formula("sum(u ^ k)", {"u": "u8", "k": "u8"}, lambda u, k: (u ^ k).sum(), True),
]

FORMULAS = [*ELEMENTWISE, *REDUCTIONS]


def dtype_of(number: int) -> np.dtype:
    """Returns the type of a gpuvec_type."""
    return next(dtype for dtype, code in NAMES.items() if code == number)


def declared(inputs: dict) -> dict[str, int]:
    """Returns the number of each declaration: a dtype's, or a number as it is."""
    return {
        name: given if isinstance(given, int) else NAMES[np.dtype(given)]
        for name, given in inputs.items()
    }


def compile_into(text: bytes | None, inputs: dict, handle: c_void_p | None) -> int:
    """Calls gpuvec_expr_compile and returns its status."""
    types = declared(inputs)
    names = (c_char_p * len(types))(*(name.encode() for name in types))
    numbers = (c_int32 * len(types))(*types.values())
    place = None if handle is None else ctypes.addressof(handle)
    return lib.gpuvec_expr_compile(
        text, ctypes.addressof(names), ctypes.addressof(numbers), len(types), place
    )


class Array(ctypes.Structure):
    """`gpuvec_array`."""

    _fields_ = (("data", c_void_p), ("strides", c_void_p))


def array_arguments(arrays: list) -> tuple[ctypes.Array, list]:
    """Returns structures of arrays, and what must live as long as these.

    The arrays are NumPy's, with their strides, or addresses with strides, or addresses of arrays in
    C order.
    """
    fields, kept = [], []
    for array in arrays:
        if isinstance(array, np.ndarray):
            array = (array.ctypes.data, array.strides)
        if isinstance(array, tuple):
            kept.append((c_int64 * len(array[1]))(*array[1]))
            fields.append((array[0], ctypes.addressof(kept[-1])))
        else:
            fields.append((array, None))
    return (Array * len(fields))(*fields), kept


class Compiled:
    """A handle, destroyed at the end of a block."""

    def __init__(self, text: str, inputs: dict):
        handle = c_void_p()
        status = compile_into(text.encode(), inputs, handle)
        assert status == Status.OK, last_error()
        self.handle = handle.value

    def __enter__(self) -> Compiled:
        """Returns the handle's object."""
        return self

    def __exit__(self, *_: object) -> None:
        """Destroys the handle."""
        assert lib.gpuvec_expr_destroy(self.handle) == Status.OK

    def run(self, inputs: list[int | None], out: int | None, n: int, stream=None) -> int:
        """Calls gpuvec_expr_run on addresses and returns its status."""
        pointers = (c_void_p * len(inputs))(*inputs)
        given = ctypes.addressof(pointers) if inputs else None
        return lib.gpuvec_expr_run(self.handle, given, out, n, stream)

    def run_nd(self, shape, inputs: list, out, reduced_axes: int = 0, stream=None) -> int:
        """Calls gpuvec_expr_run_nd and returns its status.

        The arrays are those of `array_arguments`. `out` is one, or a list.
        """
        lengths = (c_int64 * len(shape))(*shape)
        given, _kept = array_arguments([*inputs, *(out if isinstance(out, list) else [out])])
        at = ctypes.addressof(given)
        place = at + len(inputs) * ctypes.sizeof(Array)
        axes = ctypes.addressof(lengths)
        return lib.gpuvec_expr_run_nd(
            self.handle, len(shape), axes, at, place, reduced_axes, stream
        )

    def run_outputs(
        self, inputs: list[int | None], outputs: list[int | None], n: int, stream=None
    ) -> int:
        """Calls gpuvec_expr_run_outputs on addresses and returns its status."""
        pointers, targets = (
            (c_void_p * len(addresses))(*addresses) for addresses in (inputs, outputs)
        )
        given = ctypes.addressof(pointers) if inputs else None
        to = ctypes.addressof(targets)
        return lib.gpuvec_expr_run_outputs(self.handle, given, to, len(outputs), n, stream)

    def dtype(self) -> np.dtype:
        """Returns the type of the output."""
        return dtype_of(lib.gpuvec_expr_output_type(self.handle))

    def dtypes(self) -> list[np.dtype]:
        """Returns the type of each output."""
        outputs = range(lib.gpuvec_expr_num_outputs(self.handle))
        return [dtype_of(lib.gpuvec_expr_output_type_at(self.handle, at)) for at in outputs]

    def reductions(self) -> list[bool]:
        """Says of each output whether it is one value."""
        outputs = range(lib.gpuvec_expr_num_outputs(self.handle))
        return [lib.gpuvec_expr_is_reduction_at(self.handle, at) == 1 for at in outputs]

    def is_reduction(self) -> bool:
        """Says whether the output is one value."""
        return lib.gpuvec_expr_is_reduction(self.handle) == 1

    def text(self, form: str) -> str:
        """Returns a text of the expression."""
        needed, number = c_size_t(), FORMS[f"GPUVEC_EXPR_{form}"]
        size = ctypes.addressof(needed)
        assert lib.gpuvec_expr_text(self.handle, number, None, 0, size) == Status.OK
        buffer = ctypes.create_string_buffer(needed.value)
        place = ctypes.addressof(buffer)
        assert lib.gpuvec_expr_text(self.handle, number, place, needed.value, None) == Status.OK
        return buffer.value.decode()
