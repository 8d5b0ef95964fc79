"""Arrays in device memory."""

from __future__ import annotations

import ctypes
import operator
from itertools import islice
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ._dlpack import CPU, CUDA, NUMPY, Found, capsule_of
from ._errors import Error, check
from ._library import functions, native, ordinal
from ._operators import Operators, cast_to
from ._owned import Owned
from ._streams import Stream, Use

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray


# NumPy 2 moved the function.
byte_bounds: Any = getattr(np.lib, "array_utils", np).byte_bounds
# True if NumPy's `reshape` has the argument `copy`.
NEVER_COPIES = NUMPY >= (2, 1)

# The number of uses that an array keeps without checking whether their work is done.
MOST_USES = 16

# The number of elements that the text of an array shows.
MOST_SHOWN = 6


def size_of(shape: int | tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """Returns the bytes of an array; refuses elements that are Python objects."""
    if dtype.hasobject:
        raise TypeError(
            f"dtype is {dtype}, which contains Python objects: pass a dtype without them"
        )
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
            f"shape is of type {type(shape).__name__}: pass the number of elements along each "
            "axis; gpuvec.to_device(array) copies the elements of an array"
        ) from None
    if smallest < 0:
        raise ValueError(f"shape is {shape}, with a negative number: pass numbers of elements")


def allocated(size: int, allocate: Any, free: Any, *arguments: object) -> Any:
    """Returns new memory of the library, which is freed when the last array made of it is gone."""
    owned = Owned(free)
    memory: Any = (ctypes.c_char * size).from_address(owned.create(allocate, size, *arguments))
    memory.owned = owned
    return memory


class DeviceArray(Operators):
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

    Operators are formulas of `evaluate`, with its types. Their operands are numbers, NumPy arrays
    and device arrays. ``==`` compares elements, so arrays are not hashable.

    >>> (1 - x / 2)[1].to_host()
    array([-0.5, -1. , -1.5], dtype=float32)
    >>> x *= x > 2
    >>> x.to_host()
    array([[0., 0., 0.],
           [3., 4., 5.]], dtype=float32)

    Slices, `T`, `transpose` and `reshape` are views of the same memory, which they keep alive. So
    are the fields of a structured array, by their names:

    >>> x[:, ::2].shape, x.T.strides
    ((2, 2), (4, 12))
    >>> x[1, 1:].to_host()
    array([4., 5.], dtype=float32)
    >>> points = gpuvec.to_device(np.ones(2, [("x", np.float32), ("tag", np.int32)]))
    >>> points["tag"] += 1
    >>> points["tag"].to_host()
    array([2, 2], dtype=int32)
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
        self._allocate(shape, dtype, size_of(shape, dtype), ordinal(device))

    def _allocate(
        self, shape: int | tuple[int, ...], dtype: np.dtype[Any], size: int, device: int
    ) -> None:
        allocate, free = functions.gpuvec_device_alloc, functions.gpuvec_device_free
        memory = allocated(size, allocate, free, device)
        found = functions.gpuvec_device_of(ctypes.addressof(memory))
        array: NDArray[Any] = np.ndarray(shape, dtype, memory)
        self._found = Found(array, None if found < 0 else found)
        self._uses = set()

    @classmethod
    def _new(cls, shape: tuple[int, ...], dtype: np.dtype[Any], device: int) -> DeviceArray:
        """Makes the array of a result, whose shape and type need no checks."""
        array = cls.__new__(cls)
        array._allocate(shape, dtype, prod(shape) * dtype.itemsize, device)
        return array

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
    def strides(self) -> tuple[int, ...]:
        """The distance between elements along each axis, in bytes."""
        return self._found.array.strides

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
        """The number of the GPU that holds the memory; None for host memory."""
        return self._found.device

    @property
    def address(self) -> int:
        """The address of the first element, for other bindings."""
        return self._found.array.ctypes.data

    def __len__(self) -> int:
        """Return the number of elements along the first axis."""
        return len(self._found.array)

    # Python would index the array once for each element instead.
    __iter__ = None

    def __repr__(self) -> str:
        """Return the first elements, the shape, the type and the place."""
        place = "host memory" if self.device is None else f"GPU {self.device}"
        described = f"shape={self.shape}, dtype={self.dtype}, {place}"
        try:
            return f"gpuvec.DeviceArray({self._shown()}, {described})"
        except Error:
            # A forked child, for example, cannot read the memory of a GPU.
            return f"gpuvec.DeviceArray({described})"

    def _shown(self) -> str:
        """Returns the first elements in C order, as NumPy writes them."""
        indexes = list(islice(np.ndindex(*self.shape), MOST_SHOWN))
        elements = np.empty(len(indexes), self.dtype)
        for place, index in enumerate(indexes):
            elements[place] = self[index].to_host()[()]
        shown = np.array2string(elements, separator=", ")
        return shown if self.size <= MOST_SHOWN else f"{shown[:-1]}, ...]"

    def __bool__(self) -> bool:
        """Return the truth of the only element."""
        if self.size != 1:
            raise ValueError(
                f"the truth value of {self.size} elements is ambiguous: reduce them, as in "
                'gpuvec.evaluate("any(x)", x=x) or "all(x)"'
            )
        return bool(self.to_host().item())

    def copy(self) -> DeviceArray:
        """Return a new array with the same elements, in C order and on the same GPU.

        Examples
        --------
        >>> import gpuvec, numpy as np
        >>> x = gpuvec.to_device(np.ones(2))
        >>> y = x.copy()
        >>> y += 1
        >>> x.to_host()
        array([1., 1.])
        """
        from ._memory import to_device

        if self._found.array.flags.c_contiguous or cast_to(self.dtype) is None:
            return to_device(self, self.device or 0)
        result = DeviceArray(self.shape, self.dtype, self.device or 0)
        result._assign(self)
        return result

    def fill(self, value: Any) -> None:
        """Set all elements to a number, which is converted to the array's type.

        Arrays of a type that formulas do not store, such as ``int8``, must be contiguous.

        Examples
        --------
        >>> import gpuvec
        >>> x = gpuvec.DeviceArray((2, 2))
        >>> x.fill(0)
        >>> x[:, 1].fill(2.5)
        >>> x.to_host()
        array([[0. , 2.5],
               [0. , 2.5]], dtype=float32)
        """
        if not isinstance(value, (np.generic, float, int)):
            raise TypeError(f"value is of type {type(value).__name__}: pass a number")
        self._assign(value)

    def astype(self, dtype: DTypeLike) -> DeviceArray:
        """Return a new array of another type.

        The types are bool, int32, int64, uint64, float16, float32, float64 and ml_dtypes' bfloat16.
        Integers out of range wrap around; floats are rounded to nearest, once. Floats outside the
        range of an integer type become the nearest integer, and NaN becomes 0.

        Examples
        --------
        >>> import gpuvec, numpy as np
        >>> x = gpuvec.to_device(np.float32([-1.5, 2.5, 1e20]))
        >>> x.astype(np.int32).to_host()
        array([        -1,          2, 2147483647], dtype=int32)
        """
        dtype = np.dtype(dtype)
        if cast_to(dtype) is None:
            raise TypeError(
                f"dtype is {dtype}: pass bool, int32, int64, uint64, float16, float32, float64 or "
                "bfloat16, or convert the array on the host, as in x.to_host().astype(dtype)"
            )
        result = DeviceArray(self.shape, dtype, self.device or 0)
        result._assign(self)
        return result

    @property
    def T(self) -> DeviceArray:  # noqa: N802
        """The view with the axes in the reverse order."""
        return self._view(self._found.array.T)

    def transpose(self, *axes: int) -> DeviceArray:
        """Return the view with the axes in another order; without arguments, in the reverse one.

        Examples
        --------
        >>> import gpuvec
        >>> gpuvec.DeviceArray((2, 3, 4)).transpose(1, 2, 0).shape
        (3, 4, 2)
        """
        return self._view(self._found.array.transpose(*axes))

    def reshape(self, *shape: int | tuple[int, ...]) -> DeviceArray:
        """Return the view of another shape, whose elements have the same order.

        One length may be -1: it is computed. Raises ValueError if no strides describe the view, as
        for most arrays that are not contiguous.

        Examples
        --------
        >>> import gpuvec
        >>> gpuvec.DeviceArray((2, 6)).reshape(3, -1).shape
        (3, 4)
        """
        return self._view(_reshaped(self._found.array, shape))

    def __getitem__(self, index: Any) -> DeviceArray:
        """Return a view of the elements at an index of integers, slices, None and ``...``.

        The name of a field of a structured array selects that field of all elements.
        """
        if isinstance(index, str) and self.dtype.names:
            return self._view(self._found.array[index])
        indexes = index if isinstance(index, tuple) else (index,)
        for one in indexes:
            if not (one is None or one is ... or isinstance(one, slice) or _is_integer(one)):
                raise TypeError(
                    f"an index of a DeviceArray is of type {type(one).__name__}: pass integers, "
                    "slices, None, ... or the name of a field, which select views"
                )
        # With integers alone NumPy would read the element.
        rest = () if any(one is ... for one in indexes) else (...,)
        return self._view(self._found.array[(*indexes, *rest)])

    def __setitem__(self, index: Any, value: Any) -> None:
        """Write a number, or the elements of an array that is broadcast, to an index."""
        view = self[index]
        # ``x[index] += y`` has written the elements, and assigns them to themselves.
        if not (isinstance(value, DeviceArray) and view._is(value)):
            view._assign(value)

    def _is(self, other: DeviceArray) -> bool:
        """True if another array is the same view of the same memory."""
        mine, others = (array._found.array.__array_interface__ for array in (self, other))
        return mine == others

    def _assign(self, value: Any) -> None:
        """Writes a value to all elements, converted to the array's type."""
        # Imported late, since they need this class.
        from ._evaluate import evaluate
        from ._memory import copy

        cast = cast_to(self.dtype)
        is_number = isinstance(value, (np.generic, float, int))
        if cast is not None:
            evaluate(f"{cast}(value)", value=value, out=self)
        else:
            copy(self, np.full(self.shape, value, self.dtype) if is_number else value)

    def _view(self, array: NDArray[Any]) -> DeviceArray:
        """Makes an array of some of the elements, which shares the uses of all."""
        view = DeviceArray._of(self._found._replace(array=array))
        view._uses = self._uses
        return view

    def to_host(self) -> NDArray[Any]:
        """Copy the elements to a new NumPy array, after waiting for queued work on them.

        The copy has C order. For a view with gaps on a GPU, the memory in the gaps is copied, too.
        """
        self._wait()
        array = self._found.array
        if array.flags.c_contiguous:
            return _copied(self.address, self.shape, self.dtype)
        if self.device is None:
            return array.copy()
        lowest, end = byte_bounds(array)
        memory = _copied(lowest, (end - lowest,), np.dtype(np.uint8))
        offset = self.address - lowest
        return np.ndarray(self.shape, self.dtype, memory.data, offset, array.strides).copy()

    def numpy(self) -> NDArray[Any]:
        """Copy the elements to a new NumPy array: `to_host`."""
        return self.to_host()

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
            "strides": None if self._found.array.flags.c_contiguous else self.strides,
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


def _is_integer(index: object) -> bool:
    return isinstance(index, (int, np.integer)) and not isinstance(index, bool)


def _copied(address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Copies elements that follow each other in memory of any kind."""
    host = np.empty(shape, dtype)
    check(functions.gpuvec_copy(host.ctypes.data, address, host.nbytes, None))
    return host


def _reshaped(array: NDArray[Any], shape: tuple[Any, ...]) -> NDArray[Any]:
    """Returns a view of another shape; never the copy that NumPy makes where none exists."""
    # Reshaping one broadcast element finds the new shape without a copy.
    shape = np.broadcast_to(np.empty((), np.int8), array.shape).reshape(*shape).shape
    try:
        if NEVER_COPIES:
            return array.reshape(shape, copy=False)
        view = array.view()
        view.shape = shape
        return view
    except (AttributeError, ValueError):
        raise ValueError(
            f"an array with shape {array.shape} and strides {array.strides} cannot be viewed with "
            f"shape {shape}: reshape a copy, such as gpuvec.to_device(array)"
        ) from None


if native is not None:
    native.accept(DeviceArray)
