"""Every function of f64 stays within the bound that `make function-bounds` proves, against MPFR."""

import re
import struct

import gpuvec
import numpy as np
import pytest
from bindings import ROOT
from functions import OF_ONE, OF_TWO
from hard_arguments import MATH, PAIRS, WORST, proved_bounds, worst_arguments
from mpfr_oracle import worst

BOUNDS = proved_bounds()


def known_cases(name: str) -> np.ndarray:
    """Returns the worst cases and those of crates/math/tests/hard as rows."""
    lines = (MATH / "tests" / "hard" / f"{name}.txt").read_text().splitlines()
    rows = [[struct.unpack(">d", bytes.fromhex(x))[0] for x in line.split()[:-1]] for line in lines]
    return np.concatenate([worst_arguments(name), np.array(rows)])


def greatest_error(name: str, points: np.ndarray) -> tuple:
    """Returns the greatest error of a function at some points, and its arguments."""
    columns = dict(zip("xy", np.ascontiguousarray(points.T)))
    text = f"{name}(x, y)" if name in PAIRS else f"{name}(x)"
    return worst(name, points, gpuvec.evaluate(text, **columns))


def test_every_function_has_a_bound_below_a_unit():
    """All functions of f64 are among those with a bound, and with worst cases."""
    assert set(BOUNDS) == set(OF_ONE + OF_TWO) == set(WORST)
    assert all(0.5 <= bound < 1 for bound in BOUNDS.values())


@pytest.mark.parametrize("name", BOUNDS)
def test_errors_of_known_cases_are_within_the_bound(placement, name):
    """Also those where searches found the greatest errors."""
    error, where = greatest_error(name, known_cases(name))
    assert error <= BOUNDS[name], where


def test_documents_state_the_greatest_errors():
    """The source has that of each function, to two digits, and the language's page that of all."""
    source = (MATH / "src" / "double" / "mod.rs").read_text()
    table = source.split("The greatest errors found", 1)[1].split("mod error_function", 1)[0]
    stated = {name: float(error) for name, error in re.findall(r"(\w+) (0\.\d\d) \|", table)}
    known = {name: round(greatest_error(name, worst_arguments(name))[0], 2) for name in BOUNDS}
    assert stated.keys() == known.keys()
    assert {name: error for name, error in known.items() if error > stated[name]} == {}
    page = (ROOT / "docs" / "reference" / "language.md").read_text()
    assert f"the greatest one found is {max(stated.values())} ulp" in page
