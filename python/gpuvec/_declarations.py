"""The text and the inputs of expressions: their declarations, and the values of scalars."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ctypes import c_int64
from typing import TYPE_CHECKING, Any

import numpy as np

from ._adapters import columns, kind_of
from ._arrays import check_dtype, find
from ._dlpack import bfloat16
from ._numbers import converted

if TYPE_CHECKING:
    from typing import Union

    from numpy.typing import DTypeLike

    from ._streams import Stream

    Declaration = Union[DTypeLike, "Scalar", type]
    Number = Union[float, int, bool, np.generic]

# The number of each element type, and the flags that are added to it, as in the header.
TYPES: dict[np.dtype[Any], int] = {
    np.dtype(name): number
    for number, name in enumerate(
        "bool uint8 int8 uint16 int16 uint32 int32 int64 float32 float64".split(), start=1
    )
}
TYPES[np.dtype(np.float16)], BFLOAT16, TYPES[np.dtype(np.uint64)] = 11, 12, 13
DTYPES = {number: dtype for dtype, number in TYPES.items()}
SCALAR, NUMBER = 256, 512

# The declarations of Python's numbers, which take the type of the other operand.
NUMBERS: dict[type, int] = {
    float: NUMBER | TYPES[np.dtype(np.float64)],
    int: NUMBER | TYPES[np.dtype(np.int64)],
    bool: SCALAR | TYPES[np.dtype(np.bool_)],
}


class Scalar:
    """Declares an input of an `Expression` that is one value of a type, given at each call.

    A value is a Python or NumPy number that NumPy's casting ``"same_kind"`` converts to the type:
    floats take any real number, integers an integer or a bool, and bools a bool. An integer that
    the type cannot hold raises ``OverflowError``, any other value ``TypeError``.

    Examples
    --------
    >>> import gpuvec, numpy as np
    >>> scaled = gpuvec.Expression("k * x", x=np.float32, k=gpuvec.Scalar(np.float32))
    >>> scaled(x=np.float32([1, 2]), k=3)
    array([3., 6.], dtype=float32)
    """

    __slots__ = ("dtype",)

    dtype: np.dtype[Any]

    def __init__(self, dtype: DTypeLike) -> None:
        self.dtype = np.dtype(dtype)

    def __repr__(self) -> str:
        """Return the declaration."""
        return f"gpuvec.Scalar({self.dtype})"


def dtype_of(code: int, name: str = "an array") -> np.dtype[Any]:
    """Returns the element type of a declaration or a result."""
    number = code & 255
    if number == BFLOAT16 and number not in DTYPES:
        _learn(bfloat16(name))
    return DTYPES[number]


def _learn(dtype: np.dtype[Any]) -> None:
    """Adds bfloat16, which NumPy has once ml_dtypes is imported."""
    if dtype.name == "bfloat16":
        TYPES[dtype], DTYPES[BFLOAT16] = BFLOAT16, dtype


def joined(text: str | tuple[str, ...]) -> str:
    """Returns the text of a formula, or of several."""
    texts = text if isinstance(text, tuple) else (text,)
    for one in texts:
        if not isinstance(one, str):
            raise TypeError(f"text is of type {type(one).__name__}: pass a str, or a tuple of them")
    return "; ".join(texts)


# The names in a text, except names of functions.
NAMES = r"\b[^\W\d]\w*\b(?!\s*(?:\(|=(?!=)))"
# An array that a program reads, and the values of a line.
ARRAY = r" = array (\S+): "
_VALUES = r"%\d+"


def reads_of(program: str) -> list[list[set[str]]]:
    """Returns the names of the arrays that each output of each pass depends on."""
    read: dict[str, set[str]] = {}
    outputs: list[set[str]] = []
    passes = [outputs]
    for line in program.splitlines():
        if line.startswith("pass"):
            if outputs:
                outputs = []
                passes.append(outputs)
            continue
        first, *others = re.findall(_VALUES, line)
        if line.startswith("output"):
            # Of both operands of `dot`.
            outputs.append(read[first].union(*(read[value] for value in others)))
        else:
            read[first] = set(re.findall(ARRAY, line)).union(*(read[value] for value in others))
    return passes


def merged(inputs: Any, named: dict[str, Any], text: str | tuple[str, ...] = "") -> dict[str, Any]:
    """Returns the inputs of a mapping and of keywords; of a table the columns that a text names."""
    if type(inputs) is not dict:
        inputs = columns(inputs, re.findall(NAMES, joined(text)))
    for name in inputs:
        if not isinstance(name, str):
            raise TypeError(f"inputs has the name {name!r}: pass names that are strings")
        if name in named:
            raise TypeError(f"{name} is in the mapping and a keyword: pass it once")
    return {**inputs, **named}


def keywords_of(out: Any, stream: Any, axis: Any, keepdims: bool, na: Any) -> dict[str, Any]:
    """Returns the keywords of a call that are not inputs; None for those that do nothing."""
    return {"out": out, "stream": stream, "axis": axis, "keepdims": keepdims or None, "na": na}


def check_keywords(names: Iterable[str], given: dict[str, Any], keywords: dict[str, Any]) -> None:
    """Raises TypeError if a keyword such as ``out=`` may be meant as an input of the formula."""
    for keyword, value in keywords.items():
        if value is not None and keyword in names and keyword not in given:
            raise TypeError(
                f"{keyword} is an input of the formula, and {keyword}= is not: pass the input in a "
                f'mapping, {{"{keyword}": ...}}, before the keywords'
            )


def element_type(name: str, value: Any, stream: Stream | None = None) -> np.dtype[Any] | None:
    """Returns the type of an argument's elements; None for bytes without a type."""
    kind = kind_of(value)
    if kind is not None:
        return kind.dtype(name, value)
    # Types are looked up first: finding the elements takes longer.
    dtype = getattr(value, "dtype", None)
    if isinstance(dtype, np.dtype):
        return dtype
    found = find(name, value, stream)
    return None if found.is_raw else found.array.dtype


def code(name: str, value: Any) -> int:
    """Returns the declaration of an argument."""
    number = NUMBERS.get(type(value))
    if number is not None:
        return number
    dtype = value.dtype if type(value) is np.ndarray else element_type(name, value)
    if dtype is None:
        raise TypeError(f"{name} is bytes without a type: pass np.frombuffer({name}, dtype)")
    number = TYPES.get(dtype) or _type_number(name, dtype)
    return SCALAR | number if isinstance(value, np.generic) else number


def form_of(code: int) -> str:
    """Returns what a call passes: "array", or the name of a class of Python's or NumPy's."""
    if code < SCALAR:
        return "array"
    kind = next((kind.__name__ for kind, number in NUMBERS.items() if number == code), None)
    return kind or dtype_of(code).name


def declared(name: str, declaration: Declaration) -> int:
    """Returns the number of a declaration."""
    if isinstance(declaration, Scalar):
        return SCALAR | _type_number(name, declaration.dtype)
    if isinstance(declaration, type) and declaration in NUMBERS and declaration is not bool:
        return NUMBERS[declaration]
    return _type_number(name, np.dtype(declaration))


def _type_number(name: str, dtype: np.dtype[Any]) -> int:
    _learn(dtype)
    check_dtype(name, dtype, list(TYPES))
    return TYPES[dtype]


def scalar(name: str, value: Any, code: int) -> Any:
    """Returns the value of a scalar, as the library reads it."""
    dtype = dtype_of(code)
    hint = f"np.uint64({name})" if code & NUMBER else ""
    number = converted(name, value, dtype, str(dtype), hint)
    return (c_int64 * 1).from_buffer_copy(number.tobytes().ljust(8, b"\0"))


def shown(code: int) -> str:
    """Describes a declaration."""
    kind = {0: "", SCALAR: "scalar ", NUMBER: "number "}[code & ~255]
    return f"{kind}{dtype_of(code)}"
