"""The results of expressions, and calls on arrays of any shape and strides."""

from __future__ import annotations

from ctypes import POINTER, Structure, c_int64, c_void_p
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ._arrays import check_writable
from ._device_array import DeviceArray
from ._dlpack import Found
from ._shapes import Reduction, Shape, inverse, result_strides

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
        return made if order is None else made.transpose(*inverse(order))

    def _order(self, reduced: Reduction, order: Sequence[int] | None) -> Sequence[int] | None:
        """Returns the order of the result's axes."""
        if order is None or not self.is_reduction or reduced.keepdims:
            return order
        kept = [axis for axis in range(len(reduced.shape)) if axis not in reduced.axes]
        return [kept.index(axis) for axis in order if axis in kept]

    def strides(self, array: NDArray[Any], reduced: Reduction) -> Shape:
        """Returns an array's strides along the axes of the elements."""
        return result_strides(array, reduced) if self.is_reduction else array.strides


def found_in(result: Any) -> Found:
    """Returns the elements of a new result."""
    return result._found if isinstance(result, DeviceArray) else Found(result)


def are_contiguous(
    arrays: Sequence[NDArray[Any]], outputs: Sequence[Output], reduced: Reduction
) -> bool:
    """True if arrays have the elements of a call in C order, and each reduction has one result.

    The outputs' arrays come last.
    """
    is_single = prod(reduced.result) == 1
    inputs = arrays[: len(arrays) - len(outputs)]
    return (
        all(array.flags.c_contiguous for array in arrays)
        and all(array.shape == reduced.shape for array in inputs)
        and (is_single or not any(output.is_reduction for output in outputs))
    )


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
