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


def test_device_arrays_of_bfloat16(placement):
    """Operators, and the way back through DLPack."""
    x = np.arange(5).astype(BFLOAT16)
    doubled = gpuvec.to_device(x) + x
    assert (doubled.to_host() == x + x).all()
    assert (gpuvec.evaluate("y + 0", y=gpuvec.from_dlpack(doubled)).to_host() == x + x).all()
