"""The operations.

The extension module calls an operation on NumPy arrays and on device arrays, at about the cost of
NumPy's own calls. `Operation.general` finds the elements of other objects for it, and raises the
error if arguments are wrong. Without the module it calls the library itself.
"""

from __future__ import annotations

from ctypes import addressof, c_char, sizeof
from operator import index
from typing import TYPE_CHECKING, Any, SupportsFloat

import numpy as np

from ._adapters import kind_of
from ._arrays import (
    check_axes,
    check_dtype,
    check_equal,
    check_equal_types,
    device_of,
    find,
    find_all,
    typed,
)
from ._errors import failure
from ._library import NUMBERS, OPERATIONS, functions, native
from ._queue import call
from ._rounding import rounded
from ._streams import Stream, check_stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ._dlpack import Found
    from ._expressions import Expression
    from ._shapes import Axis
    from ._typing import Array

__all__ = [
    "add",
    "axpy",
    "div",
    "dot",
    "max",
    "min",
    "mul",
    "scale",
    "std",
    "sub",
    "sum",
    "var",
]

# More formulas of a spread than a program has; beyond this number all are forgotten.
MOST_REMEMBERED = 64

DTYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64}
# The types for which the library has no functions of its own: formulas compute these, and bfloat16.
_OF_FORMULAS = np.dtype(np.float16), np.dtype(np.uint64)
_TYPES = (*(np.dtype(dtype) for dtype in DTYPES.values()), *_OF_FORMULAS)


# An element type's function, by its name, and the type of its result.
Entry = tuple[str, np.dtype[Any]]


class Operation:
    """An operation: its functions in the library, and its formulas."""

    __slots__ = (
        "_compiled",
        "_native",
        "_text",
        "call",
        "inputs",
        "is_reduction",
        "most_axes",
        "name",
        "table",
        "types",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self._text, self.inputs, self.is_reduction, declared = OPERATIONS[name]
        self.most_axes = 1 if name == "dot" else np.iinfo(np.int32).max
        self.table: dict[np.dtype[Any], Entry] = {}
        short = []
        for element, result in declared.items():
            dtype, to = np.dtype(DTYPES[element]), np.dtype(DTYPES[result])
            symbol = f"gpuvec_{name}_{element}"
            factor_bytes = sizeof(NUMBERS[element]) if "alpha" in self._text else 0
            self.table[dtype] = symbol, to
            # The address alone: to declare all functions takes a twentieth of the import.
            entry = addressof(c_char.in_dll(functions, symbol))
            short.append((dtype, entry, factor_bytes, to))
        has_integers = any(dtype.kind == "i" for dtype in self.table)
        others = (dtype for dtype in _OF_FORMULAS if dtype.kind == "f" or has_integers)
        self.types = (*self.table, *others)
        self._compiled: dict[np.dtype[Any], Expression] = {}
        # Calls the operation: `call(a, b, out, stream)`, and alpha if it takes one. An operation on
        # one array gets that array as `a` and as `b`.
        self.call: Callable[..., Any] = self.general
        self._native = None
        if native is not None:
            calls = self._short_formula, self.general, call, failure
            what = self.inputs, self.is_reduction, self.most_axes, short
            self._native = native.Operation(*what, calls)
            self.call = self._native.call

    def general(
        self,
        a: Any,
        b: Any,
        out: Any,
        stream: Stream | None,
        *alpha: float,
        axis: Axis = None,
        keepdims: bool = False,
    ) -> Any:
        """Calls the operation with arrays of any kind; raises an error if they are wrong."""
        arrays = tuple(
            # A NumPy scalar counts as an array.
            np.asarray(one) if isinstance(one, np.generic) else one
            for one in (a, b)[: self.inputs]
        )
        check_stream(stream)
        inputs = dict(zip("ab", arrays))
        outputs = [] if out is None else [("out", out)]
        every = find_all([*inputs.items(), *outputs], stream)
        found = dict(zip(inputs, every))
        dtype = self._dtype(found)
        found = {name: typed(name, one, dtype) for name, one in found.items()}
        for name, one in found.items():
            _check_type(name, one.array, self.types)
            check_equal_types(name, one.array, "a", found["a"].array)
        are_columns = any(kind_of(array) is not None for array in arrays)
        own = self.table.get(dtype)
        result = own[1] if own else self._formula(dtype).dtype
        to = typed("out", every[-1], result) if outputs else None
        is_on_host = stream is None and device_of(inputs, found) is None
        if own and is_on_host and self._native is not None and not are_columns:
            elements = [one.array for one in found.values()]
            ends = elements[0], elements[-1], to and to.array, None
            called = self._native.attempt(*ends, axis, keepdims, *alpha)
            if called is not None:
                return called if out is None else out
        inputs.update(zip(("alpha",), alpha))
        formula = self._formula(dtype)
        if are_columns:
            return formula._generally(inputs, out, stream, axis, keepdims)
        if self.most_axes == 1 and axis is None:
            for name, one in found.items():
                check_axes(name, one.array)
                check_equal(name, one.array, "a", found["a"].array)
        function: list[Any] = []
        if own:
            exported = getattr(functions, own[0])
            # ctypes itself would convert factors as the thread's floating-point modes say.
            factors = (exported.argtypes[0].from_buffer_copy(rounded(one, dtype)) for one in alpha)
            function = [exported, *factors]
        return formula._evaluated(inputs, found, (out,), [to], stream, axis, keepdims, function)

    def along(
        self, a: Any, b: Any, out: Any, stream: Stream | None, axis: Axis, keepdims: bool
    ) -> Any:
        """Calls a reduction along axes."""
        if self._native is not None:
            called = self._native.attempt(a, b, out, stream, axis, keepdims)
            if called is not None:
                return called
        # Imported late, as the formula is, to keep the import of the package short.
        from ._shapes import plain_axis, plain_keepdims

        axis, keepdims = plain_axis(axis), plain_keepdims(keepdims)
        return self.general(a, b, out, stream, axis=axis, keepdims=keepdims)

    def _formula(self, dtype: np.dtype[Any]) -> Expression:
        """Returns the operation as a formula."""
        formula = self._compiled.get(dtype)
        if formula is None:
            from ._expressions import Expression

            declared = {name: dtype for name in "ab"[: self.inputs]}
            factor = {"alpha": float} if "alpha" in self._text else {}
            formula = self._compiled[dtype] = Expression(self._text, {**declared, **factor})
        return formula

    def _short_formula(self, dtype: np.dtype[Any]) -> Any:
        """Returns the formula as the extension module calls it."""
        return self._formula(dtype)._short

    def _dtype(self, found: dict[str, Found]) -> np.dtype[Any]:
        """Returns the element type of the inputs, from the first that has one."""
        for name, one in found.items():
            if not one.is_raw:
                _check_type(name, one.array, self.types)
                return np.dtype(one.array.dtype.type)
        are = "are" if len(found) > 1 else "is"
        raise TypeError(
            f"{' and '.join(found)} {are} bytes without a type: pass np.frombuffer(memory, dtype)"
        )


def _check_type(name: str, array: NDArray[Any], types: tuple[np.dtype[Any], ...]) -> None:
    """Raises TypeError unless an array has one of the element types, or bfloat16."""
    if array.dtype.name != "bfloat16":
        check_dtype(name, array, types)


def _factor(alpha: Any) -> float:
    try:
        if isinstance(alpha, str):
            raise TypeError
        if isinstance(alpha, np.floating) and not isinstance(alpha, float):
            return float(np.frombuffer(rounded(alpha, np.dtype(np.float64)))[0])
        return float(alpha)
    except TypeError:
        raise TypeError(f"alpha is of type {type(alpha).__name__}: pass a real number") from None


class Spread:
    """A variance or a standard deviation, which is a formula for each element type and ddof."""

    __slots__ = ("_compiled", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._compiled: dict[tuple[np.dtype[Any], int], Expression] = {}

    def __call__(
        self, a: Any, out: Any, stream: Stream | None, axis: Axis, keepdims: bool, ddof: int
    ) -> Any:
        """Calls the formula for the type of the array."""
        a = np.asarray(a) if isinstance(a, np.generic) else a
        check_stream(stream)
        array = find("a", a, stream).array
        _check_type("a", array, _TYPES)
        formula = self._formula(np.dtype(array.dtype.type), _whole(ddof))
        return formula({"a": a}, out=out, stream=stream, axis=axis, keepdims=keepdims)

    def _formula(self, dtype: np.dtype[Any], ddof: int) -> Expression:
        formula = self._compiled.get((dtype, ddof))
        if formula is None:
            if len(self._compiled) >= MOST_REMEMBERED:
                self._compiled.clear()
            from ._expressions import Expression

            formula = Expression(f"{self.name}(a, ddof={ddof})", a=dtype)
            self._compiled[dtype, ddof] = formula
        return formula


def _whole(ddof: Any) -> int:
    try:
        return index(ddof)
    except TypeError:
        raise TypeError(f"ddof is of type {type(ddof).__name__}: pass an int") from None


# Global names, which Python finds sooner than attributes.
_var, _std = Spread("var"), Spread("std")
_add, _sub, _mul, _div, _scale, _axpy = (
    Operation(name).call for name in ("add", "sub", "mul", "div", "scale", "axpy")
)
_DOT, _SUM, _MIN, _MAX = map(Operation, ("dot", "sum", "min", "max"))
_dot, _sum, _min, _max = _DOT.call, _SUM.call, _MIN.call, _MAX.call


def add(a: Array, b: Array, out: Array | None = None, stream: Stream | None = None) -> Any:
    """Add two arrays: ``out[i] = a[i] + b[i]``.

    Parameters
    ----------
    a, b : array of float16, bfloat16, float32, float64, int32, int64 or uint64
        Arrays of one type (bfloat16 is ml_dtypes'), in memory of any kind: NumPy arrays,
        `DeviceArray`, objects with the buffer protocol, DLPack or ``__cuda_array_interface__``.
        They have any strides and shapes that NumPy would broadcast to one, and may be read-only.
    out : array, optional
        The result, of the inputs' type and shape, and of any strides; it may be exactly one of the
        inputs.
    stream : Stream, optional
        Queues the work behind the stream's earlier work. Without a stream the function returns when
        the result is available.

    Returns
    -------
    array
        ``out``. If it is None, a new array: a `DeviceArray` if an input is on a GPU and the
        result has axes, else an ndarray, with its axes in the inputs' order in memory, as in NumPy
        (order "K").

    Raises
    ------
    TypeError
        If an argument is not an array, or has another dtype.
    ValueError
        If the shapes cannot be broadcast to one, or the output has another shape or is read-only;
        as `ArgumentError`, if an argument is not aligned, or the output overlaps an input without
        being exactly that input.
    Error
        If the library cannot do the work.

    Notes
    -----
    Sums of integers wrap around. Floats are rounded to nearest, and each NaN is the same quiet NaN,
    so results have the same bits on every processor. Floats of 16 bits are computed as float32, and
    the results of `dot` and `sum` are float32: sums soon exceed 65504, the largest float16.

    Examples
    --------
    >>> import gpuvec, numpy as np
    >>> a, b = np.array([1.0, 2.0]), np.array([10.0, 20.0])
    >>> gpuvec.add(a, b)
    array([11., 22.])
    >>> gpuvec.add(a, b, out=a) is a
    True
    """
    return _add(a, b, out, stream)


def sub(a: Array, b: Array, out: Array | None = None, stream: Stream | None = None) -> Any:
    """Subtract two arrays: ``out[i] = a[i] - b[i]``. For the rest see `add`.

    Examples
    --------
    >>> import gpuvec, numpy as np
    >>> gpuvec.sub(np.array([5, 7]), np.array([1, 2]))
    array([4, 5])
    """
    return _sub(a, b, out, stream)


def mul(a: Array, b: Array, out: Array | None = None, stream: Stream | None = None) -> Any:
    """Multiply two arrays: ``out[i] = a[i] * b[i]``. For the rest see `add`.

    Examples
    --------
    >>> import gpuvec, numpy as np
    >>> gpuvec.mul(np.array([5, 7]), np.array([1, 2]))
    array([ 5, 14])
    """
    return _mul(a, b, out, stream)


def div(a: Array, b: Array, out: Array | None = None, stream: Stream | None = None) -> Any:
    """Divide two arrays of floats: ``out[i] = a[i] / b[i]``. For the rest see `add`.

    Examples
    --------
    >>> import gpuvec, numpy as np
    >>> gpuvec.div(np.array([1.0, -1.0]), np.array([4.0, 0.0]))
    array([0.25, -inf])
    """
    return _div(a, b, out, stream)


def scale(
    alpha: SupportsFloat, a: Array, out: Array | None = None, stream: Stream | None = None
) -> Any:
    """Multiply an array of floats by a number: ``out[i] = alpha * a[i]``.

    Parameters
    ----------
    alpha : real number
        The number, which is rounded to the type of ``a``, or to float32 for floats of 16 bits.
    a, out, stream
        As for `add`.

    Examples
    --------
    >>> import gpuvec, numpy as np
    >>> gpuvec.scale(0.5, np.array([1.0, 2.0]))
    array([0.5, 1. ])
    """
    return _scale(a, a, out, stream, _factor(alpha))


def axpy(
    alpha: SupportsFloat, a: Array, b: Array, out: Array | None = None, stream: Stream | None = None
) -> Any:
    """Multiply and add arrays of floats: ``out[i] = alpha * a[i] + b[i]``.

    Each element is rounded once.

    Parameters
    ----------
    alpha : real number
        The number, which is rounded to the type of ``a``, or to float32 for floats of 16 bits.
    a, b, out, stream
        As for `add`.

    Examples
    --------
    >>> import gpuvec, numpy as np
    >>> gpuvec.axpy(2, np.array([1.0, 2.0]), np.array([10.0, 20.0]))
    array([12., 24.])
    """
    return _axpy(a, b, out, stream, _factor(alpha))


def dot(
    a: Array,
    b: Array,
    out: Array | None = None,
    stream: Stream | None = None,
    axis: Axis = None,
    keepdims: bool = False,
) -> Any:
    """Compute the dot product ``a[0]*b[0] + ... + a[n-1]*b[n-1]``.

    Parameters
    ----------
    a, b : array of float16, bfloat16, float32, float64, int32, int64 or uint64
        As for `add`; without ``axis`` of one axis and one shape: NumPy's dot of arrays with more
        axes multiplies matrices.
    out : array, optional
        The result. It has the inputs' type, but int64 for int32, and float32 for floats of 16 bits,
        and one element if all axes are reduced.
    stream : Stream, optional
        As for `add`. Without ``out`` the function waits for the result.
    axis : int or tuple of int, optional
        The axes along which elements are reduced; all if it is None.
    keepdims : bool, default False
        Keeps the reduced axes in the result, with length 1.

    Returns
    -------
    scalar or array
        ``out``. If it is None, a new array, as from `add`, or a NumPy scalar if all axes are
        reduced.

    Notes
    -----
    The sum of floats is exact, and rounded once, so neither order nor cancellation affects it.
    Integers are summed in int64, and uint64 in uint64, which wrap around. `Accumulator` computes
    sums in parts.

    Examples
    --------
    >>> import gpuvec, numpy as np
    >>> int(gpuvec.dot(np.array([1, 2, 3]), np.array([4, 5, 6])))
    32
    """
    if axis is None and keepdims is False:
        return _dot(a, b, out, stream)
    return _DOT.along(a, b, out, stream, axis, keepdims)


def sum(
    a: Array,
    out: Array | None = None,
    stream: Stream | None = None,
    axis: Axis = None,
    keepdims: bool = False,
) -> Any:
    """Compute the sum of all elements, or of those along axes. For the rest see `dot`.

    Examples
    --------
    >>> import gpuvec, numpy as np
    >>> float(gpuvec.sum(np.array([1.0, 2.0, 4.0])))
    7.0
    """
    if axis is None and keepdims is False:
        return _sum(a, a, out, stream)
    return _SUM.along(a, a, out, stream, axis, keepdims)


def min(
    a: Array,
    out: Array | None = None,
    stream: Stream | None = None,
    axis: Axis = None,
    keepdims: bool = False,
) -> Any:
    """Find the smallest element: NaN if any element is NaN; -0 is less than +0.

    The result has the type of ``a``. The minimum of no elements is an `ArgumentError`, also along
    an axis of length 0, as in NumPy. For the rest see `dot`.

    Examples
    --------
    >>> import gpuvec, numpy as np
    >>> float(gpuvec.min(np.array([3.0, -1.0, 2.0])))
    -1.0
    """
    if axis is None and keepdims is False:
        return _min(a, a, out, stream)
    return _MIN.along(a, a, out, stream, axis, keepdims)


def max(
    a: Array,
    out: Array | None = None,
    stream: Stream | None = None,
    axis: Axis = None,
    keepdims: bool = False,
) -> Any:
    """Find the largest element: NaN if any element is NaN; -0 is less than +0.

    The result has the type of ``a``. The maximum of no elements is an `ArgumentError`, also along
    an axis of length 0, as in NumPy. For the rest see `dot`.

    Examples
    --------
    >>> import gpuvec, numpy as np
    >>> float(gpuvec.max(np.array([3.0, -1.0, 2.0])))
    3.0
    """
    if axis is None and keepdims is False:
        return _max(a, a, out, stream)
    return _MAX.along(a, a, out, stream, axis, keepdims)


def var(
    a: Array,
    out: Array | None = None,
    stream: Stream | None = None,
    axis: Axis = None,
    keepdims: bool = False,
    *,
    ddof: int = 0,
) -> Any:
    """Compute the variance of all elements, or of those along axes.

    Parameters
    ----------
    a : array of float16, bfloat16, float32, float64, int32, int64 or uint64
        As for `add`.
    out : array, optional
        The result. It has the type of ``a``, but float64 for integers, and float32 for floats of 16
        bits.
    stream, axis, keepdims
        As for `dot`; but the function always waits for the stream's work.
    ddof : int, default 0
        The sum of squared differences from the mean is divided by ``n - ddof``.

    Returns
    -------
    scalar or array
        As `dot`.

    Notes
    -----
    The result is the exact variance, rounded once, so it has the same bits on every processor. It
    is NaN for no elements, and if one is NaN or infinite. If ``n - ddof`` is not positive, it is
    infinite, or NaN if all elements are equal. Unlike NumPy's function, it does not warn then.

    Examples
    --------
    >>> import gpuvec, numpy as np
    >>> a = np.array([1.0, 2.0, 4.0, 9.0])
    >>> float(gpuvec.var(a)), float(gpuvec.var(a, ddof=1))
    (9.5, 12.666666666666666)
    """
    return _var(a, out, stream, axis, keepdims, ddof)


def std(
    a: Array,
    out: Array | None = None,
    stream: Stream | None = None,
    axis: Axis = None,
    keepdims: bool = False,
    *,
    ddof: int = 0,
) -> Any:
    """Compute the standard deviation: the root of the exact variance, rounded once.

    For the rest see `var`.

    Examples
    --------
    >>> import gpuvec, numpy as np
    >>> gpuvec.std(np.array([[1.0, 5.0], [2.0, 2.0]]), axis=1)
    array([2., 0.])
    """
    return _std(a, out, stream, axis, keepdims, ddof)
