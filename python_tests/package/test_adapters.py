"""Columns and tables of other libraries: no copies, and results of their kind."""

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gpuvec
import numpy as np
import pytest
from arrays import assert_same_bits
from gpuvec._arrays import find
from programs import library_environment

TYPES = [
    "bool",
    "uint8",
    "int8",
    "uint16",
    "int16",
    "uint32",
    "int32",
    "int64",
    "float32",
    "float64",
]
SIZES = [0, 1, 7, 1000]


@dataclass(frozen=True)
class Library:
    """A class of columns, and how they come from NumPy's arrays and become such again."""

    name: str
    class_name: str
    column: Callable[[Any, np.ndarray], Any]
    to_numpy: Callable[[Any], np.ndarray]
    # Bools that are bits are copied.
    copies_bools: bool = False

    def imported(self) -> Any:
        """Returns the library; skips the test if it is missing."""
        return pytest.importorskip(self.name.split(":")[0])

    def make(self, array: np.ndarray) -> Any:
        """Makes a column."""
        return self.column(self.imported(), array)

    def check(self, found: Any, wanted: np.ndarray) -> None:
        """Checks that a result is a column with these bits."""
        assert isinstance(found, getattr(self.imported(), self.class_name))
        assert_same_bits(self.to_numpy(found), wanted)


def of_pandas(suffix: str) -> Callable[[Any, np.ndarray], Any]:
    """Returns what makes a Series of NumPy's types, or of pandas' that may have nulls."""

    def column(pandas: Any, array: np.ndarray) -> Any:
        dtype = array.dtype.name
        if suffix == "nullable":
            special = {"bool": "boolean"}.get(dtype, dtype.capitalize().replace("Ui", "UI"))
            return pandas.Series(array.copy()).astype(special)
        if suffix == "arrow":
            pyarrow = pytest.importorskip("pyarrow")
            values = pandas.array(
                pyarrow.array(array), dtype=pandas.ArrowDtype(pyarrow.from_numpy_dtype(dtype))
            )
            return pandas.Series(values)
        return pandas.Series(array)

    return column


def in_chunks(pyarrow: Any, array: np.ndarray) -> Any:
    """An array in three chunks."""
    return pyarrow.chunked_array([pyarrow.array(part) for part in np.array_split(array, 3)])


LIBRARIES = [
    Library("pandas", "Series", of_pandas(""), lambda series: series.to_numpy()),
    Library("pandas:nullable", "Series", of_pandas("nullable"), lambda series: series.to_numpy()),
    Library("pandas:arrow", "Series", of_pandas("arrow"), lambda series: series.to_numpy(), True),
    Library("polars", "Series", lambda polars, array: polars.Series(array), np.asarray, True),
    Library("pyarrow", "Array", lambda pyarrow, array: pyarrow.array(array), np.asarray, True),
    Library(
        "pyarrow:chunked",
        "ChunkedArray",
        lambda pyarrow, array: pyarrow.chunked_array([pyarrow.array(array)]),
        lambda array: array.to_numpy(),
        True,
    ),
    Library(
        "xarray",
        "DataArray",
        lambda xarray, array: xarray.DataArray(array),
        lambda array: array.data,
    ),
]
EACH_LIBRARY = pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.name)


def numbers(dtype, size: int) -> np.ndarray:
    """Numbers of a type, with odd offsets in memory."""
    return (np.arange(size + 1) % 50).astype(dtype)[1:]


@EACH_LIBRARY
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", SIZES)
def test_elements_are_not_copied(library, dtype, size):
    """A call reads the column's own memory; also that of a slice."""
    column = library.make(numbers(dtype, size))
    for part in (column, column[3:]) if size > 3 else (column,):
        found = find("x", part).array
        wanted = library.to_numpy(part)
        assert_same_bits(found, wanted.astype(dtype))
        if size and not (library.copies_bools and dtype == "bool") and wanted.dtype == dtype:
            assert np.shares_memory(found, wanted)


@EACH_LIBRARY
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", SIZES)
def test_formulas_of_columns(placement, library, dtype, size):
    """The result is a column of the same kind, with the bits of that of NumPy's array."""
    array = numbers(dtype, size)
    column = library.make(array)
    for text in ("x == 3", "f32(x) + 1", "where(x == 3, 2, i64(x))"):
        wanted = gpuvec.evaluate(text, x=array)
        library.check(gpuvec.evaluate(text, x=column), wanted)
        library.check(gpuvec.evaluate(text, {"x": column}), wanted)
    assert gpuvec.evaluate("sum(i64(x))", x=column) == array.sum(dtype=np.int64)


@EACH_LIBRARY
def test_operations_of_columns(placement, library):
    """Operations, expressions that are kept, accumulators and device arrays accept columns."""
    a, b = numbers(np.float64, 100), numbers(np.float64, 100)[::-1].copy()
    x, y = (library.make(array) for array in (a, b))
    for result, wanted in [
        (gpuvec.add(x, y), a + b),
        (gpuvec.scale(2, x), 2 * a),
        (gpuvec.axpy(2, x, y), 2 * a + b),
        (gpuvec.Expression("x - y", x="f8", y="f8")(x=x, y=y), a - b),
        (gpuvec.Expression("x - k", x="f8", k=float)(x=x, k=2), a - 2),
    ]:
        library.check(result, wanted)
    assert gpuvec.dot(x, y) == a @ b
    assert gpuvec.sum(x) == gpuvec.sum(x, axis=0) == a.sum()
    total = gpuvec.Accumulator("sum", np.float64)
    total.add(x)
    assert total.value() == a.sum()
    assert_same_bits(gpuvec.to_device(x).to_host(), a)
    device = gpuvec.to_device(b)
    assert_same_bits((device * x).to_host(), b * a)
    device += x
    assert_same_bits(device.to_host(), b + a)


@EACH_LIBRARY
def test_results_of_other_kinds(placement, library):
    """Reductions are scalars, `out=` is returned as it is, and shapes win over kinds."""
    a = numbers(np.float32, 10)
    x = library.make(a)
    total, doubled = gpuvec.evaluate("sum(x); 2 * x", x=x)
    assert isinstance(total, np.float32)
    library.check(doubled, 2 * a)
    out = np.empty(10, np.float32)
    assert gpuvec.evaluate("x + 1", x=x, out=out) is out
    assert_same_bits(out, a + 1)
    kept, total = gpuvec.evaluate("x + 1; sum(x)", x=x, out=(out, None))
    assert kept is out and total == a.sum()
    table = np.ones((3, 10), np.float32)
    assert type(gpuvec.evaluate("x + t", x=x, t=table)) is np.ndarray
    one = library.make(a[:1])
    assert type(gpuvec.evaluate("sum(x)", x=one, axis=0, keepdims=True)) is np.ndarray
    device = gpuvec.evaluate("x + d", x=x, d=gpuvec.to_device(a))
    assert_same_bits(device.to_host(), a + a)
    library.check(gpuvec.evaluate("x + y", x=x, y=a), a + a)


@EACH_LIBRARY
def test_columns_are_no_outputs(library):
    """A call returns new columns, and changes none."""
    x = library.make(np.ones(3))
    before = library.to_numpy(x).copy()
    with pytest.raises((TypeError, ValueError), match="^out is (a|read-only)"):
        gpuvec.add(np.ones(3), np.ones(3), out=x)
    assert_same_bits(library.to_numpy(x), before)


class UnversionedArrow:
    """An array as those of pyarrow before its tensors had a flag that they are read-only."""

    def __init__(self, elements):
        self.elements = elements

    def __arrow_c_array__(self, requested_schema=None):
        """Exports the elements as Arrow's C structures."""
        return pytest.importorskip("pyarrow").array(self.elements).__arrow_c_array__()

    def __dlpack__(self, stream=None, **_):
        """Exports a tensor without flags."""
        return self.elements.__dlpack__()

    def __dlpack_device__(self):
        """Says that the elements are in host memory."""
        return self.elements.__dlpack_device__()


@pytest.mark.parametrize("n", [0, 1, 3, 1000])
def test_arrow_arrays_that_do_not_say_they_are_read_only(placement, n):
    """They are inputs, and their elements do not change."""
    elements = np.arange(n, dtype=np.float64)
    x = UnversionedArrow(elements.copy())
    for call in [gpuvec.add, lambda a, b, out: gpuvec.evaluate("a + b", a=a, b=b, out=out)]:
        with pytest.raises(TypeError, match="^out is a .*UnversionedArrow.*pass a NumPy array"):
            call(np.ones(n), np.ones(n), out=x)
    assert_same_bits(x.elements, elements)
    assert_same_bits(gpuvec.add(x, elements), elements + elements)


def test_columns_of_several_libraries(placement):
    """The result is NumPy's."""
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    a = np.arange(5.0)
    result = gpuvec.evaluate("x + y", x=pandas.Series(a), y=polars.Series(a))
    assert type(result) is np.ndarray
    assert_same_bits(result, a + a)


# Columns with nulls: the first and the last of five.
def with_nulls(kind: str) -> Any:
    """Makes such a column."""
    values = [None, 1, 2, 3, None]
    library = pytest.importorskip(kind.split(":")[0])
    if kind == "pandas":
        return library.Series(values, dtype="Int64")
    if kind == "pandas:arrow":
        pytest.importorskip("pyarrow")
        return library.Series(values, dtype="int64[pyarrow]")
    if kind == "polars":
        return library.Series(values)
    array = library.array([7, *values], library.int64())[1:]
    return library.chunked_array([array[:2], array[2:]]) if kind == "pyarrow:chunked" else array


@pytest.mark.parametrize("kind", ["pandas", "pandas:arrow", "polars", "pyarrow", "pyarrow:chunked"])
def test_nulls(placement, kind):
    """They are an error, unless the call says which number they stand for."""
    x = with_nulls(kind)
    for call in (
        lambda: gpuvec.evaluate("x + 1", x=x),
        lambda: gpuvec.Expression("x", x="i8")(x=x),
        lambda: gpuvec.evaluate("x + 1", {"x": x}),
    ):
        with pytest.raises(ValueError, match="^x has nulls, 2 in all: pass a number in their"):
            call()
    with pytest.raises(ValueError, match="^a has nulls, 2 in all"):
        gpuvec.sum(x)
    result = gpuvec.evaluate("x + 1", x=x, na=-5)
    assert np.asarray(result).tolist() == [-4, 2, 3, 4, -4]
    assert gpuvec.Expression("sum(x)", x="i8")(x=x, na=0) == 6
    with pytest.raises(TypeError, match="na is an input of the formula, and na= is not"):
        gpuvec.evaluate("x + na", x=x, na=1)
    assert np.asarray(gpuvec.evaluate("x + na", {"na": 1, "x": x}, na=0)).tolist() == [
        1,
        2,
        3,
        4,
        1,
    ]


def test_nulls_of_floats_and_bools():
    """NaN may stand for nulls, and NaN itself is a number. Bools are bits."""
    pyarrow = pytest.importorskip("pyarrow")
    x = pyarrow.array([1.5, None, np.nan], pyarrow.float32())
    found = gpuvec.evaluate("x * 2", x=x, na=np.nan).to_numpy()
    assert_same_bits(found, np.float32([3, np.nan, np.nan]))
    bits = [True, False, None] * 7
    for first in (0, 1, 7, 8, 9):
        array = pyarrow.array(bits)[first:]
        wanted = [bool(bit) for bit in bits[first:]]
        assert gpuvec.evaluate("m", m=array, na=False).to_pylist() == wanted
        assert gpuvec.evaluate("~m", m=array.fill_null(True)[1:]).to_pylist() == [
            bit is False for bit in bits[first + 1 :]
        ]
    no_nulls = pyarrow.array([None, 1.0, 2.0])[1:]
    assert gpuvec.sum(no_nulls) == 3


# Columns of one null, by library and type; pandas' nullable types have other names.
NULLS = {
    "pandas": lambda library, dtype: library.Series(
        [None],
        dtype="boolean" if dtype == "bool" else dtype.capitalize().replace("Ui", "UI"),
    ),
    "pandas:arrow": lambda library, dtype: library.Series(
        [None], dtype=library.ArrowDtype(pytest.importorskip("pyarrow").from_numpy_dtype(dtype))
    ),
    "polars": lambda library, dtype: library.Series(
        [None],
        dtype=getattr(
            library,
            "Boolean" if dtype == "bool" else dtype.capitalize().replace("Ui", "UI"),
        ),
    ),
    "pyarrow": lambda library, dtype: library.array([None], library.from_numpy_dtype(dtype)),
}
# Values that are not numbers, and numbers that some or all types do not hold.
WRONG = ["0", {"x": 0}, [0], np.zeros(1), np.array(0), 1j, np.datetime64("NaT"), b"0", int]
LIMITED = [0, -1, 300, 2**40, 2**63, -(2**63) - 1, 2**64, 10**5000, 0.5, np.nan, np.float32(1)]


@pytest.mark.parametrize("library", NULLS)
@pytest.mark.parametrize("dtype", [*TYPES, "uint64"])
def test_values_in_place_of_nulls(library, dtype):
    """Those that the type holds; errors name the value and say which ones are right."""
    column = NULLS[library](pytest.importorskip(library.split(":")[0]), dtype)
    kind = np.dtype(dtype).kind
    for na in [*WRONG, pytest.importorskip("pandas").NA]:
        with pytest.raises(TypeError, match=r"^na is .*: pass a"):
            gpuvec.evaluate("x", x=column, na=na)
    for na in [*LIMITED, 1e300, True, np.True_, np.uint64(2**63), np.int8(-1)]:
        is_bool = isinstance(na, (bool, np.bool_))
        is_integer = is_bool or isinstance(na, (int, np.integer))
        if kind == "b":
            is_right = is_bool
        elif kind == "f":
            is_right = not isinstance(na, int) or na < 10**300
        else:
            limits = np.iinfo(dtype)
            is_right = is_integer and limits.min <= int(na) <= limits.max
        if is_right:
            with np.errstate(over="ignore"):
                wanted = gpuvec.evaluate("x", x=np.asarray([na]).astype(dtype))
            assert_same_bits(np.asarray(gpuvec.evaluate("x", x=column, na=na)), wanted)
        else:
            words = rf"^na is .*, which x \({dtype}\) does not hold: pass an? (bool|int|smaller)"
            with pytest.raises((TypeError, OverflowError), match=words):
                gpuvec.evaluate("x", x=column, na=na)


def test_pandas_keeps_index_and_name():
    """The name if all have it; indexes must be equal, as gpuvec does not align."""
    pandas = pytest.importorskip("pandas")
    index = pandas.Index([5, 7, 9], name="key")
    a = pandas.Series([1.0, 2.0, 3.0], index=index, name="a")
    b = pandas.Series([1.0, 2.0, 3.0], index=index.copy(), name="b")
    result = gpuvec.evaluate("a * 2", a=a)
    pandas.testing.assert_series_equal(result, a * 2)
    pandas.testing.assert_series_equal(gpuvec.add(a, b), a + b)
    pandas.testing.assert_series_equal(
        gpuvec.evaluate("a - k", a=a, k=b.to_numpy()), a - b.to_numpy()
    )
    with pytest.raises(ValueError, match=r"^a and b have different indexes: .*a.align\(b\)"):
        gpuvec.evaluate("a + b", a=a, b=b[::-1])
    levels = pandas.MultiIndex.from_product([[1, 2], ["x", "y"]], names=["i", "j"])
    c = pandas.Series(np.arange(4.0), index=levels)
    pandas.testing.assert_series_equal(gpuvec.evaluate("c + 1", c=c), c + 1)
    device = gpuvec.to_device(np.ones(3))
    assert_same_bits((a + device).to_host(), a.to_numpy() + 1)


@pytest.mark.parametrize(
    "make", ["str", "category", "datetime64[s]", "complex64", "object", "timedelta64[s]"]
)
def test_pandas_columns_without_numbers(make):
    """Their types are named."""
    pandas = pytest.importorskip("pandas")
    values = ["2020-01-01"] if make in ("str", "category", "datetime64[s]") else [1]
    series = pandas.Series(values).astype(make)
    with pytest.raises(TypeError, match=f"^x has dtype {re.escape(str(series.dtype))}: pass"):
        gpuvec.evaluate("x", x=series)


def test_columns_of_other_libraries_without_numbers():
    """Their types are named."""
    polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    for series in (polars.Series(["a"]), polars.Series([[1]])):
        with pytest.raises(TypeError, match=f"^x has dtype {re.escape(str(series.dtype))}: pass"):
            gpuvec.evaluate("x", x=series)
    for array, text in [
        (pyarrow.array(["a"]), "of Arrow's format 'u'"),
        (pyarrow.array(["a"]).dictionary_encode(), "a dictionary"),
        (pyarrow.record_batch({"a": [1]}), r"of Arrow's format '\+s'"),
    ]:
        with pytest.raises(TypeError, match=f"^x is {text}: pass an array of bools, integers"):
            gpuvec.evaluate("x", x=array)


COLUMNS = {"price": [1.5, 2.0, 4.0], "amount": [10, 20, 30], "name": ["a", "b", "c"]}
# The library, the class, and how a table of it is made.
TABLES = [
    ("pandas", lambda library: library.DataFrame(COLUMNS)),
    ("polars", lambda library: library.DataFrame(COLUMNS)),
    ("pyarrow", lambda library: library.record_batch(COLUMNS)),
    ("pyarrow", lambda library: library.table(COLUMNS)),
    ("xarray", lambda library: library.Dataset({k: ("row", v) for k, v in COLUMNS.items()})),
]


@pytest.mark.parametrize("name, make", TABLES)
def test_tables(placement, name, make):
    """A formula reads the columns that it names, and keywords add others."""
    table = make(pytest.importorskip(name))
    column = table["price"]
    result = gpuvec.evaluate("price * amount", table)
    assert isinstance(result, type(column))
    assert np.asarray(result).tolist() == [15, 40, 120]
    assert np.asarray(gpuvec.evaluate("price * k", table, k=2)).tolist() == [3, 4, 8]
    assert gpuvec.evaluate("dot(price, amount)", table) == 175
    least, doubled = gpuvec.evaluate(("min(price)", "2 * price"), table)
    assert least == 1.5 and np.asarray(doubled).tolist() == [3, 4, 8]
    cost = gpuvec.Expression("price * amount", price=np.float64, amount=np.int64)
    assert np.asarray(cost(table)).tolist() == [15, 40, 120]
    out = np.empty(3)
    assert cost(table, out=out) is out
    with pytest.raises(gpuvec.ExpressionError, match="no array is named 'weight'"):
        gpuvec.evaluate("price * weight", table)
    with pytest.raises(TypeError, match="price is in the mapping and a keyword"):
        gpuvec.evaluate("price", table, price=1)
    with pytest.raises(TypeError, match="^name (has dtype|is of Arrow's format)"):
        gpuvec.evaluate("name", table)
    with pytest.raises(TypeError, match="amount is missing"):
        gpuvec.Expression("price * amount", price="f8", amount="i8", other="f8")({"price": 1.0})


def test_several_columns_of_one_name():
    """Are refused by their name, unless the formula reads others."""
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    levels = pandas.MultiIndex.from_product([["a"], ["x", "y"]])
    for table in [
        pandas.DataFrame([[1.0, 2.0, 3.0]], columns=["a", "b", "a"]),
        pandas.DataFrame([[1.0, 2.0]], columns=levels),
        pyarrow.table([[1.0], [2.0], [3.0]], ["a", "b", "a"]),
        pyarrow.record_batch([[1.0], [2.0], [3.0]], ["a", "b", "a"]),
    ]:
        with pytest.raises(
            ValueError, match=r"^inputs has several columns named 'a': pass .*, \{'a': \.\.\.\}$"
        ):
            gpuvec.evaluate("a + 1", table)
        if "b" in str(table):
            assert np.asarray(gpuvec.evaluate("b * 2", table)).tolist() == [4]


def test_tables_of_other_kinds():
    """Coordinates of a dataset are columns; a lazy frame is collected by its owner; chunks join."""
    polars, xarray = pytest.importorskip("polars"), pytest.importorskip("xarray")
    frame = polars.DataFrame(COLUMNS)
    with pytest.raises(TypeError, match=r"inputs is a LazyFrame: .*such as its collect\(\)"):
        gpuvec.evaluate("price", frame.lazy())
    twice = polars.concat([frame, frame], rechunk=False)
    assert gpuvec.evaluate("2 * price", twice).to_list() == [3, 4, 8, 3, 4, 8]
    data = xarray.Dataset({"v": ("t", [1.0, 2.0])}, coords={"t": [10, 20]})
    assert gpuvec.evaluate("v * t", data).to_numpy().tolist() == [10, 40]
    with pytest.raises(
        TypeError, match="inputs is a list: pass a mapping of names to inputs, or a"
    ):
        gpuvec.evaluate("x", [1])


def test_chunks_are_joined(placement):
    """An array in several chunks has a result in one."""
    pyarrow = pytest.importorskip("pyarrow")
    for size in SIZES:
        array = in_chunks(pyarrow, numbers(np.float32, size))
        result = gpuvec.evaluate("x + 1", x=array)
        assert isinstance(result, pyarrow.ChunkedArray)
        assert_same_bits(result.to_numpy(), array.to_numpy() + 1)
    empty = pyarrow.chunked_array([], pyarrow.float32())
    assert gpuvec.sum(empty) == 0


class Exporter:
    """An array of Arrow of a library that gpuvec does not know."""

    def __init__(self, array):
        self.array = array

    def __arrow_c_array__(self, requested_schema=None):
        """Exports the elements as Arrow's C structures."""
        """Export the array."""
        return self.array.__arrow_c_array__(requested_schema)

    def __len__(self):
        """Return the number of elements."""
        return len(self.array)


def test_any_exporter_of_arrow(placement):
    """Is an input; the result is NumPy's, since the protocol does not say how to make an array."""
    pyarrow = pytest.importorskip("pyarrow")
    array = pyarrow.array([0.5, 1.5, 2.5])[1:]
    x = Exporter(array)
    assert find("x", x).array.ctypes.data == array.buffers()[1].address + 8
    result = gpuvec.evaluate("x + 1", x=x)
    assert type(result) is np.ndarray and result.tolist() == [2.5, 3.5]
    kept = find("x", Exporter(pyarrow.array([1.0, 2.0]))).array
    assert kept.tolist() == [1, 2] and not kept.flags.writeable


def test_dimensions_are_broadcast_by_name(placement):
    """As xarray's own arithmetic, with its coordinates."""
    xarray = pytest.importorskip("xarray")
    d = xarray.DataArray(
        np.arange(6.0).reshape(2, 3),
        dims=("x", "y"),
        coords={"x": [1, 2], "z": ("y", [1, 2, 3]), "q": 5},
        name="d",
    )
    e = xarray.DataArray([10.0, 20.0, 30.0], dims="y", coords={"q": 5}, name="d")
    w = xarray.DataArray(np.arange(12.0).reshape(4, 3), dims=("w", "y"), coords={"q": 6})
    for text, arrays, wanted in [
        ("d + 1", {"d": d}, d + 1),
        ("d * e", {"d": d, "e": e}, d * e),
        ("e * d", {"e": e, "d": d}, e * d),
        ("d - w", {"d": d, "w": w}, d - w),
        ("d + d", {"d": d.T}, (d + d).T),
    ]:
        xarray.testing.assert_identical(gpuvec.evaluate(text, **arrays), wanted)
    xarray.testing.assert_identical(gpuvec.sub(e, d), e - d)
    for axis, dim in [(0, "x"), (1, "y"), (-1, "y")]:
        xarray.testing.assert_identical(gpuvec.sum(d, axis=axis), d.sum(dim))
        xarray.testing.assert_identical(gpuvec.evaluate("max(d)", d=d, axis=axis), d.max(dim))
    doubled, totals = gpuvec.evaluate("2 * d; sum(d)", d=d, axis=0)
    xarray.testing.assert_identical(doubled, 2 * d)
    xarray.testing.assert_identical(totals, d.sum("x"))
    assert gpuvec.sum(d) == 15 and isinstance(gpuvec.sum(d), np.float64)
    cube = xarray.DataArray(np.arange(24.0).reshape(2, 3, 4), dims=("a", "b", "c"))
    kept = gpuvec.evaluate("sum(x)", x=cube, axis=(0, -1))
    xarray.testing.assert_identical(kept, cube.sum(["a", "c"]))
    assert gpuvec.evaluate("x + 1", x=cube[0, 0, 1]) == 2
    assert type(gpuvec.sum(d, axis=0, keepdims=True)) is np.ndarray


def test_arrays_of_xarray_that_do_not_fit():
    """Lengths, indexes and lazy arrays."""
    xarray = pytest.importorskip("xarray")
    d = xarray.DataArray(np.ones((2, 3)), dims=("x", "y"), coords={"x": [1, 2]})
    with pytest.raises(ValueError, match="^d and e have different lengths or indexes along 'y': "):
        gpuvec.evaluate("d + e", d=d, e=d[:, :2])
    with pytest.raises(ValueError, match=r"indexes along 'x': .*xarray.align\(d, e\)$"):
        gpuvec.evaluate("d + e", d=d, e=d.assign_coords(x=[2, 3]))
    pytest.importorskip("dask")
    with pytest.raises(TypeError, match=r"d is not computed yet: pass d.compute\(\)"):
        gpuvec.evaluate("d + 1", d=d.chunk())


def test_buffers_and_tensors(placement):
    """What has a protocol of its own is used by it: memoryviews, PyTorch and JAX on the CPU."""
    a = np.arange(4, dtype=np.float32)
    result = gpuvec.evaluate("x + 1", x=memoryview(a))
    assert type(result) is np.ndarray and result.tolist() == [1, 2, 3, 4]
    torch = pytest.importorskip("torch")
    tensor, out = torch.from_numpy(a), torch.empty(4)
    assert type(gpuvec.evaluate("x + 1", x=tensor)) is np.ndarray
    assert gpuvec.evaluate("x + 1", x=tensor, out=out) is out
    assert out.tolist() == [1, 2, 3, 4]


def test_no_library_is_imported():
    """Only what the program has imported is known."""
    script = """
import sys
import gpuvec, numpy as np
class Column:
    def to_numpy(self):
        return np.ones(3)
try:
    gpuvec.evaluate("x + 1", x=Column())
except TypeError as error:
    assert "(see its to_numpy())" in str(error)
gpuvec.evaluate("x + 1", x=np.ones(3))
assert not {"pandas", "polars", "pyarrow", "xarray"} & set(sys.modules)
"""
    subprocess.run(
        [sys.executable, "-c", script], env=library_environment(), check=True, timeout=120
    )
