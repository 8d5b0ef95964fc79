"""Exact sums along axes of f32 whose exponents differ as much as uniform sums allow, and more."""

import numpy as np
import pytest
from axes_cases import bits
from bindings import Backend, Place, Status, last_error, last_run, lib, placed, why_cpu
from cuda_driver import is_emulated
from exact_sums import by_exponents
from formulas import Compiled

pytestmark = pytest.mark.skipif(lib.gpuvec_device_count() == 0, reason=why_cpu() or "no GPU")

# Around the differences of exponents up to which a uniform sum is exact, of a block or of a warp
# alone, and after which levels take the place of a window (kernels/uniform.cuh).
SPREADS = [0, 18, 19, 20, 21, 22, 23, 24, 40, 59, 60, 61]

# Powers of two, the next larger floats, and those right below the next power of two.
FRACTIONS = [0, 1, 0x7FFFFF]


def spread_over(random: np.random.Generator, shape: tuple[int, int], spread: int) -> np.ndarray:
    """Returns rows whose exponents differ by `spread`: of one sign, of both, and that cancel."""
    least = random.integers(1, 255 - spread, (shape[0], 1), "u4")
    exponents = least + random.choice([0, spread], shape).astype("u4")
    exponents[:, :1], exponents[:, -1:] = least, least + spread
    x = (exponents << 23 | random.choice(FRACTIONS, shape).astype("u4")).view("f4")
    mixed, cancel = x[1::3], x[2::3]
    mixed *= random.choice(np.float32([1, -1]), mixed.shape)
    half = shape[1] // 2
    cancel[:, half : 2 * half - 1] = -cancel[:, 1:half]
    return random.permuted(x, axis=1)


def check(resources, x: np.ndarray, axis: int, checked: int) -> None:
    """Fails unless a GPU's results are those of cores, and some of them those of the oracle."""
    results = np.zeros(x.shape[1 - axis], "f4")
    strides = (4, 0) if axis else (0, 4)
    array, out = resources.array("device", x), resources.array("device", results)
    with Compiled("sum(x)", {"x": "f4"}) as compiled:
        with placed(Place.CPU):
            status = compiled.run_nd(x.shape, [x], (results.ctypes.data, strides), bits((axis,)))
            assert status == Status.OK, last_error()
        with placed(Place.GPU):
            places = [(array.address, x.strides)], (out.address, strides)
            assert compiled.run_nd(x.shape, *places, bits((axis,))) == Status.OK, last_error()
    assert last_run().backend == Backend.GPU
    assert out.get().tobytes() == results.tobytes()
    for place in range(0, len(results), max(len(results) // checked, 1)):
        terms = np.ascontiguousarray(x[place] if axis else x[:, place])
        assert results[place].tobytes() == by_exponents(terms).tobytes()


@pytest.mark.parametrize("axis", [1, 0], ids=["rows", "columns"])
@pytest.mark.parametrize("length", [4, 64, 100, 512])
def test_rows_of_warps(resources, length, axis):
    """Warps have results of their own: of one spread each, and of several."""
    random = np.random.default_rng(length)
    # As many as are needed for warps to have results of their own.
    count = (140 if is_emulated() else 6300) * 32 * 64 // max(length, 64)
    parts = [spread_over(random, (count // len(SPREADS) + 1, length), s) for s in SPREADS]
    x = np.concatenate(parts)
    for rows in (x, x[random.permutation(len(x))]):
        check(resources, np.ascontiguousarray(rows if axis else rows.T), axis, 40)


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("axis", [1, 0], ids=["rows", "columns"])
def test_few_results_of_many_elements(resources, axis, spread):
    """Blocks share the elements of a result, in many uniform sums."""
    random = np.random.default_rng(spread)
    x = spread_over(random, (35, 30_001 if is_emulated() else 200_001), spread)
    check(resources, np.ascontiguousarray(x if axis else x.T), axis, 3)


@pytest.mark.parametrize("axis", [1, 0], ids=["rows", "columns"])
@pytest.mark.parametrize("exponents", [(-40, -21), (-120, -21), (-40, 40)])
def test_a_few_elements_are_unlike_the_others(resources, axis, exponents):
    """They have sums of their own, unless they are unlike each other, too."""
    random = np.random.default_rng(-exponents[0])
    x = random.normal(0, 1, (35, 30_001 if is_emulated() else 400_001)).astype("f4")
    places = random.random(x.shape) < 2e-4
    x[places] = np.ldexp(x[places], random.integers(*exponents, np.count_nonzero(places)))
    check(resources, np.ascontiguousarray(x if axis else x.T), axis, 3)
