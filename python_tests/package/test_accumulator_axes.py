"""gpuvec.Accumulator with a shape: sums along axes in pieces have the bits of the whole."""

import copy
import itertools
import pickle

import gpuvec
import numpy as np
import pytest
from corpus import KINDS
from exact_sums import by_exponents

each_kind = pytest.mark.parametrize("kind", KINDS, ids=str)


def inputs(kind, shape: tuple, seed: int = 0) -> tuple:
    """Returns arrays of many magnitudes."""
    rng = np.random.default_rng(seed)
    return tuple(
        np.ldexp(rng.standard_normal(shape), rng.integers(-40, 40, shape)).astype(kind.dtype)
        for _ in range(1 + kind.is_dot)
    )


def made(kind, shape: tuple | int = ()) -> gpuvec.Accumulator:
    """Makes an accumulator without elements."""
    return gpuvec.Accumulator(kind.name[:3], kind.dtype, shape)


def whole(kind, arrays: tuple, axis) -> np.ndarray:
    """Returns the library's own sums along axes, on cores: GPUs reach no pageable arrays."""
    with gpuvec.placement("cpu"):
        return np.asarray(getattr(gpuvec, kind.name[:3])(*arrays, axis=axis))


AXES = [0, 1, -1, (0, 2), (-1, 1), (), (0, 1, 2), None]


@each_kind
@pytest.mark.parametrize("axis", AXES, ids=str)
def test_axes_are_numpys(placement, kind, axis):
    """Pieces along any axis have the bits of `sum` and `dot` of the whole, in any order."""
    arrays = inputs(kind, (4, 5, 6))
    reference = np.sum(arrays[0], axis=axis)
    product = made(kind, reference.shape)
    if kind.is_dot and axis is None:
        arrays = tuple(array.ravel() for array in arrays)
    expected = whole(kind, arrays, axis)
    reduced = range(arrays[0].ndim) if axis is None else np.atleast_1d(np.array(axis, int))
    for along in reduced:
        pieces = list(zip(*(np.array_split(array, 3, int(along)) for array in arrays)))
        product = made(kind, reference.shape)
        for piece in pieces[::-1]:
            product.add(*piece, axis=axis)
        assert product.value().tobytes() == expected.tobytes()
    product.merge(product)
    assert product.value().shape == product.shape == reference.shape
    assert isinstance(product.value(), np.ndarray) == bool(product.shape)


@each_kind
def test_arrays_of_any_strides(placement, kind):
    """Sums of all elements take them, too."""
    arrays = inputs(kind, (9, 10))
    views = [
        lambda a: a,
        np.asfortranarray,
        lambda a: np.repeat(a, 2, axis=0)[::2],
        lambda a: a[::-1].copy()[::-1],
        gpuvec.to_device,
        lambda a: gpuvec.to_device(np.asfortranarray(a)),
    ]
    expected = whole(kind, arrays, 0)
    for view, other in itertools.product(views, views if kind.is_dot else views[:1]):
        sums = made(kind, 10)
        sums.add(*(use(array) for use, array in zip((view, other), arrays)), axis=0)
        assert sums.value().tobytes() == expected.tobytes()
    columns = [array[:, 3] for array in arrays]
    single = made(kind)
    single.add(*columns)
    assert single.value().tobytes() == by_exponents(*map(np.ascontiguousarray, columns)).tobytes()


def test_dot_products_with_an_axis_are_broadcast(placement):
    """As `gpuvec.dot` with an axis; without one, arrays have one shape."""
    matrix, vector = np.arange(6.0).reshape(2, 3), np.array([1.0, 10.0, 100.0])
    rows = gpuvec.Accumulator("dot", np.float64, shape=2)
    rows.add(matrix, vector, axis=1)
    rows.add(matrix, vector, axis=-1)
    assert rows.value().tolist() == (2 * (matrix @ vector)).tolist()
    total = gpuvec.Accumulator("dot", np.float64)
    total.add(matrix, vector, axis=(0, 1))
    assert total.value() == (matrix * vector).sum()
    with pytest.raises(ValueError, match="np.matmul"):
        total.add(matrix, matrix)


def test_work_that_was_queued_before_is_waited_for(placement):
    x = gpuvec.to_device(np.ones((1000, 100), np.float32))
    total = gpuvec.Accumulator("sum", np.float32, 100)
    with gpuvec.Stream() as stream:
        for _ in range(3):
            gpuvec.add(x, x, out=x, stream=stream)
            total.add(x, stream=stream, axis=0)
    assert total.value().tolist() == [(2 + 4 + 8) * 1000] * 100


@each_kind
@pytest.mark.parametrize("shape", [(3,), (2, 1, 4), (0,), (2, 0)])
def test_words_bytes_pickles_and_copies(kind, shape):
    arrays = inputs(kind, (*shape, 7))
    sums, double = made(kind, shape), made(kind, shape)
    sums.add(*arrays, axis=-1)
    for _ in range(2):
        double.add(*arrays, axis=-1)
    words = sums.to_words()
    assert words.shape[:-1] == shape
    copies = [
        gpuvec.Accumulator.from_words(words),
        pickle.loads(pickle.dumps(sums)),
        copy.copy(sums),
        copy.deepcopy(sums),
    ]
    if words.size:
        copies.append(gpuvec.Accumulator.from_bytes(sums.to_bytes(), shape))
    for same in copies:
        assert (same.operation, same.dtype, same.shape) == (sums.operation, sums.dtype, shape)
        assert same.to_bytes() == sums.to_bytes() == words.tobytes()
        same.add(*arrays, axis=-1)
        assert same.to_bytes() == double.to_bytes()
    assert gpuvec.Accumulator.from_words(words + words).to_bytes() == double.to_bytes()
    assert gpuvec.Accumulator.from_words(words[:1]).shape == (min(1, shape[0]), *shape[1:])
    assert sums.count.tolist() == np.full(shape, 7).tolist()


def test_a_part_of_the_words_is_an_accumulator():
    """So that ranks may reduce and scatter them."""
    x = np.arange(12.0).reshape(3, 4)
    sums = gpuvec.Accumulator("sum", np.float64, 4)
    sums.add(x, axis=0)
    words = sums.to_words()
    assert gpuvec.Accumulator.from_words(words[2]).value() == x[:, 2].sum()
    assert gpuvec.Accumulator.from_words(words[1:3]).value().tolist() == x[:, 1:3].sum(0).tolist()


def test_shapes_and_representation():
    assert gpuvec.Accumulator("sum", "f4", 3).shape == (3,)
    assert gpuvec.Accumulator("sum", "f4", [2, np.int8(3)]).shape == (2, 3)
    assert gpuvec.Accumulator("sum", "f4").shape == ()
    shaped = gpuvec.Accumulator("dot", "f8", (2, 3))
    assert repr(shaped) == "<gpuvec.Accumulator: dot product of float64, of shape (2, 3)>"


def test_wrong_arguments_are_named():
    sums = gpuvec.Accumulator("sum", np.float64, 3)
    product = gpuvec.Accumulator("dot", np.float64, 3)
    x = np.ones((2, 3))
    axis_error = getattr(np, "exceptions", np).AxisError
    other = gpuvec.Accumulator("sum", np.float64, (1, 3))
    state = sums.to_bytes()
    from_bytes, from_words = gpuvec.Accumulator.from_bytes, gpuvec.Accumulator.from_words
    for error, text, call in [
        (TypeError, "shape is 1.5", lambda: gpuvec.Accumulator("sum", "f4", 1.5)),
        (ValueError, "shape is \\(-1,\\)", lambda: gpuvec.Accumulator("sum", "f4", -1)),
        (ValueError, "2\\^63 elements", lambda: gpuvec.Accumulator("sum", "f4", (2**62, 2))),
        (MemoryError, "memory", lambda: gpuvec.Accumulator("sum", "f4", 2**50)),
        (
            ValueError,
            "shape has 33 axes: pass at most 32",
            lambda: gpuvec.Accumulator("sum", "f4", (1,) * 33),
        ),
        (axis_error, "axis 2 is out of bounds", lambda: sums.add(x, axis=2)),
        (ValueError, "an axis twice", lambda: sums.add(x, axis=(0, 0))),
        (TypeError, "axis is 0.5", lambda: sums.add(x, axis=0.5)),
        (ValueError, r"the accumulator has \(3,\)", lambda: sums.add(x, axis=1)),
        (ValueError, r"the accumulator has \(3,\)", lambda: sums.add(x)),
        (ValueError, r"the accumulator has \(\)", lambda: from_bytes(state[:608]).add(x, axis=0)),
        (ValueError, r"b has shape \(4,\)", lambda: product.add(x, np.ones(4), axis=0)),
        (TypeError, "a has dtype float32", lambda: sums.add(x.astype("f4"), axis=0)),
        (TypeError, "b is missing", lambda: product.add(x, axis=0)),
        (
            ValueError,
            "^other is a .*, of shape .*, but this accumulator is a sum of float64, of shape",
            lambda: sums.merge(other),
        ),
        (
            ValueError,
            "^state has 304 bytes, which are not those of an accumulator of shape",
            lambda: from_bytes(bytes(304), 3),
        ),
        (ValueError, "^state has 1824 bytes", lambda: from_bytes(state, 5)),
        (
            ValueError,
            "bytes without states do not say what they are sums of",
            lambda: from_bytes(b"", 0),
        ),
        (
            ValueError,
            "at index 1 of state cannot",
            lambda: from_bytes(state[:608] + bytes(1216), 3),
        ),
        (TypeError, r"shape \(\)", lambda: from_words(np.int64(3))),
        (ValueError, "^words has 120 bytes", lambda: from_words(np.zeros((3, 5), np.int64))),
    ]:
        with pytest.raises(error, match=text):
            call()
    misaligned = np.frombuffer(bytes(49), np.uint8)[1:].view(np.float64).reshape(2, 3)
    with pytest.raises(gpuvec.ArgumentError, match="^b is .*not a multiple of 8"):
        product.add(x, misaligned, axis=0)
    assert not sums.value().any() and sums.count.tolist() == [0, 0, 0]
