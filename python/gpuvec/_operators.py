"""The operators of arrays in device memory: formulas, which `evaluate` remembers."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any, NoReturn

import numpy as np

# The language's casts to the element types of results, except bfloat16.
CASTS = {
    np.dtype(np.bool_): "bool",
    np.dtype(np.int32): "i32",
    np.dtype(np.int64): "i64",
    np.dtype(np.uint64): "u64",
    np.dtype(np.float16): "f16",
    np.dtype(np.float32): "f32",
    np.dtype(np.float64): "f64",
}


def cast_to(dtype: np.dtype[Any]) -> str | None:
    """Returns the language's cast to a type; None if formulas do not compute it."""
    return CASTS.get(dtype) or ("bf16" if dtype.name == "bfloat16" else None)


POWER = "x**y"
# NumPy's functions behind the operators of its arrays, which may have a DeviceArray as operand.
FORMULAS = {
    "add": "x + y",
    "subtract": "x - y",
    "multiply": "x * y",
    "divide": "x / y",
    "floor_divide": "x // y",
    "remainder": "x % y",
    "power": POWER,
    "less": "x < y",
    "less_equal": "x <= y",
    "greater": "x > y",
    "greater_equal": "x >= y",
    "equal": "x == y",
    "not_equal": "x != y",
    "bitwise_and": "x & y",
    "bitwise_or": "x | y",
    "bitwise_xor": "x ^ y",
    "left_shift": "x << y",
    "right_shift": "x >> y",
}

# The greatest exponent for which the language's `**` is a sequence of multiplications.
MOST_FACTORS = 64


def _unary(text: str) -> Callable[[Any], Any]:
    """Returns the method of an operator of one operand."""
    return lambda self: _computed(text, x=self)


def _binary(text: str) -> tuple[Callable[[Any, Any], Any], ...]:
    """Returns the methods of an operator of two operands: itself, reflected, and in place."""
    return (
        lambda self, other: _computed(_for(text, other), x=self, y=other),
        lambda self, other: _computed(text, x=other, y=self),
        lambda self, other: _updated(_for(text, other), x=self, y=other),
    )


class Operators:
    """The operators of `DeviceArray`, by the types and the broadcasting of formulas.

    Operands are numbers, NumPy arrays and device arrays. Each operator is one call of `evaluate`,
    and one kernel.
    """

    __slots__ = ()

    # pandas' columns leave an operator to the other operand if its number is higher.
    __pandas_priority__ = 5000

    # Comparisons compare elements, as NumPy's do, so arrays are not hashable: use id(x) as a key.
    __hash__ = None  # type: ignore[assignment]

    __neg__, __pos__, __invert__ = _unary("-x"), _unary("+x"), _unary("~x")
    __abs__ = _unary("abs(x)")
    __add__, __radd__, __iadd__ = _binary("x + y")
    __sub__, __rsub__, __isub__ = _binary("x - y")
    __mul__, __rmul__, __imul__ = _binary("x * y")
    __truediv__, __rtruediv__, __itruediv__ = _binary("x / y")
    __floordiv__, __rfloordiv__, __ifloordiv__ = _binary("x // y")
    __mod__, __rmod__, __imod__ = _binary("x % y")
    __pow__, __rpow__, __ipow__ = _binary(POWER)
    __and__, __rand__, __iand__ = _binary("x & y")
    __or__, __ror__, __ior__ = _binary("x | y")
    __xor__, __rxor__, __ixor__ = _binary("x ^ y")
    __lshift__, __rlshift__, __ilshift__ = _binary("x << y")
    __rshift__, __rrshift__, __irshift__ = _binary("x >> y")
    __lt__, __le__ = _binary("x < y")[0], _binary("x <= y")[0]
    __gt__, __ge__ = _binary("x > y")[0], _binary("x >= y")[0]
    __eq__, __ne__ = _binary("x == y")[0], _binary("x != y")[0]

    def __matmul__(self, other: object) -> NoReturn:
        raise TypeError(
            "gpuvec does not multiply matrices: pass the arrays to a library that does, as in "
            "torch.from_dlpack(x); gpuvec.dot(x, y, axis=...) sums products along axes"
        )

    __rmatmul__ = __matmul__

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **keywords: Any
    ) -> Any:
        """Compute NumPy's operators of an ndarray and a device array; refuse other functions."""
        text = FORMULAS.get(ufunc.__name__)
        if method != "__call__":
            raise TypeError(_refusal(f"{ufunc.__name__}.{method}"))
        if text is None or keywords:
            raise TypeError(_refusal(ufunc.__name__))
        x, y = inputs
        if out is None:
            return _computed(_for(text, y), x=x, y=y)
        return _updated(_for(text, y), out[0], x=x, y=y)

    def __array_function__(
        self, function: Any, types: Any, arguments: Any, keywords: Any
    ) -> NoReturn:
        """Refuse NumPy's functions, which would copy the elements to the host."""
        raise TypeError(_refusal(function.__name__))


# The types of an operator's operands, besides columns of other libraries.
OPERANDS = (Operators, np.ndarray, np.generic, int, float)


def _computed(text: str, **operands: Any) -> Any:
    """Returns the result of a formula."""
    # Imported late, since it needs the class of arrays that have these operators.
    from ._evaluate import evaluate

    taken = _taken(operands)
    return NotImplemented if taken is None else evaluate(text, taken)


def _updated(text: str, out: Any = None, **operands: Any) -> Any:
    """Writes the result of a formula into an array, `x` if there is no other, and returns it.

    Like NumPy's operators, it converts results to types of the same kind, and integers to floats.
    """
    from ._evaluate import evaluate

    taken = _taken(operands)
    if taken is None:
        return NotImplemented
    array = taken["x"] if out is None else out
    cast, kind = cast_to(array.dtype), array.dtype.kind
    is_integer = "/" not in text.replace("//", "") and all(map(_is_integer, taken.values()))
    if cast is None or (kind in "iu" and not is_integer):
        raise TypeError(
            f"the array has dtype {array.dtype}, which does not hold the results of {text}: "
            f"compute a new array, as in x = {text}"
        )
    return evaluate(text if kind == "b" else f"{cast}({text})", taken, out=array)


def _taken(operands: dict[str, Any]) -> dict[str, Any] | None:
    """Returns operands, with the elements of columns; None if an operator does not take one.

    Other objects may have operators for a DeviceArray themselves.
    """
    from ._adapters import kind_of

    taken = dict(operands)
    for name, operand in operands.items():
        if not isinstance(operand, OPERANDS):
            kind = kind_of(operand)
            if kind is None:
                return None
            taken[name] = kind.elements(name, operand, None)
    return taken


def _is_integer(operand: Any) -> bool:
    """True if an operand has integers or bools."""
    dtype = getattr(operand, "dtype", None)
    return isinstance(operand, int) if dtype is None else dtype.kind in "biu"


def _for(text: str, y: Any) -> str:
    """Returns the formula for a second operand.

    A constant exponent is written into the text, where the language makes it multiplications.
    """
    is_exponent = text == POWER and type(y) in (int, float) and isfinite(y)
    if is_exponent and abs(y) <= MOST_FACTORS and y in (0.5, int(y)):
        return f"x**{y}"
    return text


def _refusal(name: str) -> str:
    """Returns the error for a function of NumPy: what to write in its place."""
    advice = _advice(name) or "gpuvec.evaluate(text, x=x) computes formulas"
    return f"np.{name} does not take a DeviceArray: {advice}; x.to_host() is a NumPy array"


def _advice(name: str) -> str:
    """Returns what formulas have in place of a function; empty if they have nothing."""
    from ._errors import ExpressionError
    from ._expressions import Expression

    for names in ("x", "x, y", "x, y, z"):
        text = f"{name}({names})"
        try:
            Expression(text, dict.fromkeys(names.split(", "), np.float64))
        except ExpressionError as error:
            first = str(error).splitlines()[0]
            if first.startswith("no function") and ": " in first:
                return f"in formulas, {first}"
        else:
            keywords = ", ".join(f"{one}={one}" for one in names.split(", "))
            return f'write gpuvec.evaluate("{text}", {keywords})'
    return ""
