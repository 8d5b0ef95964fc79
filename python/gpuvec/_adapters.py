"""Arrays and tables of pandas, polars, xarray and Arrow: their elements, and results of their kind.

A library is found among the modules that the program has imported: none is imported here. Elements
are used where they are. Copied are bools of Arrow and polars, which are bits; columns in several
chunks; and columns whose nulls are replaced.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ._operators import OPERANDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Makes an array of the inputs' kind from a result, whose call has reduced these axes.
Wrap = Callable[["NDArray[Any]", tuple[int, ...]], Any]


class Kind:
    """A class of arrays of another library: as a rule, of one axis and with a name."""

    library = ""
    name = ""

    def has(self, argument: Any) -> bool:
        """Says whether an argument is such an array."""
        module = sys.modules.get(self.library)
        return module is not None and isinstance(argument, getattr(module, self.name, ()))

    def dtype(self, name: str, array: Any) -> np.dtype[Any]:
        """Returns NumPy's type of the elements; raises TypeError if it has none."""
        raise NotImplementedError

    def elements(self, name: str, array: Any, na: Any) -> Any:
        """Returns the elements, with a number in place of nulls."""
        raise NotImplementedError

    def made(self, arrays: dict[str, Any], result: NDArray[Any]) -> Any:
        """Returns an array of this kind for a result that has the length of the arrays."""
        raise NotImplementedError

    def fitted(
        self, arrays: dict[str, Any], elements: dict[str, Any]
    ) -> tuple[dict[str, Any], Wrap]:
        """Returns the elements as NumPy broadcasts them, and how to make an array of a result."""
        length = len(elements[next(iter(arrays))])

        def wrap(result: NDArray[Any], reduced: tuple[int, ...]) -> Any:
            is_such = result.shape == (length,) and not reduced
            return self.made(arrays, result) if is_such else result

        return elements, wrap


class Pandas(Kind):
    """`pandas.Series`, which keeps its index."""

    library, name = "pandas", "Series"

    def dtype(self, name: str, array: Any) -> np.dtype[Any]:
        """Returns the type of NumPy's, of nullable and of Arrow's columns."""
        dtype = getattr(array.dtype, "numpy_dtype", array.dtype)
        return _numeric(name, array, dtype if isinstance(dtype, np.dtype) else None)

    def elements(self, name: str, array: Any, na: Any) -> NDArray[Any]:
        """Returns the elements; NaN of a NumPy column is a number like others."""
        dtype = self.dtype(name, array)
        if array.dtype == dtype:
            return np.asarray(array.to_numpy())
        if hasattr(array.dtype, "pyarrow_dtype"):
            return ARROW.elements(name, array.array.__arrow_array__(), na)
        nulls = int(array.isna().sum())
        if not nulls:
            return np.asarray(array.to_numpy(dtype=dtype))
        return np.asarray(array.to_numpy(dtype=dtype, na_value=_filler(name, nulls, dtype, na)))

    def made(self, arrays: dict[str, Any], result: NDArray[Any]) -> Any:
        """Returns a Series."""
        index = next(iter(arrays.values())).index
        series = sys.modules["pandas"].Series
        return series(result, index=index, name=_common_name(arrays), copy=False)

    def fitted(
        self, arrays: dict[str, Any], elements: dict[str, Any]
    ) -> tuple[dict[str, Any], Wrap]:
        """Raises ValueError if indexes differ, which pandas would align."""
        (first, series), *others = arrays.items()
        for other, one in others:
            if not one.index.equals(series.index):
                raise ValueError(
                    f"{first} and {other} have different indexes: pass the results of "
                    f"{first}.align({other})"
                )
        return super().fitted(arrays, elements)


class Polars(Kind):
    """`polars.Series`."""

    library, name = "polars", "Series"

    def dtype(self, name: str, array: Any) -> np.dtype[Any]:
        """Returns the type of numbers and bools."""
        return _numeric(name, array, POLARS.get(str(array.dtype)))

    def elements(self, name: str, array: Any, na: Any) -> NDArray[Any]:
        """Returns the elements; NaN is a number like others, and no null."""
        dtype = self.dtype(name, array)
        nulls = array.null_count()
        if nulls:
            array = array.fill_null(_filler(name, nulls, dtype, na))
        return np.asarray(array.rechunk().to_numpy(allow_copy=dtype.kind == "b"))

    def made(self, arrays: dict[str, Any], result: NDArray[Any]) -> Any:
        """Returns a Series."""
        return sys.modules["polars"].Series(_common_name(arrays) or "", result)


class Xarray(Kind):
    """`xarray.DataArray`, whose dimensions are broadcast by their names."""

    library, name = "xarray", "DataArray"

    def dtype(self, name: str, array: Any) -> np.dtype[Any]:
        """Returns the type."""
        return _numeric(name, array, array.dtype)

    def elements(self, name: str, array: Any, na: Any) -> Any:
        """Returns the array inside, which may be that of a GPU."""
        if hasattr(array.data, "compute"):
            raise TypeError(f"{name} is not computed yet: pass {name}.compute()")
        return array.data

    def fitted(
        self, arrays: dict[str, Any], elements: dict[str, Any]
    ) -> tuple[dict[str, Any], Wrap]:
        """Gives all arrays the same dimensions in one order, with length 1 where they lack one."""
        lengths: dict[Any, int] = {}
        for name, array in arrays.items():
            for dim, length in array.sizes.items():
                if lengths.setdefault(dim, length) != length:
                    raise ValueError(
                        f"{name} has length {length} along {dim!r}, and another array has "
                        f"{lengths[dim]}: pass arrays of one length, as from xarray.align"
                    )
        _check_indexes(arrays)
        turned = {name: _turned(elements[name], arrays[name].dims, lengths) for name in arrays}

        def wrap(result: NDArray[Any], reduced: tuple[int, ...]) -> Any:
            kept = [dim for axis, dim in enumerate(lengths) if axis not in reduced]
            if result.shape != tuple(lengths[dim] for dim in kept):
                return result
            coords, name = _common_coords(arrays, set(kept)), _common_name(arrays)
            return sys.modules["xarray"].DataArray(result, coords, kept, name)

        return turned, wrap


class Arrow(Kind):
    """Arrays that Arrow's C data interface exports; pyarrow's, in one chunk or several."""

    library, name = "pyarrow", "ChunkedArray"

    def has(self, argument: Any) -> bool:
        """Says whether an argument is such an array."""
        return hasattr(argument, "__arrow_c_array__") or super().has(argument)

    def dtype(self, name: str, array: Any) -> np.dtype[Any]:
        """Returns the type, for which the array is exported."""
        return _exported(name, array)[0].dtype

    def elements(self, name: str, array: Any, na: Any) -> NDArray[Any]:
        """Returns the elements."""
        elements, valid = _exported(name, array)
        if valid is None:
            return elements
        filler = _filler(name, int((~valid).sum()), elements.dtype, na)
        return np.where(valid, elements, np.asarray(filler, elements.dtype))

    def made(self, arrays: dict[str, Any], result: NDArray[Any]) -> Any:
        """Returns an array of pyarrow's; of NumPy's if the arrays come from another library."""
        pyarrow = sys.modules.get("pyarrow")
        if pyarrow is None:
            return result
        given = [type(array) for array in arrays.values()]
        if all(issubclass(one, pyarrow.ChunkedArray) for one in given):
            return pyarrow.chunked_array([pyarrow.array(result)])
        is_known = all(issubclass(one, (pyarrow.Array, pyarrow.ChunkedArray)) for one in given)
        return pyarrow.array(result) if is_known else result


ARROW = Arrow()
KINDS = (Pandas(), Polars(), Xarray(), ARROW)

# The classes of tables, with the attribute that has the names of their columns.
TABLES = (
    ("pandas", "DataFrame", "columns"),
    ("polars", "DataFrame", "columns"),
    ("xarray", "Dataset", "variables"),
    ("pyarrow", "RecordBatch", "column_names"),
    ("pyarrow", "Table", "column_names"),
)


def kind_of(argument: Any) -> Kind | None:
    """Returns the kind of an argument; None if it is no array of these libraries."""
    if isinstance(argument, OPERANDS):
        return None
    return next((kind for kind in KINDS if kind.has(argument)), None)


def adapted(inputs: dict[str, Any], na: Any) -> tuple[dict[str, Any], Wrap] | None:
    """Returns the inputs with the elements of other libraries' arrays; None if there are none.

    And what makes arrays of results: of the kind of these arrays if all are of one kind, otherwise
    NumPy's.
    """
    kinds = {name: kind_of(value) for name, value in inputs.items()}
    distinct = [kind for kind in KINDS if kind in kinds.values()]
    if not distinct:
        return None
    plain, wraps = dict(inputs), []
    for kind in distinct:
        own = {name: inputs[name] for name, one in kinds.items() if one is kind}
        elements = {name: kind.elements(name, array, na) for name, array in own.items()}
        turned, wrap = kind.fitted(own, elements)
        plain.update(turned)
        wraps.append(wrap)
    return plain, wraps[0] if len(wraps) == 1 else lambda result, _: result


def columns(inputs: Any, names: Iterable[str]) -> Mapping[str, Any]:
    """Returns the columns of a table that have one of the names; a mapping as it is."""
    for library, name, attribute in TABLES:
        module = sys.modules.get(library)
        if module is not None and isinstance(inputs, getattr(module, name, ())):
            known = getattr(inputs, attribute)
            return {one: inputs[one] for one in names if one in known}
    if isinstance(inputs, Mapping):
        return inputs
    hint = ", such as its collect()" if hasattr(inputs, "collect") else ""
    raise TypeError(
        f"inputs is a {type(inputs).__name__}: pass a mapping of names to inputs, or a table{hint}"
    )


# The types of polars' columns.
POLARS = {
    name.capitalize().replace("Uint", "UInt"): np.dtype(name)
    for name in "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()
}
POLARS["Boolean"] = np.dtype(np.bool_)


def _numeric(name: str, array: Any, dtype: np.dtype[Any] | None) -> np.dtype[Any]:
    """Returns the type of a column; raises TypeError unless it has numbers or bools."""
    if dtype is None or dtype.kind not in "biuf":
        raise TypeError(f"{name} has dtype {array.dtype}: pass a column of numbers or bools")
    return dtype


def _filler(name: str, nulls: int, dtype: np.dtype[Any], na: Any) -> Any:
    """Returns the number in place of nulls; raises an error if there is none of the type."""
    if na is None:
        raise ValueError(
            f"{name} has nulls, {nulls} in all: pass a number in their place to gpuvec.evaluate, "
            "as na=0, or fill them first"
        )
    if np.result_type(dtype, na) != dtype:
        raise TypeError(f"na is {na!r}, and {name} has dtype {dtype}: pass a number of that type")
    return na


def _common_name(arrays: dict[str, Any]) -> Any:
    """Returns the name that all arrays have, or None."""
    first, *others = [array.name for array in arrays.values()]
    return first if all(other == first for other in others) else None


def _exported(name: str, array: Any) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Returns the elements of an array of Arrow, and which of them are valid; None if all are."""
    # Imported when an array needs it, since it takes longer than the rest of this module.
    from ._arrow import exported

    if hasattr(array, "num_chunks"):
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    return exported(name, array)


def _check_indexes(arrays: dict[str, Any]) -> None:
    """Raises ValueError if arrays have different indexes along a dimension."""
    seen: dict[Any, tuple[str, Any]] = {}
    for name, array in arrays.items():
        for dim, index in array.indexes.items():
            other, known = seen.setdefault(dim, (name, index))
            if not index.equals(known):
                raise ValueError(
                    f"{other} and {name} have different indexes along {dim!r}: pass the results of "
                    f"xarray.align({other}, {name})"
                )


def _turned(elements: Any, dims: tuple[Any, ...], wanted: Iterable[Any]) -> Any:
    """Returns elements with their dimensions in an order, and with length 1 along the others."""
    order = [dims.index(dim) for dim in wanted if dim in dims]
    index = tuple(slice(None) if dim in dims else None for dim in wanted)
    # With "..." NumPy returns an array of no axes, not its element.
    return elements.transpose(order)[(*index, ...)]


def _common_coords(arrays: dict[str, Any], dims: set[Any]) -> dict[Any, Any]:
    """Returns the coordinates along dimensions, but for those in which arrays differ."""
    coords: dict[Any, Any] = {}
    conflicting = set()
    for array in arrays.values():
        for name, coord in array.coords.items():
            if not coords.setdefault(name, coord).equals(coord):
                conflicting.add(name)
    is_kept = {name: dims.issuperset(coord.dims) for name, coord in coords.items()}
    return {name: coords[name] for name in coords if is_kept[name] and name not in conflicting}
