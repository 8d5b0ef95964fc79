"""The compiled kernels of reductions, as C++ on the host, against fractions.

They run on small arrays of awkward lengths with hard elements, in every kind of partition.
"""

import ctypes
import random
from fractions import Fraction

import numpy as np
import pytest
from numpy_reductions import dot, finished, mean, norm, sum_

pytestmark = pytest.mark.any_driver

SUM, MEAN, NORM = FINISHES = range(3)
BY_WINDOWS, BY_INTEGERS = range(2)
# The words of each kernel's states.
KERNELS = {
    "sum_f32": 15,
    "sum_f64": 72,
    "dot_f32": 24,
    "dot_f64": 138,
    "norm_f32": 24,
    "norm_f64": 138,
}
WARPS, BATCH = 8, 16
OUTCOMES = ["", "threads wait for ever", "no such elements", "memory is not zero", "no completion"]
ANY, CANCELLING, SMALL, OUTLIERS, SPECIAL, TIES, NORMAL = KINDS = range(7)
u64, u32 = ctypes.c_uint64, ctypes.c_uint32


class Array(ctypes.Structure):
    """An array, by the distances in bytes of results and of the elements of one."""

    _fields_ = [("data", ctypes.c_void_p), ("result", ctypes.c_int64), ("element", ctypes.c_int64)]


class Partition(ctypes.Structure):
    """The structure of kernels/axes.cu."""

    NAMES = ["log_results", "splits", "results_per_lane", "in_rows", "in_vectors", "stores_states"]
    _fields_ = [(name, u32) for name in NAMES]

    def blocks(self, results: int) -> int:
        """Returns the number of blocks for some results."""
        groups = -(-results // (1 << self.log_results))
        return groups * self.splits or -(-groups // (WARPS * max(self.results_per_lane, 1)))

    def __repr__(self) -> str:
        """The fields, for a failed test."""
        return str({name: getattr(self, name) for name in self.NAMES})


@pytest.fixture(scope="module")
def kernels(kernels_for_host):
    """The library of the kernels on the host."""
    return kernels_for_host("kernels_on_host.cpp", "-std=c++17", "-U_FORTIFY_SOURCE")


def hard(shape: tuple[int, int], dtype: np.dtype, kind: int) -> np.ndarray:
    """Returns rows of elements of a kind that some of the kernels' ways to add do not hold."""
    rng = np.random.default_rng(random.getrandbits(32))
    x = rng.standard_normal(shape).astype(dtype)
    flat = x.reshape(-1)
    if kind == ANY:
        found = rng.integers(0, 2 ** (8 * dtype.itemsize), shape, f"u{dtype.itemsize}").view(dtype)
        return np.where(np.isfinite(found), found, x)
    if kind == CANCELLING:
        flat[1::2] = -flat[: flat.size // 2 * 2 : 2]
        flat[:: rng.integers(3, 9)] *= dtype.type(2.0**-50)
    elif kind == SMALL:
        x *= np.finfo(dtype).tiny
        flat[::3] = rng.choice([0, -0.0, 1, 2, 4], flat[::3].shape)
    elif kind == OUTLIERS:
        flat[rng.integers(0, flat.size, 2)] *= dtype.type(2.0**70)
    elif kind == SPECIAL:
        places = rng.integers(0, flat.size, 1 + flat.size // 300)
        flat[rng.random(flat.size) < rng.choice([0, 0.5])] = 0
        flat[places] = rng.choice([np.inf, -np.inf, np.nan], places.shape, p=[0.4, 0.4, 0.2])
    elif kind == TIES and shape[1] >= 8:
        x = ties(shape, dtype, rng.choice([1, 2, 5, 11]))
        x = rng.permuted(x, axis=1) if rng.random() < 0.5 else x
    return x


def ties(shape: tuple[int, int], dtype: np.dtype, exponents: int) -> np.ndarray:
    """Returns rows with the sum 1 and half its last bit, and little more or less.

    Large numbers come before and after, and cancel: their exponents are below a bound.
    """
    rng = np.random.default_rng(random.getrandbits(32))
    half, last = shape[1] // 2, float(np.finfo(dtype).eps)
    x = np.ldexp(1 + rng.random(shape), rng.integers(0, exponents, shape)).astype(dtype)
    x[:, half:] = 0
    x[:, half + 4 : 2 * half] = -x[:, 4:half]
    x[:, :4] = 0
    x[:, half : half + 4] = [1, last / 2, last / 4, -last / 4]
    x[:, half + 2] *= (1 + rng.choice([-1, 1], shape[0]) * last).astype(dtype)
    return x


class Reduction:
    """A kernel, with random elements and a random operation that finishes its results."""

    def __init__(self, kernel: str, shape: tuple[int, int], kind: int, *, in_columns=False) -> None:
        self.name, self.kind, self.words = kernel.split("_")[0], kind, KERNELS[kernel]
        self.dtype = np.dtype(f"f{int(kernel[-2:]) // 8}")
        self.a, self.b = hard(shape, self.dtype, kind), hard(shape, self.dtype, kind)
        if kind == TIES:
            self.b = np.ones(shape, self.dtype)
        if in_columns:
            self.a, self.b = map(np.asfortranarray, (self.a, self.b))
        self.finish = NORM if self.name == "norm" else random.choice([SUM, MEAN])
        self.finish = SUM if self.name == "dot" else self.finish
        self.mode = random.choice([BY_WINDOWS, BY_WINDOWS, BY_INTEGERS])

    def check(self, function, *parameters, is_state: bool) -> None:
        """Calls a function with the arrays, and checks what it stores."""
        results, n = self.a.shape
        out = (
            np.empty((results, self.words), "i8")
            if is_state
            else np.empty((results, 1), self.dtype)
        )
        arrays = (Array * 3)(*(Array(x.ctypes.data, *x.strides) for x in (self.a, self.b, out)))
        shown = [getattr(parameter, "_obj", parameter) for parameter in parameters]
        case = self.a.shape, self.kind, self.finish, self.mode, shown
        assert OUTCOMES[function(arrays, *parameters)] == "", case
        with np.errstate(all="ignore"):
            right = [self.right(a, b, is_state) for a, b in zip(self.a, self.b)]
            found = [self.value(state) for state in out.tolist()] if is_state else out[:, 0]
        assert not is_state or (out[:, 0] == n).all(), case
        assert self.bits(found) == self.bits(right), case

    def right(self, a: np.ndarray, b: np.ndarray, is_state: bool):
        """Returns the result of a row, or the sum in its state."""
        if self.name == "sum":
            return sum_(a) if is_state or self.finish == SUM else mean(a)
        return dot(a, b) if self.name == "dot" else dot(a, a) if is_state else norm(a)

    def value(self, state: list[int]):
        """Returns the sum in a state: counts of elements, NaN and infinities, then digits."""
        _, nans, plus, minus, *digits = state
        if nans or plus or minus:
            return np.nan if nans or (plus and minus) else np.inf if plus else -np.inf
        low = (-149 if self.dtype.itemsize == 4 else -1074) * (1 if self.name == "sum" else 2)
        whole = sum(digit << 32 * k for k, digit in enumerate(digits))
        return finished(whole * Fraction(2) ** low, self.dtype)

    def bits(self, values) -> list[int]:
        """Returns encodings, all those of NaN as one."""
        x = np.array(values, self.dtype)
        return np.where(np.isnan(x), self.dtype.type(np.nan), x).view(f"u{x.itemsize}").tolist()


@pytest.mark.parametrize("kernel", KERNELS)
def test_whole_arrays(kernels, kernel):
    """One block and several, arrays of one element to several batches of each warp."""
    random.seed(kernel)
    function = getattr(kernels, f"whole_{kernel}")
    for n in [1, 33, 511, 1000, 4099, 20_011]:
        for kind in KINDS if n < 4000 else random.sample(KINDS, 2):
            case = Reduction(kernel, (1, n), kind)
            blocks, seed, is_state = random.choice([1, 2, 3]), random.getrandbits(32), n % 2 == 0
            parameters = u64(n), case.finish, u64(case.mode), is_state, blocks, seed
            case.check(function, *parameters, is_state=is_state)


@pytest.mark.parametrize("kernel", ["sum_f32", "dot_f32"])
def test_portions(kernels, kernel):
    """Arrays so long that warps take the last batches as they are ready."""
    n = 201_001
    a = np.random.default_rng(n).integers(-(2**20), 2**20, (1, n)).astype("f4")
    b, out = np.ones_like(a), np.empty((1, 1), "f4")
    arrays = (Array * 3)(*(Array(x.ctypes.data, *x.strides) for x in (a, b, out)))
    outcome = getattr(kernels, f"whole_{kernel}")(arrays, u64(n), SUM, u64(BY_WINDOWS), False, 2, 0)
    assert OUTCOMES[outcome] == ""
    assert out[0, 0] == np.float32(a.astype("i8").sum())


def partitions(kernel: str, n: int, in_columns: bool) -> list[Partition]:
    """Returns partitions of every kind, some at random."""
    most = 8 if kernel == "sum_f32" else 5
    found = [Partition(random.randint(0, most), splits) for splits in (1, 2, 3)]
    found.append(Partition(random.randint(0, most), 2, stores_states=True))
    log_lanes = random.randint(0, 5)
    found.append(Partition(log_lanes))
    if not in_columns:
        in_vectors = n * int(kernel[-2:]) % 128 == 0
        found.append(Partition(log_lanes, in_rows=True))
        found.append(Partition(log_lanes, random.choice([0, 1]), 0, True, in_vectors))
        if kernel == "sum_f32" and 2 <= n <= BATCH:
            found.append(Partition(5, 0, BATCH // n * random.choice([1, 2, 4]), True, True))
    return found


@pytest.mark.parametrize("in_columns", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_along_axes(kernels, kernel, in_columns):
    """Few and many results of few and many elements, in rows or in columns."""
    random.seed(kernel)
    function = getattr(kernels, f"along_{kernel}")
    for shape in [(1, 700), (3, 65), (33, 16), (70, 9), (300, 4), (9, 256), (2, 1500)]:
        for partition in partitions(kernel, shape[1], in_columns):
            case = Reduction(kernel, shape, random.choice(KINDS), in_columns=in_columns)
            sizes, has_whole = map(u64, shape), random.random() < 0.8
            rest = ctypes.byref(partition), partition.blocks(shape[0]), random.getrandbits(32)
            parameters = *sizes, case.finish, has_whole, u64(case.mode), *rest
            case.check(function, *parameters, is_state=bool(partition.stores_states))


@pytest.mark.parametrize("n", [1500, 9001])
def test_last_bits(kernels, n):
    """Sums of f32 in a warp alone, of up to 64 terms in each lane and of more."""
    random.seed(n)
    for exponents in [1, 2, 5] * 4:
        case, partition = Reduction("sum_f32", (1, n), TIES), Partition(0, in_rows=True)
        case.a, case.finish = ties((1, n), case.dtype, exponents), SUM
        parameters = SUM, True, u64(BY_WINDOWS), ctypes.byref(partition), 1, random.getrandbits(32)
        case.check(kernels.along_sum_f32, u64(1), u64(n), *parameters, is_state=False)


def test_folds(kernels):
    """The first index of the greatest number."""
    random.seed(0)
    for results, n in [(1, 1), (1, 5000), (3, 65), (40, 17), (300, 4)]:
        a = np.random.default_rng(n).integers(-9, 9, (results, n))
        out = np.empty((results, 1), "i8")
        arrays = (Array * 3)(*(Array(x.ctypes.data, *x.strides) for x in (a, a, out)))
        for splits in range(4):
            partition = Partition(random.randint(0, 5), splits)
            rest = SUM, False, u64(0), ctypes.byref(partition), partition.blocks(results), splits
            assert OUTCOMES[kernels.along_fold(arrays, u64(results), u64(n), *rest)] == ""
            assert out[:, 0].tolist() == a.argmax(axis=1).tolist(), (results, n, splits)
        outcome = kernels.whole_fold(arrays, u64(n), SUM, u64(0), False, random.choice([1, 3]), 0)
        assert OUTCOMES[outcome] == ""
        assert out[0, 0] == a[0].argmax()
