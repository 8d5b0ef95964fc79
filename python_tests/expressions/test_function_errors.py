"""Every function of f64 is within its proved bound of MPFR's result on hard arguments."""

import math

import gpuvec
import numpy as np
import pytest
from bindings import Place, placed
from hard_angles import near_multiples
from hard_arguments import PAIRS, WORST, hard_arguments, proved_bounds
from mpfr_oracle import worst


def results(name: str, points: np.ndarray) -> np.ndarray:
    """Returns a function's values."""
    columns = dict(zip("xy", np.ascontiguousarray(points.T)))
    text = f"{name}(x, y)" if name in PAIRS else f"{name}(x)"
    return gpuvec.Expression(text, **dict.fromkeys(columns, np.float64))(**columns)


@pytest.mark.any_driver
@pytest.mark.parametrize("name", WORST)
def test_error_is_within_the_proved_bound(on_cpu, name):
    """Angles, ends of binades, bounds of sequences and worst cases."""
    points = hard_arguments(name)
    error, where = worst(name, points, results(name, points))
    assert error <= proved_bounds()[name], where


@pytest.mark.parametrize("name", WORST)
def test_hard_arguments_have_the_same_bits_everywhere(placement, name):
    """Each placement has the results that are judged above."""
    points = hard_arguments(name)
    found = results(name, points)
    with placed(Place.CPU):
        assert found.tobytes() == results(name, points).tobytes()


def test_hardest_angle_is_found():
    """The double that is nearest to a multiple of π/2 is known (Muller, Elementary Functions)."""
    found = [near_multiples(exponent, True, 2)[:1] for exponent in range(3, 1024)]
    distance, x = min((distance, x) for pairs in found for x, distance in pairs)
    assert x == 6381956970095103 * 2.0**797
    assert -61.6 < math.log2(distance) < -61.5
