"""Finds the elements of arguments, and checks them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._adapters import kind_of
from ._device_array import DeviceArray
from ._dlpack import Found, borrowed
from ._streams import LEGACY_DEFAULT_STREAM, Stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The names of arguments that a call writes: a converted copy in their place would lose the results.
OUTPUTS = ("out", "dst", *(f"out[{number}]" for number in range(8)))

# Formats of buffers of bytes without an element type, as bytes, bytearray and mmap export.
RAW_FORMATS = ("B", "c")


def address(array: NDArray[Any]) -> int:
    """Returns the address of an array's first element."""
    return array.ctypes.data


def find(name: str, argument: Any, stream: Stream | None = None) -> Found:
    """Finds the elements of an argument, by any protocol that gpuvec accepts.

    Work that the argument's own library queued on it precedes work of ``stream``.
    """
    if isinstance(argument, np.ndarray):
        if _is_masked(argument):
            advice = "an array without a mask"
            if name not in OUTPUTS:
                advice = f"{name}.compressed(), or {name}.filled(value) with a value that fits"
            raise TypeError(
                f"{name} is a masked array, and gpuvec does not apply masks: pass {advice}"
            )
        # A view, whose shape and type the caller's code cannot change.
        return Found(np.asarray(argument)[...])
    if isinstance(argument, DeviceArray):
        if stream is None:
            argument._wait()
        return argument._found
    kind = kind_of(argument)
    if kind is not None and name in OUTPUTS:
        raise TypeError(
            f"{name} is {_kind(name, argument)}: pass a NumPy array or a gpuvec.DeviceArray"
        )
    if kind is not None:
        return find(name, kind.elements(name, argument, None), stream)
    if hasattr(argument, "__dlpack__") and hasattr(argument, "__dlpack_device__"):
        native = LEGACY_DEFAULT_STREAM if stream is None else stream._native
        return borrowed(name, argument, native)
    if hasattr(argument, "__cuda_array_interface__"):
        from ._cuda_interface import found_on_gpu

        return found_on_gpu(name, argument, stream)
    try:
        memory = memoryview(argument)
        return Found(np.asarray(memory), None, memory.format in RAW_FORMATS)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name} is {_kind(name, argument)}: pass a NumPy array, a gpuvec.DeviceArray, or an "
            "object with the buffer protocol, DLPack or __cuda_array_interface__"
        ) from error


def find_all(arguments: Sequence[tuple[str, Any]], stream: Stream | None = None) -> list[Found]:
    """Finds the elements of named arguments, those of NumPy arrays last.

    Finding the others runs their Python code, which may give NumPy arrays other memory.
    """
    places = range(len(arguments))
    order = sorted(places, key=lambda place: isinstance(arguments[place][1], np.ndarray))
    found = {place: find(*arguments[place], stream) for place in order}
    return [found[place] for place in places]


def device_of(inputs: dict[str, Any], arrays: dict[str, Found]) -> int | None:
    """Returns the GPU for a new result: the first that holds an input, or None for host memory."""
    for name, found in arrays.items():
        if isinstance(inputs[name], DeviceArray) or found.device is not None:
            return found.device or 0
    return None


def _is_masked(array: NDArray[Any]) -> bool:
    """Returns whether an array has a mask, without importing numpy.ma for arrays that have none."""
    masks = sys.modules.get("numpy.ma")
    return masks is not None and isinstance(array, masks.MaskedArray)


def _kind(name: str, argument: object) -> str:
    """Names an argument's type; a hint for inputs that only NumPy can convert, as pandas' are."""
    is_convertible = name not in OUTPUTS and hasattr(argument, "to_numpy")
    hint = " (see its to_numpy())" if is_convertible else ""
    return f"a {type(argument).__module__}.{type(argument).__qualname__}{hint}"


def typed(name: str, found: Found, dtype: np.dtype[Any]) -> Found:
    """Returns bytes as elements of a type."""
    if not found.is_raw:
        return found
    if found.array.nbytes % dtype.itemsize:
        raise ValueError(
            f"{name} has {found.array.nbytes} bytes, which is not a whole number of {dtype} "
            "elements"
        )
    return found._replace(array=found.array.reshape(-1).view(dtype), is_raw=False)


def checked(name: str, found: Found, dtype: np.dtype[Any]) -> Found:
    """Returns elements of a type, or bytes as such elements; raises TypeError for another type."""
    found = typed(name, found, dtype)
    check_dtype(name, found.array.dtype, [dtype])
    return found


def check_dtype(name: str, dtype: np.dtype[Any], wanted: Sequence[np.dtype[Any]]) -> None:
    """Raises TypeError unless an argument's element type is one of those that are wanted."""
    if dtype in wanted:
        return
    native = dtype.newbyteorder("=")
    if native in wanted:
        hint = f"an array of {native}" if name in OUTPUTS else f"{name}.astype(np.{native})"
        raise TypeError(f"{name} has dtype {dtype.str}, of the other byte order: pass {hint}")
    *others, last = map(str, wanted)
    names = f"{', '.join(others)} or {last}" if others else last
    raise TypeError(f"{name} has dtype {dtype}: pass {names}")


def check_equal(name: str, array: NDArray[Any], other: str, reference: NDArray[Any]) -> None:
    """Raises an error unless two arrays have the same element type and shape."""
    check_equal_types(name, array.dtype, other, reference.dtype)
    if array.shape != reference.shape:
        raise ValueError(
            f"{name} has shape {array.shape} and {other} has {reference.shape}: "
            "pass arrays of one shape, there is no broadcasting"
        )


def check_equal_types(name: str, dtype: object, other: str, reference: object) -> None:
    """Raises TypeError unless two arrays have the same element type."""
    if dtype != reference:
        raise TypeError(
            f"{name} has dtype {dtype} and {other} has {reference}: pass arrays of one dtype"
        )


def check_axes(name: str, array: NDArray[Any]) -> None:
    """Raises ValueError for an argument of a dot product that has more than one axis.

    NumPy multiplies matrices there.
    """
    if array.ndim > 1:
        raise ValueError(
            f"{name} has shape {array.shape}, and a dot product takes arrays of one axis: pass "
            f"{name}.ravel() to multiply element by element, axis= for dot products along an axis, "
            "or call np.matmul for a product of matrices"
        )


def check_layout(name: str, array: NDArray[Any], is_output: bool = False) -> None:
    """Raises ValueError unless an array is contiguous, and writable as an output.

    The library checks the alignment.
    """
    if not array.flags.c_contiguous:
        # A copy would not do for arrays that are written, page-locked or shared.
        is_copyable = name not in (*OUTPUTS, "array")
        hint = f", such as np.ascontiguousarray({name})" if is_copyable else ""
        raise ValueError(
            f"{name} is not C-contiguous: it has shape {array.shape} and strides {array.strides}: "
            f"pass a C-contiguous array{hint}"
        )
    if is_output:
        check_writable(name, array)


def check_writable(name: str, array: NDArray[Any]) -> None:
    """Raises ValueError if an array is read-only."""
    if not array.flags.writeable:
        raise ValueError(f"{name} is read-only: pass a writable array")
