"""bfloat16 of ml_dtypes, if that is installed."""

import gpuvec
import numpy as np
import pytest
from arrays import assert_same_bits

ml_dtypes = pytest.importorskip("ml_dtypes")
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def test_arrays_of_bfloat16(placement):
    """Inputs, results, scalars and casts."""
    x = np.random.default_rng(1).normal(size=1001).astype(BFLOAT16)
    wide = x.astype(np.float32)
    found = gpuvec.evaluate("x * x + 1", x=x)
    assert found.dtype == BFLOAT16
    expected = (wide * wide + 1).astype(BFLOAT16)
    assert_same_bits(found.view(np.uint16), expected.view(np.uint16))
    assert gpuvec.evaluate("x * k", x=x, k=ml_dtypes.bfloat16(2)).dtype == BFLOAT16
    assert gpuvec.evaluate("x + h", x=x, h=np.ones(1001, np.float16)).dtype == np.float32
    assert gpuvec.evaluate("bf16(y)", y=wide).dtype == BFLOAT16
    assert gpuvec.evaluate("max(x)", x=x) == x.max()
    assert gpuvec.evaluate("sum(x)", x=x) == np.float32(x.astype(np.float64).sum())


def test_operations_of_bfloat16(placement):
    """Each operation rounds once; sums are float32."""
    x = np.random.default_rng(2).normal(size=(3, 7)).astype(BFLOAT16)
    wide = x.astype(np.float64)
    for name, expected in {"add": wide + wide, "mul": wide * wide, "sub": wide - wide}.items():
        found = getattr(gpuvec, name)(x, x)
        assert found.dtype == BFLOAT16
        assert (found == expected.astype(BFLOAT16)).all()
    assert (gpuvec.div(x, x) == 1).all()
    assert (gpuvec.scale(2, x) == wide * 2).all()
    out = np.empty_like(x)
    assert gpuvec.axpy(0.5, x, x, out=out) is out
    assert (out == (wide * 1.5).astype(BFLOAT16)).all()
    assert_same_bits(gpuvec.sum(x), np.float32(wide.sum()))
    assert_same_bits(gpuvec.sum(x, axis=0), wide.sum(axis=0).astype(np.float32))
    assert_same_bits(gpuvec.dot(x[0], x[1]), np.float32((wide[0] * wide[1]).sum()))
    assert gpuvec.min(x) == x.min()
    assert (gpuvec.max(x, axis=1) == x.max(axis=1)).all()
    assert gpuvec.var(x).dtype == np.float32
    with pytest.raises(TypeError, match="^b has dtype float32"):
        gpuvec.add(x, x.astype(np.float32))


def test_device_arrays_of_bfloat16(placement):
    """Operators, casts, assignments, and the way back through DLPack."""
    x = np.arange(5).astype(BFLOAT16)
    on_device = gpuvec.to_device(x)
    doubled = on_device + x
    assert (doubled.to_host() == x + x).all()
    assert (gpuvec.evaluate("y + 0", y=gpuvec.from_dlpack(doubled)).to_host() == x + x).all()
    on_device *= 3
    on_device[1] = 1.00390625
    assert on_device.dtype == BFLOAT16
    assert on_device.to_host().tolist() == [0, 1, 6, 9, 12]
    assert on_device[::2].copy().to_host().tolist() == [0, 6, 12]
    # Rounded once, from float64.
    doubles = np.float64([1.00390625 + 2.0**-40, 1.00390625, 1e40])
    casted = gpuvec.to_device(doubles).astype(BFLOAT16)
    assert casted.to_host().tolist() == [1.0078125, 1, np.inf]
    assert casted.astype(np.float32).to_host().tolist() == [1.0078125, 1, np.inf]
