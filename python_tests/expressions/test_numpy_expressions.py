"""Random expressions give NumPy's types and bits: `make numpy-expressions` in short."""

import gpuvec
import numpy as np
import pytest
from bindings import Place
from numpy_oracle import Wrong, compare_function
from random_expressions import check, report, shrink

COUNT = 1500
# A GPU's driver takes some 10 ms to compile each text.
COUNT_ON_GPU = 150


@pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.1.0", reason="floor made floats of integers"
)
def test_random_expressions(placement):
    count = COUNT_ON_GPU if placement == Place.GPU else COUNT
    wrong = [text for text in (report(11, number) for number in range(count)) if text]
    assert not wrong, "\n\n".join(wrong)


def test_a_wrong_result_is_found_and_shrunk(monkeypatch):
    right = gpuvec.evaluate

    def wrong(text, inputs, out):
        right(text, inputs, out=out)
        out += np.float32(1)

    monkeypatch.setattr(gpuvec, "evaluate", wrong)
    inputs = {"a": np.float32([1, 2, 3]), "b": np.float32([4, 5, 6])}
    assert check("a * 2 + (a - b)", inputs)[0] == "wrong"
    text, smallest = shrink("a * 2 + (a - b)", inputs)
    assert text in inputs
    assert [value.size for value in smallest.values()] == [1]


@pytest.mark.parametrize("ulps, is_near", [(0, True), (1, True), (2, False)])
def test_the_bound_of_a_function(ulps, is_near):
    x = np.array([1.0])
    result = np.exp(x.astype(np.longdouble)).astype(np.float64)
    for _ in range(ulps):
        result = np.nextafter(result, 9)
    if is_near:
        compare_function("exp", np.exp, [x], result)
    else:
        with pytest.raises(Wrong, match="exp"):
            compare_function("exp", np.exp, [x], result)
