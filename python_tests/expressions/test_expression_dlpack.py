"""Expressions over tensors of DLPack: shapes that are broadcast, strides, reductions, errors."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p

import numpy as np
import pytest
from bindings import Place, Status, last_error, lib, placed
from formulas import SCALAR, TYPES, Compiled
from hypothesis import given, settings
from hypothesis import strategies as st
from views import made, parts

CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
CPU, CUDA, OPENCL = 1, 2, 4


class Tensor(ctypes.Structure):
    """DLPack's DLTensor."""

    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


def tensor(array: np.ndarray, **changes) -> Tensor:
    """Describes a NumPy array, with changes."""
    axes = c_int64 * array.ndim
    strides = axes(*(stride // array.itemsize for stride in array.strides))
    fields = {
        "data": array.ctypes.data,
        "device_type": CPU,
        "ndim": array.ndim,
        "code": CODES[array.dtype.kind],
        "bits": 8 * array.itemsize,
        "lanes": 1,
        "shape": axes(*array.shape),
        "strides": strides,
    }
    return Tensor(**{**fields, **changes})


def run(compiled: Compiled, inputs: list, outputs: list, reduced_axes: int = 0) -> int:
    """Calls gpuvec_expr_run_dlpack on NumPy arrays, tensors, or None for NULL."""
    tensors = [tensor(each) if isinstance(each, np.ndarray) else each for each in inputs + outputs]
    places = [each and ctypes.addressof(each) for each in tensors]
    given_inputs = (c_void_p * len(inputs))(*places[: len(inputs)])
    given_outputs = (c_void_p * len(outputs))(*places[len(inputs) :])
    return lib.gpuvec_expr_run_dlpack(
        compiled.handle, given_inputs, given_outputs, reduced_axes, None
    )


@pytest.fixture
def on_cpu():
    """Runs a test with placement cpu."""
    with placed(Place.CPU):
        yield


@st.composite
def broadcast_shapes(draw) -> list[tuple]:
    """Draws a shape, and two that are broadcast to it."""
    shape = draw(st.lists(st.integers(0, 9), max_size=4))
    smaller = []
    for _ in range(2):
        kept = [draw(st.sampled_from([length, length, 1])) for length in shape]
        smaller.append(tuple(kept[draw(st.integers(0, len(kept))) :]))
    return [np.broadcast_shapes(*smaller), *smaller]


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_shapes_are_broadcast_as_numpy_does_it(data):
    """Of arrays with any strides."""
    shape, *smaller = data.draw(broadcast_shapes())
    with placed(Place.CPU), Compiled("a*b - a", {"a": "f4", "b": "f4"}) as compiled:
        a, b = (made(data, of, "f4", lambda random, _, n: random.random(n, "f4")) for of in smaller)
        lengths, view = data.draw(parts(shape, False))
        out = view(np.zeros(lengths, "f4"))
        assert run(compiled, [a, b], [out]) == Status.OK, last_error()
    assert out.tobytes() == (a * b - a).astype("f4").tobytes()


@given(st.data(), st.booleans())
@settings(max_examples=200, deadline=None)
def test_reductions_along_axes(data, keeps_axes):
    """The output has the axes that are not reduced, or all."""
    shape, *smaller = data.draw(broadcast_shapes())
    axes = tuple(data.draw(st.sets(st.sampled_from(range(len(shape))))) if shape else ())
    with placed(Place.CPU), Compiled("sum(i + j)", {"i": "i4", "j": "i4"}) as compiled:
        i, j = (
            made(data, of, "i4", lambda random, _, n: random.integers(-9, 9, n, "i4"))
            for of in smaller
        )
        expected = (i + j).sum(axis=axes, keepdims=keeps_axes, dtype="i8")
        out = np.zeros(np.shape(expected), "i8")
        bits = sum(1 << axis for axis in axes)
        assert run(compiled, [i, j], [out], bits) == Status.OK, last_error()
    np.testing.assert_array_equal(out, expected)


def test_reductions_beside_other_formulas(on_cpu):
    """Inputs are broadcast to the elementwise outputs, and reductions have the kept axes."""
    x, y = np.arange(12, dtype="i4").reshape(4, 3).T, np.arange(4, dtype="i4")
    out, total = np.zeros((4, 3), "i4").T, np.zeros(4, "i8")
    with Compiled("sum(x*y); x + y", {"x": "i4", "y": "i4"}) as compiled:
        assert run(compiled, [x, y], [total, out], 1) == Status.OK, last_error()
        np.testing.assert_array_equal(out, x + y)
        np.testing.assert_array_equal(total, (x * y).sum(axis=0))
        assert run(compiled, [x, y], [total, out[:1]], 1) == Status.ERROR_VALUE
        wide = np.zeros((2, 3, 4), "i4")
        totals = np.zeros((2, 4), "i8")
        assert run(compiled, [x, y], [totals, wide], 2) == Status.OK, last_error()
        np.testing.assert_array_equal(wide, np.broadcast_to(x + y, wide.shape))
        np.testing.assert_array_equal(totals, np.broadcast_to((x * y).sum(axis=0), totals.shape))


def test_the_tensor_of_another_library(on_cpu):
    """NumPy's own, of a transposed array."""
    x, out = np.arange(12.0).reshape(3, 4).T, np.zeros((4, 3))
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.argtypes, pointer.restype = [ctypes.py_object, ctypes.c_char_p], c_void_p
    capsules = [array.__dlpack__() for array in (x, out)]
    places = [(c_void_p * 1)(pointer(capsule, b"dltensor")) for capsule in capsules]
    with Compiled("2*x", {"x": "f8"}) as compiled:
        assert lib.gpuvec_expr_run_dlpack(compiled.handle, *places, 0, None) == Status.OK
    np.testing.assert_array_equal(out, 2 * x)


def test_offsets_and_no_strides(on_cpu):
    """No strides stand for C order; the offset is in bytes."""
    x, out = np.arange(20, dtype="i4"), np.zeros((3, 4), "i4")
    part = x[5:17].reshape(3, 4)
    given_x = tensor(part, data=x.ctypes.data, byte_offset=20, strides=None)
    with Compiled("-x", {"x": "i4"}) as compiled:
        assert run(compiled, [given_x], [tensor(out, strides=None)]) == Status.OK
    np.testing.assert_array_equal(out, -part)


def test_scalars_and_inputs_that_are_not_used(on_cpu):
    """A scalar has one element; what is not used may be NULL."""
    x, out = np.arange(6.0).reshape(2, 3), np.zeros((2, 3))
    inputs = {"x": "f8", "k": TYPES["GPUVEC_F64"] | SCALAR, "y": "f8"}
    with Compiled("k*x", inputs) as compiled:
        assert run(compiled, [x, np.array(3.0), None], [out]) == Status.OK
        np.testing.assert_array_equal(out, 3 * x)
        assert run(compiled, [x, np.array([[4.0]]), None], [out]) == Status.OK
        np.testing.assert_array_equal(out, 4 * x)
        assert run(compiled, [x, np.ones(2), None], [out]) == Status.ERROR_VALUE
        assert "inputs[1] has length 2 along its axis 0, but the call needs 1" in last_error()
        on_device = tensor(np.array(5.0), device_type=CUDA)
        assert run(compiled, [x, on_device, None], [out]) == Status.ERROR_VALUE
        np.testing.assert_array_equal(out, 4 * x)


X, OUT = np.ones((2, 3), "f4"), np.zeros((2, 3), "f4")
REFUSED = {
    "dtype": ([X.astype("f8")], [OUT], "inputs[0] has elements of DLPack's type code 2 with 64"),
    "signed": ([X.view("i4")], [OUT], "type code 0 with 32 bits and 1 lanes, but f32 is declared"),
    "lanes": ([tensor(X, lanes=2)], [OUT], "and 2 lanes"),
    "output's dtype": ([X], [OUT.astype("f8")], "outputs[0] has elements"),
    "device": (
        [tensor(X, device_type=OPENCL)],
        [OUT],
        "is on a device of DLPack's type 4",
    ),
    "too many axes": ([tensor(X, ndim=33)], [OUT], "inputs[0] has 33 axes: pass a tensor with at"),
    "negative axes": ([tensor(X, ndim=-1)], [OUT], "inputs[0] has -1 axes"),
    "longer shape": ([X[None]], [OUT], "inputs[0] has 3 axes: pass a tensor with at most 2"),
    "length": (
        [X[:, :2]],
        [OUT],
        "has length 2 along its axis 1, but the call needs 3",
    ),
    "smaller output": ([X], [OUT[:1]], "inputs[0] has length 2 along its axis 0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_tensors(name, on_cpu):
    """The error names the tensor and what to do; nothing is written."""
    inputs, outputs, text = REFUSED[name]
    with Compiled("x + 1", {"x": "f4"}) as compiled:
        assert run(compiled, inputs, outputs) == Status.ERROR_VALUE
        assert text in last_error()
    assert not OUT.any()


def test_null(on_cpu):
    """The arrays of addresses, a tensor that is used, a shape."""
    no_shape = tensor(X, shape=None)
    with Compiled("x + 1", {"x": "f4"}) as compiled:
        call, place = lib.gpuvec_expr_run_dlpack, (c_void_p * 1)(ctypes.addressof(no_shape))
        assert call(compiled.handle, None, place, 0, None) == Status.ERROR_NULL
        assert call(compiled.handle, place, None, 0, None) == Status.ERROR_NULL
        assert call(None, place, place, 0, None) == Status.ERROR_NULL
        for inputs, outputs in ([None], [OUT]), ([X], [None]), ([no_shape], [OUT]):
            assert run(compiled, inputs, outputs) == Status.ERROR_NULL
        assert run(compiled, [tensor(X, data=None)], [OUT]) == Status.ERROR_NULL


def test_outputs_of_reductions_have_the_shape(on_cpu):
    """Another number of axes, or another length, is refused."""
    x = np.arange(24.0).reshape(2, 3, 4)
    with Compiled("max(x)", {"x": "f8"}) as compiled:
        for shape in (3, 1), (2,), (2, 3, 4), (1, 3, 4), (3,):
            out = np.zeros(shape)
            is_right = shape == (3,)
            status = run(compiled, [x], [out], 0b101)
            assert status == (Status.OK if is_right else Status.ERROR_VALUE), last_error()
            assert out.any() == is_right
        np.testing.assert_array_equal(out, x.max(axis=(0, 2)))


@pytest.mark.parametrize("text", ["x / sum(x)", "sum(x) / 2"])
def test_reductions_inside_formulas(placement, text):
    """Are of the elements of all axes; a formula of their results alone is one value."""
    x = np.arange(1, 13, dtype=np.float64).reshape(3, 4)
    total = x.sum()
    right = x / total if text.startswith("x") else np.array(total / 2)
    with Compiled(text, {"x": np.float64}) as compiled:
        for view in (x, x.T, x[:, ::-1]):
            out = np.zeros(right.shape and view.shape)
            axes = 0b11 if compiled.is_reduction() else 0
            assert run(compiled, [view], [out], axes) == Status.OK, last_error()
            assert (out == (view / total if right.shape else right)).all()
