"""The operations.

The extension module calls an operation on ordinary arrays, at about the cost of NumPy's own calls.
`Operation.general` is for other arguments, and for Pythons without the module.
"""

from __future__ import annotations

import ctypes
from operator import index
from typing import TYPE_CHECKING, Any, SupportsFloat

import numpy as np

from ._arrays import check_dtype, check_equal_types
from ._errors import failure
from ._library import NUMBERS, OPERATIONS, address_of, functions, native, runs
from ._numbers import rounded
from ._queue import call
from ._streams import Stream, check_stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._expressions import Expression
    from ._group import Keys
    from ._shapes import Axis
    from ._typing import Array

__all__ = ["add", "axpy", "div", "dot", "max", "min", "mul", "scale", "std", "sub", "sum", "var"]

# The types for which the library has no functions of its own: formulas compute these, and bfloat16.
_OF_FORMULAS = np.dtype(np.float16), np.dtype(np.uint64)
_TYPES: tuple[np.dtype[Any], ...] = (*map(np.dtype, NUMBERS.values()), *_OF_FORMULAS)


class Operation:
    """An operation: a formula for each element type."""

    __slots__ = (
        *("_formulas", "_functions", "_inputs", "_is_reduction", "_name", "_text", "_types"),
        "call",
    )

    def __init__(self, name: str) -> None:
        self._name = name
        self._text, self._inputs, self._is_reduction, elements = OPERATIONS[name]
        # The names of the library's own functions.
        self._functions = {np.dtype(NUMBERS[one]): f"gpuvec_{name}_{one}" for one in elements}
        has_integers = "i32" in elements
        others = (dtype for dtype in _OF_FORMULAS if dtype.kind == "f" or has_integers)
        self._types = (*self._functions, *others)
        self._formulas: dict[np.dtype[Any], Expression] = {}
        # An operation on one array gets that array as `a` and as `b`.
        self.call: Callable[..., Any] = self.general
        if native is not None:
            types = [(dtype, self._own(dtype, elements)) for dtype in self._types]
            formula = lambda dtype: self._formula(dtype)._fast  # noqa: E731
            self.call = native.Operation(self._inputs, types, formula, self.general).call

    def _own(self, dtype: np.dtype[Any], elements: dict[str, str]) -> Any:
        """Returns the library's own function for a type, if there is one, for the extension module.

        Its first call imports nothing: a forked child would wait for ever for a module that
        another thread of the parent was importing.
        """
        if dtype not in self._functions:
            return None
        function, names = getattr(functions, self._functions[dtype]), "ab"[: self._inputs]
        factor = ctypes.sizeof(function.argtypes[0]) if "alpha" in self._text else 0
        own = address_of(function), self._inputs, factor
        result = next(out for one, out in elements.items() if np.dtype(NUMBERS[one]) == dtype)
        inputs = [(name, dtype, "array", True) for name in names]
        outputs = [(np.dtype(NUMBERS[result]), self._is_reduction)]
        is_dot = self._name == "dot"
        limits = 1 if is_dot else 2**31 - 1, not is_dot, False, self._is_reduction
        return native.Formula(runs(), own, 0, inputs, outputs, False, limits, (call, failure))

    def general(
        self,
        a: Any,
        b: Any,
        out: Any,
        stream: Stream | None,
        alpha: float | None = None,
        reduced: tuple[Axis, bool] | None = None,
    ) -> Any:
        """Calls the operation with arrays of any kind; raises an error if they are wrong."""
        from ._declarations import element_type

        check_stream(stream)
        inputs = {
            # A NumPy scalar counts as an array.
            name: np.asarray(one) if isinstance(one, np.generic) else one
            for name, one in zip("ab"[: self._inputs], (a, b))
        }
        found = ((name, element_type(name, one, stream)) for name, one in inputs.items())
        types = [(name, dtype) for name, dtype in found if dtype is not None]
        if not types:
            are = "are" if len(inputs) > 1 else "is"
            raise TypeError(
                f"{' and '.join(inputs)} {are} bytes without a type: pass "
                "np.frombuffer(memory, dtype)"
            )
        first, wanted = types[0]
        for name, dtype in types:
            _check_type(name, dtype, self._types)
            check_equal_types(name, dtype, first, wanted)
        if alpha is not None:
            inputs["alpha"] = alpha
        return self._formula(wanted)._generally(inputs, out, stream, *(reduced or (None, False)))

    def _formula(self, dtype: np.dtype[Any]) -> Expression:
        """Returns the formula for an element type."""
        formula = self._formulas.get(dtype)
        if formula is None:
            # Imported late, to keep the import of the package short.
            from ._declarations import declared
            from ._expressions import compiled

            inputs: dict[str, Any] = dict.fromkeys("ab"[: self._inputs], dtype)
            if "alpha" in self._text:
                inputs["alpha"] = float
            codes = tuple(declared(*one) for one in inputs.items())
            own, broadcasts = self._functions.get(dtype), self._name != "dot"
            formula = compiled(self._text, tuple(inputs), codes, own, broadcasts)
            self._formulas[dtype] = formula
        return formula


def _check_type(name: str, dtype: np.dtype[Any], types: tuple[np.dtype[Any], ...]) -> None:
    """Raises TypeError unless an element type is one of the types, or bfloat16."""
    if dtype.name != "bfloat16":
        check_dtype(name, dtype, types)


def _factor(alpha: Any) -> float:
    try:
        if isinstance(alpha, str):
            raise TypeError
        if isinstance(alpha, np.floating) and not isinstance(alpha, float):
            return float(np.frombuffer(rounded(alpha, np.dtype(np.float64)))[0])
        return float(alpha)
    except TypeError:
        raise TypeError(f"alpha is of type {type(alpha).__name__}: pass a real number") from None


def _by_key(
    text: str,
    inputs: dict[str, Any],
    keys: tuple[Any, int | None, str],
    out: Any,
    stream: Stream | None,
    axis: Axis,
    keepdims: bool,
) -> Any:
    """Evaluates a reduction by key, or a variance or deviation, for which keys may be None."""
    from ._declarations import element_type
    from ._evaluate import evaluate

    check_stream(stream)
    first = None
    for name, one in inputs.items():
        if isinstance(one, np.generic):
            # A NumPy scalar counts as an array.
            inputs[name] = one = np.asarray(one)
        dtype = element_type(name, one, stream)
        if dtype is not None:
            _check_type(name, dtype, _TYPES)
            first = dtype if first is None else first
            check_equal_types(name, dtype, "a", first)
    by, groups, outside = keys
    return evaluate(
        text,
        inputs,
        out=out,
        stream=stream,
        axis=axis,
        keepdims=keepdims,
        by=by,
        groups=groups,
        outside=outside,
    )


def _whole(ddof: Any) -> int:
    try:
        return index(ddof)
    except TypeError:
        raise TypeError(f"ddof is of type {type(ddof).__name__}: pass an int") from None


# Global names: Python finds them faster than attributes.
_add, _sub, _mul, _div, _scale, _axpy, _dot, _sum, _min, _max = (
    Operation(name).call for name in "add sub mul div scale axpy dot sum min max".split()
)


def add(a: Array, b: Array, out: Array | None = None, stream: Stream | None = None) -> Any:
    """Add two arrays: ``out[i] = a[i] + b[i]``.

    Parameters
    ----------
    a, b : array of float16, bfloat16, float32, float64, int32, int64 or uint64
        Arrays of one type (bfloat16 is ml_dtypes'), in memory of any kind: NumPy arrays,
        `DeviceArray`, objects with the buffer protocol, DLPack or ``__cuda_array_interface__``.
        They have any strides, are broadcast as by NumPy, and may be read-only.
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
        If the shapes cannot be broadcast, or the output has another shape or is read-only. An
        `ArgumentError` if an argument is not aligned, or the output partly overlaps an input.
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
        The factor, which is rounded to the type of ``a``, or to float32 for floats of 16 bits.
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
        The factor, which is rounded to the type of ``a``, or to float32 for floats of 16 bits.
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
    by: Keys | None = None,
    groups: int | None = None,
    outside: str = "error",
) -> Any:
    """Compute the dot product ``a[0]*b[0] + ... + a[n-1]*b[n-1]``.

    Parameters
    ----------
    a, b : array of float16, bfloat16, float32, float64, int32, int64 or uint64
        As for `add`. Without ``axis`` they have one axis and one shape: with more axes, NumPy's dot
        multiplies matrices.
    out : array, optional
        The result. It has the inputs' type, but int64 for int32, and float32 for floats of 16 bits,
        and one element if all axes are reduced.
    stream : Stream, optional
        As for `add`. Without ``out`` the function waits for the result.
    axis : int or tuple of int, optional
        The axes along which elements are reduced; all if it is None.
    keepdims : bool, default False
        Keeps the reduced axes in the result, with length 1.
    by, groups, outside
        Reduces the elements of each key to a result of their own: see `evaluate`.

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
    if by is not None or groups is not None:
        keys = by, groups, outside
        return _by_key("dot(a, b)", {"a": a, "b": b}, keys, out, stream, axis, keepdims)
    reduced = None if axis is None and keepdims is False else (axis, keepdims)
    return _dot(a, b, out, stream, None, reduced)


def sum(
    a: Array,
    out: Array | None = None,
    stream: Stream | None = None,
    axis: Axis = None,
    keepdims: bool = False,
    by: Keys | None = None,
    groups: int | None = None,
    outside: str = "error",
) -> Any:
    """Compute the sum of all elements, or along axes. For the rest see `dot`.

    Examples
    --------
    >>> import gpuvec, numpy as np
    >>> float(gpuvec.sum(np.array([1.0, 2.0, 4.0])))
    7.0
    >>> gpuvec.sum(np.array([1.0, 2.0, 4.0]), by=np.array([0, 2, 0]))
    array([5., 0., 2.])
    """
    if by is not None or groups is not None:
        keys = by, groups, outside
        return _by_key("sum(a)", {"a": a}, keys, out, stream, axis, keepdims)
    reduced = None if axis is None and keepdims is False else (axis, keepdims)
    return _sum(a, a, out, stream, None, reduced)


def min(
    a: Array,
    out: Array | None = None,
    stream: Stream | None = None,
    axis: Axis = None,
    keepdims: bool = False,
    by: Keys | None = None,
    groups: int | None = None,
    outside: str = "error",
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
    if by is not None or groups is not None:
        keys = by, groups, outside
        return _by_key("min(a)", {"a": a}, keys, out, stream, axis, keepdims)
    reduced = None if axis is None and keepdims is False else (axis, keepdims)
    return _min(a, a, out, stream, None, reduced)


def max(
    a: Array,
    out: Array | None = None,
    stream: Stream | None = None,
    axis: Axis = None,
    keepdims: bool = False,
    by: Keys | None = None,
    groups: int | None = None,
    outside: str = "error",
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
    if by is not None or groups is not None:
        keys = by, groups, outside
        return _by_key("max(a)", {"a": a}, keys, out, stream, axis, keepdims)
    reduced = None if axis is None and keepdims is False else (axis, keepdims)
    return _max(a, a, out, stream, None, reduced)


def var(
    a: Array,
    out: Array | None = None,
    stream: Stream | None = None,
    axis: Axis = None,
    keepdims: bool = False,
    *,
    ddof: int = 0,
    by: Keys | None = None,
    groups: int | None = None,
    outside: str = "error",
) -> Any:
    """Compute the variance of all elements, or along axes.

    Parameters
    ----------
    a : array of float16, bfloat16, float32, float64, int32, int64 or uint64
        As for `add`.
    out : array, optional
        The result. It has the type of ``a``, but float64 for integers, and float32 for floats of 16
        bits.
    stream, axis, keepdims, by, groups, outside
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
    text, keys = f"var(a, ddof={_whole(ddof)})", (by, groups, outside)
    return _by_key(text, {"a": a}, keys, out, stream, axis, keepdims)


def std(
    a: Array,
    out: Array | None = None,
    stream: Stream | None = None,
    axis: Axis = None,
    keepdims: bool = False,
    *,
    ddof: int = 0,
    by: Keys | None = None,
    groups: int | None = None,
    outside: str = "error",
) -> Any:
    """Compute the standard deviation: the root of the exact variance, rounded once.

    For the rest see `var`.

    Examples
    --------
    >>> import gpuvec, numpy as np
    >>> gpuvec.std(np.array([[1.0, 5.0], [2.0, 2.0]]), axis=1)
    array([2., 0.])
    """
    text, keys = f"std(a, ddof={_whole(ddof)})", (by, groups, outside)
    return _by_key(text, {"a": a}, keys, out, stream, axis, keepdims)
