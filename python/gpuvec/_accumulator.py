"""Accumulators: exact sums computed in parts, which can be merged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ._arrays import address, check_axes, check_dtype, check_equal, check_layout, find, typed
from ._errors import check
from ._library import functions
from ._owned import Owned
from ._streams import Stream, handle_of

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from ._typing import Array, Buffer

# The number of each kind, as in the header.
KINDS: dict[tuple[str, np.dtype[Any]], int] = {
    ("sum", np.dtype(np.float32)): 1,
    ("dot", np.dtype(np.float32)): 2,
    ("sum", np.dtype(np.float64)): 3,
    ("dot", np.dtype(np.float64)): 4,
}

# Words of a state: where its number of elements is, in halves, and how words lie in memory.
_COUNT = slice(2, 4)
_WORD = np.dtype("<i8")


class Accumulator:
    """An exact sum or dot product, to which elements are added piece by piece.

    The value depends only on the elements that were added, not on the pieces or their order: it has
    the same bits as `sum` or `dot` of all elements. Accumulators of any threads, processes and
    machines can be merged, by `merge` or by adding the integers of `to_words`. Accumulators can be
    pickled and copied. Threads may use one accumulator at the same time.

    Parameters
    ----------
    operation : {"sum", "dot"}
        The operation.
    dtype : float32 or float64
        The type of the elements and of the value.

    Examples
    --------
    >>> import gpuvec, numpy as np
    >>> x = np.array([1e100, 1.0, -1e100])
    >>> total = gpuvec.Accumulator("sum", np.float64)
    >>> for piece in np.split(x, 3):
    ...     total.add(piece)
    >>> total
    <gpuvec.Accumulator: sum of 3 float64, 1.0>
    """

    __slots__ = ("__weakref__", "_dtype", "_handle", "_operation", "_owned")

    _dtype: np.dtype[Any]
    _handle: int
    _operation: str

    def __init__(self, operation: str, dtype: DTypeLike) -> None:
        kind = KINDS.get((operation, np.dtype(dtype)))
        if kind is None:
            if operation not in ("sum", "dot"):
                raise ValueError(f"operation is {operation!r}: pass 'sum' or 'dot'")
            raise TypeError(f"dtype is {np.dtype(dtype)}: pass float32 or float64")
        self._create(functions.gpuvec_accumulator_create, kind)
        self._set_kind(kind)

    def _create(self, create: Any, *arguments: object) -> None:
        self._owned = Owned(functions.gpuvec_accumulator_destroy)
        self._handle = self._owned.create(create, *arguments)

    def _set_kind(self, kind: int) -> None:
        [(self._operation, self._dtype)] = [key for key, number in KINDS.items() if number == kind]

    @property
    def operation(self) -> str:
        """The operation: "sum" or "dot"."""
        return self._operation

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements and of the value."""
        return self._dtype

    @property
    def count(self) -> int:
        """The number of elements, or of pairs of elements, that were added."""
        low, high = self.to_words()[_COUNT].tolist()
        return int(low + (high << 32))

    def add(self, a: Array, b: Array | None = None, stream: Stream | None = None) -> None:
        """Add elements; to a dot product, the products of pairs of elements.

        Parameters
        ----------
        a, b : array
            Arrays that `dot` accepts, of the accumulator's type and of one shape; ``b`` only for
            a dot product.
        stream : Stream, optional
            The call waits for the stream's earlier work. The elements are added when it returns.

        Examples
        --------
        >>> import gpuvec, numpy as np
        >>> product = gpuvec.Accumulator("dot", np.float32)
        >>> product.add(np.float32([1, 2]), np.float32([3, 4]))
        >>> product.add(np.float32([0.5]), np.float32([4]))
        >>> float(product.value())
        13.0
        """
        if (b is None) == (self._operation == "dot"):
            raise TypeError(
                "b is missing: a dot product takes two arrays"
                if b is None
                else "b is given: a sum takes one array"
            )
        arrays = {"a": a} if b is None else {"a": a, "b": b}
        found = {name: self._checked(name, array, stream) for name, array in arrays.items()}
        first, last = found["a"], found.get("b")
        if last is not None:
            check_equal("b", last, "a", first)
            check_axes("a", first)
        check(
            functions.gpuvec_accumulator_add(
                self._handle,
                address(first),
                None if last is None else address(last),
                first.size,
                handle_of(stream),
            )
        )

    def _checked(self, name: str, argument: Any, stream: Stream | None) -> NDArray[Any]:
        """Returns an argument's elements, which the library can read."""
        found = typed(name, find(name, argument, stream), self._dtype)
        check_dtype(name, found.array, [self._dtype])
        check_layout(name, found.array)
        return found.array

    def merge(self, other: Accumulator) -> None:
        """Add all elements of another accumulator of the same kind. ``+=`` does the same.

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
            raise TypeError(f"other is a {type(other).__name__}: pass a gpuvec.Accumulator")
        check(functions.gpuvec_accumulator_merge(self._handle, other._handle))

    def __iadd__(self, other: Accumulator) -> Accumulator:
        """Merge another accumulator."""
        if not isinstance(other, Accumulator):
            return NotImplemented
        self.merge(other)
        return self

    def value(self) -> Any:
        """Return the exact sum of all elements so far, rounded once, as a scalar of the type."""
        value = np.empty((), self._dtype)
        check(functions.gpuvec_accumulator_value(self._handle, address(value)))
        return value[()]

    def to_words(self) -> NDArray[np.int64]:
        """Return the state as integers, which can be added.

        The sum of the words of several accumulators is the words of all their elements. So any sum
        of int64 merges accumulators: ``np.sum``, ``MPI.SUM``, NCCL, for up to 2**30 of them, in any
        grouping.

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
        words = np.empty(self._bytes() // _WORD.itemsize, _WORD)
        check(functions.gpuvec_accumulator_serialize(self._handle, address(words), words.nbytes))
        return words

    @classmethod
    def from_words(cls, words: NDArray[np.int64]) -> Accumulator:
        """Make an accumulator from the words of one, or from the sum of the words of several."""
        array = np.asarray(words)
        if array.dtype != np.int64 or array.ndim != 1:
            raise TypeError(
                f"words has dtype {array.dtype} and shape {array.shape}: pass what to_words "
                "returned, or sums of it"
            )
        return cls.from_bytes(array.astype(_WORD).tobytes())

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
    def from_bytes(cls, state: Buffer) -> Accumulator:
        """Make an accumulator from the bytes that `to_bytes` returned.

        Raises
        ------
        ArgumentError
            If the bytes are damaged, incomplete or not a state: ``status`` is
            ``ERROR_STATE``. If they are the sum of more than 2**30 states, or of 2**63 elements or
            more, it is ``ERROR_SIZE``.
        """
        content = bytes(state)
        accumulator = cls.__new__(cls)
        accumulator._create(functions.gpuvec_accumulator_deserialize, content, len(content))
        accumulator._set_kind(_kind(len(content)))
        return accumulator

    def _bytes(self) -> int:
        """Returns the length of the state."""
        kind = KINDS[self._operation, self._dtype]
        return int(functions.gpuvec_accumulator_bytes(kind))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the accumulator as its bytes."""
        return type(self).from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        """Return the operation, the number and type of the elements, and the value."""
        sum_of = {"sum": "sum of", "dot": "dot product of"}[self._operation]
        return f"<gpuvec.Accumulator: {sum_of} {self.count} {self._dtype}, {float(self.value())}>"


def _kind(size: int) -> int:
    """Returns the kind whose states have that many bytes."""
    [kind] = [k for k in KINDS.values() if functions.gpuvec_accumulator_bytes(k) == size]
    return kind
