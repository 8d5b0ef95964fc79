"""Expressions over arrays of any shape and strides, beside NumPy; wrong shapes and strides."""

import ctypes

import numpy as np
import pytest
from bindings import Place, Status, last_error, last_run, lib, placed
from formulas import ELEMENTWISE, NUMBER, REDUCTIONS, TYPES, Compiled, Formula
from functions import OF_ONE
from hypothesis import given, settings
from hypothesis import strategies as st
from views import made, parts

ADD = Formula("a + b", {"a": "f4", "b": "f4"}, lambda a, b: a + b)


def expected(formula: Formula, arrays: dict, shape: tuple) -> np.ndarray:
    """Returns NumPy's result, of that shape."""
    flat = {name: np.broadcast_to(array, shape).ravel() for name, array in arrays.items()}
    return formula.expected(flat).reshape(shape)


def run(formula: Formula, arrays: list, out: np.ndarray) -> None:
    """Runs a formula on arrays of the output's shape."""
    with Compiled(formula.text, formula.inputs) as compiled:
        assert compiled.run_nd(out.shape, arrays, out) == Status.OK, last_error()


@pytest.mark.parametrize("formula", ELEMENTWISE, ids=str)
@given(data=st.data())
@settings(max_examples=40)
def test_any_views_have_the_results_of_numpy(placement, formula, data):
    """The elements of the output's parent that are not in it stay as they are."""
    lengths = st.one_of(st.integers(1, 4), st.integers(1, 40))
    shapes = st.lists(lengths, max_size=4).filter(lambda shape: np.prod(shape) < 10_000)
    shape = tuple(data.draw(shapes))
    arrays = {name: made(data, shape, dtype) for name, dtype in formula.inputs.items()}
    result = expected(formula, arrays, shape)
    lengths, view = data.draw(parts(shape, False))
    parent = np.random.default_rng(1).integers(0, 2, lengths).astype(result.dtype)
    wanted = parent.copy()
    view(wanted)[...] = result
    run(formula, list(arrays.values()), view(parent))
    assert parent.tobytes() == wanted.tobytes()


@pytest.mark.parametrize(
    "shape", [(1000, 1000), (100_000, 3), (3, 100_000), (50, 40, 300)], ids=str
)
def test_large_arrays_have_the_results_of_numpy(placement, shape):
    """Rows, columns, transposed arrays; several threads, each on its blocks."""
    random = np.random.default_rng(3)
    whole = random.random(shape, np.float32)
    backwards = random.random(tuple(n + 1 for n in shape), np.float32)
    backwards = backwards[tuple(slice(None, 0, -1) for _ in shape)]
    others = [
        random.random(shape[-1], np.float32),
        random.random((*shape[:-1], 1), np.float32),
        random.random(shape[::-1], np.float32).T,
        backwards,
    ]
    for other in others:
        out = np.empty(shape, np.float32)
        run(ADD, [whole, np.broadcast_to(other, shape)], out)
        np.testing.assert_array_equal(out, whole + other)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("function", OF_ONE)
def test_functions_of_one_element_for_all(placement, function, dtype):
    """They have the bits that they have of an array of equal elements, usual ones and others."""
    b = np.random.default_rng(4).random((17, 140)).astype(dtype)[:, ::2]
    with Compiled(f"{function}(a) + b", {"a": dtype, "b": dtype}) as compiled:
        for value in (0.3, -2.5, 45, 1e-41, 1e30, -0.0, np.inf, np.nan):
            a = np.full(b.shape, value, dtype)
            found, wanted = np.empty(b.shape, dtype), np.empty(b.shape, dtype)
            of_one = [np.broadcast_to(a[:1, :1], b.shape), b]
            assert compiled.run_nd(b.shape, of_one, found) == Status.OK
            assert compiled.run_nd(b.shape, [a, b.copy()], wanted) == Status.OK
            assert found.tobytes() == wanted.tobytes()


def test_an_array_in_place(placement):
    """With gaps, backwards, and as every second column; beside a broadcast array."""
    parent = np.random.default_rng(1).random((60, 80), np.float32)
    row = np.random.default_rng(2).random(40, np.float32)
    for part in [np.s_[::-1, ::2], np.s_[5:20, 40:], np.s_[:, -1:39:-1]]:
        wanted, given = parent.copy(), parent.copy()
        wanted[part] += row
        out = given[part]
        run(ADD, [out, np.broadcast_to(row, out.shape)], out)
        np.testing.assert_array_equal(given, wanted)


def test_several_outputs_see_the_inputs_as_they_were(placement):
    """Two halves of a matrix are swapped and negated; their product is in C order."""
    parent = np.random.default_rng(1).random((50, 90), np.float32)
    left, right = parent[:, :45], parent[:, :44:-1]
    old = left.copy(), right.copy()
    product = np.empty(left.shape, np.float32)
    with Compiled("b; -a; a*b", ADD.inputs) as compiled:
        status = compiled.run_nd(left.shape, [left, right], [left, right, product])
        assert status == Status.OK, last_error()
        np.testing.assert_array_equal(left, old[1])
        np.testing.assert_array_equal(right, -old[0])
        np.testing.assert_array_equal(product, old[0] * old[1])
        wrong = [left, left, product]
        assert compiled.run_nd(left.shape, [left, right], wrong) == Status.ERROR_OVERLAP
        assert "outputs[1] overlaps outputs[0]" in last_error()


def test_fields_of_records_and_parts_of_complex_numbers(placement):
    """They share no memory, although they interleave."""
    records = np.zeros(500, [("a", "f4"), ("b", "f4"), ("sum", "f4"), ("id", "i8")])
    records["a"], records["b"], records["id"] = np.arange(500), 0.5, -1
    run(ADD, [records["a"], records["b"]], records["sum"])
    np.testing.assert_array_equal(records["sum"], np.arange(500) + np.float32(0.5))
    assert (records["id"] == -1).all()
    numbers = np.arange(100, dtype="f4").astype("c8")
    run(ADD, [numbers.real, numbers.real], numbers.imag)
    np.testing.assert_array_equal(numbers.imag, 2 * numbers.real)


@pytest.mark.parametrize("formula", REDUCTIONS, ids=str)
def test_reductions_of_all_axes_of_contiguous_arrays(placement, formula):
    """As by gpuvec_expr_run."""
    arrays = formula.data(6000)
    result = formula.expected(arrays)
    shaped = [array.reshape(10, 20, 30) for array in arrays.values()]
    out = np.empty(1, result.dtype)
    with Compiled(formula.text, formula.inputs) as compiled:
        status = compiled.run_nd((10, 20, 30), shaped, out.ctypes.data, 0b111)
        assert status == Status.OK, last_error()
    assert out.tobytes() == result.tobytes()


def test_contiguous_arrays_run_as_by_gpuvec_expr_run(placement):
    """In Fortran order, too, and with NULL for the strides."""
    a, b = np.random.default_rng(1).random((2, 300, 500), np.float32)
    with Compiled(ADD.text, ADD.inputs) as compiled:
        out = np.empty_like(a)
        addresses = [a.ctypes.data, b.ctypes.data]
        assert compiled.run_nd(a.shape, addresses, out.ctypes.data) == Status.OK
        np.testing.assert_array_equal(out, a + b)
        turned = out.T[::-1]
        assert compiled.run_nd(turned.shape, [a.T[::-1], b.T[::-1]], turned) == Status.OK
        np.testing.assert_array_equal(out, a + b)


def test_scalars_and_unused_inputs_need_no_strides(placement):
    """Scalars are read where they are, and inputs that the text does not use are not read."""
    k = np.array(0.5)
    a = np.arange(60, dtype="f4").reshape(6, 10)[:, ::2]
    out = np.empty(a.shape, "f4")
    inputs = {"unused": "f8", "k": TYPES["GPUVEC_F64"] | NUMBER, "a": "f4"}
    with Compiled("k * a", inputs) as compiled:
        assert compiled.run_nd(a.shape, [1, k.ctypes.data, a], out) == Status.OK, last_error()
    np.testing.assert_array_equal(out, a / 2)


def test_no_elements(placement):
    """Nothing is read or written."""
    with Compiled(ADD.text, ADD.inputs) as compiled:
        assert compiled.run_nd((3, 0), [0, 0], 0) == Status.OK
        assert last_run().path == 0


def test_cores_walk_where_the_last_run_says(on_cpu):
    """The calling core, for few elements."""
    a = np.ones((20, 20), "f4")
    run(ADD, [a, a.T], np.empty_like(a))
    assert (last_run().threads, last_run().chunks) == (1, 1)


A = np.zeros((30, 40), "f4")
OUT = np.zeros((30, 40), "f4")


@pytest.mark.parametrize(
    "arrays, out, axes, status, words",
    [
        ([A[:, 1:], A[:, 1:]], A[:, :-1], 0, "OVERLAP", "outputs[0] partly overlaps inputs[0]"),
        ([A, A.T.copy().T], A.T[:30, :30], 0, "OVERLAP", "partly overlaps inputs[0]"),
        ([A, A], np.broadcast_to(OUT[0], A.shape), 0, "OVERLAP", "strides[0] of 0, but shape[0]"),
        ([A, 0], OUT, 0, "NULL", "inputs[1] is NULL, but it has 1200 elements"),
        ([A, A.ctypes.data + 2], OUT, 0, "MISALIGNED", "inputs[1] is 0x"),
        ([A, A], OUT, 4, "VALUE", "reduced_axes is 0x4, and ndim is 2"),
        ([A, A], OUT, 1, "VALUE", "the expression is not a reduction: pass 0"),
    ],
    ids=range(7),
)
def test_wrong_arrays(on_cpu, arrays, out, axes, status, words):
    """A status each, and words that explain it."""
    shape = out.shape
    arrays = [a[: shape[0], : shape[1]] if isinstance(a, np.ndarray) else a for a in arrays]
    before = A.copy()
    with Compiled(ADD.text, ADD.inputs) as compiled:
        assert compiled.run_nd(shape, arrays, out, axes) == Status[f"ERROR_{status}"]
        assert words in last_error(), last_error()
    np.testing.assert_array_equal(A, before)
    assert not OUT.any()


def test_wrong_shapes_and_null_arguments(on_cpu):
    """Each argument by itself."""
    with Compiled(ADD.text, ADD.inputs) as compiled:
        call, at = lib.gpuvec_expr_run_nd, ctypes.addressof((ctypes.c_int64 * 8)())
        for arguments, status, words in [
            ((-1, at, at, at), "VALUE", "ndim is -1: pass 0 to 32 axes"),
            ((33, at, at, at), "VALUE", "ndim is 33"),
            ((1, None, at, at), "NULL", "shape is NULL, but its length is 1"),
            ((0, None, None, at), "NULL", "inputs is NULL, but its length is 2"),
            ((0, None, at, None), "NULL", "outputs is NULL"),
        ]:
            assert call(compiled.handle, *arguments, 0, None) == Status[f"ERROR_{status}"]
            assert words in last_error(), last_error()
        assert compiled.run_nd((3, -4), [0, 0], 0) == Status.ERROR_VALUE
        assert "shape[1] is -4: pass a length of 0 or more" in last_error()
        assert compiled.run_nd((2**40, 2**40), [8, 8], 8) == Status.ERROR_SIZE
        assert call(None, 0, None, None, None, 0, None) == Status.ERROR_NULL


def test_threads_share_the_blocks():
    """With placement `all`, each block is computed once."""
    a = np.random.default_rng(5).random((2000, 700), np.float32)
    out = np.zeros_like(a)
    with placed(Place.ALL), Compiled("a + b*b", ADD.inputs) as compiled:
        for _ in range(3):
            assert compiled.run_nd(a.shape, [a, a[:, ::-1]], out) == Status.OK, last_error()
            np.testing.assert_array_equal(out, a + a[:, ::-1] * a[:, ::-1])
