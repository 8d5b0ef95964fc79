"""Every function of f64 stays within the bound that `make function-bounds` proves, against MPFR."""

import struct

import gpuvec
import numpy as np
import pytest
from functions import OF_ONE, OF_TWO
from hard_arguments import MATH, PAIRS, WORST, proved_bounds, worst_arguments
from mpfr_oracle import worst

BOUNDS = proved_bounds()


def known_cases(name: str) -> np.ndarray:
    """Returns the worst cases and those of crates/math/tests/hard as rows."""
    lines = (MATH / "tests" / "hard" / f"{name}.txt").read_text().splitlines()
    rows = [[struct.unpack(">d", bytes.fromhex(x))[0] for x in line.split()[:-1]] for line in lines]
    return np.concatenate([worst_arguments(name), np.array(rows)])


def test_every_function_has_a_bound_below_a_unit():
    """All functions of f64 are among those with a bound, and with worst cases."""
    assert set(BOUNDS) == set(OF_ONE + OF_TWO) == set(WORST)
    assert all(0.5 <= bound < 1 for bound in BOUNDS.values())


@pytest.mark.parametrize("name", BOUNDS)
def test_errors_of_known_cases_are_within_the_bound(placement, name):
    """Also those where searches found the greatest errors."""
    points = known_cases(name)
    columns = dict(zip("xy", np.ascontiguousarray(points.T)))
    text = f"{name}(x, y)" if name in PAIRS else f"{name}(x)"
    error, where = worst(name, points, gpuvec.evaluate(text, **columns))
    assert error <= BOUNDS[name], where
