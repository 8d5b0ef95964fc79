"""The rounding of sums, means and norms in kernels, compiled for the host, against fractions."""

import ctypes
import random
from fractions import Fraction

import numpy as np
import pytest
from numpy_reductions import finished, root

SUM, MEAN, NORM = range(3)
FORMATS = [np.dtype("f4"), np.dtype("f8")]
CASES = 20_000

u64 = ctypes.c_uint64


@pytest.fixture(scope="module")
def kernels(kernels_for_host):
    """The library of kernels/rounding.cuh on the host."""
    loaded = kernels_for_host("kernel_rounding.cpp", "-frounding-math")
    for function in (loaded.of_words, loaded.of_digits, loaded.of_special):
        function.restype = u64
    return loaded


def encoding(value, dtype: np.dtype) -> int:
    """Returns the bits of a number that is rounded once."""
    return int(np.asarray(finished(value, dtype)).view(f"u{dtype.itemsize}"))


def magnitude(what: int, n: int, precision: int) -> int:
    """Returns an integer: any, or one whose result is in the middle of two floats or next to it."""
    middle = 2 * (random.getrandbits(precision - 1) | 1 << (precision - 1)) + 1
    near = random.choice([0, 0, -1, 1])
    if random.random() < 0.4:
        exact = {SUM: middle, MEAN: middle * n, NORM: middle * middle}[what]
        return (exact << 2 * random.randint(0, max(0, 85 - exact.bit_length() // 2))) + near
    if random.random() < 0.4:
        # Results of 63 bits, many of them ones.
        longest = 2**63 - (random.getrandbits(random.randint(1, 62)))
        exact = {SUM: longest, MEAN: longest * n, NORM: longest * longest}[what]
        return (exact << 2 * random.randint(0, 20)) + near
    return random.getrandbits(random.randint(1, 170)) + 1


def digits(value: int) -> list[int]:
    """Returns carry-save digits of 32 bits of an integer."""
    count = value.bit_length() // 32 + random.randint(2, 4)
    words = [value >> 32 * k & 0xFFFFFFFF for k in range(count - 1)]
    words.append(value >> 32 * (count - 1))
    for k in range(count - 1):
        carry = random.randint(-(2**29), 2**29)
        words[k] += carry << 32
        words[k + 1] -= carry
    return words


@pytest.mark.parametrize("what", [SUM, MEAN, NORM])
@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_results_are_rounded_once(kernels, dtype, what):
    """Sums, quotients and roots in the whole range of exponents."""
    random.seed(what)
    precision = np.finfo(dtype).nmant + 1
    for _ in range(CASES):
        n = random.choice(
            [random.randint(1, 100), random.getrandbits(62) + 1, 1 << random.randint(0, 62)]
        )
        integer = magnitude(what, n, precision)
        if integer.bit_length() > 190:
            continue
        low = random.choice([-149, -298, -1074, -2148, 0, random.randint(-2200, 900)])
        is_negative = what != NORM and random.random() < 0.5
        exact = Fraction(-integer if is_negative else integer) * Fraction(2) ** low
        if what != SUM:
            exact = exact / n if what == MEAN else root(exact)
        right = encoding(exact, dtype)
        signed = -integer if is_negative else integer
        words = (u64 * 3)(*(signed >> 64 * k & 2**64 - 1 for k in range(3)))
        rest = (low, what, u64(n), dtype.itemsize == 4)
        assert kernels.of_words(words, *rest) == right, (signed, *rest)
        listed = digits(signed)
        found = kernels.of_digits((ctypes.c_int64 * len(listed))(*listed), len(listed), *rest)
        assert found == right, (signed, *rest)


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_special_values(kernels, dtype):
    """No elements have a mean of NaN; NaN and infinities stay."""
    numbers = [0.0, np.nan, np.inf, -np.inf]
    is_single = dtype.itemsize == 4
    for which, number in enumerate(numbers):
        for what, n in [(SUM, 1), (MEAN, 5), (MEAN, 2**63 - 1), (NORM, 1)]:
            expected = encoding(number, dtype)
            assert kernels.of_special(which, what, u64(n), is_single) == expected
        assert kernels.of_special(which, MEAN, u64(0), is_single) == encoding(np.nan, dtype)
