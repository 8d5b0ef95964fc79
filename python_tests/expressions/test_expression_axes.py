"""Reductions along any axes of arrays of any strides.

They are beside Python's fractions and NumPy on each slice, and have the bits of the call on a
contiguous copy of the slice.
"""

import gpuvec
import numpy as np
import numpy_reductions
import pytest
from axes_cases import (
    LARGE,
    REDUCTIONS,
    Reduction,
    bits,
    filled,
    kept_shape,
    one_by_one,
    reduce,
    result_of,
    slices,
)
from bindings import Place, Status, last_error, last_run, placed
from formulas import NUMBER, TYPES, Compiled
from hypothesis import given, settings
from hypothesis import strategies as st
from views import made, parts

SHAPES = st.lists(st.one_of(st.integers(1, 4), st.integers(1, 40)), max_size=5)


@pytest.mark.any_driver
@pytest.mark.parametrize("reduction", REDUCTIONS, ids=str)
@given(data=st.data())
@settings(max_examples=40)
def test_any_axes_of_any_views(on_cpu, reduction, data):
    """The elements of the output's parent that are not in it stay as they are."""
    shape = tuple(data.draw(SHAPES.filter(lambda shape: np.prod(shape) < 2000)))
    axes = tuple(axis for axis in range(len(shape)) if data.draw(st.booleans()))
    dtypes = reduction.inputs.values()
    arrays = [made(data, shape, dtype, filled) for dtype in dtypes]
    expected = one_by_one(reduction, arrays, axes)
    for index, copies in slices(arrays, axes):
        right = reduction.expected(copies)
        assert np.array_equal(expected[index], right, equal_nan=right.dtype.kind == "f")
    lengths, view = data.draw(parts(expected.shape, False))
    parent = np.random.default_rng(1).integers(0, 2, lengths).astype(expected.dtype)
    wanted = parent.copy()
    view(wanted)[...] = expected
    reduce(reduction, arrays, axes, view(parent))
    assert parent.tobytes() == wanted.tobytes()


CASES = [
    ((300, 1100), (0,)),
    ((300, 1100), (1,)),
    ((2, 40_000), (1,)),
    ((40_000, 3), (0,)),
    ((3, 40_000), (0,)),
    ((7, 30, 11, 60), (1, 3)),
    ((7, 30, 11, 60), (0, 2)),
    ((5, 4000, 6), (1,)),
    ((50_000,), (0,)),
]


@pytest.mark.any_driver
@pytest.mark.parametrize("shape, axes", CASES, ids=str)
@pytest.mark.parametrize("reduction", LARGE, ids=str)
def test_the_bits_do_not_depend_on_strides(on_cpu, reduction, shape, axes):
    """C order, Fortran order, backwards, with gaps; each is in several blocks."""
    random = np.random.default_rng(hash((shape, axes)) % 1000)
    whole = [
        filled(random, np.dtype(dtype), int(np.prod(shape))).reshape(shape)
        for dtype in reduction.inputs.values()
    ]
    few = tuple(slice(None) if axis in axes else slice(0, 40) for axis in range(len(shape)))
    expected = result_of(reduction, whole, axes)
    wanted = one_by_one(reduction, [array[few] for array in whole], axes)
    assert expected[few].tobytes() == wanted.tobytes()
    backwards = tuple(slice(None, None, -1) for _ in shape)
    for change in (
        np.asfortranarray,
        lambda array: array[backwards].copy()[backwards],
        lambda array: np.repeat(array, 2, axis=-1)[..., ::2],
    ):
        assert result_of(reduction, [change(array) for array in whole], axes).tobytes() == (
            expected.tobytes()
        )


@pytest.mark.parametrize("reduction", LARGE[::3], ids=str)
def test_threads_change_no_bit(reduction):
    """Many results, few, one: with placement `all`, the results are those of one thread."""
    random = np.random.default_rng(7)
    for shape, axes in [((2000, 700), (0,)), ((2000, 700), (1,)), ((3, 400_000), (1,))]:
        arrays = [
            filled(random, np.dtype(dtype), int(np.prod(shape))).reshape(shape)
            for dtype in reduction.inputs.values()
        ]
        with placed(Place.CPU):
            expected = result_of(reduction, arrays, axes)
        with placed(Place.ALL):
            for _ in range(2):
                assert result_of(reduction, arrays, axes).tobytes() == expected.tobytes()
        whole = tuple(range(len(shape)))
        gaps = [np.repeat(array, 2, axis=0)[::2] for array in arrays]
        with placed(Place.ALL):
            one = result_of(reduction, gaps, whole)
        assert one.tobytes() == one_by_one(reduction, arrays, whole).tobytes()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_tall_columns_are_merged_from_parts(on_cpu, dtype):
    """Each thread sums a part of the rows: the parts' terms and their numbers are all there."""
    x = np.random.default_rng(1).normal(0, 1, (4000, 500)).astype(dtype)
    columns = [numpy_reductions.exact_sum(column.tolist()) for column in x.T]
    right = [numpy_reductions.nearest(total, x.dtype) for total in columns]
    assert gpuvec.sum(x, axis=0).tobytes() == np.array(right).tobytes()
    right = [numpy_reductions.nearest(total / 4000, x.dtype) for total in columns]
    assert gpuvec.evaluate("mean(x)", x=x, axis=0).tobytes() == np.array(right).tobytes()


def test_several_reductions_in_one_pass(on_cpu):
    """Of the same axes, with outputs of different types and strides."""
    a = np.random.default_rng(1).normal(0, 1, (40, 5, 300)).astype("f4")[:, :, ::-2]
    b = np.random.default_rng(2).random((5, 1), np.float32)
    b = np.broadcast_to(b, a.shape)
    inputs = {"a": "f4", "b": "f4"}
    texts = ["sum(a*b)", "argmax(a)", "any(a > 3)", "mean(a)", "norm(f64(a))"]
    with Compiled("; ".join(texts), inputs) as compiled:
        dtypes = compiled.dtypes()
        for axes in [(0,), (2,), (0, 2), (1,), (0, 1, 2), ()]:
            shape = kept_shape(a.shape, axes)
            outs = [np.zeros((*shape, 2), dtype)[..., 1] for dtype in dtypes]
            assert compiled.run_nd(a.shape, [a, b], outs, bits(axes)) == Status.OK, last_error()
            for text, out in zip(texts, outs):
                name, formula = text[:-1].split("(", 1)
                alone = result_of(Reduction(name, formula, inputs), [a, b], axes)
                assert out.tobytes() == alone.tobytes()


@pytest.mark.parametrize(
    "text, dtype, result",
    [
        ("sum(x)", "f8", 0),
        ("mean(x)", "f4", np.nan),
        ("dot(x, x)", "i4", 0),
        ("norm(x)", "f4", 0),
        ("any(x > 0)", "f8", False),
        ("all(x > 0)", "f8", True),
        ("count(x > 0)", "i8", 0),
        ("min(x)", "f8", None),
        ("argmax(x)", "i4", None),
    ],
)
@pytest.mark.parametrize("place", [Place.CPU, Place.AUTO, Place.GPU])
def test_axes_without_elements(text, dtype, result, place):
    """Results are those of gpuvec_expr_run; no input is read, and no GPU is needed."""
    with Compiled(text, {"x": dtype}) as compiled, placed(place):
        out = np.full((4, 1, 3), 77).astype(compiled.dtype())
        before = out.copy()
        status = compiled.run_nd((4, 0, 3), [0], out, 0b010)
        if result is None:
            assert status == Status.ERROR_EMPTY
            assert out.tobytes() == before.tobytes()
        else:
            assert status == Status.OK, last_error()
            assert out.tobytes() == np.full_like(out, result).tobytes()
        assert compiled.run_nd((0, 5), [0], 0, 0b10) == Status.OK
        assert last_run().path == 0


@pytest.mark.parametrize("name", ["min", "max", "argmin", "argmax"])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_reduced_axis_of_length_0_has_no_minimum(name, shape, axis):
    """As in NumPy, also where there would be no results."""
    x = np.zeros(shape)
    has_error = shape[axis] == 0
    with Compiled(f"{name}(x)", {"x": "f8"}) as compiled, placed(Place.CPU):
        out = np.zeros(shape[1 - axis], compiled.dtype())
        status = compiled.run_nd(shape, [x], out.ctypes.data, 1 << axis)
        assert status == (Status.ERROR_EMPTY if has_error else Status.OK)
    own = [lambda: gpuvec.evaluate(f"{name}(x)", x=x, axis=axis)]
    if hasattr(gpuvec, name):
        own.append(lambda: getattr(gpuvec, name)(x, axis=axis))
    for call in [lambda: getattr(np, name)(x, axis=axis), *own]:
        if has_error:
            with pytest.raises(ValueError):
                call()
        else:
            assert call().shape == (shape[1 - axis],)


def test_values_that_are_the_same_for_all_elements(on_cpu):
    """Each result is that of as many elements as are reduced."""
    k = np.array(0.1)
    inputs = {"k": TYPES["GPUVEC_F64"] | NUMBER}
    for axes in [(1,), (0, 1), (0, 2), ()]:
        shape = (3, 70, 5)
        out = np.zeros((*kept_shape(shape, axes), 2))[..., 0]
        with Compiled("sum(k)", inputs) as compiled:
            status = compiled.run_nd(shape, [k.ctypes.data], out, bits(axes))
            assert status == Status.OK, last_error()
        n = int(np.prod([shape[axis] for axis in axes]))
        assert (out == numpy_reductions.sum_(np.full(n, 0.1))).all()


def test_the_first_of_equal_values_has_the_least_index_in_c_order(on_cpu):
    """Of the reduced axes, whatever the strides."""
    ties = np.zeros((6, 7, 8), "f4")
    ties[3, 2, 5] = ties[2, 6, 5] = ties[2, 6, 4] = -1
    for a in (ties, np.asfortranarray(ties), ties[::-1, ::-1, ::-1].copy()[::-1, ::-1, ::-1]):
        for axes in [(0, 1, 2), (0, 2), (1, 2), (0,)]:
            out = result_of(Reduction("argmin", "x", {"x": "f4"}), [a], axes)
            for index, (copy,) in slices([a], axes):
                assert out[index] == copy.argmin()


def test_arguments_that_are_refused(on_cpu):
    """Wrong axes, and results inside inputs."""
    x, out = np.ones((4, 6)), np.zeros((4, 6))
    with Compiled("sum(x)", {"x": "f8"}) as compiled:
        assert compiled.run_nd(x.shape, [x], out, 4) == Status.ERROR_VALUE
        assert "reduced_axes is 0x4, and ndim is 2" in last_error()
        assert compiled.run_nd(x.shape, [x], x, 1) == Status.ERROR_OVERLAP
        assert compiled.run_nd(x.shape, [x], x[:, 3:], 2) == Status.ERROR_OVERLAP
    assert (x == 1).all() and not out.any()


def test_the_sum_of_all_elements_may_be_where_the_first_one_is(on_cpu):
    """Of an array that is not contiguous, too."""
    x = np.arange(48, dtype="f8").reshape(6, 8)[:, ::2]
    total = x.sum()
    reduce(Reduction("sum", "x", {"x": "f8"}), [x], (0, 1), x[:1, :1])
    assert x[0, 0] == total
