"""Numbers the distinct values of keys of any type, for reductions by key."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from typing import Union

    from numpy.typing import NDArray

    from ._typing import Array

    # The argument `by=` of reductions.
    Keys = Union[str, Array, "Groups"]


class Groups:
    """The groups of keys, as `group` returns them. Pass it as ``by=`` of reductions.

    Attributes
    ----------
    codes : ndarray of int64
        The group of each key: the index of its value among the labels, or -1 for a null.
    labels : array or index
        The distinct values in ascending order, of the kind of the keys: an ndarray, an index of
        pandas, a Series of polars or an array of pyarrow.
    """

    __slots__ = ("_keys", "codes", "labels")

    codes: NDArray[np.int64]
    labels: Any

    def __init__(self, codes: Any, labels: Any, index: Any = None) -> None:
        self.codes, self.labels = np.ascontiguousarray(codes, np.int64), labels
        # Series of pandas must have the keys' index.
        pandas = sys.modules.get("pandas")
        has_index = pandas is not None and index is not None
        self._keys = pandas.Series(self.codes, index) if pandas and has_index else self.codes

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self.labels)

    def __repr__(self) -> str:
        """Return the number of groups and of keys."""
        return f"<gpuvec.Groups: {len(self)} groups of {self.codes.size} keys>"

    def _labelled(self, result: Any, inputs: dict[str, Any]) -> Any:
        """Returns results, in the order of the labels, with pandas' labels as their index."""
        pandas = sys.modules.get("pandas")
        if pandas is None or not isinstance(self.labels, pandas.Index):
            return result
        columns = [one for one in inputs.values() if isinstance(one, pandas.Series)]
        names = {one.name for one in columns if one is not self._keys}
        name = names.pop() if len(names) == 1 else None
        return pandas.Series(np.asarray(result), self.labels, name=name, copy=False)


def group(keys: Any, /) -> Groups:
    """Number the distinct values of keys, for reductions by key.

    Values are numbered in ascending order, as by pandas' ``groupby(sort=True, observed=True)``.
    Nulls, NaN and NaT are in no group: reductions leave these elements out.

    Parameters
    ----------
    keys : array, column or frame
        The keys, of any type that their library sorts: strings, categories, dates, numbers. A NumPy
        array or a list; a Series, an index or an array of pandas, a DataFrame, whose rows are keys;
        a Series of polars; an array of pyarrow, in one chunk or several, or a dictionary.

    Returns
    -------
    Groups
        The ``codes`` of the keys, and the ``labels`` of the groups. As ``by=`` it makes results in
        the order of the labels; if the keys are pandas', a Series with the labels as its index.

    Raises
    ------
    TypeError
        If the values cannot be sorted.

    Examples
    --------
    >>> import gpuvec, numpy as np
    >>> towns = gpuvec.group(["Oslo", "Bern", "Oslo", "Rome"])
    >>> towns.codes, towns.labels
    (array([1, 0, 1, 2]), array(['Bern', 'Oslo', 'Rome'], dtype='<U4'))
    >>> gpuvec.sum(np.array([0.1, 1.0, 0.2, 5.0]), by=towns)
    array([1. , 0.3, 5. ])
    """
    library = type(keys).__module__.partition(".")[0]
    if library in _OF_LIBRARY and library in sys.modules:
        return _OF_LIBRARY[library](keys, sys.modules[library])
    return _of_numpy(np.asarray(keys))


def _of_numpy(keys: NDArray[Any]) -> Groups:
    labels, codes = np.unique(keys, return_inverse=True)
    codes = codes.reshape(keys.shape)
    # NaN and NaT are at the end, and differ from themselves.
    count = int(np.count_nonzero(labels == labels))  # noqa: PLR0124
    return Groups(np.where(codes < count, codes, -1), labels[:count])


def _of_pandas(keys: Any, pandas: Any) -> Groups:
    if isinstance(keys, pandas.DataFrame):
        grouped = keys.groupby(list(keys.columns), sort=True, observed=True)
        codes = grouped.ngroup().fillna(-1)
        return Groups(codes.to_numpy(np.int64), grouped.size().index, keys.index)
    codes, labels = pandas.factorize(keys, sort=True)
    labels = pandas.Index(labels, name=getattr(keys, "name", None))
    return Groups(codes, labels, getattr(keys, "index", None))


def _of_polars(keys: Any, polars: Any) -> Groups:
    kept = keys.fill_nan(None) if keys.dtype.is_float() else keys
    codes = kept.rank("dense").cast(polars.Int64) - 1
    return Groups(codes.fill_null(-1).to_numpy(), kept.drop_nulls().unique().sort())


def _of_pyarrow(keys: Any, pyarrow: Any) -> Groups:
    compute = importlib.import_module("pyarrow.compute")
    if isinstance(keys, pyarrow.ChunkedArray):
        keys = keys.combine_chunks()
    if isinstance(keys, pyarrow.DictionaryArray):
        keys = keys.dictionary_decode()
    labels = keys.unique().drop_null().sort()
    if pyarrow.types.is_floating(labels.type):
        labels = labels.filter(compute.invert(compute.is_nan(labels)))
    codes = compute.index_in(keys, value_set=labels).fill_null(-1)
    return Groups(codes.to_numpy(), labels)


_OF_LIBRARY = {"pandas": _of_pandas, "polars": _of_polars, "pyarrow": _of_pyarrow}
