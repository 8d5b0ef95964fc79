"""Results have the same bits in any floating-point mode, and the caller's mode is kept."""

import numpy as np
import pytest
from arrays import assert_same_bits
from float_modes import ALL_MASKED, CASES, FLAGS, MODES, inputs_of, run
from operations import named
from programs import run_python


@pytest.mark.parametrize("operation, n", CASES, ids=str)
@pytest.mark.parametrize("mode", MODES)
def test_results_and_modes(placement, call_with_mxcsr, operation, n, mode):
    """Every mode gives the oracle's bits, and is restored after the call."""
    a, b = inputs_of(operation, n)
    out, after = run(call_with_mxcsr, operation, MODES[mode], a, b)
    assert_same_bits(out, operation.oracle(a, b))
    assert after & ~FLAGS == MODES[mode] & ~FLAGS


@pytest.mark.parametrize("operation, n", CASES, ids=str)
@pytest.mark.parametrize("flags", [0, FLAGS])
def test_exception_flags(on_cpu, call_with_mxcsr, operation, n, flags):
    """On the CPU the caller's exception flags do not change either."""
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
    """The sum of one subnormal, and its product with 1, is the subnormal itself."""
    operation = named(f"gpuvec_{kernel}")
    a = np.array([np.finfo(operation.dtype).smallest_subnormal * 5])
    out, _ = run(call_with_mxcsr, operation, MODES[mode], a, np.ones_like(a))
    assert_same_bits(out, a)


def test_exceptions_that_trap(placement, float_modes_library):
    """A caller that enables all floating-point traps gets results and no signal."""
    script = f"""
    import float_modes as modes
    from arrays import assert_same_bits
    call = modes.load_helper({str(float_modes_library)!r})
    for operation, n in modes.CASES:
        a, b = modes.inputs_of(operation, n)
        out, after = modes.run(call, operation, 0, a, b)
        assert_same_bits(out, operation.oracle(a, b))
        assert after & ~modes.FLAGS == 0
    """
    run_python(script, GPUVEC_PLACEMENT=placement.name.lower())
