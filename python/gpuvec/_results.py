"""The results of expressions, and calls on arrays of any shape and strides."""

from __future__ import annotations

from ctypes import addressof, byref, c_int64, c_void_p, sizeof
from math import prod
from typing import TYPE_CHECKING, Any

from ._arrays import address, check_dtype, check_writable
from ._device_array import DeviceArray
from ._dlpack import Found
from ._shapes import (
    Reduction,
    Shape,
    check_number_of_axes,
    empty,
    inverse,
    result_strides,
    strides_in,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


class Output:
    """An output of an expression."""

    __slots__ = ("dtype", "is_reduction", "name")

    def __init__(self, name: str, dtype: np.dtype[Any], is_reduction: bool) -> None:
        # The name in errors.
        self.name = name
        self.dtype = dtype
        self.is_reduction = is_reduction

    def shape(self, reduced: Reduction) -> Shape:
        """Returns the shape of the result."""
        return reduced.result if self.is_reduction else reduced.shape

    def check(self, array: NDArray[Any], reduced: Reduction) -> None:
        """Raises an error unless the result fits into an array."""
        check_dtype(self.name, array, [self.dtype])
        check_writable(self.name, array)
        shape = self.shape(reduced)
        is_single = self.is_reduction and reduced.is_full
        if array.shape == shape or (is_single and array.size == 1):
            return
        wanted = "an array of one element" if is_single else f"the shape {shape}"
        raise ValueError(f"{self.name} has shape {array.shape}: pass {wanted}")

    def new(self, reduced: Reduction, order: Sequence[int] | None, device: int | None) -> Any:
        """Returns a new array for the result: on a GPU if the inputs are there.

        `order` has the axes of the elements in their order in memory.
        """
        shape = self.shape(reduced)
        if device is None or (self.is_reduction and not shape):
            return empty(shape, self.dtype, self._order(reduced, order))
        order = self._order(reduced, order) or range(len(shape))
        made = DeviceArray(tuple(shape[axis] for axis in order), self.dtype, device)
        return made.transpose(*inverse(order))

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
    """Returns the place of a new result's elements."""
    return result._found if isinstance(result, DeviceArray) else Found(result)


def are_contiguous(
    arrays: Sequence[NDArray[Any]], outputs: Sequence[Output], reduced: Reduction
) -> bool:
    """Says whether arrays have the elements of a call in C order, and reductions one result each.

    The outputs' arrays are the last of them.
    """
    is_single = prod(reduced.result) == 1
    inputs = arrays[: len(arrays) - len(outputs)]
    return (
        all(array.flags.c_contiguous for array in arrays)
        and all(array.shape == reduced.shape for array in inputs)
        and (is_single or not any(output.is_reduction for output in outputs))
    )


class Strided:
    """The arguments of `gpuvec_expr_run_nd`."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._numbers: list[int] = list(shape)
        # The addresses of the arrays, and where the strides of each are among the numbers.
        self._arrays: list[tuple[int | None, int | None]] = []

    def add_input(self, name: str, pointer: int | None, array: NDArray[Any] | None) -> None:
        """Adds an array, or the address of a scalar."""
        if array is not None:
            check_number_of_axes(name, array.shape)
        strides = None if array is None else strides_in(array, self._shape)
        self._add(pointer, strides)

    def add_output(self, output: Output, array: NDArray[Any], reduced: Reduction) -> None:
        """Adds the array of an output."""
        check_number_of_axes(output.name, array.shape)
        self._add(address(array), output.strides(array, reduced))

    def _add(self, pointer: int | None, strides: Shape | None) -> None:
        place = None if strides is None else len(self._numbers)
        self._numbers.extend(strides or ())
        self._arrays.append((pointer, place))

    def arguments(self, outputs: int, mask: int) -> tuple[list[Any], Any]:
        """Returns the arguments behind the handle, and what they point to."""
        numbers = (c_int64 * len(self._numbers))(*self._numbers)
        base = addressof(numbers)
        fields = [
            field
            for pointer, place in self._arrays
            for field in (pointer, None if place is None else base + place * sizeof(c_int64))
        ]
        arrays = (c_void_p * len(fields))(*fields)
        first_output = byref(arrays, (len(fields) - 2 * outputs) * sizeof(c_void_p))
        return [len(self._shape), numbers, arrays, first_output, mask], (numbers, arrays)
