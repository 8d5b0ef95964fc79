"""Evaluates formulas, which are compiled for the types of their arguments."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ._declarations import NAMES, check_keywords, code, joined, keywords_of, merged
from ._expressions import Expression, compiled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ._declarations import Number
    from ._group import Keys
    from ._shapes import Axis
    from ._streams import Stream
    from ._typing import Array, Table

# `evaluate` forgets all formulas when it remembers this number, more than a program has.
MOST_REMEMBERED = 256

remembered: dict[Any, Expression] = {}
# The latest expression of each text: most calls have arguments of the same types as the one before.
_latest: dict[Any, Expression] = {}


def forget() -> None:
    """Forgets all formulas, whose next evaluations compile them anew."""
    remembered.clear()
    _latest.clear()


def evaluate(
    text: str | tuple[str, ...],
    inputs: Mapping[str, Array | Number] | Table | None = None,
    /,
    *,
    out: Array | tuple[Array | None, ...] | None = None,
    stream: Stream | None = None,
    axis: Axis = None,
    keepdims: bool = False,
    na: Number | None = None,
    by: Keys | None = None,
    groups: int | None = None,
    outside: str = "error",
    **named: Array | Number,
) -> Any:
    """Evaluate formulas of arrays and numbers, in one pass and without temporary arrays.

    The formula is compiled for the types of the arguments, and remembered: it is the `Expression`
    that these types declare.

    Parameters
    ----------
    text : str or tuple of str
        The formula, such as ``"sqrt(a*a + b*b)"`` or ``"sum(w * abs(x))"``: see
        docs/reference/language.md. Up to 8 formulas, in a tuple or with ``;`` between them, are
        evaluated in one pass.
    inputs : mapping or table, optional
        The values of names in the formula. Pass columns and other data in it: as a keyword, an
        input named ``out`` would be taken for the output and overwritten. From a table (a frame of
        pandas or polars, a record batch or table of pyarrow, a dataset of xarray) the formula reads
        the columns that it names.
    out : array or tuple of arrays, optional
        The result, of any strides; it may be exactly an input whose elements have the same size.
        For several formulas, a tuple with an array for each, or None for a new one. All formulas
        use the inputs as they were before the call.
    stream : Stream, optional
        Queues the work behind the stream's earlier work. Without a stream the function returns when
        the result is available.
    axis : int or tuple of int, optional
        The axes that reductions reduce; all if it is None. ``argmin`` and ``argmax`` then return an
        index into the flattened array, in C order. Results of other formulas keep all axes.
    keepdims : bool, default False
        Keeps the reduced axes in the result, with length 1.
    na : number, optional
        The value of nulls in columns of pandas, polars and Arrow. Without it they are an error.
    by : str, array or Groups, optional
        Each element's key, an integer from 0 on. Each formula is then one reduction, which has a
        result for each key: the result has an axis of length ``groups`` in the place of the first
        reduced axis. Keys are an array of integers or bools; the `Groups` of other keys; or a
        formula of the inputs, as ``"i64(floor(x * 10))"`` for a histogram. An array has the axes
        that ``axis`` names, or is broadcast with the inputs.
    groups : int, optional
        The number of keys; by default the largest key and one, for which the keys are read twice.
    outside : {"error", "ignore"}
        With "error", a key that is negative, or not less than ``groups``, makes the call fail. With
        "ignore", elements with such keys are left out.
    **named : array or number
        The value of each name in the formula that is not in the mapping. Names are never looked up
        in the caller's variables. Arrays have any strides, and are broadcast as by NumPy; arrays
        that the text does not read may have any shape. A NumPy scalar keeps its type; a Python
        float or int takes the type of the other operands, like a number in the text.

    Returns
    -------
    array or scalar, or a tuple of them
        ``out``. If it is None, a new array: a `DeviceArray` if an input is on a GPU and the
        result has axes, else an ndarray, with its axes in the inputs' order in memory, as in NumPy
        (order "K"); or a scalar, if all elements are reduced. For several formulas, or formulas in
        a tuple, it is a tuple with the result of each. If the inputs are columns of one library, so
        is a new array: a Series with their index and common name, an array of pyarrow, or a
        DataArray with the dimensions, coordinates, attributes and name of xarray's arithmetic.

    Raises
    ------
    ExpressionError
        If the text is wrong; the message shows the place.
    TypeError
        If an argument is not an array or a number, or has another type.
    ValueError
        If the shapes cannot be broadcast, an input has nulls, or an output has another shape or is
        read-only. An `ArgumentError` if an argument is not aligned, if an output partly overlaps an
        input, for a minimum, a maximum or its index along an axis of length 0, as in NumPy, or in a
        group without elements, or for a key outside the groups. NumPy's ``AxisError`` if the arrays
        do not have the axis.

    Notes
    -----
    By key, a group without elements has the sum and count 0, the product 1, ``any`` False, ``all``
    True, and the mean, variance and deviation NaN. ``argmin`` and ``argmax`` are indices into all
    elements along the reduced axes. If there is an error, nothing is written. With a stream, the
    function waits for the stream's work and for its own.

    Examples
    --------
    >>> import gpuvec, numpy as np
    >>> a, b = np.float32([1, 2]), np.float32([10, 20])
    >>> gpuvec.evaluate("a*b + k", a=a, b=b, k=0.5)
    array([10.5, 40.5], dtype=float32)
    >>> float(gpuvec.evaluate("sum(where(a > 1, b, 0))", a=a, b=b))
    20.0
    >>> gpuvec.evaluate("a + out", {"a": a, "out": b})
    array([11., 22.], dtype=float32)
    >>> gpuvec.evaluate("b; a + b; max(a)", a=a, b=b, out=(a, b, None))
    (array([10., 20.], dtype=float32), array([11., 22.], dtype=float32), np.float32(2.0))
    >>> gpuvec.evaluate("sum(w); count(w > 15)", w=b, by=np.array([2, 0]))
    (array([22.,  0., 11.], dtype=float32), array([1, 0, 0]))
    >>> gpuvec.evaluate("a + c", a=a, b=b)
    Traceback (most recent call last):
    ...
    gpuvec._errors.ExpressionError: no array is named 'c'
    a + c
        ^
    """
    if by is not None or groups is not None:
        from ._by_key import by_key

        keys = by, groups, outside
        return by_key(text, inputs, named, keys, out, stream, axis, keepdims, na)
    given = named if inputs is None else merged(inputs, named, text)
    try:
        latest = _latest.get(text)
    except TypeError:
        # A list, for example, is not hashable, and is not a text.
        joined(text)
        raise
    if latest is not None:
        called = latest._fast.call(given, out, stream, axis, keepdims)
        if called is not None:
            return called
    codes = [code(name, value) for name, value in given.items()]
    key = (text, *given, *codes)
    expression = remembered.get(key)
    if expression is None:
        names = re.findall(NAMES, joined(text))
        check_keywords(names, given, keywords_of(out, stream, axis, keepdims, na))
        if len(remembered) >= MOST_REMEMBERED:
            forget()
        expression = remembered[key] = compiled(text, tuple(given), tuple(codes))
    fast = expression._fast
    if fast is not None and expression is not latest:
        _latest[text] = expression
        called = fast.call(given, out, stream, axis, keepdims)
        if called is not None:
            return called
    return expression._generally(given, out, stream, axis, keepdims, na)
