"""The results of expressions, and calls on arrays of any shape and strides."""

from __future__ import annotations

from ctypes import POINTER, Structure, c_int64, c_void_p
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ._arrays import check_writable
from ._device_array import DeviceArray
from ._shapes import Reduction, Shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


class Output(NamedTuple):
    """An output of an expression: its name in errors, its type, and whether it is a reduction."""

    name: str
    dtype: np.dtype[Any]
    is_reduction: bool

    def shape(self, reduced: Reduction) -> Shape:
        """Returns the shape of the result."""
        return reduced.result if self.is_reduction else reduced.shape

    def check(self, array: NDArray[Any], reduced: Reduction) -> None:
        """Raises an error unless the result fits into an array."""
        check_writable(self.name, array)
        shape = self.shape(reduced)
        is_single = self.is_reduction and reduced.is_full
        if array.shape == shape or (is_single and array.size == 1):
            return
        wanted = "an array of one element" if is_single else f"the shape {shape}"
        raise ValueError(f"{self.name} has shape {array.shape}: pass {wanted}")

    def new(self, reduced: Reduction, order: Sequence[int] | None, device: int | None) -> Any:
        """Returns a new array for the result: on a GPU if the inputs are there, and it has axes.

        `order` has the axes of the elements in their order in memory.
        """
        shape, order = self.shape(reduced), self._order(reduced, order)
        lengths = shape if order is None else tuple(shape[axis] for axis in order)
        if device is None or not shape:
            made: Any = np.empty(lengths, self.dtype)
        else:
            made = DeviceArray(lengths, self.dtype, device)
        if order is None:
            return made
        return made.transpose(*sorted(range(len(order)), key=order.__getitem__))

    def _order(self, reduced: Reduction, order: Sequence[int] | None) -> Sequence[int] | None:
        """Returns the order of the result's axes."""
        if order is None or not self.is_reduction or reduced.keepdims:
            return order
        kept = [axis for axis in range(len(reduced.shape)) if axis not in reduced.axes]
        return [kept.index(axis) for axis in order if axis in kept]

    def strides(self, array: NDArray[Any], reduced: Reduction) -> Shape:
        """Returns an array's strides along the axes of the elements; 0 along those it lacks."""
        has_all_axes = reduced.keepdims and array.ndim == len(reduced.shape)
        if not self.is_reduction or has_all_axes or reduced.has_groups:
            return array.strides
        kept = iter(() if reduced.is_full else array.strides)
        return tuple(0 if at in reduced.axes else next(kept) for at in range(len(reduced.shape)))


class StridedArray(Structure):
    """`gpuvec_array`."""

    _fields_ = [("data", c_void_p), ("strides", POINTER(c_int64))]


def lengths_of(shape: Shape) -> Any:
    """Returns a shape, or strides, as the library's functions read them."""
    return (c_int64 * len(shape))(*shape)


def strided(arrays: Sequence[tuple[int | None, Shape | None]]) -> Any:
    """Returns arrays as `gpuvec_expr_run_nd` reads them, from their addresses and strides."""
    given = (StridedArray(at, strides and lengths_of(strides)) for at, strides in arrays)
    return (StridedArray * len(arrays))(*given)
