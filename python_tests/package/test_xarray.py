"""Formulas of xarray's arrays, against xarray's own arithmetic: dimensions, coordinates, labels."""

from typing import Any

import gpuvec
import numpy as np
import pytest
from arrays import assert_same_bits
from hypothesis import given
from hypothesis import strategies as st

xarray = pytest.importorskip("xarray")

LENGTHS = {"t": 2, "x": 3, "y": 1}
OPERATORS = st.sampled_from(["+", "-", "*"])
# The names of scalar coordinates: `t` is also a dimension of other arrays.
SCALARS = ["p", "q", "t"]


def subset(draw: Any, pool: list[str]) -> list[str]:
    """Draws some of the names, in any order."""
    return draw(st.lists(st.sampled_from(pool), unique=True))


@st.composite
def attributes(draw):
    """Attributes, which often differ."""
    return draw(st.dictionaries(st.sampled_from(["units", "source"]), st.sampled_from("ab")))


@st.composite
def arrays(draw):
    """An array with dimensions in any order, with and without coordinates of every kind."""
    dims = subset(draw, list(LENGTHS))
    shape = [LENGTHS[dim] for dim in dims]
    variant = st.integers(0, 1)
    coords: dict[str, Any] = {name: draw(variant) for name in subset(draw, SCALARS)}
    for dim in dims:
        coords.pop(dim, None)
        if draw(st.booleans()):
            coords[dim] = (dim, np.arange(LENGTHS[dim]) * 10, draw(attributes()))
        if draw(st.booleans()):
            coords[f"of {dim}"] = (dim, np.arange(LENGTHS[dim]) + draw(variant))
    if {"t", "x"}.issubset(dims) and draw(st.booleans()):
        coords["of both"] = (("t", "x"), np.arange(6).reshape(2, 3) * draw(variant))
    elements = draw(st.lists(st.integers(-9, 9), min_size=6, max_size=6))
    data = np.resize(np.float64(elements), shape)
    name = draw(st.sampled_from([None, "heat", "cold"]))
    return xarray.DataArray(data, coords, dims, name, draw(attributes()))


def without_scalar_t(array: Any) -> Any:
    """Returns an array without its scalar coordinate `t`."""
    return array if "t" in array.dims else array.drop_vars("t", errors="ignore")


@st.composite
def calls(draw):
    """A formula that is evaluated from left to right, and its arrays."""
    named = {f"v{number}": draw(arrays()) for number in range(draw(st.integers(1, 4)))}
    if any("t" in array.dims and "t" not in array.coords for array in named.values()):
        # The results of xarray's arithmetic then cannot be shown or copied.
        named = {name: without_scalar_t(array) for name, array in named.items()}
    first, *others = named
    text = first
    for name in others:
        text = f"({text} {draw(OPERATORS)} {name})"
    order = draw(st.permutations(list(named)))
    return f"{text} * 2", {name: named[name] for name in order}


def check(found: Any, wanted: Any) -> None:
    """Checks that a result is xarray's; one element without dimensions may be a scalar."""
    if isinstance(found, np.float64):
        assert not wanted.ndim and found == wanted
    else:
        xarray.testing.assert_identical(found, wanted)


@given(calls(), st.sampled_from(["default", True, False]), st.data())
def test_results_are_those_of_xarray(call, keep_attrs, data):
    """Dimensions, coordinates of every kind, attributes and names; those of reductions as well."""
    text, given = call
    with xarray.set_options(keep_attrs=keep_attrs):
        wanted = eval(text, {}, dict(given))
        check(gpuvec.evaluate(text, given), wanted)
        axes = data.draw(st.sets(st.integers(0, max(wanted.ndim - 1, 0)), max_size=wanted.ndim))
        if axes:
            totals = wanted.sum([wanted.dims[axis] for axis in axes])
            check(gpuvec.evaluate(f"sum({text})", given, axis=tuple(axes)), totals)


@given(calls(), st.sampled_from(list(LENGTHS)), st.data())
def test_arrays_that_xarray_would_align(call, dim, data):
    """They are refused where xarray refuses them when it is told not to align."""
    text, given = call
    name = data.draw(st.sampled_from(list(given)))
    if dim in given[name].coords and dim in given[name].dims:
        given[name] = given[name].assign_coords({dim: given[name][dim][::-1] + 5})
    elif LENGTHS[dim] > 1:
        given[name] = given[name].isel({dim: slice(1)}, missing_dims="ignore")
    with xarray.set_options(arithmetic_join="exact"):
        try:
            wanted = eval(text, {}, dict(given))
        except ValueError:
            with pytest.raises(ValueError, match=r"different lengths or indexes.*xarray.align\("):
                gpuvec.evaluate(text, given)
        else:
            check(gpuvec.evaluate(text, given), wanted)


@pytest.mark.parametrize("scalar", ["isel", "sel", "assign", "quantile"])
@pytest.mark.parametrize("way", ["evaluate", "operation"])
def test_scalar_coordinates_keep_the_others(scalar, way):
    """And so the next call refuses labels in another order."""
    coords = {"time": [0, 1, 2], "lat": [10.0, 20.0]}
    t = xarray.DataArray(np.arange(6.0).reshape(3, 2), coords, ("time", "lat"), attrs={"unit": "K"})
    u = {
        "isel": lambda: t.isel(time=0),
        "sel": lambda: t.sel(time=1),
        "assign": lambda: t.isel(time=0, drop=True).assign_coords(height=2.0),
        "quantile": lambda: t.quantile(0.5, "time"),
    }[scalar]()
    if way == "evaluate":
        difference = gpuvec.evaluate("t - u", t=t, u=u)
    else:
        difference = gpuvec.sub(t, u)
    xarray.testing.assert_identical(difference, t - u)
    with pytest.raises(ValueError, match=r"^a and b have different .* along 'lat': pass arrays"):
        gpuvec.add(difference, t[:, ::-1])


@st.composite
def trees(draw, depth=3):
    """A formula with brackets in any places, of arrays with and without dimensions."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from(["d", "e", "f", "n"]))
    left, right = draw(trees(depth - 1)), draw(trees(depth - 1))
    return f"({left} {draw(OPERATORS)} {right})"


@given(trees(), st.data())
def test_arrays_without_dimensions(text, data):
    """They are where xarray has them, or refused."""
    given: dict[str, Any] = {}
    for name in data.draw(st.permutations("def")):
        dims = subset(data.draw, ["t", "x", "y"])
        elements = np.arange(2.0 ** len(dims)).reshape((2,) * len(dims)) + ord(name)
        given[name] = xarray.DataArray(elements, dims=dims)
    given["n"] = np.array([[1.0, 3.0], [5.0, 9.0]])[data.draw(st.integers(0, 1))]
    given["n"] = np.resize(given["n"], (2,) * data.draw(st.integers(1, 3)))
    try:
        wanted = eval(text, {}, dict(given))
    except ValueError:
        return
    try:
        found = gpuvec.evaluate(text, given)
    except ValueError as error:
        assert "n has axes without names, and" in str(error)
        dims = {given[name].dims for name in "def" if name in text}
        assert "n" in text and len(dims) > 1
    else:
        if isinstance(wanted, xarray.DataArray):
            check(found, wanted)
        else:
            assert_same_bits(found, wanted)


def test_a_scalar_coordinate_with_the_name_of_a_dimension():
    """Is dropped where the dimension has no labels."""
    d, u = xarray.DataArray([1.0, 2.0], dims="t"), xarray.DataArray(5.0, {"t": 7, "q": 1})
    wanted = xarray.DataArray([-4.0, -3.0], {"q": 1}, "t")
    xarray.testing.assert_identical(gpuvec.evaluate("d - u", d=d, u=u), wanted)


def test_order_of_dimensions():
    """It is that of the formula, whichever order the arrays are passed in."""
    d, e = xarray.DataArray([1.0, 2.0], dims="x"), xarray.DataArray([3.0, 4.0], dims="y")
    n = np.arange(4.0).reshape(2, 2)
    for inputs in [{"d": d, "e": e, "n": n}, {"n": n, "e": e, "d": d}]:
        xarray.testing.assert_identical(gpuvec.evaluate("d * e + n", inputs), d * e + n)
        xarray.testing.assert_identical(gpuvec.evaluate("e * d + n", inputs), e * d + n)
    with pytest.raises(
        ValueError, match=r"^n has axes without names, and .*\['x'\].*: pass xarray.DataArray\(n"
    ):
        gpuvec.evaluate("d * e + n", d=d, e=e, n=n[0])
    m = xarray.DataArray(n[0], dims="y")
    xarray.testing.assert_identical(gpuvec.evaluate("d * e + n", d=d, e=e, n=m), d * e + m)


def test_axes_without_a_dimension():
    """A result of an array with more axes is NumPy's, also of as many as the dimensions."""
    d = xarray.DataArray(np.arange(3.0), dims="x")
    n = np.arange(9.0).reshape(3, 3)
    for axis in (0, 1):
        found = gpuvec.evaluate("sum(d + n)", d=d, n=n, axis=axis)
        assert type(found) is np.ndarray
        assert_same_bits(found, (d.data + n).sum(axis=axis))


def test_arrays_that_a_formula_does_not_read():
    """They have any dimensions and indexes, and no part in the result."""
    pandas = pytest.importorskip("pandas")
    d = xarray.DataArray(np.arange(3.0), {"x": [1, 2, 3]}, "x", "d")
    other = xarray.DataArray(np.ones(4), {"x": [5, 6, 7, 8], "q": 1}, "x", "o")
    xarray.testing.assert_identical(gpuvec.evaluate("d * 2", {"o": other, "d": d}), d * 2)
    s, other = pandas.Series([1.0, 2.0], [5, 6], name="s"), pandas.Series([1.0], name="o")
    pandas.testing.assert_series_equal(gpuvec.evaluate("s * 2", {"o": other, "s": s}), s * 2)
    assert type(gpuvec.evaluate("n * 2", {"s": s, "n": np.ones(2)})) is np.ndarray
