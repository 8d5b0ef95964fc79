"""Accumulators: exact sums computed in parts, which can be merged."""

from __future__ import annotations

import operator
import re
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ._arrays import address, check_axes, check_equal, checked, find_all
from ._by_key import OUTSIDE
from ._declarations import TYPES
from ._errors import Error, check
from ._expressions import named
from ._library import functions
from ._owned import Owned
from ._results import lengths_of, strided
from ._shapes import (
    MOST_AXES,
    axes_in,
    broadcast,
    check_number_of_axes,
    plain_axis,
    reduction,
    strides_in,
)
from ._streams import Stream, handle_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike, NDArray

    from ._shapes import Axis, Shape
    from ._typing import Array, Buffer

# The number of each kind, as in the header.
KINDS: dict[tuple[str, np.dtype[Any]], int] = {
    ("sum", np.dtype(np.float32)): 1,
    ("dot", np.dtype(np.float32)): 2,
    ("sum", np.dtype(np.float64)): 3,
    ("dot", np.dtype(np.float64)): 4,
}

# Words of a state: where its number of elements is, in halves, and how words lie in memory.
_COUNT_LOW, _COUNT_HIGH = 2, 3
# The name of the argument in the library's errors about states.
BYTES = r"^bytes\b|(?<=\d of )bytes\b"
_WORD = np.dtype("<i8")


class Accumulator:
    """An exact sum or dot product, to which elements are added piece by piece.

    The value depends only on the elements that were added, not on how they were split or ordered:
    it has the same bits as `sum` or `dot` of all elements. Accumulators of several threads,
    processes or machines can be merged, by `merge` or by adding the integers of `to_words`.
    Accumulators can be pickled and copied. Threads may use one accumulator at the same time.

    With a ``shape`` it holds a sum for each element of the shape, and arrays are added along axes.
    The value then has the bits of ``sum`` or ``dot`` of all data with ``axis=``. With ``groups`` it
    holds a sum for each key, and arrays are added by key. The value then has the bits of ``sum`` or
    ``dot`` of all data with ``by=``.

    Parameters
    ----------
    operation : {"sum", "dot"}
        The operation.
    dtype : float32 or float64
        The type of the elements and of the value.
    shape : int or tuple of int, default ()
        The shape of the value.
    groups : int, optional
        The number of groups, which becomes the first axis of the shape.

    Examples
    --------
    >>> import gpuvec, numpy as np
    >>> x = np.array([1e100, 1.0, -1e100])
    >>> total = gpuvec.Accumulator("sum", np.float64)
    >>> for piece in np.split(x, 3):
    ...     total.add(piece)
    >>> total
    <gpuvec.Accumulator: sum of 3 float64, 1.0>
    >>> columns = gpuvec.Accumulator("sum", np.float64, shape=2)
    >>> for rows in np.split(np.array([[1e100, 1.0], [2.0, 2.0], [-1e100, 4.0]]), 3):
    ...     columns.add(rows, axis=0)
    >>> columns.value()
    array([2., 7.])
    >>> by_key = gpuvec.Accumulator("sum", np.float64, groups=3)
    >>> by_key.add(np.array([1e100, 1.0]), by=np.array([0, 2]))
    >>> by_key.add(np.array([3.0, -1e100, 4.0]), by=np.array([0, 0, 2]))
    >>> by_key.value()
    array([3., 0., 5.])
    """

    __slots__ = ("__weakref__", "_dtype", "_handle", "_operation", "_owned", "_shape")

    def __init__(
        self,
        operation: str,
        dtype: DTypeLike,
        shape: int | Sequence[int] = (),
        *,
        groups: int | None = None,
    ) -> None:
        kind = KINDS.get((operation, np.dtype(dtype)))
        if kind is None:
            if operation not in ("sum", "dot"):
                raise ValueError(f"operation is {operation!r}: pass 'sum' or 'dot'")
            raise TypeError(f"dtype is {np.dtype(dtype)}: pass float32 or float64")
        lengths = _lengths(shape)
        if groups is not None:
            lengths = _lengths((groups, *lengths))
        self._create(lengths, kind, functions.gpuvec_accumulator_create_nd, kind, *_passed(lengths))

    def _create(self, shape: Shape, kind: int | None, create: Any, *arguments: object) -> None:
        self._owned = Owned(functions.gpuvec_accumulator_destroy)
        self._handle = self._owned.create(create, *arguments)
        [(self._operation, self._dtype)] = [key for key, number in KINDS.items() if number == kind]
        self._shape = shape

    @property
    def operation(self) -> str:
        """The operation: "sum" or "dot"."""
        return self._operation

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements and of the value."""
        return self._dtype

    @property
    def shape(self) -> Shape:
        """The shape of the value."""
        return self._shape

    @property
    def count(self) -> Any:
        """The number of elements, or of pairs of elements, that were added.

        It is an int, or an array of int64 if the accumulator has a shape.
        """
        words = self.to_words()
        count = words[..., _COUNT_LOW] + (words[..., _COUNT_HIGH] << 32)
        return count if self._shape else int(count)

    def add(
        self,
        a: Array,
        b: Array | None = None,
        stream: Stream | None = None,
        axis: Axis = None,
        *,
        by: Array | None = None,
        outside: str = "error",
    ) -> None:
        """Add elements to a sum, or products of pairs of elements to a dot product.

        Parameters
        ----------
        a, b : array
            Arrays that `sum` or `dot` accept, of the accumulator's type and of any strides; ``b``
            only for a dot product. With ``axis`` they are broadcast to one shape.
        stream : Stream, optional
            The call waits for the stream's earlier work. The elements are added when it returns.
        axis : int or tuple of int, optional
            The axes along which elements are added; all if it is None. The lengths of the others
            are the accumulator's shape.
        by : array of integers, optional
            The key of each element, from 0 on: elements are added to the sum of their key. The keys
            have the axes along which elements are added, or all. The accumulator's shape has an
            axis for the groups in the place of the first axis along which elements are added.
        outside : {"error", "ignore"}
            With "error", a key outside the groups makes the call fail, and nothing is added. With
            "ignore", elements with such keys are left out.

        Notes
        -----
        Along axes, cores add arrays in host memory. Arrays on a GPU, and with placement ``gpu`` all
        arrays, are added on the GPU if the elements of each sum have at least as many bytes as its
        state. Otherwise arrays on a GPU are copied to the host in chunks, and cores add them. Cores
        add all arrays by key.

        Examples
        --------
        >>> import gpuvec, numpy as np
        >>> product = gpuvec.Accumulator("dot", np.float32)
        >>> product.add(np.float32([1, 2]), np.float32([3, 4]))
        >>> product.add(np.float32([0.5]), np.float32([4]))
        >>> float(product.value())
        13.0
        >>> rows = gpuvec.Accumulator("dot", np.float64, shape=2)
        >>> rows.add(np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), np.array([2.0, 0, 1]), axis=1)
        >>> rows.value()
        array([ 5., 14.])
        """
        if (b is None) == (self._operation == "dot"):
            raise TypeError(
                "b is missing: a dot product takes two arrays"
                if b is None
                else "b is given: a sum takes one array"
            )
        axis, handle = plain_axis(axis), handle_of(stream)
        given = [("a", a)] if b is None else [("a", a), ("b", b)]
        if outside not in OUTSIDE:
            raise ValueError(f'outside is {outside!r}: pass "error" or "ignore"')
        found = find_all(given if by is None else [*given, ("by", by)], stream)
        keys = None if by is None else found.pop().array
        arrays = {
            name: checked(name, one, self._dtype).array for (name, _), one in zip(given, found)
        }
        first, last = arrays["a"], arrays.get("b")
        if last is not None and axis is None:
            check_equal("b", last, "a", first)
            check_axes("a", first)
        if keys is not None:
            self._add_by(arrays, _placed(keys, first.ndim, axis), handle, axis, outside)
            return
        are_contiguous = all(one.flags.c_contiguous for one in arrays.values())
        if axis is not None or self._shape or not are_contiguous:
            self._add_along(arrays, handle, axis)
            return
        second = None if last is None else address(last)
        add = functions.gpuvec_accumulator_add
        check(add(self._handle, address(first), second, first.size, handle))

    def _add_along(self, arrays: dict[str, NDArray[Any]], handle: int | None, axis: Axis) -> None:
        """Adds elements of arrays of any strides along axes."""
        shape = broadcast({name: array.shape for name, array in arrays.items()})
        reduced = reduction(shape, axis, keepdims=False)
        if reduced.result != self._shape:
            raise ValueError(
                f"elements of shape {shape} have the shape {reduced.result} when they are added "
                f"along axis {axis}, but the accumulator has {self._shape}: pass arrays and axis= "
                "that result in its shape"
            )
        for name, array in arrays.items():
            check_number_of_axes(name, array.shape)
        inputs = [(address(array), strides_in(array, shape)) for array in arrays.values()]
        ndim, lengths = _passed(shape)
        add = functions.gpuvec_accumulator_add_nd
        try:
            check(add(self._handle, ndim, lengths, strided(inputs), reduced.mask, handle))
        except Error as error:
            raise named(error, tuple(arrays), ()) from None

    def _add_by(
        self,
        arrays: dict[str, NDArray[Any]],
        keys: NDArray[Any],
        handle: int | None,
        axis: Axis,
        outside: str,
    ) -> None:
        """Adds elements of arrays of any strides to the sums of their keys."""
        shape = broadcast({name: array.shape for name, array in {**arrays, "by": keys}.items()})
        reduced = reduction(shape, axis, keepdims=False)
        for name, array in {**arrays, "by": keys}.items():
            check_number_of_axes(name, array.shape)
        passed = [(address(array), strides_in(array, shape)) for array in (*arrays.values(), keys)]
        inputs, of_keys = strided(passed[:-1]), strided(passed[-1:])
        ndim, lengths = _passed(shape)
        add, flags = functions.gpuvec_accumulator_add_by, OUTSIDE.index(outside)
        key_type = TYPES[keys.dtype]
        try:
            check(
                add(
                    self._handle,
                    ndim,
                    lengths,
                    inputs,
                    of_keys,
                    key_type,
                    reduced.mask,
                    flags,
                    handle,
                )
            )
        except Error as error:
            raise named(error, tuple(arrays), ()) from None

    def merge(self, other: Accumulator) -> None:
        """Add all elements of another accumulator of the same kind and shape.

        ``+=`` does the same.

        Examples
        --------
        >>> import gpuvec, numpy as np
        >>> x, y = (gpuvec.Accumulator("sum", np.float64) for _ in range(2))
        >>> x.add(np.array([1.0, 2.0]))
        >>> y.add(np.array([4.0]))
        >>> x.merge(y)
        >>> x += y
        >>> float(x.value())
        11.0
        """
        if not isinstance(other, Accumulator):
            raise TypeError(f"other is of type {type(other).__name__}: pass a gpuvec.Accumulator")
        if other._described() != self._described():
            raise ValueError(
                f"other is a {other._described()}, but this accumulator is a {self._described()}: "
                "merge accumulators of one operation, type and shape"
            )
        check(functions.gpuvec_accumulator_merge(self._handle, other._handle))

    def __iadd__(self, other: Accumulator) -> Accumulator:
        """Merge another accumulator."""
        if not isinstance(other, Accumulator):
            return NotImplemented
        self.merge(other)
        return self

    def value(self) -> Any:
        """Return the exact sum of all elements so far, rounded once.

        It is a scalar of the type, or an array if the accumulator has a shape.
        """
        value = np.empty(self._shape, self._dtype)
        check(functions.gpuvec_accumulator_value(self._handle, address(value)))
        return value[()]

    def to_words(self) -> NDArray[np.int64]:
        """Return the state as integers, which can be added.

        The sum of the words of several accumulators is the words of all their elements. So any sum
        of int64 merges accumulators: ``np.sum``, ``MPI.SUM``, NCCL, for up to 2**30 of them, in any
        grouping. The words of an accumulator with a shape have one more axis, the last. They add up
        in the same way, and so do slices of them along the other axes.

        Examples
        --------
        >>> import gpuvec, numpy as np
        >>> parts = [gpuvec.Accumulator("sum", np.float32) for _ in range(3)]
        >>> for number, part in enumerate(parts):
        ...     part.add(np.full(2, number, np.float32))
        >>> words = np.sum([part.to_words() for part in parts], axis=0)
        >>> float(gpuvec.Accumulator.from_words(words).value())
        6.0
        """
        kind = KINDS[self._operation, self._dtype]
        each = int(functions.gpuvec_accumulator_bytes(kind))
        words = np.empty((*self._shape, each // _WORD.itemsize), _WORD)
        check(functions.gpuvec_accumulator_serialize(self._handle, address(words), words.nbytes))
        return words

    @classmethod
    def from_words(cls, words: NDArray[np.int64]) -> Accumulator:
        """Make an accumulator from the words of one, or from the sum of the words of several.

        Its shape is that of the words without the last axis.
        """
        array = np.asarray(words)
        if array.dtype != np.int64 or array.ndim < 1:
            raise TypeError(
                f"words has dtype {array.dtype} and shape {array.shape}: pass what to_words "
                "returned, or sums of it"
            )
        content, shape = array.astype(_WORD).tobytes(), array.shape[:-1]
        return cls._from("words", content, shape, _kind(array.shape[-1] * _WORD.itemsize))

    def to_bytes(self) -> bytes:
        """Return the state as bytes, the same on every machine: the words, little-endian.

        Examples
        --------
        >>> import gpuvec, numpy as np
        >>> x = gpuvec.Accumulator("sum", np.float32)
        >>> x.add(np.ones(5, np.float32))
        >>> len(x.to_bytes())
        152
        >>> gpuvec.Accumulator.from_bytes(x.to_bytes())
        <gpuvec.Accumulator: sum of 5 float32, 5.0>
        """
        return self.to_words().tobytes()

    @classmethod
    def from_bytes(cls, state: Buffer, shape: int | Sequence[int] = ()) -> Accumulator:
        """Make an accumulator from the bytes that `to_bytes` returned.

        Parameters
        ----------
        state : bytes
            The bytes of an accumulator, or the sum of several accumulators' as little-endian int64.
        shape : int or tuple of int, default ()
            The accumulator's shape, which is not in the bytes.

        Raises
        ------
        ArgumentError
            If the bytes are damaged, incomplete or not a state: ``status`` is
            ``ERROR_STATE``. If they are the sum of more than 2**30 states, or of 2**63 elements or
            more, it is ``ERROR_SIZE``.
        """
        content, lengths = bytes(state), _lengths(shape)
        states = prod(lengths)
        if not states:
            raise ValueError(
                f"shape is {lengths}, and bytes without states do not say what they are sums of: "
                "pass what to_words returned to from_words"
            )
        return cls._from("state", content, lengths, _kind(len(content) // states))

    @classmethod
    def _from(cls, name: str, content: bytes, shape: Shape, kind: int | None) -> Accumulator:
        """Makes an accumulator from the bytes of its states.

        ``kind`` is None if no kind has states of that size.
        """
        accumulator = cls.__new__(cls)
        # Without a shape the library says what is wrong with bytes of no kind.
        if shape and kind is None:
            raise ValueError(
                f"{name} has {len(content)} bytes, which are not those of an accumulator of shape "
                f"{shape}: pass what to_words or to_bytes returned, or sums of it, and its shape"
            )
        create, arguments = functions.gpuvec_accumulator_deserialize, [content, len(content)]
        if shape:
            create = functions.gpuvec_accumulator_deserialize_nd
            arguments = [kind, *_passed(shape), *arguments]
        try:
            accumulator._create(shape, kind, create, *arguments)
        except Error as error:
            # The argument of the library's function has another name.
            described = re.sub(BYTES, name, str(error))
            error.args = error.args[0], described
            raise
        return accumulator

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the accumulator as its bytes, or as its words if it has a shape."""
        if self._shape:
            return type(self).from_words, (self.to_words(),)
        return type(self).from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        """Return the operation, the number and type of the elements, and the value or shape."""
        if self._shape:
            return f"<gpuvec.Accumulator: {self._described()}>"
        described = self._described(f"{self.count} ")
        return f"<gpuvec.Accumulator: {described}, {float(self.value())}>"

    def _described(self, count: str = "") -> str:
        sum_of = {"sum": "sum of", "dot": "dot product of"}[self._operation]
        shape = f", of shape {self._shape}" if self._shape else ""
        return f"{sum_of} {count}{self._dtype}{shape}"


def _placed(keys: NDArray[Any], ndim: int, axis: Axis) -> NDArray[Any]:
    """Returns keys with their axes in the place of the reduced ones, unless they have all axes."""
    if keys.dtype.kind not in "iu" or keys.dtype not in TYPES:
        raise TypeError(f"by has dtype {keys.dtype}: pass keys that are integers")
    axes = tuple(range(ndim)) if axis is None else axes_in(axis, ndim)
    if keys.ndim != len(axes):
        return keys
    return keys[tuple(slice(None) if at in axes else None for at in range(ndim))]


def _kind(size: int) -> int | None:
    """Returns the kind whose states have that many bytes, if there is one."""
    kinds = (kind for kind in KINDS.values() if functions.gpuvec_accumulator_bytes(kind) == size)
    return next(kinds, None)


def _lengths(shape: int | Sequence[int]) -> Shape:
    """Returns a shape as NumPy's functions accept it: a length, or one for each axis."""
    given = shape if np.iterable(shape) else (shape,)
    try:
        lengths = tuple(map(operator.index, given))
    except TypeError:
        raise TypeError(f"shape is {shape!r}: pass an integer or a tuple of them") from None
    if len(lengths) > MOST_AXES:
        raise ValueError(f"shape has {len(lengths)} axes: pass at most {MOST_AXES}")
    if any(not 0 <= length < 2**63 for length in lengths):
        raise ValueError(f"shape is {lengths}: pass lengths of 0 or more, below 2**63")
    return lengths


def _passed(shape: Shape) -> tuple[int, Any]:
    """Returns a shape as the library's functions take it."""
    return len(shape), lengths_of(shape)
