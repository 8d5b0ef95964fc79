"""The table of NumPy's types, with which the tests of crates/expr compare."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.any_driver

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.1.0", reason="floor made floats of integers"
)
def test_the_table_is_numpys():
    script = ROOT / "tools/promotion_table.py"
    table = subprocess.check_output([sys.executable, script], text=True)
    assert table == (ROOT / "crates/expr/tests/expr/promotion.txt").read_text()
