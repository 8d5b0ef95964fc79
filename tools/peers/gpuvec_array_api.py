"""The Python array API standard on top of gpuvec, for the standard's own tests.

docs/reference/peers.md has their results.

Arrays are NumPy's. The functions of `COMPUTED` write their call as a text, which `gpuvec.evaluate`
computes or refuses; all others, with which the tests make and inspect arrays, are NumPy's.
"""

from typing import Any, Callable

import gpuvec
import hypothesis
import numpy as np
from record import noted

ELEMENTWISE = """
    abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_invert bitwise_left_shift
    bitwise_or bitwise_right_shift bitwise_xor ceil copysign cos cosh divide equal exp expm1 floor
    floor_divide greater greater_equal hypot isfinite isinf isnan less less_equal log log10 log1p
    log2 logaddexp logical_and logical_not logical_or logical_xor maximum minimum multiply negative
    nextafter not_equal positive pow reciprocal remainder round sign signbit sin sinh sqrt square
    subtract tan tanh trunc where
""".split()
REDUCTIONS = "all any argmax argmin count_nonzero max mean min prod std sum var".split()
# The texts of reductions whose elements may be numbers in the standard, but are bools in gpuvec.
OF_BOOLS = {"all": "all(bool(x))", "any": "any(bool(x))", "count_nonzero": "count(bool(x))"}
# The text of `clip`, by the bounds that are given.
CLIPS = {
    (): "x",
    ("low",): "maximum(x, low)",
    ("high",): "minimum(x, high)",
    ("low", "high"): "clip(x, low, high)",
}


def evaluate(text: str, values: dict[str, Any], **options: Any) -> Any:
    """Evaluates a text; leaves out an example of complex numbers, which gpuvec refuses."""
    is_complex = any(np.iscomplexobj(value) for value in values.values())
    if is_complex and hypothesis.currently_in_test_context():
        hypothesis.reject()
    with noted():
        return gpuvec.evaluate(text, values, **options)


def elementwise(name: str) -> Callable[..., Any]:
    """Makes a function of one or several arrays."""

    def apply(*arguments: Any) -> Any:
        values = {f"x{place}": argument for place, argument in enumerate(arguments)}
        return evaluate(f"{name}({', '.join(values)})", values)

    return apply


def reduction(name: str) -> Callable[..., Any]:
    """Makes a reduction, which converts its elements to `dtype` if that is given."""

    def apply(
        x: Any, *, axis: Any = None, keepdims: bool = False, dtype: Any = None, correction: Any = 0
    ) -> Any:
        elements = "x" if dtype is None else f"{np.dtype(dtype)}(x)"
        ddof = f", ddof={correction}" if correction else ""
        text = OF_BOOLS.get(name, f"{name}({elements}{ddof})")
        return evaluate(text, {"x": np.asarray(x)}, axis=axis, keepdims=keepdims)

    return apply


def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """Clips elements to the bounds that are given."""
    bounds = {name: bound for name, bound in (("low", min), ("high", max)) if bound is not None}
    return evaluate(CLIPS[tuple(bounds)], {"x": x, **bounds})


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Returns the dot products along an axis."""
    return evaluate("dot(x1, x2)", {"x1": x1, "x2": x2}, axis=axis)


# The functions that are gpuvec's to compute, by their names in the standard.
COMPUTED = {
    **{name: elementwise(name) for name in ELEMENTWISE},
    **{name: reduction(name) for name in REDUCTIONS},
    "clip": clip,
    "vecdot": vecdot,
}


def __getattr__(name: str) -> Any:
    """Returns a function of gpuvec, or else what NumPy has by this name."""
    return COMPUTED[name] if name in COMPUTED else getattr(np, name)
