"""The compiled kernels of reductions by key, as C++ on the host, against integers of any size.

Every word of their tables is compared.
"""

import ctypes
import random
from collections import Counter, defaultdict
from fractions import Fraction

import numpy as np
import pytest

pytestmark = pytest.mark.any_driver

u64, u32 = ctypes.c_uint64, ctypes.c_uint32
OUTCOMES = ["", "threads wait for ever", "no such elements", "too much shared memory"]
# The bits of a window, the words of 32 bits of a cell, and the exponents of the lowest bit of
# terms and of their bound.
KERNELS = {
    "sum_f32": (36, 2, -149, 128),
    "sum_f64": (96, 4, -1074, 1024),
    "dot_f64": (160, 6, -2148, 2048),
}
ADD, MAX, MULTIPLY = OPERATIONS = range(3)
WORD = 1 << 64
SHARED_WORDS = 1 << 16


@pytest.fixture(scope="module")
def kernels(kernels_for_host):
    """The library of the kernels on the host."""
    return kernels_for_host("by_key_on_host.cpp", "-std=c++17", "-U_FORTIFY_SOURCE")


def keys_of(n: int, groups: int) -> np.ndarray:
    """Returns random keys, sorted ones, or one for all, and now and then some outside."""
    rng = np.random.default_rng(random.getrandbits(32))
    keys = rng.integers(0, groups, n)
    kind = random.randrange(4)
    if kind == 0:
        keys.sort()
    elif kind == 1:
        keys[:] = random.randrange(groups)
    if n > 0 and random.random() < 0.3:
        keys[rng.integers(0, n, 3)] = random.choice([-1, groups, -(2**63), 2**32])
    return keys


def floats(n: int, dtype: str) -> np.ndarray:
    """Returns ordinary numbers, any bits, small ones, or some that are not finite."""
    rng = np.random.default_rng(random.getrandbits(32))
    x = rng.standard_normal(n).astype(dtype)
    kind = random.randrange(5)
    if kind == 0:
        x = rng.integers(0, 2 ** (8 * x.itemsize), n, f"u{x.itemsize}").view(dtype)
    elif kind == 1:
        x *= np.finfo(dtype).tiny
    elif kind == 2:
        x[::7] = rng.choice([0, -0.0, np.inf, -np.inf, np.nan, 1], x[::7].shape)
    elif kind == 3:
        x[::3] *= np.ldexp(np.asarray(1, dtype), rng.integers(-60, 60, x[::3].shape))
    return x


class Launch:
    """The parameters of a launch. The top of kernels/by_key.cu lists them."""

    def __init__(self, results: int, n: int, groups: int) -> None:
        self.results, self.n, self.groups, self.index = results, n, groups, random.randrange(1000)
        self.first = random.choice([0, 0, random.randrange(groups)])
        self.held = random.choice([groups - self.first, random.randint(0, groups - self.first)])
        self.copies = random.choice([0, 1, 2, 8, 32])

    def limit_copies(self, words: int) -> None:
        """Has as many copies as shared memory holds, if a group needs some words."""
        while self.copies * max(self.held, 1) * words > SHARED_WORDS:
            self.copies //= 2

    def run(self, function, arrays, operation: int, columns: int, words: int, further=()) -> list:
        """Calls a kernel; returns the table's columns, behind them its first two words."""
        table = np.zeros(2 + columns * self.results * self.groups, "u8")
        kept = self.results, self.n, self.index, self.groups, self.first, self.held, self.copies
        parameters = (u64 * 15)(0, *kept, *(value % WORD for value in further))
        addresses = [ctypes.c_void_p(array.ctypes.data) for array in (*arrays, table)]
        x, y, keys, out = addresses
        blocks, seed = random.choice([1, 2, 3, 5]), random.getrandbits(32)
        shared = words * self.copies * self.held
        outcome = function(x, y, keys, operation, out, parameters, shared, blocks, seed)
        assert OUTCOMES[outcome] == "", vars(self)
        return [*table[2:].reshape(columns, -1).tolist(), *table[:2].tolist()]

    def elements(self, keys: np.ndarray):
        """Yields each element's number and state, if the launch adds it."""
        for i, key in enumerate(keys.tolist()):
            if self.first <= key < self.first + self.held:
                yield i, i // max(self.n, 1) * self.groups + key

    def outside(self, keys: np.ndarray) -> int:
        """Returns the table's first word."""
        outside = ~((keys >= 0) & (keys < self.groups))
        return WORD - 1 - self.index - int(outside.argmax()) if outside.any() else 0


def check_exact(kernels, kernel: str, results: int, n: int, groups: int) -> None:
    """Adds random elements, and compares the table's words."""
    width, cell, least, top = KERNELS[kernel]
    launch, dtype = Launch(results, n, groups), f"f{int(kernel[-2:]) // 8}"
    x, y = floats(results * n, dtype), floats(results * n, dtype)
    keys = keys_of(results * n, groups)
    base = least - random.randrange(width)
    count = -(-(top - base) // width)
    # Windows of any bits, or of ordinary numbers.
    start = random.choice([random.randrange(count), max((4 - base) // width - 1, 0)])
    windows = random.randint(1, min(4, count - start)) if random.random() < 0.7 else count - start
    near = random.randint(start, start + windows - 1)
    nears, counts = random.randint(1, start + windows - near), random.randrange(2)
    launch.limit_copies(cell * nears + counts)
    if launch.copies == 0:
        near, nears = 0, 0
    first, last_one = (near, near + nears - 1) if nears else (start, start + windows - 1)
    main = random.randint(first, last_one)
    sums, left = defaultdict(int), 0
    last = [0] * (results * groups)
    for i, state in launch.elements(keys):
        last[state] += 8 * counts
        with np.errstate(all="ignore"):
            term = x[i] * y[i] if kernel == "dot_f64" else x[i]
        is_finite = np.isfinite(x[i]) and (kernel != "dot_f64" or np.isfinite(y[i]))
        if not is_finite:
            last[state] |= 1 if np.isnan(term) else 2 if term > 0 else 4
            continue
        exact = Fraction(float(x[i])) * (Fraction(float(y[i])) if kernel == "dot_f64" else 1)
        units = exact / Fraction(2) ** base
        assert units.denominator == 1
        for window in range(count):
            bits = abs(units.numerator) >> width * window & ((1 << width) - 1)
            if start <= window < start + windows:
                sums[state, window - start] += bits if exact > 0 else -bits
            elif bits:
                left |= 1 << window
    words = cell // 2
    function = getattr(kernels, kernel)
    further = base, start, windows, near, nears, main, counts
    shared = cell * nears + counts
    found = launch.run(function, (x, y, keys), 0, windows * words + 1, shared, further)
    for (state, window), total in sums.items():
        digits = [(total >> 64 * word) % WORD for word in range(words)]
        columns = [found[window * words + word][state] for word in range(words)]
        assert columns == digits, (vars(launch), further, state, window)
        for word in range(words):
            found[window * words + word][state] = 0
    assert not any(any(column) for column in found[: windows * words])
    assert found[-3] == last, (vars(launch), further)
    assert found[-2:] == [launch.outside(keys), left], (vars(launch), further)


# Results, elements of each, and groups.
SIZES = [(1, 0, 3), (1, 1, 1), (1, 31, 2), (1, 33, 7), (1, 1000, 100), (1, 6001, 5)]
SIZES += [(1, 3000, 2500), (3, 700, 4), (7, 40, 9), (2, 1024, 30)]


@pytest.mark.parametrize("kernel", KERNELS)
def test_exact_sums(kernels, kernel):
    """Tables of some windows, of which some are in shared memory, with several copies or none."""
    random.seed(kernel)
    for results, n, groups in SIZES * 4:
        check_exact(kernels, kernel, results, n, groups)


@pytest.mark.parametrize("operation", OPERATIONS, ids=["add", "max", "multiply"])
def test_folds(kernels, operation):
    """Sums, greatest words and products."""
    random.seed(operation)
    for results, n, groups in SIZES * 3:
        launch = Launch(results, n, groups)
        launch.limit_copies(2)
        rng = np.random.default_rng(random.getrandbits(32))
        x = rng.integers(0, WORD - 1, results * n, "u8")
        if operation == MULTIPLY:
            # The words of odd numbers.
            x &= np.uint64(WORD - 2)
        keys = keys_of(results * n, groups)
        right = Counter()
        for i, state in launch.elements(keys):
            a, b = right[state], int(x[i])
            products = (a ^ 1) * (b ^ 1) % WORD ^ 1
            right[state] = [(a + b) % WORD, max(a, b), products][operation]
        found = launch.run(kernels.fold, (x, x, keys), operation, 1, 2)
        assert found[0] == [right[state] for state in range(results * groups)], vars(launch)
        assert found[1:] == [launch.outside(keys), 0], vars(launch)
