"""Reductions by key along axes, of arrays of any strides."""

from itertools import combinations

import gpuvec
import numpy as np
import pytest
from arrays import assert_same_bits
from keyed import expected_along

NAMES = ["sum", "mean", "var", "max", "argmin"]
AXES = [axes for count in (1, 2, 3) for axes in combinations(range(3), count)]


def values(shape: tuple[int, ...], dtype: str = "f8") -> np.ndarray:
    """Returns numbers of very different sizes."""
    random = np.random.default_rng(len(shape))
    return np.ldexp(random.normal(0, 1, shape), random.integers(-20, 20, shape)).astype(dtype)


def keys_for(shape: tuple[int, ...], groups: int) -> np.ndarray:
    """Returns keys that are in every group along the last axes."""
    return np.random.default_rng(groups).permuted(np.resize(np.arange(groups), shape), axis=0)


@pytest.mark.parametrize("axes", AXES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_groups_take_the_place_of_the_first_axis(placement, name, axes):
    """The other axes stay. Keys of the reduced axes alone, of all axes, and of broadcast ones."""
    shape = (24, 9, 10)
    x = values(shape)
    own = tuple(shape[axis] for axis in axes)
    keys = np.random.default_rng(1).permutation(np.resize(np.arange(7), np.prod(own))).reshape(own)
    whole = np.broadcast_to(
        keys[tuple(slice(None) if axis in axes else None for axis in range(3))], shape
    )
    right = expected_along(name, x, whole, 7, axes)
    for by in (keys, whole, whole.copy()):
        for axis in {axes, tuple(axis - 3 for axis in axes)}:
            found = gpuvec.evaluate(f"{name}(x)", x=x, by=by, axis=axis, groups=7)
            assert_same_bits(found, right)
    if len(axes) == 1:
        assert_same_bits(gpuvec.evaluate(f"{name}(x)", x=x, by=keys, axis=axes[0]), right)


LARGE = [pytest.param(shape, marks=pytest.mark.long) for shape in ((2000, 40), (40, 2000))]


@pytest.mark.parametrize("shape", [(1, 5), (300, 3), (7, 300), (70, 40), *LARGE], ids=str)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8"])
def test_rows_and_columns(placement, shape, dtype):
    """Rows are added as by np.add.at and index_add_, columns as by their transposes."""
    x = (values(shape, "f8") * 1000).astype(dtype)
    for axis in (0, 1):
        keys = keys_for(shape[axis : axis + 1], min(11, shape[axis]))
        whole = np.broadcast_to(np.expand_dims(keys, 1 - axis), shape)
        groups = int(keys.max()) + 1
        for name in ("sum", "min"):
            right = expected_along(name, x, whole, groups, (axis,))
            for array in (x, np.asfortranarray(x)):
                assert_same_bits(gpuvec.evaluate(f"{name}(x)", x=array, by=keys, axis=axis), right)
            turned = gpuvec.evaluate(f"{name}(x)", x=x.T, by=keys, axis=1 - axis)
            assert_same_bits(turned, np.ascontiguousarray(right.T))
    added = np.zeros((groups, shape[0]), "f8")
    np.add.at(added, keys, x.T.astype("f8"))
    np.testing.assert_allclose(gpuvec.sum(x.T, by=keys, axis=0), added, rtol=1e-2, atol=1e-2)


def test_strided_inputs_and_outputs(placement):
    base = values((40, 30, 6))
    views = [base[::-1, ::2, 1:3], base[3:, 5, :][:, None, :], base.transpose(2, 0, 1)[::2]]
    for x in views:
        keys = keys_for(x.shape[:1], min(3, x.shape[0]))
        whole = np.broadcast_to(keys[:, None, None], x.shape)
        groups = int(keys.max()) + 1
        right = expected_along("sum", x, whole, groups, (0,))
        strided = np.repeat(keys, 3)[::3]
        assert_same_bits(gpuvec.sum(x, by=strided, axis=0), right)
        out = np.full((*right.shape[::-1], 2), -1.0)
        gpuvec.sum(x, by=keys, axis=0, out=out[..., 1].T)
        assert_same_bits(np.ascontiguousarray(out[..., 1].T), right)
        assert (out[..., 0] == -1).all()


def test_broadcast_inputs(placement):
    x, w = values((50, 1)), values((8,))
    keys = keys_for((50,), 4)
    whole = np.broadcast_to(keys[:, None], (50, 8))
    right = expected_along("sum", x * w, whole, 4, (0,))
    assert_same_bits(gpuvec.evaluate("sum(x * w)", x=x, w=w, by=keys, axis=0), right)
    assert_same_bits(
        gpuvec.evaluate("sum(x * w)", x=x, w=w, k=keys[:, None], by="k", axis=0), right
    )
    # One element for all.
    assert gpuvec.evaluate("sum(x)", x=np.ones(1), by=keys).tolist() == np.bincount(keys).tolist()
    assert gpuvec.sum(np.ones((3, 5)), by=np.array([2])).tolist() == [0, 0, 15]


def test_all_axes_by_default(placement):
    """Keys have the shape of the elements, or are broadcast as other arrays are."""
    x = values((30, 20))
    keys = keys_for((30, 20), 5)
    right = expected_along("sum", x, keys, 5, (0, 1))
    assert_same_bits(gpuvec.sum(x, by=keys), right)
    assert_same_bits(gpuvec.sum(x, by=keys, axis=(1, 0)), right)
    of_columns = expected_along("sum", x, np.broadcast_to(keys[0], x.shape), 5, (0, 1))
    assert_same_bits(gpuvec.sum(x, by=keys[0], groups=5), of_columns)


def test_axes_without_elements(placement):
    for shape, axis in (((0, 4), 0), ((4, 0), 0), ((4, 0), 1), ((0, 4), 1)):
        x, keys = np.empty(shape), np.zeros(shape[axis], int)
        found = gpuvec.sum(x, by=keys, axis=axis, groups=3)
        right = list(shape)
        right[axis] = 3
        assert found.shape == tuple(right) and not found.any()


def test_wrong_axes(placement):
    x, keys = values((6, 5)), np.zeros(6, int)
    with pytest.raises(IndexError, match="axis 2 is out of bounds"):
        gpuvec.sum(x, by=keys, axis=2)
    with pytest.raises(ValueError, match="axis twice"):
        gpuvec.sum(x, by=keys, axis=(0, -2))
    with pytest.raises(ValueError, match="by has shape"):
        gpuvec.sum(x, by=keys, axis=1)


@pytest.mark.parametrize("name", ["sum", "max"])
def test_the_error_names_the_place_among_the_keys(placement, name):
    x, keys = values((60, 7)), np.zeros(60, int)
    keys[[41, 50]] = 3
    with pytest.raises(gpuvec.ArgumentError, match="^the key of element 41 is 3, "):
        gpuvec.evaluate(f"{name}(x)", x=x, by=keys, axis=0, groups=2)
    with pytest.raises(gpuvec.ArgumentError, match="^the key of element 41 is 3, "):
        gpuvec.evaluate(f"{name}(x)", x=x.T, by=keys, axis=1, groups=2)
