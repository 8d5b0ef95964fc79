"""Results have the same bits in any floating-point mode, and the caller's mode is kept."""

import ctypes
from ctypes import POINTER, c_double, c_int32, c_size_t, c_uint32, c_void_p
from pathlib import Path

import numpy as np
import pytest
from arrays import assert_same_bits
from bindings import last_error, lib
from operations import CLASSIC, named, sized
from programs import compile_c, run_python

# Bits of MXCSR (Intel SDM, volume 1, 10.2.3).
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


@pytest.fixture(scope="module")
def helper(tmp_path_factory):
    """float_modes.c, compiled."""
    library = tmp_path_factory.mktemp("float_modes") / "float_modes.so"
    compile_c(Path(__file__).with_name("float_modes.c"), library, "-shared", "-fPIC")
    return library


@pytest.fixture
def call_with_mxcsr(helper):
    """The function of float_modes.c."""
    return load_helper(helper)


def load_helper(library):
    """Declares the function of float_modes.c."""
    function = ctypes.CDLL(str(library)).call_with_mxcsr
    function.restype = c_int32
    function.argtypes = [c_uint32, POINTER(c_uint32), c_void_p, c_double, POINTER(c_size_t)]
    return function


def inputs_of(operation, n: int) -> tuple:
    """Data whose results depend on the modes: subnormals, and sums that are not exact."""
    a, b = operation.data(np.random.default_rng(n), n)
    if operation.kind == "reduction":
        a[: n // 2] *= np.finfo(a.dtype).tiny / 16
        b[: n // 2] = 2.0**-10
    return a, b


def run(call_with_mxcsr, operation, mxcsr: int, a, b) -> tuple:
    """The result in that mode, and MXCSR after the call."""
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


@pytest.mark.parametrize("operation, n", CASES, ids=str)
@pytest.mark.parametrize("mode", MODES)
def test_results_and_modes(placement, call_with_mxcsr, operation, n, mode):
    """Every mode gives the oracle's bits, and is in force again after the call."""
    a, b = inputs_of(operation, n)
    out, after = run(call_with_mxcsr, operation, MODES[mode], a, b)
    assert_same_bits(out, operation.oracle(a, b))
    assert after & ~FLAGS == MODES[mode] & ~FLAGS


@pytest.mark.parametrize("operation, n", CASES, ids=str)
@pytest.mark.parametrize("flags", [0, FLAGS])
def test_exception_flags(on_cpu, call_with_mxcsr, operation, n, flags):
    """On the CPU the caller's exception flags stay as they were, too."""
    a, b = inputs_of(operation, n)
    _, after = run(call_with_mxcsr, operation, ALL_MASKED | flags, a, b)
    assert after == ALL_MASKED | flags


@pytest.mark.parametrize(
    "a, b, product",
    [(2.0**-126, 0.5, 2.0**-127), (2.0**-140, 1.0, 2.0**-140), (1 + 2.0**-23, 1 + 2.0**-23, None)],
)
@pytest.mark.parametrize("mode", MODES)
def test_single_products(placement, call_with_mxcsr, a, b, product, mode):
    """A subnormal result, a subnormal input, and one that is rounded to nearest."""
    a, b = np.array([a], np.float32), np.array([b], np.float32)
    expected = a * b if product is None else np.array([product], np.float32)
    out, _ = run(call_with_mxcsr, named("dot_product"), MODES[mode], a, b)
    assert_same_bits(out, expected)


@pytest.mark.parametrize("kernel", ["sum_f32", "sum_f64", "dot_f64"])
@pytest.mark.parametrize("mode", MODES)
def test_single_subnormals(placement, call_with_mxcsr, kernel, mode):
    """A subnormal is its own sum, and its own product with one."""
    operation = named(f"gpuvec_{kernel}")
    a = np.array([np.finfo(operation.dtype).smallest_subnormal * 5])
    out, _ = run(call_with_mxcsr, operation, MODES[mode], a, np.ones_like(a))
    assert_same_bits(out, a)


def test_exceptions_that_trap(placement, helper):
    """A caller for whom every floating-point exception is a signal gets results and no signal."""
    script = f"""
    import test_float_modes as modes
    call = modes.load_helper({str(helper)!r})
    for operation, n in modes.CASES:
        a, b = modes.inputs_of(operation, n)
        out, after = modes.run(call, operation, 0, a, b)
        modes.assert_same_bits(out, operation.oracle(a, b))
        assert after & ~modes.FLAGS == 0
    """
    run_python(script, GPUVEC_PLACEMENT=placement.name.lower())
