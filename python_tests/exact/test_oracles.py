"""The oracles agree with each other, with results known by hand, and with the committed hashes."""

import math

import numpy as np
import pytest
from arrays import assert_same_bits
from corpus import committed, digest
from exact_sums import by_exponents, by_rationals

pytestmark = pytest.mark.any_driver

# Of the many cases, those that fractions sum in seconds.
EVERY, LONGEST = 23, 300

LEAST = {np.float32: 2.0**-149, np.float64: 2.0**-1074}
ULP = {np.float32: 2.0**-23, np.float64: 2.0**-52}


def known(dtype) -> list:
    """Returns terms with their sums, known by hand."""
    ulp, least, largest = ULP[dtype], LEAST[dtype], float(np.finfo(dtype).max)
    half_step = largest - float(np.nextafter(dtype(largest), dtype(0)))
    return [
        ([], 0.0),
        ([-0.0], 0.0),
        ([1, -1], 0.0),
        ([1, ulp / 2], 1.0),
        ([1, ulp / 2, least], 1 + ulp),
        ([1, ulp / 2, -least], 1.0),
        ([1 + ulp, ulp / 2], 1 + 2 * ulp),
        ([1 + ulp, ulp / 2, -least], 1 + ulp),
        ([-1, -ulp / 2, -least], -1 - ulp),
        ([largest, largest, -largest], largest),
        ([largest, half_step / 2], np.inf),
        ([largest, half_step / 2, -least], largest),
        ([-largest, -half_step / 2], -np.inf),
        ([least, least, -least], least),
        ([np.inf, largest, -largest], np.inf),
        ([-np.inf, 1], -np.inf),
        ([np.inf, -np.inf], np.nan),
        ([np.nan, np.inf], np.nan),
    ]


@pytest.mark.parametrize("oracle", [by_rationals, by_exponents])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_known_by_hand(oracle, dtype):
    for terms, result in known(dtype):
        a = np.array(terms, dtype)
        expected = np.array([result], dtype)
        assert_same_bits(oracle(a), expected)
        assert_same_bits(oracle(a, np.ones_like(a)), expected)
        if not np.isnan(result):
            assert_same_bits(oracle(np.ones_like(a), -a), 0 - expected)


@pytest.mark.parametrize("oracle", [by_rationals, by_exponents])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dot_products_known_by_hand(oracle, dtype):
    least, largest = LEAST[dtype], float(np.finfo(dtype).max)
    for pairs, result in [
        ([(least, 0.5)], 0.0),
        ([(least, -0.5)], -0.0),
        ([(least, 0.5), (least, least)], least),
        ([(least, 1.5)], 2 * least),
        ([(least, least), (-least, least)], 0.0),
        ([(largest, largest), (-largest, largest), (3, 4)], 12.0),
        ([(largest, largest)], np.inf),
        ([(0, np.inf)], np.nan),
        ([(-np.inf, -2), (np.nan, 0)], np.nan),
        ([(-np.inf, -2), (largest, -largest)], np.inf),
    ]:
        a, b = np.array(pairs, dtype).T.copy()
        assert_same_bits(oracle(a, b), np.array([result], dtype))


def test_the_oracles_agree(cases):
    """On a sample of the corpus, with short cases of every group."""
    short = [n for n in range(len(cases)) if cases.case(n)[0].size <= LONGEST]
    first_of_groups = {cases.groups[n]: n for n in reversed(short)}
    for number in {*short[::EVERY], *first_of_groups.values()}:
        a, b = cases.case(number)
        assert_same_bits(by_exponents(a, b), by_rationals(a, b))


def test_sums_of_doubles_agree_with_fsum(cases):
    """Python's own exact sum, where it is defined."""
    if cases.kind.name != "sum_f64":
        pytest.skip("math.fsum sums doubles")
    for number in range(0, len(cases), 7):
        a, _ = cases.case(number)
        # fsum fails if a partial sum overflows.
        if np.all(np.abs(a) < 2.0**1000):
            expected = math.fsum(a.tolist())
            assert_same_bits(by_exponents(a), np.array([expected + 0.0]))


def test_the_committed_hashes_are_the_oracles(cases):
    assert digest(cases.expected()) == committed()[cases.kind.name]
