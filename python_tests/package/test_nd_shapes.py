"""Shapes, layouts and errors of calls on arrays of several axes, beside NumPy's."""

import gpuvec
import numpy as np
import pytest
from arrays import assert_same_bits
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes
from views import made, parts

AxisError = getattr(np, "exceptions", np).AxisError
A = np.arange(24, dtype=np.float64).reshape(4, 6)


def is_laid_out_as(found: np.ndarray, wanted: np.ndarray) -> bool:
    """Says whether two arrays have the same shape, and the same strides where these matter."""
    longer = [axis for axis, length in enumerate(wanted.shape) if length > 1]
    return found.shape == wanted.shape and (
        found.size == 0 or all(found.strides[axis] == wanted.strides[axis] for axis in longer)
    )


@given(data=st.data())
@settings(max_examples=150)
def test_results_have_the_shape_and_the_layout_of_numpy(on_cpu, data):
    """Of two arrays whose shapes differ, with their axes in any order, with gaps and backwards."""
    shapes = data.draw(mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=4))
    a, b = (view_of(data, shape) for shape in shapes.input_shapes)
    wanted = np.add(a, b, out=None)
    for found in (gpuvec.add(a, b), gpuvec.evaluate("a + b", a=a, b=b)):
        assert is_laid_out_as(np.asarray(found), np.asarray(wanted))
        assert_same_bits(np.ascontiguousarray(found), np.ascontiguousarray(wanted))
    in_general = gpuvec.add(a, b, stream=gpuvec.Stream())
    assert is_laid_out_as(np.asarray(in_general), np.asarray(wanted))
    assert_same_bits(np.ascontiguousarray(in_general), np.ascontiguousarray(wanted))


def view_of(data: st.DataObject, shape: tuple) -> np.ndarray:
    """Draws an array of that shape, which is part of another one."""
    lengths, view = data.draw(parts(shape, False))
    return view(np.arange(np.prod(lengths), dtype=np.float64).reshape(lengths))


@given(data=st.data())
@settings(max_examples=100)
def test_results_of_reductions_have_the_shape_and_the_layout_of_numpy(on_cpu, data):
    """Along any axes, negative ones among them, with keepdims and without."""
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    x = view_of(data, shape)
    axes = st.integers(-len(shape), len(shape) - 1)
    several = st.lists(axes, unique_by=lambda axis: axis % len(shape)).map(tuple)
    axis = data.draw(st.one_of(st.none(), axes, several))
    keepdims = data.draw(st.booleans())
    wanted = np.max(x, axis=axis, keepdims=keepdims)
    for found in (
        gpuvec.max(x, axis=axis, keepdims=keepdims),
        gpuvec.evaluate("max(x)", x=x, axis=axis, keepdims=keepdims),
        gpuvec.max(x, axis=axis, keepdims=keepdims, stream=gpuvec.Stream()),
    ):
        assert type(found) is type(wanted)
        assert is_laid_out_as(np.asarray(found), np.asarray(wanted))
        assert_same_bits(np.ascontiguousarray(found), np.ascontiguousarray(wanted))


def test_fortran_order(on_cpu):
    """Inputs in Fortran order have a result in that order; a mixture one in C order."""
    a = np.asfortranarray(A)
    assert gpuvec.add(a, a).flags.f_contiguous
    assert gpuvec.evaluate("a * 2", a=a).flags.f_contiguous
    assert gpuvec.evaluate("a*2; -a", a=a)[1].flags.f_contiguous
    assert gpuvec.add(a, A).flags.c_contiguous
    assert_same_bits(np.ascontiguousarray(gpuvec.add(a, A)), A + A)


def test_frames_of_pandas(on_cpu):
    """The values of a frame are columns, one after the other; sums of columns and of rows."""
    values = np.asfortranarray(np.random.default_rng(1).random((100, 5)))
    try:
        import pandas

        values = pandas.DataFrame(values, columns=list("vwxyz")).to_numpy()
    except ImportError:
        pass
    assert_same_bits(gpuvec.max(values, axis=0), values.max(axis=0))
    assert_same_bits(gpuvec.min(values, axis=1), values.min(axis=1))
    means = gpuvec.evaluate("mean(x)", x=values, axis=0)
    centred = gpuvec.sub(values, means)
    assert_same_bits(np.ascontiguousarray(centred), np.ascontiguousarray(values - means))


def test_inputs_are_broadcast_to_a_longer_output(on_cpu):
    """As in NumPy; the output itself is never broadcast."""
    row, out = np.arange(3.0), np.zeros((2, 3))
    assert gpuvec.add(row, row, out=out) is out
    assert_same_bits(out, np.add(row, row, out=np.zeros((2, 3))))
    gpuvec.evaluate("row + 1", row=row, out=out.T[:, ::-1].T)
    assert_same_bits(out, np.stack([row + 1] * 2))
    for wrong in (np.zeros(1), np.zeros((2, 1)), np.zeros((2, 4))):
        with pytest.raises(ValueError, match="^out has shape .*: pass the shape"):
            gpuvec.add(row, row, out=wrong)


def test_scalars_of_numpy_and_arrays_without_axes(on_cpu):
    """They are broadcast as any array, and results without axes are scalars."""
    for two in (np.float64(2), np.array(2.0)):
        assert_same_bits(gpuvec.mul(A, two), A * 2)
    assert gpuvec.sum(np.array(3.0), axis=0) == gpuvec.sum(np.array(3.0), axis=-1) == 3
    assert gpuvec.sum(np.array(3.0), axis=()) == 3
    total = gpuvec.sum(A, axis=(0, 1))
    assert type(total) is np.float64 and total == A.sum()
    assert_same_bits(gpuvec.sum(A, axis=()), A)
    assert gpuvec.sum(A, keepdims=True).shape == (1, 1)


@pytest.mark.parametrize("call", [gpuvec.sum, np.sum], ids=["gpuvec", "numpy"])
@pytest.mark.parametrize(
    "axis, error, words",
    [
        (2, AxisError, "^axis 2 is out of bounds for array of dimension 2$"),
        (-3, AxisError, "^axis -3 is out of bounds for array of dimension 2$"),
        ((0, 5), AxisError, "^axis 5 is out of bounds for array of dimension 2$"),
        ((0, -2), ValueError, "axis is .*, which has an axis twice|duplicate value in 'axis'"),
        (1.0, TypeError, "axis is 1.0: pass an integer|interpreted as an integer"),
        ([0], TypeError, r"axis is \[0\]: pass an integer|interpreted as an integer"),
        ("a", TypeError, "axis is 'a': pass an integer|interpreted as an integer"),
        (True, TypeError, "axis is True: pass an integer|an integer is required"),
    ],
    ids=str,
)
def test_wrong_axes(on_cpu, call, axis, error, words):
    """The types are NumPy's, and so is the text for an axis that does not exist."""
    for x in (A, A[:, ::2]):
        with pytest.raises(error, match=words) as raised:
            call(x, axis=axis)
        assert issubclass(raised.type, (ValueError, TypeError))
    with pytest.raises(AxisError):
        call(np.array(1.0), axis=1)


def test_axes_are_for_reductions(on_cpu):
    """Other formulas have no use for them."""
    for along in ({"axis": 0}, {"keepdims": True}):
        with pytest.raises(TypeError, match="are for reductions: leave them out for 'a [+] 1'"):
            gpuvec.evaluate("a + 1", a=A, **along)


@pytest.mark.parametrize(
    "call, words",
    [
        (
            lambda: gpuvec.add(A, A[:, :-1]),
            r"^b has shape \(4, 5\) and a has \(4, 6\): ",
        ),
        (
            lambda: gpuvec.evaluate("x + y*z", x=A, y=np.ones(1), z=np.ones((2, 4, 1))[0].T),
            None,
        ),
        (
            lambda: gpuvec.evaluate("x + y*z", x=A[0], y=np.ones((4, 1)), z=np.ones(5)),
            r"^z has shape \(5,\) and x has \(6,\): pass arrays whose lengths along each axis",
        ),
        (lambda: gpuvec.dot(A[0], np.ones(1)), r"^b has shape \(1,\) and a has \(6,\)"),
        (lambda: gpuvec.dot(A, A, axis=None), "^a has shape .*axis= for dot products along"),
        (lambda: gpuvec.sum(A, axis=0, out=np.zeros(4)), r"^out has shape \(4,\): pass .*\(6,\)"),
        (
            lambda: gpuvec.sum(A, axis=0, keepdims=True, out=np.zeros(6)),
            r"^out has shape \(6,\): pass the shape \(1, 6\)",
        ),
        (lambda: gpuvec.min(np.ones((0, 3)), axis=0), "pass at least one element"),
    ],
    ids=range(8),
)
def test_wrong_shapes(on_cpu, call, words):
    """Errors name the arguments and their shapes."""
    if words is None:
        words = r"^z has shape \(1, 4\) and x has \(4, 6\)"
    with pytest.raises(ValueError, match=words):
        call()


def test_arrays_that_the_formula_does_not_read(on_cpu):
    """Columns of another shape change neither a sum nor a result's shape."""
    columns = {"a": A[0], "b": A, "m": np.ones((3, 1)), "max": np.ones((2, 6))}
    for stream in (None, gpuvec.Stream()):
        assert gpuvec.evaluate("sum(a)", columns, stream=stream) == A[0].sum()
        assert gpuvec.evaluate("max(a)", columns, stream=stream) == A[0].max()
        assert_same_bits(gpuvec.evaluate("b - a", columns, stream=stream), A - A[0])
    assert gpuvec.evaluate("sum(k)", k=0.5, a=A) == A.size / 2


def test_reductions_of_different_shapes(on_cpu):
    """Each formula of several reduces the elements that all have, or the call is an error."""
    least, greatest = gpuvec.evaluate("min(b - a); max(b - a)", a=A[0], b=A)
    assert (least, greatest) == ((A - A[0]).min(), (A - A[0]).max())
    for text in ("sum(a); sum(b)", "sum(a); a + b"):
        with pytest.raises(ValueError, match=r"^out\[0\] reduces elements of shape \(6,\), and"):
            gpuvec.evaluate(text, a=A[0], b=A)


def test_no_elements(on_cpu):
    """The shapes are NumPy's; results that no elements have are NumPy's, too."""
    for shape in [(0, 3), (3, 0), (2, 0, 3)]:
        x = np.zeros(shape)
        assert gpuvec.add(x, x[:1]).shape == (x + x[:1]).shape
        for axis in range(len(shape)):
            assert_same_bits(gpuvec.sum(x, axis=axis), x.sum(axis=axis))
    assert gpuvec.min(np.ones((0, 3)), axis=1).shape == (0,)


def test_in_place_and_overlaps(on_cpu):
    """The same view is written in place; any other overlap is an error, and nothing is written."""
    x = A.copy()
    for part in (x.T, x[::-1, ::2], np.asfortranarray(A), x[1]):
        before = part.copy()
        assert gpuvec.add(part, part, out=part) is part
        assert_same_bits(np.ascontiguousarray(part), np.ascontiguousarray(2 * before))
    before = x.copy()
    for inputs, out in [
        ((x[1:], x[1:]), x[:-1]),
        ((x[:4, :4], x[:4, :4]), x[:4, :4].T),
        ((x, x[0]), x),
        ((x[:, ::2], x[:, ::2]), x[:, :3]),
    ]:
        with pytest.raises(gpuvec.ArgumentError, match="^out partly overlaps [ab]: pass") as raised:
            gpuvec.add(*inputs, out=out)
        assert raised.value.status is gpuvec.Status.ERROR_OVERLAP
    with pytest.raises(gpuvec.ArgumentError, match="^out partly overlaps a: pass"):
        gpuvec.sum(x, axis=0, out=x[0])
    assert_same_bits(x, before)


def test_wrong_outputs(on_cpu):
    """A view that is read-only, or has an element twice."""
    read_only = A.copy()[:, ::2]
    read_only.flags.writeable = False
    with pytest.raises(ValueError, match="^out is read-only"):
        gpuvec.add(A[:, ::2], A[:, ::2], out=read_only)
    twice = np.lib.stride_tricks.as_strided(np.zeros(6), (4, 6), (0, 8))
    with pytest.raises(ValueError, match="^out has strides"):
        gpuvec.add(A, A, out=twice)
    with pytest.raises(TypeError, match="^out has dtype float32: pass float64"):
        gpuvec.sum(A, axis=0, out=np.zeros(6, np.float32))


@given(data=st.data())
@settings(max_examples=30)
def test_outputs_of_any_strides(on_cpu, data):
    """Their other elements stay as they are."""
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    a, b = (made(data, shape, "f8") for _ in range(2))
    lengths, view = data.draw(parts(shape, False))
    parent, wanted = np.full(lengths, 7.0), np.full(lengths, 7.0)
    with np.errstate(all="ignore"):
        view(wanted)[...] = np.maximum(a, b)
    gpuvec.evaluate("maximum(a, b)", a=a, b=b, out=view(parent))
    np.testing.assert_array_equal(parent, wanted)


def test_inputs_that_are_named_axis():
    """A mapping has them, as those that are named out."""
    assert gpuvec.evaluate("axis + 1", {"axis": A[0]})[1] == 2
    with pytest.raises(TypeError, match="^axis is an input of the formula.*mapping"):
        gpuvec.evaluate("sum(a * axis)", a=A, axis=0)


def test_both_operands_of_dot_have_the_shape_of_the_other_formulas():
    """The second one, too, if the first one is broadcast."""
    row = A[0]
    for text in ("dot(a, b)", "dot(b, a)"):
        total, products = gpuvec.evaluate(f"sum(b); {text}", a=row, b=A, axis=1)
        np.testing.assert_array_equal(total, A.sum(axis=1))
        np.testing.assert_array_equal(products, A @ row)
