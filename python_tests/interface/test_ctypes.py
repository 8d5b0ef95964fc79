"""All ways in which Python programs declare and call C functions work."""

import array
import ctypes
from ctypes import POINTER, c_float, c_size_t, c_void_p

import numpy as np
import pytest
from arrays import assert_same_bits
from bindings import C_TYPES, LIBRARY, last_error, pinned_empty
from numpy.ctypeslib import as_ctypes_type, ndpointer
from operations import CLASSIC, SAMPLE

pytestmark = pytest.mark.wheel

N = 1000
TYPE_CODES = {np.float32: "f", np.float64: "d", np.int32: "i", np.int64: "q"}


def data_of(operation) -> tuple:
    """Returns inputs, an output to fill, and its expected content."""
    a, b = operation.data(np.random.default_rng(N), N)
    expected = operation.oracle(a, b)
    return a, b, np.zeros_like(expected), expected


# Each returns an array's declared type, and the argument that is passed for the array.


def as_ndpointer(array):
    """Declares NumPy arrays, whose type and layout ctypes then checks."""
    writable = ", WRITEABLE" if array.flags.writeable else ""
    return ndpointer(array.dtype, ndim=1, flags=f"C_CONTIGUOUS, ALIGNED{writable}"), array


def as_typed_pointer(array):
    """Declares C's types."""
    pointer = POINTER(as_ctypes_type(array.dtype))
    return pointer, array.ctypes.data_as(pointer)


def as_address(array):
    """Declares untyped pointers, and passes integers."""
    return c_void_p, array.ctypes.data


def as_untyped_pointer(array):
    """Declares and passes untyped pointers."""
    return c_void_p, array.ctypes.data_as(c_void_p)


def undeclared(array):
    """Declares nothing."""
    return None, array.ctypes.data_as(POINTER(as_ctypes_type(array.dtype)))


def undeclared_by_reference(array):
    """Declares nothing, and passes the address of the first element."""
    return None, ctypes.byref(as_ctypes_type(array.dtype).from_address(array.ctypes.data))


STYLES = [
    as_ndpointer,
    as_typed_pointer,
    as_address,
    as_untyped_pointer,
    undeclared,
    undeclared_by_reference,
]


def call(operation, style, arrays: list) -> int:
    """Calls the operation on N elements of arrays in a style."""
    function = getattr(ctypes.CDLL(str(LIBRARY)), operation.name)
    types, arguments = zip(*map(style, arrays))
    c_type = C_TYPES[operation.dtype]
    alpha = [c_type(operation.alpha)] if operation.shape.takes_alpha else []
    stream = [None] if operation.takes_stream else []
    if all(types):
        last = [c_size_t, *[c_void_p] * len(stream)]
        function.argtypes = [*[c_type] * len(alpha), *types, *last]
    return function(*alpha, *arguments, c_size_t(N), *stream)


@pytest.mark.parametrize(
    "operation, memory",
    [
        (operation, memory)
        for operation in SAMPLE
        for memory in ("pageable", "pinned", "not writable")
        if operation in CLASSIC or memory == "pageable"
    ],
    ids=str,
)
@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.__name__)
def test_numpy_arrays(placement, style, memory, operation):
    """Each style works with the return type that ctypes assumes, an int."""
    a, b, out, expected = data_of(operation)
    if memory == "pinned":
        pinned = [pinned_empty(array.size, array.dtype) for array in (a, b, out)]
        pinned[0][:], pinned[1][:] = a, b
        a, b, out = pinned
    a.flags.writeable = b.flags.writeable = memory != "not writable"
    arrays = [*[a, b][: operation.shape.arity], out]
    assert call(operation, style, arrays) == 0, last_error()
    assert_same_bits(out, expected)


@pytest.mark.parametrize("operation", SAMPLE, ids=str)
def test_arrays_of_ctypes(placement, operation):
    """Without NumPy: arrays of ctypes' own, and the standard library's array."""
    a, b, _, expected = data_of(operation)
    c_type = C_TYPES[operation.dtype]
    of_array = array.array(TYPE_CODES[operation.dtype], a.tobytes())
    inputs = [(c_type * N).from_buffer(of_array), (c_type * N).from_buffer_copy(b)]
    out = (C_TYPES[operation.out_dtype] * expected.size)()
    passed = [*inputs[: operation.shape.arity], out]
    assert call(operation, lambda array: (None, array), passed) == 0, last_error()
    assert_same_bits(np.frombuffer(out, operation.out_dtype), expected)


def test_scalar_result_by_reference(placement):
    """A reduction's result can be one C variable."""
    dot_product = ctypes.CDLL(str(LIBRARY)).dot_product
    a = (c_float * 3)(1, 2, 3)
    result = c_float()
    assert dot_product(a, a, ctypes.byref(result), c_size_t(3)) == 0, last_error()
    assert result.value == 14


def test_slices_that_are_contiguous(placement):
    """Rows of a matrix and slices of an array are valid arrays."""
    function = ctypes.CDLL(str(LIBRARY)).vector_add
    array_of = ndpointer(np.float32, flags="C_CONTIGUOUS")
    function.argtypes = [array_of, array_of, array_of, c_size_t]
    matrix = np.arange(300, dtype=np.float32).reshape(3, 100)
    assert function(matrix[0], matrix[1], matrix[2], 100) == 0, last_error()
    assert (matrix[2] == np.arange(0, 200, 2) + 100).all()
    flat = matrix.reshape(-1)
    assert function(flat[1:50], flat[51:100], flat[101:150], 49) == 0, last_error()
    assert (flat[101:150] == np.arange(1, 50) + np.arange(51, 100)).all()
