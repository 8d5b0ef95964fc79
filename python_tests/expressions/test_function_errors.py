"""Every function of f64 is within its proved bound of MPFR's result on hard arguments."""

import functools
import math

import gpuvec
import numpy as np
import pytest
from hard_angles import near_multiples
from hard_arguments import PAIRS, WORST, hard_arguments, proved_bounds
from mpfr_oracle import worst

POINTS = functools.cache(hard_arguments)


@functools.cache
def greatest_error(name: str, results: bytes) -> tuple:
    """Returns the greatest error and where it is; each placement has the same bits to judge."""
    return worst(name, POINTS(name), np.frombuffer(results))


@pytest.mark.parametrize("name", WORST)
def test_error_is_within_the_proved_bound(placement, name):
    """Angles, ends of binades, bounds of sequences and worst cases."""
    columns = dict(zip("xy", np.ascontiguousarray(POINTS(name).T)))
    text = f"{name}(x, y)" if name in PAIRS else f"{name}(x)"
    results = gpuvec.Expression(text, **dict.fromkeys(columns, np.float64))(**columns)
    error, where = greatest_error(name, results.tobytes())
    assert error <= proved_bounds()[name], where


def test_hardest_angle_is_found():
    """The double that is nearest to a multiple of π/2 is known (Muller, Elementary Functions)."""
    found = [near_multiples(exponent, True, 2)[:1] for exponent in range(3, 1024)]
    distance, x = min((distance, x) for pairs in found for x, distance in pairs)
    assert x == 6381956970095103 * 2.0**797
    assert -61.6 < math.log2(distance) < -61.5
