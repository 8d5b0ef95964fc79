"""numexpr's interface on top of gpuvec, thin enough to run numexpr's own tests.

docs/reference/peers.md has their results.

It finds the names of a text in the caller's variables, and calls gpuvec. It computes nothing by
itself: refusals by gpuvec are errors with `is_refusal` set, and so are parts that this module lacks
(`Lacking`).
"""

import ast
import os
import sys
import threading
import weakref
from typing import Any

import gpuvec
import numpy as np
from record import noted

# The version whose interface this is, which pandas asks for.
__version__ = "2.14.2"
use_vml = False

# No result depends on these.
OPTIONS = {"optimization": ("none", "moderate", "aggressive"), "truediv": (True, False, "auto")}
ORDERS = "KCA"
CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")

_last = threading.local()


class Lacking(Exception):
    """This module lacks a part of numexpr."""


def refuse(message: str) -> Any:
    """Raises the refusal of a part of numexpr."""
    with noted():
        raise Lacking(message)


def names_in(text: str) -> list[str]:
    """Returns the names of a text in alphabetical order, without those of functions."""
    try:
        nodes = list(ast.walk(ast.parse(text.strip(), mode="eval")))
    except (SyntaxError, ValueError):
        return []
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    return sorted(
        {node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in called}
    )


def found(text: str, local_dict: Any, global_dict: Any, depth: int) -> dict[str, Any]:
    """Returns the values of a text's names, as a rule those of the caller's variables."""
    frame = sys._getframe(depth + 1)
    local = frame.f_locals if local_dict is None else local_dict
    other = frame.f_globals if global_dict is None else global_dict
    names = names_in(text)
    return {name: array_of(local[name] if name in local else other[name]) for name in names}


def array_of(value: Any) -> Any:
    """Returns the array that NumPy makes of a list or of an object, such as a column of pandas."""
    is_array = hasattr(value, "__array__") or isinstance(value, list)
    return np.asarray(value) if is_array and not isinstance(value, np.generic) else value


def declared(value: Any, dtype: Any = None) -> Any:
    """Returns the declaration of a value for `gpuvec.Expression`."""
    if type(value) in (int, float) and dtype is None:
        return type(value)
    dtype = dtype or np.asarray(value).dtype
    return dtype if isinstance(value, np.ndarray) else gpuvec.Scalar(dtype)


def check_options(order: str, casting: str, options: dict[str, Any]) -> None:
    """Refuses options that gpuvec lacks; any `casting` is satisfied, as gpuvec never casts."""
    known = all(value in OPTIONS.get(name, ()) for name, value in options.items())
    if order not in ORDERS or casting not in CASTINGS or not known:
        refuse(f"order={order!r}, casting={casting!r}, {options}")


def evaluate(
    ex: str,
    local_dict: Any = None,
    global_dict: Any = None,
    out: Any = None,
    order: str = "K",
    casting: str = "same_kind",
    sanitize: Any = None,
    _frame_depth: int = 1,
    disable_cache: bool = False,
    **options: Any,
) -> Any:
    """Evaluates a text with the caller's variables. Any text is safe, whatever `sanitize` says."""
    check_options(order, casting, options)
    text = str(ex)
    values = found(text, local_dict, global_dict, _frame_depth)
    _last.text, _last.out = text, None if out is None else weakref.ref(out)
    with noted():
        return gpuvec.evaluate(text, out=out, **values)


def validate(
    ex: str,
    local_dict: Any = None,
    global_dict: Any = None,
    out: Any = None,
    order: str = "K",
    casting: str = "safe",
    _frame_depth: int = 1,
    sanitize: Any = None,
    **options: Any,
) -> Any:
    """Returns None, or the error of a text with the caller's variables."""
    try:
        check_options(order, casting, options)
        text = str(ex)
        values = found(text, local_dict, global_dict, _frame_depth)
        with noted():
            gpuvec.Expression(text, **{name: declared(value) for name, value in values.items()})
    except Exception as error:
        return error
    _last.text, _last.out = text, None if out is None else weakref.ref(out)
    return None


def re_evaluate(local_dict: Any = None, global_dict: Any = None, _frame_depth: int = 1) -> Any:
    """Evaluates the thread's last text again."""
    if not hasattr(_last, "text"):
        raise RuntimeError("there is no earlier text")
    values = found(_last.text, local_dict, global_dict, _frame_depth)
    with noted():
        return gpuvec.evaluate(_last.text, out=_last.out and _last.out(), **values)


class NumExpr:
    """A text that is called with its arguments in the order of its signature."""

    def __init__(self, ex: Any, signature: Any = (), **options: Any):
        self.text = str(ex)
        self.types = dict(signature) or dict.fromkeys(names_in(self.text), np.float64)

    def __call__(self, *values: Any, out: Any = None) -> Any:
        """Evaluates the text."""
        given = dict(zip(self.types, values))
        types = {name: declared(given[name], np.dtype(each)) for name, each in self.types.items()}
        with noted():
            return gpuvec.Expression(self.text, **types)(out=out, **given)

    run = __call__

    @property
    def constants(self) -> Any:
        """Refuses."""
        return refuse("numexpr's own program")


def disassemble(_: NumExpr) -> Any:
    """Raises a refusal: gpuvec's programs are not numexpr's."""
    return refuse("numexpr's own program")


def set_num_threads(threads: int) -> int:
    """Sets gpuvec's number of threads, and returns the one before."""
    before = gpuvec.get_num_threads()
    gpuvec.set_num_threads(threads)
    return before


def detect_number_of_cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _init_num_threads() -> Any:
    return refuse("numexpr's variables of the environment")


from . import necompiler, utils  # noqa: E402, F401
from .expressions import E  # noqa: E402, F401
