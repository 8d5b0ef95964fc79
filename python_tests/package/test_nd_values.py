"""Operations and expressions on arrays of any strides have the bits of their oracles.

On the fast path, through the extension module, and on the general path, which streams take.
"""

import gpuvec
import numpy as np
import numpy_reductions
import pytest
from arrays import assert_same_bits
from formulas import ELEMENTWISE
from hypothesis import given, settings
from hypothesis import strategies as st
from operations import ALPHA, FAMILY, Operation
from views import made, parts

SHAPES = st.lists(st.integers(1, 6), min_size=1, max_size=3).map(tuple)


def views(data: st.DataObject, operation: Operation, shape: tuple) -> list[np.ndarray]:
    """Draws views of that shape with the operation's data; some are broadcast."""
    drawn = [data.draw(parts(shape, True)) for _ in "ab"]
    n = max(int(np.prod(lengths)) for lengths, _ in drawn)
    values = operation.data(np.random.default_rng(data.draw(st.integers(0, 2**32))), n)
    parents = [
        flat[: int(np.prod(lengths))].reshape(lengths) for flat, (lengths, _) in zip(values, drawn)
    ]
    return [np.broadcast_to(view(parent), shape) for parent, (_, view) in zip(parents, drawn)]


def call(operation: Operation, a: np.ndarray, b: np.ndarray, **keywords):
    """Calls the package's function for a row of the table."""
    function = getattr(gpuvec, operation.name.split("_")[1])
    return function(*operation.inputs(a, b), **keywords)


def along(operation: Operation, a: np.ndarray, b: np.ndarray, axes: tuple) -> np.ndarray:
    """Returns the oracle's results, along axes."""
    kept = [axis for axis in range(a.ndim) if axis not in axes]
    turned = [x.transpose(*kept, *axes) for x in (a, b)]
    shape = turned[0].shape[: len(kept)]
    results = [
        operation.oracle(*(x[index].ravel() for x in turned)).reshape(())
        for index in np.ndindex(shape)
    ]
    return np.array(results, operation.out_dtype).reshape(shape)


@pytest.mark.parametrize("operation", FAMILY, ids=str)
@given(data=st.data())
@settings(max_examples=20)
def test_operations(on_cpu, operation, data):
    """Elementwise ones, and reductions along some axes."""
    a, b = views(data, operation, data.draw(SHAPES))
    if operation.kind == "elementwise":
        right = operation.oracle(a.ravel(), b.ravel()).reshape(a.shape)
        keywords = {}
    else:
        axes = st.sets(st.integers(0, a.ndim - 1), min_size=1).map(tuple)
        keywords = {"axis": data.draw(axes)}
        right = along(operation, a, b, keywords["axis"])
    for found in (
        call(operation, a, b, **keywords),
        call(operation, a, b, stream=gpuvec.Stream(), **keywords),
    ):
        assert_same_bits(np.ascontiguousarray(found), np.ascontiguousarray(right))


@pytest.mark.parametrize("formula", ELEMENTWISE, ids=str)
@given(data=st.data())
@settings(max_examples=15)
def test_formulas(on_cpu, formula, data):
    """The inputs are broadcast to one shape."""
    shape = data.draw(SHAPES)
    arrays = {name: made(data, shape, dtype) for name, dtype in formula.inputs.items()}
    right = formula.expected({name: array.ravel() for name, array in arrays.items()})
    for stream in (None, gpuvec.Stream()):
        found = gpuvec.evaluate(formula.text, arrays, stream=stream)
        assert_same_bits(np.ascontiguousarray(found), right.reshape(shape))


@pytest.mark.parametrize(
    "name, dtype",
    [
        *[(name, dtype) for name in ("mean", "norm", "var", "std") for dtype in ("f4", "f8")],
        *[("prod", dtype) for dtype in ("i4", "i8")],
        *[(name, dtype) for name in ("argmin", "argmax") for dtype in ("f4", "i8")],
        *[(name, "?") for name in ("any", "all", "count")],
    ],
)
@given(data=st.data())
@settings(max_examples=15)
def test_reductions_of_formulas(on_cpu, name, dtype, data):
    """Along an axis, and of all elements, whose index is that in the flattened array."""
    shape = data.draw(SHAPES)
    x = made(data, shape, dtype)
    axis = data.draw(st.one_of(st.none(), st.integers(-len(shape), len(shape) - 1)))
    rows = x.ravel() if axis is None else np.moveaxis(x, axis, -1)
    reduce = numpy_reductions.REDUCTIONS[name]
    with np.errstate(all="ignore"):
        results = [np.asarray(reduce(rows[index])) for index in np.ndindex(rows.shape[:-1])]
    right = np.array(results).reshape(rows.shape[:-1])
    for stream in (None, gpuvec.Stream()):
        found = gpuvec.evaluate(f"{name}(x)", x=x, axis=axis, stream=stream)
        assert_same_bits(np.ascontiguousarray(found), np.ascontiguousarray(right))


def test_several_reductions_in_one_pass(on_cpu):
    """Along the same axes, into views that the caller gives."""
    x = np.random.default_rng(1).normal(size=(7, 5, 6))[:, ::-1, 1:]
    out = np.zeros((7, 10))
    least, greatest, place = gpuvec.evaluate(
        "min(x); max(x); argmax(x)", x=x, axis=2, out=(out[:, ::2], out[:, 1::2], None)
    )
    assert_same_bits(np.ascontiguousarray(least), x.min(axis=2))
    assert_same_bits(np.ascontiguousarray(greatest), x.max(axis=2))
    assert_same_bits(place, x.argmax(axis=2))


def test_factors_of_strided_arrays(on_cpu):
    """A factor is rounded to the arrays' type, as on contiguous ones."""
    a = np.random.default_rng(1).random((5, 8), np.float32)
    right = np.ascontiguousarray(gpuvec.scale(0.1, a))
    assert_same_bits(np.ascontiguousarray(gpuvec.scale(0.1, a.T).T), right)
    assert_same_bits(np.ascontiguousarray(gpuvec.scale(ALPHA, a[::2])), gpuvec.scale(ALPHA, a)[::2])


def test_memory_of_other_kinds(on_cpu):
    """Views of buffers, of arrays in DLPack, and of bytes whose type the others tell."""
    a = np.arange(24.0).reshape(4, 6)
    right = a[::-1, ::2] + a[::-1, ::2]
    for view in (memoryview(a)[::-1], gpuvec.from_dlpack(a)[::-1], a[::-1]):
        whole = gpuvec.add(view, a[::-1])
        whole = whole.to_host() if isinstance(whole, gpuvec.DeviceArray) else whole
        assert_same_bits(np.ascontiguousarray(whole[:, ::2]), right)
    assert_same_bits(gpuvec.add(a, a[0].tobytes()), a + a[0])
