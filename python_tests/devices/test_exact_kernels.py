"""The kernels of exact sums: every word of their states, for any grid and by either method."""

import numpy as np
import pytest
from arrays import assert_same_bits
from bindings import lib, why_cpu
from corpus import KINDS, Kind, corpus
from cuda_driver import DeviceArray
from exact_kernels import BY_INTEGERS, BY_THE_DATA, IMAGES, ExactKernel, Sum, grids
from exact_sums import by_exponents, exact_integer

pytestmark = [
    pytest.mark.skipif(lib.gpuvec_device_count() == 0, reason=why_cpu() or "no GPU"),
    pytest.mark.skipif(not IMAGES.exists(), reason="there are no kernels: make gpu-bundle"),
]
METHODS = [BY_THE_DATA, BY_INTEGERS]

# Of the corpus's cases.
EVERY = 11


@pytest.fixture(params=KINDS, ids=str)
def kernel(request, driver):
    """Loads the kernel of each kind in turn."""
    kernel = ExactKernel(driver, request.param)
    yield kernel
    kernel.free()


def expected(kind: Kind, a: np.ndarray, b: np.ndarray) -> Sum:
    """Returns the state of terms, by NumPy and integers."""
    with np.errstate(all="ignore"):
        special = a * b if kind.is_dot else a
        is_finite = np.isfinite(a) & np.isfinite(b)
        # Finite factors whose product overflows do not count as an infinity.
        special = special[~is_finite]
    finite = (a[is_finite], b[is_finite] if kind.is_dot else None)
    total, unit = exact_integer(*finite)
    shift = unit - kind.low
    integer = total << shift if shift >= 0 else total >> -shift
    counts = (np.isnan(special), special == np.inf, special == -np.inf)
    return Sum(a.size, *(int(np.count_nonzero(count)) for count in counts), integer)


def check(kernel: ExactKernel, a: np.ndarray, b: np.ndarray, past: int = 0) -> None:
    """Compares states and values of arrays that begin `past` elements after a boundary."""
    driver, kind = kernel.driver, kernel.kind
    arrays = [DeviceArray(driver, np.pad(array, (past, 1))) for array in (a, b)]
    places = [array.address + past * a.itemsize for array in arrays]
    state, value = expected(kind, a, b), by_exponents(a, b if kind.is_dot else None)
    for blocks in grids(driver):
        for method in METHODS:
            assert kernel.state(*places, a.size, blocks, method) == state
            assert_same_bits(kernel.finished(*places, a.size, blocks, method), value)
    for array in arrays:
        array.free()


def test_the_corpus(kernel):
    cases = corpus(kernel.kind)
    for number in range(0, len(cases), EVERY):
        a, b = cases.case(number)
        if a.size:
            check(kernel, a, a if b is None else b, past=number % 3)


@pytest.mark.slow_on_fake_driver
def test_windows_that_move_with_every_batch(kernel):
    """One warp's windows are left some ten thousand times: digits carry meanwhile."""
    rng = np.random.default_rng(1)
    n = (1 << 24) + 77
    large = np.arange(n) // 128 % 2 == 0
    ones = np.ones(n, kernel.kind.dtype)
    a = (1 + rng.random(n)) * np.where(large, 2.0**60, 2.0**-60)
    check(kernel, a.astype(kernel.kind.dtype), 1.5 * ones)


@pytest.mark.slow_on_fake_driver
@pytest.mark.parametrize("sign", [1, -1])
def test_many_terms_of_one_sign_and_far_apart(kernel, sign):
    """Integers that all change the same digits: these carry before they overflow."""
    n = (1 << 24) + 77
    scale = sign * np.where(np.arange(n) % 2 == 0, 2.0**100, 2.0**-100)
    a = (2 - 2.0**-23) * scale
    check(kernel, a.astype(kernel.kind.dtype), np.ones(n, kernel.kind.dtype))
