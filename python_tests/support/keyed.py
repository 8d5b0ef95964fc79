"""Reductions by key, one group after the other, by the oracles of reductions of all elements."""

import math
from typing import Any

import numpy as np
from numpy_reductions import REDUCTIONS, Empty

# The types of small integers and floats in formulas.
WIDENED = {"float16": "f4", "bfloat16": "f4", "uint8": "i4", "int8": "i4", "uint16": "i4"}
WIDENED |= {"int16": "i4", "uint32": "i8"}
# Reductions whose results have the type of their elements in memory.
PICKS = ("min", "max")
# Reductions of integers of 64 bits, which wrap around.
WRAPPING = ("sum", "dot", "prod")


def reduced(name: str, values: np.ndarray, **options: int) -> Any:
    """Returns the result for the elements of one group."""
    wide = values.astype(WIDENED.get(values.dtype.name, values.dtype))
    if values.dtype == np.uint64 and name in WRAPPING:
        wide = wide.view(np.int64)
    operands = (wide, wide) if name == "dot" else (wide,)
    with np.errstate(all="ignore"):
        result = REDUCTIONS[name](*operands, **options)
    if values.dtype == np.uint64 and name in WRAPPING:
        return np.asarray(result).view(np.uint64)
    is_small = values.dtype.name in ("float16", "bfloat16")
    return values.dtype.type(result) if is_small and name in PICKS else result


def has_empty_result(name: str) -> bool:
    """Returns whether a reduction has a result for no elements."""
    return name not in (*PICKS, "argmin", "argmax")


def expected(
    name: str, values: np.ndarray, keys: np.ndarray, groups: int, **options: int
) -> np.ndarray:
    """Returns the result of each group of flat arrays; elements with other keys are left out.

    Raises `Empty` with the number of the first group that has no result.
    """
    order = np.argsort(keys, kind="stable")
    bounds = np.searchsorted(keys[order], np.arange(groups + 1))
    results = []
    for group in range(groups):
        places = order[bounds[group] : bounds[group + 1]]
        try:
            result = reduced(name, values[places], **options)
        except Empty:
            raise Empty(group) from None
        results.append(places[result] if name.startswith("arg") else result)
    if not results:
        dtype = np.asarray(reduced(name, np.ones(1, values.dtype))).dtype
        return np.empty(0, np.int64 if dtype.kind == "i" and name != "max" else dtype)
    return np.array(results)


def expected_along(
    name: str, values: np.ndarray, keys: np.ndarray, groups: int, axes: tuple[int, ...]
) -> np.ndarray:
    """Returns the results along axes: the groups take the place of the first of them.

    The keys have the values' shape.
    """
    last = range(-len(axes), 0)
    moved = [np.moveaxis(one, axes, last) for one in (values, keys)]
    kept = moved[0].shape[: values.ndim - len(axes)]
    length = math.prod(values.shape[axis] for axis in axes)
    rows = [one.reshape(*kept, length) for one in moved]
    found = [expected(name, rows[0][at], rows[1][at], groups) for at in np.ndindex(*kept)]
    stacked = np.array(found).reshape(*kept, groups)
    return np.moveaxis(stacked, -1, min(axes))
