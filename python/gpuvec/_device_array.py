"""Arrays in device memory."""

from __future__ import annotations

import ctypes
import operator
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ._dlpack import CPU, CUDA, Found, capsule_of
from ._errors import check
from ._library import RunStructure, functions, ordinal
from ._owned import Owned
from ._streams import Stream, Use

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

GPU = 2


def array_in(memory: Any, shape: int | tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Makes an array from memory, which lives as long as the array's last view."""
    return np.ndarray(shape, dtype, buffer=memory)


# The number of uses that an array keeps without checking whether their work is done.
MOST_USES = 16


def size_of(shape: int | tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """Returns the bytes of an array; refuses elements that are Python objects."""
    if dtype.hasobject:
        raise TypeError(f"dtype is {dtype}, which has Python objects: pass a dtype without them")
    _check_shape(shape)
    # Broadcasting creates an array of a shape without its memory, and refuses impossible shapes.
    return int(np.broadcast_to(np.empty((), dtype), shape).nbytes)


def _check_shape(shape: Any) -> None:
    """Raises an error unless a shape is an integer or a tuple or list of them, none negative."""
    try:
        if isinstance(shape, np.ndarray):
            raise TypeError
        lengths = shape if isinstance(shape, (tuple, list)) else (shape,)
        smallest = min(map(operator.index, lengths), default=0)
    except TypeError:
        raise TypeError(
            f"shape is a {type(shape).__name__}: pass the number of elements along each axis; "
            "gpuvec.to_device(array) copies the elements of an array"
        ) from None
    if smallest < 0:
        raise ValueError(f"shape is {shape}, with a negative number: pass numbers of elements")


def allocated(
    size: int, allocate: Any, free: Any, *arguments: object
) -> ctypes.Array[ctypes.c_char]:
    """Wraps new memory of the library, which is freed with the object."""
    owned = Owned(free)
    memory = (ctypes.c_char * size).from_address(owned.create(allocate, size, *arguments))
    memory.owned = owned  # type: ignore[attr-defined]
    return memory


class DeviceArray:
    """An array in device memory, uninitialised, which operations use in place.

    Without a usable GPU, or with placement ``cpu``, the array is in ordinary memory, and all
    functions work the same. The memory is freed with the last object that uses it.

    Parameters
    ----------
    shape : int or tuple of int
        The number of elements along each axis.
    dtype : dtype, default float32
        Any NumPy type without Python objects.
    device : int, default 0
        The GPU; 0 without a GPU.

    See Also
    --------
    to_device : copies an array to device memory.

    Examples
    --------
    >>> import gpuvec, numpy as np
    >>> x = gpuvec.to_device(np.arange(6, dtype=np.float32).reshape(2, 3))
    >>> x.shape, x.dtype, x.nbytes, len(x)
    ((2, 3), dtype('float32'), 24, 2)
    >>> gpuvec.add(x, x).to_host()
    array([[ 0.,  2.,  4.],
           [ 6.,  8., 10.]], dtype=float32)
    """

    __slots__ = ("__weakref__", "_found", "_uses")

    # `device` is None if the memory is the host's.
    _found: Found
    # The uses by queued work that was not waited for: the last of each stream, or more.
    _uses: set[Use]

    def __init__(
        self, shape: int | tuple[int, ...], dtype: DTypeLike = np.float32, device: int = 0
    ) -> None:
        dtype = np.dtype(dtype)
        size = size_of(shape, dtype)
        allocate, free = functions.gpuvec_device_alloc, functions.gpuvec_device_free
        memory = allocated(size, allocate, free, ordinal(device))
        is_on_gpu = _is_device_memory(memory)
        self._found = Found(array_in(memory, shape, dtype), device if is_on_gpu else None)
        self._uses = set()

    @classmethod
    def _of(cls, found: Found) -> DeviceArray:
        """Makes an array of memory that another library allocated."""
        array = cls.__new__(cls)
        array._found, array._uses = found, set()
        return array

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of elements along each axis."""
        return self._found.array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        return self._found.array.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._found.array.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._found.array.size

    @property
    def nbytes(self) -> int:
        """The number of bytes."""
        return self._found.array.nbytes

    @property
    def device(self) -> int | None:
        """The number of the GPU that has the memory; None if it is the host's."""
        return self._found.device

    @property
    def address(self) -> int:
        """The address of the first element, for other bindings."""
        return self._found.array.ctypes.data

    def __len__(self) -> int:
        """Return the number of elements along the first axis."""
        return len(self._found.array)

    def __repr__(self) -> str:
        """Return the shape, the type and the place."""
        place = "host memory" if self.device is None else f"GPU {self.device}"
        return f"gpuvec.DeviceArray(shape={self.shape}, dtype={self.dtype}, {place})"

    def to_host(self) -> NDArray[Any]:
        """Copy the elements to a new NumPy array, when queued work on them is done."""
        self._wait()
        host = np.empty(self.shape, self.dtype)
        check(functions.gpuvec_copy(host.ctypes.data, self.address, self.nbytes, None))
        return host

    def __array__(self, *_: object, **__: object) -> NoReturn:
        """Refuse to copy to the host implicitly."""
        raise TypeError("a DeviceArray is not a NumPy array: copy it to the host with to_host()")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a DeviceArray belongs to its process: send its to_host()")

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The CUDA array interface (version 3), when queued work on the array is done.

        Arrays in host memory have no such interface.
        """
        if self.device is None:
            raise AttributeError("the DeviceArray is in host memory: there is no usable GPU")
        self._wait()
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": self.dtype.str,
            "descr": self.dtype.descr,
            "data": (self.address, not self._found.array.flags.writeable),
            "strides": None,
            "stream": None,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's device: CUDA and the GPU's number, or the CPU."""
        return (CPU, 0) if self.device is None else (CUDA, self.device)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Export the array, when queued work on it is done (not waited for if ``stream`` is -1)."""
        if dl_device not in (None, self.__dlpack_device__()):
            raise BufferError(f"the array is on {self.__dlpack_device__()}, not on {dl_device}")
        if copy:
            raise BufferError("gpuvec exports arrays without a copy: call to_host() for one")
        if stream != -1:
            self._wait()
        return capsule_of(self._found.array, self.device, max_version)

    def _ready(self) -> NDArray[Any]:
        """Returns the ndarray that describes the elements, when queued work on them is done."""
        if self._uses:
            self._wait()
        return self._found.array

    def _note(self, use: Use, stream: Stream) -> list[Use]:
        """Adds a use, and returns the uses that precede it."""
        if len(self._uses) >= MOST_USES:
            # Each stream that is gone leaves a use.
            self._uses.difference_update([one for one in self._uses.copy() if one.is_over()])
        earlier = [one for one in self._uses.copy() if one.is_closed and one.is_of(stream)]
        self._uses.add(use)
        return earlier

    def _wait(self) -> None:
        """Waits for the work on this array that is queued on gpuvec's streams."""
        for use in self._uses.copy():
            status = use.wait()
            self._uses.discard(use)
            check(status)


def _is_device_memory(memory: ctypes.Array[ctypes.c_char]) -> bool:
    """Asks the library which kind of memory this is: a copy of device memory runs on the GPU."""
    byte, run = ctypes.c_char(), RunStructure()
    check(functions.gpuvec_copy(ctypes.byref(byte), ctypes.addressof(memory), 1, None))
    check(functions.gpuvec_last_run(ctypes.byref(run), ctypes.sizeof(run)))
    return bool(run.backend == GPU)
