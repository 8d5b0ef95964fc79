"""The ways in which Python programs call a C library: all of them work."""

import array
import ctypes
from ctypes import POINTER, c_float, c_int32, c_size_t, c_void_p

import numpy as np
import pytest
from arrays import assert_same_bits
from bindings import LIBRARY, last_error, pinned_empty
from numpy.ctypeslib import ndpointer
from operations import OPERATIONS

N = 1000
C_TYPES = {np.float32: c_float, np.int32: c_int32}


def data_of(operation) -> tuple:
    """Inputs, an output to fill, and what it should hold."""
    a, b = operation.data(np.random.default_rng(N), N)
    return a, b, np.zeros(operation.outputs(N), operation.dtype), operation.oracle(a, b)


def as_ndpointer(operation):
    """Declared as NumPy arrays, whose type and layout ctypes then checks."""
    readable = ndpointer(operation.dtype, ndim=1, flags="C_CONTIGUOUS, ALIGNED")
    writable = ndpointer(operation.dtype, ndim=1, flags="C_CONTIGUOUS, ALIGNED, WRITEABLE")
    return [readable, readable, writable, c_size_t], lambda array: array


def as_typed_pointer(operation):
    """Declared as C has them."""
    pointer = POINTER(C_TYPES[operation.dtype])
    return [pointer] * 3 + [c_size_t], lambda array: array.ctypes.data_as(pointer)


def as_address(_):
    """Declared as untyped pointers, passed as integers."""
    return [c_void_p] * 3 + [c_size_t], lambda array: array.ctypes.data


def as_untyped_pointer(_):
    """Declared as untyped pointers, passed as such."""
    return [c_void_p] * 3 + [c_size_t], lambda array: array.ctypes.data_as(c_void_p)


def undeclared(operation):
    """Not declared at all."""
    pointer = POINTER(C_TYPES[operation.dtype])
    return None, lambda array: array.ctypes.data_as(pointer)


def undeclared_by_reference(operation):
    """Not declared at all, passed as the address of the first element."""
    c_type = C_TYPES[operation.dtype]
    return None, lambda array: ctypes.byref(c_type.from_address(array.ctypes.data))


STYLES = [
    as_ndpointer,
    as_typed_pointer,
    as_address,
    as_untyped_pointer,
    undeclared,
    undeclared_by_reference,
]


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
@pytest.mark.parametrize("memory", ["pageable", "pinned", "not writable"])
@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.__name__)
def test_numpy_arrays(placement, style, memory, operation):
    """Each style computes, with the return value that ctypes assumes, an int."""
    a, b, out, expected = data_of(operation)
    if memory == "pinned":
        pinned = [pinned_empty(array.size, operation.dtype) for array in (a, b, out)]
        pinned[0][:], pinned[1][:] = a, b
        a, b, out = pinned
    a.flags.writeable = b.flags.writeable = memory != "not writable"
    function = getattr(ctypes.CDLL(str(LIBRARY)), operation.name)
    argtypes, convert = style(operation)
    function.argtypes = argtypes
    assert function(convert(a), convert(b), convert(out), c_size_t(N)) == 0, last_error()
    assert_same_bits(out, expected)


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_arrays_of_ctypes(placement, operation):
    """Without NumPy: arrays of ctypes' own, and the standard library's array."""
    a, b, _, expected = data_of(operation)
    function = getattr(ctypes.CDLL(str(LIBRARY)), operation.name)
    c_type = C_TYPES[operation.dtype]
    n, outputs = N, operation.outputs(N)
    of_array = array.array("f" if c_type is c_float else "i", a.tobytes())
    of_ctypes = (c_type * n).from_buffer_copy(b)
    out = (c_type * outputs)()
    status = function((c_type * n).from_buffer(of_array), of_ctypes, out, c_size_t(n))
    assert status == 0, last_error()
    assert_same_bits(np.frombuffer(out, operation.dtype), expected)


def test_scalar_result_by_reference(placement):
    """A reduction's result can be one C variable."""
    dot_product = ctypes.CDLL(str(LIBRARY)).dot_product
    a = (c_float * 3)(1, 2, 3)
    result = c_float()
    assert dot_product(a, a, ctypes.byref(result), c_size_t(3)) == 0, last_error()
    assert result.value == 14


def test_slices_that_are_contiguous(placement):
    """Rows of a matrix and pieces of an array are arrays like any other."""
    function = ctypes.CDLL(str(LIBRARY)).vector_add
    array_of = ndpointer(np.float32, flags="C_CONTIGUOUS")
    function.argtypes = [array_of, array_of, array_of, c_size_t]
    matrix = np.arange(300, dtype=np.float32).reshape(3, 100)
    assert function(matrix[0], matrix[1], matrix[2], 100) == 0, last_error()
    assert (matrix[2] == np.arange(0, 200, 2) + 100).all()
    flat = matrix.reshape(-1)
    assert function(flat[1:50], flat[51:100], flat[101:150], 49) == 0, last_error()
    assert (flat[101:150] == np.arange(1, 50) + np.arange(51, 100)).all()
