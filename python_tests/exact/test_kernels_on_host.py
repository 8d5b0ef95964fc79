"""The compiled kernels of reductions, as C++ on the host, against fractions.

They run on small arrays of awkward lengths with hard elements, in every kind of partition.
"""

import ctypes
import random
import shutil

import numpy as np
import pytest
from bindings import ROOT
from numpy_reductions import F32, dot, mean, norm, sum_
from programs import run

SUM, MEAN, NORM = range(3)
KERNELS = ["sum_f32", "sum_f64", "dot_f32", "dot_f64", "norm_f32", "norm_f64"]
PLAIN, BY_INTEGERS = 0, 1
WARP, WARPS, BATCH = 32, 8, 16
OUTCOMES = ["", "threads wait for ever", "no such elements", "memory is not zero", "no completion"]
u64, u32 = ctypes.c_uint64, ctypes.c_uint32


class Array(ctypes.Structure):
    """An array, by the distances in bytes of results and of the elements of one."""

    _fields_ = [("data", ctypes.c_void_p), ("result", ctypes.c_int64), ("element", ctypes.c_int64)]


class Partition(ctypes.Structure):
    """The structure of kernels/axes.cu."""

    _fields_ = [
        (name, u32)
        for name in (
            "log_results splits results_per_lane in_rows in_vectors stores_states".split()
        )
    ]

    def blocks(self, results: int) -> int:
        """Returns the number of blocks for some results."""
        groups = -(-results // (1 << self.log_results))
        return groups * self.splits or -(-groups // (WARPS * max(self.results_per_lane, 1)))


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """The library of the kernels on the host."""
    if shutil.which("c++") is None:
        pytest.skip("there is no C++ compiler")
    library = tmp_path_factory.mktemp("kernels") / "kernels.so"
    source = ROOT / "python_tests/exact/kernels_on_host.cpp"
    flags = ["-std=c++17", "-O1", "-U_FORTIFY_SOURCE", "-ffp-contract=off", "-shared", "-fPIC"]
    run(["c++", *flags, "-I", ROOT / "kernels", source, "-o", library])
    return ctypes.CDLL(str(library))


def hard(shape: tuple[int, ...], dtype: np.dtype, kind: int) -> np.ndarray:
    """Returns elements of a kind that some of the kernels' ways to add do not hold."""
    rng = np.random.default_rng(random.getrandbits(32))
    x = rng.standard_normal(shape).astype(dtype)
    if kind == 1:  # Any exponents.
        bits = rng.integers(0, 2 ** (8 * dtype.itemsize), shape, dtype=f"u{dtype.itemsize}")
        x = np.where(np.isfinite(bits.view(dtype)), bits.view(dtype), x)
    elif kind == 2:  # Sums that cancel, but for small rests.
        x.ravel()[1::2] = -x.ravel()[: x.size // 2 * 2 : 2]
        x.ravel()[:: rng.integers(3, 9)] *= dtype.type(2.0**-50)
    elif kind == 3:  # Subnormal numbers, zeros and powers of two.
        x *= np.finfo(dtype).tiny
        x.ravel()[::3] = rng.choice([0, -0.0, 1, 2, 4], x.ravel()[::3].shape)
    elif kind == 4:  # Outliers.
        x.ravel()[rng.integers(0, x.size, 2)] *= dtype.type(2.0**70)
    elif kind == 5:  # Now and then numbers that are not finite.
        x.ravel()[rng.integers(0, x.size, 1 + x.size // 300)] = rng.choice([np.inf, -np.inf, np.nan])
    return x


KINDS = 6


def layout(x: np.ndarray) -> Array:
    """An array of results in rows."""
    return Array(x.ctypes.data, *x.strides)


def expected(kernel: str, finish: int, a: np.ndarray, b: np.ndarray):
    """Returns the result of a row."""
    if kernel.startswith("dot"):
        return dot(a, b)
    return {SUM: sum_, MEAN: mean, NORM: norm}[finish](a)


def bits(x: np.ndarray) -> list[int]:
    """Returns encodings, all those of NaN as one."""
    return np.where(np.isnan(x), x.dtype.type(np.nan), x).view(f"u{x.itemsize}").tolist()


def finishes(kernel: str) -> list[int]:
    """Returns the operations that finish a kernel's results."""
    return [NORM] if kernel.startswith("norm") else [SUM] if kernel.startswith("dot") else [SUM, MEAN]


@pytest.mark.parametrize("kernel", KERNELS)
def test_whole_arrays(kernels, kernel):
    """One block and several, arrays of one element to several batches of each warp."""
    random.seed(kernel)
    dtype = np.dtype(f"f{int(kernel[-2:]) // 8}")
    for n in [1, 31, 33, 511, 1000, 4099, 20_011]:
        for kind in range(KINDS):
            a, b = hard((1, n), dtype, kind), hard((1, n), dtype, kind)
            finish, out = random.choice(finishes(kernel)), np.empty((1, 1), dtype)
            arrays = (Array * 3)(layout(a), layout(b), layout(out))
            mode, blocks = random.choice([PLAIN, PLAIN, BY_INTEGERS]), random.choice([1, 2, 3])
            rest = (u64(n), finish, u64(mode), False, blocks, random.getrandbits(32))
            with np.errstate(all="ignore"):
                right = expected(kernel, finish, a[0], b[0])
            outcome = getattr(kernels, f"whole_{kernel}")(arrays, *rest)
            assert OUTCOMES[outcome] == "", (rest, kind)
            assert bits(out[0]) == bits(np.array([right], dtype)), (rest, kind)


def partitions(kernel: str, n: int, is_by_columns: bool) -> list[Partition]:
    """Returns partitions of every kind, some at random."""
    most = 8 if kernel == "sum_f32" else 5
    found = [Partition(random.randint(0, most), splits) for splits in (1, 2, 3)]
    log_lanes = random.randint(0, 5)
    found.append(Partition(log_lanes, 0))
    if not is_by_columns:
        itemsize = int(kernel[-2:]) // 8
        in_vectors = n * itemsize % 16 == 0
        found.append(Partition(log_lanes, 0, 0, True))
        found.append(Partition(log_lanes, random.choice([0, 1]), 0, True, in_vectors))
        if kernel == "sum_f32" and 2 <= n <= BATCH:
            found.append(Partition(5, 0, BATCH // n * random.choice([1, 2, 4]), True, True))
    return found


@pytest.mark.parametrize("is_by_columns", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_along_axes(kernels, kernel, is_by_columns):
    """Few and many results of few and many elements, in rows or in columns."""
    random.seed(kernel)
    dtype = np.dtype(f"f{int(kernel[-2:]) // 8}")
    shapes = [(1, 700), (3, 65), (33, 16), (70, 9), (300, 4), (9, 256), (2, 1500)]
    for results, n in shapes:
        for partition in partitions(kernel, n, is_by_columns):
            kind = random.randrange(KINDS)
            shape = (n, results) if is_by_columns else (results, n)
            a, b = hard(shape, dtype, kind), hard(shape, dtype, kind)
            a, b = (a.T, b.T) if is_by_columns else (a, b)
            finish, out = random.choice(finishes(kernel)), np.empty((results, 1), dtype)
            arrays = (Array * 3)(layout(a), layout(b), layout(out))
            has_whole, mode = random.random() < 0.8, random.choice([PLAIN, PLAIN, BY_INTEGERS])
            rest = (u64(results), u64(n), finish, has_whole, u64(mode), ctypes.byref(partition))
            seed, blocks = random.getrandbits(32), partition.blocks(results)
            outcome = getattr(kernels, f"along_{kernel}")(arrays, *rest, blocks, seed)
            fields = {name: getattr(partition, name) for name, _ in Partition._fields_}
            case = (results, n, finish, has_whole, mode, fields, kind)
            assert OUTCOMES[outcome] == "", case
            with np.errstate(all="ignore"):
                right = [expected(kernel, finish, *rows) for rows in zip(a, b)]
            assert bits(out[:, 0]) == bits(np.array(right, dtype)), case


def test_folds(kernels):
    """The first index of the greatest number."""
    random.seed(0)
    for results, n in [(1, 1), (1, 5000), (3, 65), (40, 17), (300, 4)]:
        a = np.random.default_rng(n).integers(-9, 9, (results, n))
        out = np.empty((results, 1), "i8")
        arrays = (Array * 3)(layout(a), layout(a), layout(out))
        for splits in range(4):
            partition = Partition(random.randint(0, 5), splits)
            rest = (u64(results), u64(n), SUM, False, u64(0), ctypes.byref(partition))
            outcome = kernels.along_fold(arrays, *rest, partition.blocks(results), splits)
            assert OUTCOMES[outcome] == ""
            assert out[:, 0].tolist() == a.argmax(axis=1).tolist(), (results, n, splits)
        outcome = kernels.whole_fold(arrays, u64(n), SUM, u64(0), False, random.choice([1, 3]), 0)
        assert OUTCOMES[outcome] == ""
        assert out[0, 0] == a[0].argmax()
