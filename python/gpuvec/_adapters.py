"""Arrays and tables of pandas, polars, xarray and Arrow: their elements, and results of their kind.

A library is found among the modules that the program has imported: none is imported here. Elements
are used in place. Only these are copied: bools of Arrow and polars, which are bits; columns in
several chunks; and columns whose nulls are replaced.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from ._numbers import check_number, converted
from ._operators import OPERANDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The names of a formula's arrays, as often as the text has them, and the number of axes of each
# array of another kind.
Others = tuple[Sequence[str], dict[str, int]]
# Makes an array of the inputs' kind from a result, whose call has reduced these axes.
Wrap = Callable[["NDArray[Any]", tuple[int, ...]], Any]


class Kind:
    """A class of arrays of another library: as a rule, of one axis and with a name."""

    library = ""
    name = ""

    def has(self, argument: Any) -> bool:
        """Return whether an argument is such an array."""
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
        self, arrays: dict[str, Any], elements: dict[str, Any], others: Others
    ) -> tuple[dict[str, Any], Wrap]:
        """Returns the elements as NumPy broadcasts them, and how to make an array of a result.

        The arrays are in the order in which the formula names them.
        """
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
        """Returns the elements; NaN in a NumPy column is an ordinary number."""
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
        index = next(iter(arrays.values())).index
        series = sys.modules["pandas"].Series
        return series(result, index=index, name=_common_name(arrays), copy=False)

    def fitted(
        self, arrays: dict[str, Any], elements: dict[str, Any], others: Others
    ) -> tuple[dict[str, Any], Wrap]:
        """Raises ValueError if indexes differ, which pandas would align."""
        (first, series), *rest = arrays.items()
        for other, one in rest:
            if not one.index.equals(series.index):
                raise ValueError(
                    f"{first} and {other} have different indexes: pass the results of "
                    f"{first}.align({other})"
                )
        return super().fitted(arrays, elements, others)


class Polars(Kind):
    """`polars.Series`."""

    library, name = "polars", "Series"

    def dtype(self, name: str, array: Any) -> np.dtype[Any]:
        return _numeric(name, array, POLARS.get(str(array.dtype)))

    def elements(self, name: str, array: Any, na: Any) -> NDArray[Any]:
        """Returns the elements; NaN is an ordinary number, not a null."""
        dtype = self.dtype(name, array)
        nulls = array.null_count()
        if nulls:
            array = array.fill_null(_filler(name, nulls, dtype, na))
        return np.asarray(array.rechunk().to_numpy(allow_copy=dtype.kind == "b"))

    def made(self, arrays: dict[str, Any], result: NDArray[Any]) -> Any:
        return sys.modules["polars"].Series(_common_name(arrays) or "", result)


class Xarray(Kind):
    """`xarray.DataArray`, whose dimensions are broadcast by their names."""

    library, name = "xarray", "DataArray"

    def dtype(self, name: str, array: Any) -> np.dtype[Any]:
        return _numeric(name, array, array.dtype)

    def elements(self, name: str, array: Any, na: Any) -> Any:
        """Returns the array inside, which may be that of a GPU."""
        if hasattr(array.data, "compute"):
            raise TypeError(f"{name} is not computed yet: pass {name}.compute()")
        return array.data

    def fitted(
        self, arrays: dict[str, Any], elements: dict[str, Any], others: Others
    ) -> tuple[dict[str, Any], Wrap]:
        """Gives all arrays the same dimensions in one order, with length 1 where they lack one.

        The order is that in which the formula names them, as in xarray's arithmetic.
        """
        _check_fit(arrays)
        _check_unnamed({name: array.dims for name, array in arrays.items()}, others)
        lengths = {dim: n for array in arrays.values() for dim, n in array.sizes.items()}
        turned = {name: _turned(elements[name], arrays[name].dims, lengths) for name in arrays}

        def wrap(result: NDArray[Any], reduced: tuple[int, ...]) -> Any:
            kept = [length for axis, length in enumerate(lengths.values()) if axis not in reduced]
            if result.shape != tuple(kept) or len(kept) + len(reduced) != len(lengths):
                return result
            whole = _labelled(list(arrays.values()), lengths)
            return whole.reduce(lambda *_, **__: result, [whole.dims[axis] for axis in reduced])

        return turned, wrap


class Arrow(Kind):
    """Arrays that Arrow's C data interface exports; pyarrow's, in one chunk or several."""

    library, name = "pyarrow", "ChunkedArray"

    def has(self, argument: Any) -> bool:
        return hasattr(argument, "__arrow_c_array__") or super().has(argument)

    def dtype(self, name: str, array: Any) -> np.dtype[Any]:
        """Returns the type, for which the array is exported."""
        return _exported(name, array)[0].dtype

    def elements(self, name: str, array: Any, na: Any) -> NDArray[Any]:
        elements, valid = _exported(name, array)
        if valid is None:
            return elements
        filler = _filler(name, int((~valid).sum()), elements.dtype, na)
        return np.where(valid, elements, np.asarray(filler, elements.dtype))

    def made(self, arrays: dict[str, Any], result: NDArray[Any]) -> Any:
        """Returns a pyarrow array, or a NumPy array if the arrays come from another library."""
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
    """Returns the kind of an argument; None if it is not an array of these libraries."""
    if isinstance(argument, OPERANDS):
        return None
    return next((kind for kind in KINDS if kind.has(argument)), None)


def kinds_of(inputs: dict[str, Any], names: Iterable[str]) -> dict[str, Kind]:
    """Returns the kinds of those inputs with these names that are arrays of these libraries."""
    kinds = {name: kind_of(inputs[name]) for name in names}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def adapted(
    inputs: dict[str, Any], kinds: dict[str, Kind], names: Sequence[str], na: Any
) -> tuple[dict[str, Any], Wrap]:
    """Returns the inputs with the elements of other libraries' arrays, and how to wrap a result.

    Results are of the kind of these arrays if all are of one kind, otherwise NumPy's. ``names`` has
    the names of all arrays, as a formula has them.
    """
    if na is not None:
        check_number("na", na)
    plain, wraps = dict(inputs), []
    for kind in (kind for kind in KINDS if kind in kinds.values()):
        own = {name: inputs[name] for name in names if kinds.get(name) is kind}
        others = {name: getattr(inputs[name], "ndim", 1) for name in names if name not in own}
        elements = {name: kind.elements(name, array, na) for name, array in own.items()}
        turned, wrap = kind.fitted(own, elements, (names, others))
        plain.update(turned)
        wraps.append(wrap)
    return plain, wraps[0] if len(wraps) == 1 else lambda result, _: result


def columns(inputs: Any, names: Iterable[str]) -> Mapping[str, Any]:
    """Returns the columns of a table that have one of the names; a mapping as it is."""
    for library, name, attribute in TABLES:
        table = getattr(sys.modules.get(library), name, ())
        if isinstance(inputs, table):
            known = getattr(inputs, attribute)
            return {one: _column(table, inputs, one) for one in names if one in known}
    if isinstance(inputs, Mapping):
        return inputs
    hint = ", such as its collect()" if hasattr(inputs, "collect") else ""
    raise TypeError(
        f"inputs is a {type(inputs).__name__}: pass a mapping of names to inputs, or a table{hint}"
    )


def _column(table: Any, inputs: Any, name: str) -> Any:
    """Returns the column with a name; raises ValueError if there are several."""
    try:
        column = inputs[name]
    except KeyError:
        # The name is known: pyarrow means that several have it, for which pandas returns a table.
        column = None
    if column is None or isinstance(column, table):
        raise ValueError(
            f"inputs has several columns named {name!r}: pass one of them in a mapping, "
            f"{{{name!r}: ...}}"
        )
    return column


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
    return converted("na", na, dtype, f"{name} ({dtype})").item()


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


def _check_fit(arrays: dict[str, Any]) -> None:
    """Raises ValueError if arrays have different lengths or indexes along a dimension."""
    try:
        sys.modules["xarray"].align(*arrays.values(), join="exact", copy=False)
    except ValueError as error:
        if len(arrays) > 2:
            for pair in combinations(arrays.items(), 2):
                _check_fit(dict(pair))
        one, other, *_ = arrays.values()
        dims = [dim for dim in one.dims if dim in other.dims and _differ(one, other, dim)]
        place = f" along {', '.join(map(repr, dims))}" if dims else ""
        raise ValueError(
            f"{' and '.join(arrays)} have different lengths or indexes{place}: pass arrays that "
            f"agree, such as the results of xarray.align({', '.join(arrays)})"
        ) from error


def _differ(one: Any, other: Any, dim: Any) -> bool:
    """Returns whether two arrays have different lengths or labels along a dimension."""
    are_labelled = dim in one.coords and dim in other.coords
    return one.sizes[dim] != other.sizes[dim] or (
        are_labelled and not one[dim].variable.equals(other[dim].variable)
    )


def _check_unnamed(dims: dict[str, tuple[Any, ...]], others: Others) -> None:
    """Raises ValueError if an array's dimensions depend on the operator that combines it first.

    xarray matches an array without dimensions to the last dimensions of the other operand, which
    may be any part of the formula.
    """
    names, axes_of = others
    given = [one for one, _ in groupby(dims[name] for name in names if name in dims)]
    for name, axes in axes_of.items():
        places = set()
        for first in range(len(given)):
            part: dict[Any, None] = {}
            for one in given[first:]:
                part.update(dict.fromkeys(one))
                if len(part) >= axes:
                    places.add(tuple(part)[len(part) - axes :])
        if len(places) > 1:
            seen = ", ".join(f"{one} has dimensions {list(its)}" for one, its in dims.items())
            raise ValueError(
                f"{name} has axes without names, and {seen}: pass xarray.DataArray({name}, "
                "dims=...), which says along which its axes are"
            )


def _labelled(arrays: list[Any], lengths: dict[Any, int]) -> Any:
    """Returns the sum of arrays as xarray labels it; its elements have no memory and no meaning.

    xarray itself adds the coordinates, and arrays of one element with the names and attributes.
    """
    made = sys.modules["xarray"].DataArray
    merged = sum(array.coords.to_dataset() for array in arrays)
    # A scalar with the name of a dimension is a coordinate of xarray's sums, and of no other array.
    scalars = [dim for dim in lengths if dim in merged.coords and dim not in merged.dims]
    one = sum(made(False, name=array.name, attrs=array.attrs) for array in arrays)
    elements = np.broadcast_to(False, tuple(lengths.values()))
    return made(elements, merged.drop_vars(scalars).coords, tuple(lengths), one.name, one.attrs)


def _turned(elements: Any, dims: tuple[Any, ...], wanted: Iterable[Any]) -> Any:
    """Returns elements with their dimensions in an order, and with length 1 along the others."""
    order = [dims.index(dim) for dim in wanted if dim in dims]
    index = tuple(slice(None) if dim in dims else None for dim in wanted)
    # With "..." NumPy returns an array of no axes, not its element.
    return elements.transpose(order)[(*index, ...)]
