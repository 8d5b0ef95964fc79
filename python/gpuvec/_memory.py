"""Pinned memory, arrays in device memory, and copies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ._arrays import address, check_equal, check_layout, find, find_all, typed
from ._device_array import DeviceArray, allocated, size_of
from ._dlpack import borrowed
from ._errors import check
from ._library import functions
from ._owned import Owned
from ._queue import call
from ._streams import LEGACY_DEFAULT_STREAM, Stream, check_stream

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from ._typing import Array, SupportsDLPack

T = TypeVar("T", bound="Array")


def pinned_empty(shape: int | tuple[int, ...], dtype: DTypeLike = np.float32) -> NDArray[Any]:
    """Allocate an uninitialised array in pinned (page-locked) memory.

    A GPU accesses it directly: calls on pinned arrays are faster and, with a stream, are queued.
    Without a usable GPU it is ordinary memory. The memory lives as long as the last view of it. A
    forked child must not use an array that its parent page-locked.

    Parameters
    ----------
    shape : int or tuple of int
        The number of elements along each axis.
    dtype : dtype, default float32
        Any NumPy type without Python objects.

    Returns
    -------
    ndarray
        The array.

    Raises
    ------
    OutOfMemoryError
        If there is not enough memory.

    Examples
    --------
    >>> import gpuvec
    >>> gpuvec.pinned_empty((2, 3)).shape
    (2, 3)
    """
    dtype = np.dtype(dtype)
    size = size_of(shape, dtype)
    memory = allocated(size, functions.pinned_alloc, functions.pinned_free)
    return np.ndarray(shape, dtype, memory)


def pinned_zeros(shape: int | tuple[int, ...], dtype: DTypeLike = np.float32) -> NDArray[Any]:
    """Allocate an array of zeros in pinned memory; see `pinned_empty`.

    Examples
    --------
    >>> import gpuvec
    >>> gpuvec.pinned_zeros(3)
    array([0., 0., 0.], dtype=float32)
    """
    array = pinned_empty(shape, dtype)
    array.fill(0)
    return array


def pinned_like(prototype: Any, dtype: DTypeLike | None = None) -> NDArray[Any]:
    """Allocate an uninitialised array in pinned memory of the shape and type of another.

    Parameters
    ----------
    prototype : object with ``shape`` and ``dtype``
        An ndarray or a `DeviceArray`.
    dtype : dtype, optional
        Another type.

    Examples
    --------
    >>> import gpuvec, numpy as np
    >>> gpuvec.pinned_like(np.ones((2, 2))).dtype
    dtype('float64')
    """
    return pinned_empty(prototype.shape, prototype.dtype if dtype is None else dtype)


@contextmanager
def pinned(array: T) -> Iterator[T]:
    """Page-lock an existing array for a with statement.

    This takes some tenths of a millisecond for each MiB, so it pays off for arrays that are used
    more than once. Work queued on a stream must be done with the array at the end of the block.

    Parameters
    ----------
    array : array
        A contiguous array in host memory, of any type.

    Yields
    ------
    array
        The array.

    Examples
    --------
    >>> import gpuvec, numpy as np
    >>> with gpuvec.pinned(np.ones(1000)) as array:
    ...     float(gpuvec.sum(array))
    1000.0
    """
    found = find("array", array)
    if found.device is not None:
        raise ValueError("array is in device memory: pass an array in host memory")
    check_layout("array", found.array)
    if not found.array.size:
        yield array
        return
    start = address(found.array) or 0
    locked = Owned(functions.gpuvec_host_unregister)
    try:
        locked.claim(start, functions.gpuvec_host_register, start, found.array.nbytes)
        yield array
    finally:
        is_locked = locked.handle.value is not None
        del locked
        if is_locked:
            check(functions.gpuvec_last_status())


def to_device(array: Array, device: int = 0, stream: Stream | None = None) -> DeviceArray:
    """Copy an array to new device memory, in C order.

    Parameters
    ----------
    array : array
        An array of any type, shape and strides, in memory of any kind. If it is not C-ordered, the
        host makes a C-ordered copy first.
    device : int, default 0
        The GPU; 0 without a GPU.
    stream : Stream, optional
        Queues the copy, as `copy` does.

    Examples
    --------
    >>> import gpuvec, numpy as np
    >>> gpuvec.to_device(np.ones(3)).to_host()
    array([1., 1., 1.])
    >>> gpuvec.to_device(np.ones((3, 4)).T).strides
    (24, 8)
    """
    found = find("array", array, stream)
    source = array if found.array.flags.c_contiguous else _packed(array)
    result = DeviceArray(found.array.shape, found.array.dtype, device)
    copy(result, source, stream)
    return result


def _packed(array: Array) -> NDArray[Any]:
    """Returns a C-ordered copy of an array's elements in host memory, when work on them is done."""
    if isinstance(array, DeviceArray):
        return array.to_host()
    return DeviceArray._of(find("array", array)).to_host()


def copy(dst: Array, src: Array, stream: Stream | None = None) -> None:
    """Copy the elements of an array to another; either may be in memory of any kind.

    Parameters
    ----------
    dst : array
        The destination, of the type and shape of ``src``. It may be ``src``; any other overlap is
        an error.
    src : array
        The source, contiguous, of any type.
    stream : Stream, optional
        Queues the copy, if neither array is in pageable memory.

    Examples
    --------
    >>> import gpuvec, numpy as np
    >>> there, back = gpuvec.DeviceArray(3, np.int32), np.zeros(3, np.int32)
    >>> gpuvec.copy(there, np.array([1, 2, 3], np.int32))
    >>> gpuvec.copy(back, there)
    >>> back
    array([1, 2, 3], dtype=int32)
    """
    check_stream(stream)
    source, to = find_all([("src", src), ("dst", dst)], stream)
    source = source if to.is_raw else typed("src", source, to.array.dtype)
    to = to if source.is_raw else typed("dst", to, source.array.dtype)
    check_layout("src", source.array)
    check_layout("dst", to.array, is_output=True)
    check_equal("dst", to.array, "src", source.array)
    if to.array.dtype.hasobject:
        raise TypeError(
            f"src has dtype {to.array.dtype}, which contains Python objects: pass arrays without "
            "them"
        )
    pointers = address(to.array), address(source.array)
    kept = to.array, source.array
    call(stream, (dst, src), kept, functions.gpuvec_copy, *pointers, source.array.nbytes)


def from_dlpack(array: SupportsDLPack) -> DeviceArray:
    """Make a `DeviceArray` from another library's array, without a copy.

    Parameters
    ----------
    array : object with ``__dlpack__``
        An array of CuPy, PyTorch or another library, of any shape and strides. The work that its
        library queued on it so far precedes gpuvec's.

    Returns
    -------
    DeviceArray
        An array of the same memory, which it keeps alive.

    Examples
    --------
    >>> import gpuvec, numpy as np
    >>> x = np.ones(3, np.float32)
    >>> shared = gpuvec.from_dlpack(x)
    >>> _ = gpuvec.scale(2, shared, out=shared)
    >>> x
    array([2., 2., 2.], dtype=float32)
    """
    if not hasattr(array, "__dlpack__"):
        raise TypeError(f"array is of type {type(array).__name__}: pass an object with __dlpack__")
    return DeviceArray._of(borrowed("array", array, LEGACY_DEFAULT_STREAM))
