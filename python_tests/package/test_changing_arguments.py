"""Arguments whose Python code changes other arguments of the same call."""

import shutil
from pathlib import Path

import gpuvec
import pytest
from programs import SUPPORT, run_python

pytestmark = pytest.mark.any_driver


@pytest.fixture(params=["the extension", "ctypes"])
def library(request, tmp_path) -> Path:
    """The library's path, beside which the extension module is, or is not."""
    path = Path(gpuvec.library_path())
    return path if request.param == "the extension" else Path(shutil.copy(path, tmp_path))


def test_a_shape_that_was_freed_is_not_read(library):
    """An argument sets the shape of another, and makes arrays in the memory of the old one."""
    script = """
    import warnings
    import gpuvec, numpy as np
    warnings.simplefilter("ignore")

    class Other:
        def __dlpack_device__(self):
            return (1, 0)
        def __dlpack__(self, **keywords):
            a.shape = 1, 2, 3
            self.arrays = [np.empty(10**8) for _ in range(20)]
            return np.ones(1).__dlpack__(**keywords)

    for _ in range(20):
        a = np.ones(6)
        assert gpuvec.evaluate("sum(a*b)", a=a, b=Other()) == 6
    """
    run_python(script, GPUVEC_LIB=str(library))


@pytest.mark.long
@pytest.mark.parametrize("first", [0, 1000])
def test_random_calls(library, first):
    """Use the old or the new state of each array, or raise an error."""
    script = (SUPPORT / "changing_arguments.py").read_text().split("\nif __name__")[0]
    run_python(f"{script}\nnp.seterr(all='ignore')\nmain({first}, 1000)\n", GPUVEC_LIB=str(library))
