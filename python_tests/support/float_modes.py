"""Calls in a floating-point mode that another library might have set."""

import ctypes
from ctypes import POINTER, c_double, c_int32, c_size_t, c_uint32, c_void_p

import numpy as np
from bindings import last_error, lib
from operations import CLASSIC, sized

# The exception flags and other bits of MXCSR (Intel SDM, volume 1, 10.2.3).
FLAGS = 0x003F
DENORMALS_ARE_ZERO = 0x0040
ALL_MASKED = 0x1F80
DOWN, UP, TOWARD_ZERO = 0x2000, 0x4000, 0x6000
FLUSH_TO_ZERO = 0x8000

MODES = {
    "default": ALL_MASKED,
    "flush to zero": ALL_MASKED | FLUSH_TO_ZERO,
    "denormals are zero": ALL_MASKED | DENORMALS_ARE_ZERO,
    "as with fast-math": ALL_MASKED | FLUSH_TO_ZERO | DENORMALS_ARE_ZERO,
    "round down": ALL_MASKED | DOWN,
    "round up": ALL_MASKED | UP,
    "round toward zero": ALL_MASKED | TOWARD_ZERO,
    "everything": ALL_MASKED | FLUSH_TO_ZERO | DENORMALS_ARE_ZERO | UP,
    "flags set before": ALL_MASKED | FLAGS,
}

# The classic operations, and the family's on floats.
CASES = [
    (operation, n)
    for operation, n in sized([1, 33, 5000, 1_100_001], [33, 70_001])
    if operation in CLASSIC or np.issubdtype(operation.dtype, np.floating)
]


def load_helper(library):
    """Declares the function of float_modes.c."""
    function = ctypes.CDLL(str(library)).call_with_mxcsr
    function.restype = c_int32
    function.argtypes = [c_uint32, POINTER(c_uint32), c_void_p, c_double, POINTER(c_size_t)]
    return function


def inputs_of(operation, n: int) -> tuple:
    """Returns data whose results depend on the modes: subnormals, and inexact sums."""
    a, b = operation.data(np.random.default_rng(n), n)
    if operation.kind == "reduction":
        a[: n // 2] *= np.finfo(a.dtype).tiny / 16
        b[: n // 2] = 2.0**-10
    return a, b


def run(call_with_mxcsr, operation, mxcsr: int, a, b) -> tuple:
    """Returns the result in that mode, and MXCSR after the call."""
    out = np.zeros(operation.outputs(a.size), operation.out_dtype)
    after = c_uint32()
    function = ctypes.cast(getattr(lib, operation.name), c_void_p)
    arrays = [*[a, b][: operation.shape.arity], out]
    words = (c_size_t * 5)(*[array.ctypes.data for array in arrays], a.size)
    alpha = np.zeros(2, operation.dtype)
    alpha[0] = operation.alpha or 0
    register = alpha.view(np.float64)[0]
    assert call_with_mxcsr(mxcsr, after, function, register, words) == 0, last_error()
    return out, after.value


def python_in_mode(call_with_mxcsr, mxcsr: int, function):
    """Returns what a Python function returns in that mode."""
    results = []

    @ctypes.CFUNCTYPE(c_int32, c_double, *[c_size_t] * 5)
    def call(*_):
        try:
            results.append(function())
        except Exception as error:
            results.append(error)
        return 0

    words = (c_size_t * 5)()
    call_with_mxcsr(mxcsr, c_uint32(), ctypes.cast(call, c_void_p), 0.0, words)
    [result] = results
    if isinstance(result, Exception):
        raise result
    return result
