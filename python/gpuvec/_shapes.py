"""Shapes, axes and layouts of arrays, by NumPy's rules."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from typing import Union

    from numpy.typing import NDArray

    # The argument `axis=` of reductions.
    Axis = Union[int, tuple[int, ...], None]

Shape = tuple[int, ...]

# The most axes of a call, unless its arrays are contiguous and of one shape.
MOST_AXES = 32

# NumPy 1.25 moved the exception.
AxisError: Any = getattr(np, "exceptions", np).AxisError


def broadcast(shapes: Mapping[str, Shape]) -> Shape:
    """Returns the common shape of arguments; a ValueError names two that have none."""
    distinct = set(shapes.values())
    if len(distinct) == 1:
        return distinct.pop()
    for name, shape in shapes.items():
        check_number_of_axes(name, shape)
    try:
        return np.broadcast_shapes(*distinct)
    except ValueError:
        raise _mismatch(shapes) from None


def check_number_of_axes(name: str, shape: Shape) -> None:
    """Raises ValueError if an argument has more axes than the library supports."""
    if len(shape) > MOST_AXES:
        raise ValueError(
            f"{name} has {len(shape)} axes: pass arrays of at most {MOST_AXES}, or contiguous ones "
            "of one shape"
        )


def _mismatch(shapes: Mapping[str, Shape]) -> ValueError:
    for (other, reference), (name, shape) in combinations(shapes.items(), 2):
        lengths = zip(reversed(shape), reversed(reference))
        if any(length not in (1, wanted) and wanted != 1 for length, wanted in lengths):
            return ValueError(
                f"{name} has shape {shape} and {other} has {reference}: pass arrays whose lengths "
                "along each axis, counted from the last one, are equal or 1"
            )
    return ValueError(f"the arguments have the shapes {shapes}: pass arrays of fewer axes")


class Reduction(NamedTuple):
    """The shape of a call's elements, the axes that it reduces, and the result's shape."""

    shape: Shape
    axes: Shape
    result: Shape
    keepdims: bool
    has_groups: bool = False

    @property
    def mask(self) -> int:
        """A bit for each reduced axis."""
        return sum(1 << axis for axis in self.axes)

    @property
    def is_full(self) -> bool:
        """True if all elements are reduced to one."""
        return len(self.axes) == len(self.shape) and not self.has_groups

    def by_key(self, groups: int) -> Reduction:
        """Returns the reduction with a number of groups in the place of the first reduced axis."""
        if not self.axes:
            raise ValueError("reductions by key need arrays of at least one axis: pass such arrays")
        first = min(self.axes)
        result = (*self.result[:first], groups, *self.result[first:])
        return self._replace(result=result, has_groups=True)


def plain_axis(axis: Any) -> Axis:
    """Returns an argument `axis=` with Python's integers; raises TypeError if it is wrong."""
    if axis is None:
        return None
    given = axis if isinstance(axis, tuple) else (axis,)
    try:
        if any(isinstance(one, (bool, np.bool_)) for one in given):
            raise TypeError
        numbers = tuple(map(operator.index, given))
    except TypeError:
        raise TypeError(f"axis is {axis!r}: pass an integer, a tuple of them, or None") from None
    return numbers if isinstance(axis, tuple) else numbers[0]


def plain_keepdims(keepdims: Any) -> bool:
    """Returns an argument `keepdims=` as a bool; raises TypeError unless it is one, or a number."""
    if not isinstance(keepdims, (int, np.integer, np.bool_)):
        raise TypeError(f"keepdims is {keepdims!r}: pass True or False")
    return bool(keepdims)


def reduction(shape: Shape, axis: Axis, keepdims: bool) -> Reduction:
    """Returns the reduction of a shape along a plain `axis`."""
    axes = tuple(range(len(shape))) if axis is None else axes_in(axis, len(shape))
    if keepdims:
        result = tuple(1 if at in axes else length for at, length in enumerate(shape))
    else:
        result = tuple(length for at, length in enumerate(shape) if at not in axes)
    return Reduction(shape, axes, result, keepdims)


def axes_in(axis: int | tuple[int, ...], ndim: int) -> Shape:
    """Returns the numbers of a plain `axis`, none negative; raises an error if one is wrong."""
    numbers = axis if isinstance(axis, tuple) else (axis,)
    if ndim == 0 and numbers in ((0,), (-1,)) and not isinstance(axis, tuple):
        # NumPy accepts these axes of a single element.
        return ()
    for number in numbers:
        if not -ndim <= number < ndim:
            raise AxisError(number, ndim)
    axes = tuple(number % ndim for number in numbers)
    if len(set(axes)) < len(axes):
        raise ValueError(f"axis is {axis}, which has an axis twice: pass each axis once")
    return axes


def strides_in(array: NDArray[Any], shape: Shape) -> Shape:
    """Returns an array's strides along the axes of a shape to which it is broadcast.

    They are 0 along axes of one element, which have any strides in NumPy.
    """
    given = (0 if length == 1 else stride for length, stride in zip(array.shape, array.strides))
    return (0,) * (len(shape) - array.ndim) + tuple(given)


def order_of(arrays: Sequence[NDArray[Any]], shape: Shape) -> list[int] | None:
    """Returns the axes of a shape in the order of arrays in memory; None if that is C order.

    This is NumPy's order "K". Axes are compared by their strides. If arrays disagree about two
    axes, these stay in C order.
    """
    if len(shape) < 2 or all(array.flags.c_contiguous for array in arrays):
        return None
    each = [strides_in(array, shape) for array in arrays]
    order = [len(shape) - 1]
    for axis in reversed(range(len(shape) - 1)):
        place = len(order)
        for at in reversed(range(len(order))):
            pairs = [(abs(one[order[at]]), abs(one[axis])) for one in each]
            compared = [inner > outer for inner, outer in pairs if inner and outer]
            if not compared:
                continue
            if not all(compared):
                break
            place = at
        order.insert(place, axis)
    order.reverse()
    return None if order == sorted(order) else order
