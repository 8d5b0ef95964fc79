"""Exact sums of many short rows and columns of f32 of any magnitudes, in device memory."""

import numpy as np
import pytest
from axes_cases import bits
from bindings import Backend, Place, Status, last_error, last_run, lib, placed, why_cpu
from cuda_driver import is_emulated
from exact_sums import by_rationals
from formulas import Compiled

needs_gpu = pytest.mark.skipif(lib.gpuvec_device_count() == 0, reason=why_cpu() or "no GPU")

# Lengths around those of batches, and the longest ones for which warps have several results.
LENGTHS = [1, 3, 4, 16, 17, 33, 64, 100, 255, 256, 257]

GREATEST = np.finfo("f4").max
LEAST = np.float32(1e-45)


def of_any_exponents(random: np.random.Generator, shape: tuple) -> np.ndarray:
    """Returns floats whose encodings are random, and finite."""
    encodings = (
        random.integers(0, 0x7F800000, shape, "u4") | random.integers(0, 2, shape, "u4") << 31
    )
    return encodings.view("f4")


def with_special(random: np.random.Generator, shape: tuple) -> np.ndarray:
    """Returns floats with an infinity or a NaN in some rows."""
    x = of_any_exponents(random, shape)
    x[::67, -1] = np.inf
    x[::71, 0] = -np.inf
    x[::73, shape[1] // 2] = np.nan
    return x


def that_cancel(random: np.random.Generator, shape: tuple) -> np.ndarray:
    """Returns floats with their negatives, and in the middle of each row a small one."""
    x = of_any_exponents(random, shape)
    half = shape[1] // 2
    x[:, shape[1] - half :] = -x[:, :half]
    x[:, half] = LEAST
    return x


def halfway(random: np.random.Generator, shape: tuple) -> np.ndarray:
    """Returns rows whose sums are next to the middle of two floats, or there."""
    x = np.zeros(shape, "f4")
    for place, choices in enumerate([[1, -1], [2**-24, -(2**-24)], [0, 2**-149, -(2**-149)]]):
        if place < shape[1]:
            x[:, place] = random.choice(choices, shape[0])
    return random.permuted(x, axis=1)


def of_equal_elements(random: np.random.Generator, shape: tuple) -> np.ndarray:
    """Returns rows of one float right below a power of two, which leaves much below a unit."""
    encodings = random.integers(0, 0xFF, (shape[0], 1), "u4") << 23 | 0x7FFFFF
    return np.broadcast_to(encodings, shape).copy().view("f4")


KINDS = [
    of_equal_elements,
    of_any_exponents,
    with_special,
    that_cancel,
    halfway,
    lambda random, shape: random.choice([GREATEST, -GREATEST], shape, p=[0.9, 0.1]),
    lambda random, shape: np.full(shape, GREATEST),
    lambda random, shape: random.integers(-9, 9, shape).astype("f4") * LEAST,
    lambda random, shape: random.normal(0, 1, shape).astype("f4"),
]


def check(resources, rows: np.ndarray, in_rows: bool, checked: int) -> None:
    """Fails unless a GPU's sums of the rows, or of the same as columns, are those of cores.

    Fractions have the same bits for some of them.
    """
    x = np.ascontiguousarray(rows if in_rows else rows.T)
    axis = 1 if in_rows else 0
    results = np.zeros(len(rows), "f4")
    array, out = resources.array("device", x), resources.array("device", results)
    with Compiled("sum(x)", {"x": "f4"}) as compiled:
        strides = (4, 0) if in_rows else (0, 4)
        with placed(Place.CPU):
            status = compiled.run_nd(x.shape, [x], (results.ctypes.data, strides), bits((axis,)))
            assert status == Status.OK, last_error()
        with placed(Place.GPU):
            status = compiled.run_nd(
                x.shape, [(array.address, x.strides)], (out.address, strides), bits((axis,))
            )
            assert status == Status.OK, last_error()
    assert last_run().backend == Backend.GPU
    assert out.get().tobytes() == results.tobytes()
    for place in range(0, len(results), len(results) // checked):
        assert results[place].tobytes() == by_rationals(rows[place]).tobytes()


@needs_gpu
@pytest.mark.parametrize("in_rows", [True, False], ids=["rows", "columns"])
@pytest.mark.parametrize("length", LENGTHS)
def test_rows_of_all_kinds(resources, length, in_rows):
    """Warps have results of their own, which many rows are needed for."""
    random = np.random.default_rng(length)
    each = (140 if is_emulated() else 6300) * 32 // len(KINDS)
    rows = np.concatenate([kind(random, (each, length)) for kind in KINDS])
    check(resources, rows, in_rows, 10 * len(KINDS))


@needs_gpu
@pytest.mark.parametrize("length", [200, 1001])
@pytest.mark.parametrize("count", [8_400, 10_200, 16_370])
def test_columns_of_teams(resources, count, length):
    """Teams of a block's warps have neighbouring columns, on a GPU with 132 multiprocessors."""
    random = np.random.default_rng(count)
    each = (count // 8 if is_emulated() else count) // len(KINDS)
    rows = np.concatenate([kind(random, (each, length)) for kind in KINDS])
    for mixed in (rows, random.permutation(rows)):
        check(resources, mixed, False, 3 * len(KINDS))


# Elements between rows, the distance of results, and the first element's place in its vector.
LAYOUTS = {"dense": (0, 1, 0), "padded": (4, 1, 0), "apart": (0, 2, 0), "odd": (0, 1, 1)}


def mostly_ordinary(random: np.random.Generator, shape: tuple) -> np.ndarray:
    """Returns normal values, and in a few places of the last third values of all kinds."""
    x = random.normal(0, 1, shape).astype("f4")
    for kind in KINDS:
        places = random.integers(2 * shape[0] // 3, shape[0], 20)
        x[places] = kind(random, (20, shape[1]))
    return x


@needs_gpu
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("length", [2, 3, 4, 5, 7, 8, 12, 15, 16])
def test_very_many_short_rows(resources, length, layout):
    """Warps have several tiles each, with rows that a uniform sum does not hold."""
    random = np.random.default_rng(length)
    gap, step, first = LAYOUTS[layout]
    count = 9_003 if is_emulated() else 7_000_000 // length + 3
    parent = np.zeros((count, length + gap), "f4")
    parent[:, :length] = mostly_ordinary(random, (count, length))
    flat = np.concatenate([np.zeros(first, "f4"), parent.ravel()])
    x = flat[first:].reshape(parent.shape)[:, :length]
    array, address = resources.array("device", flat), flat.ctypes.data
    for text in ["sum(x)", "mean(x)", "sum(x * x + 1)"]:
        outs = np.full((count, step), 7, "f4"), np.full((count, step), 7, "f4")
        out = resources.array("device", outs[1])
        with Compiled(text, {"x": "f4"}) as compiled:
            for place, source, to in [
                (Place.CPU, address, outs[0].ctypes.data),
                (Place.GPU, array.address, out.address),
            ]:
                with placed(place):
                    places = [(source + 4 * first, x.strides)], (to, (4 * step, 0))
                    status = compiled.run_nd(x.shape, *places, bits((1,)))
                    assert status == Status.OK, last_error()
        assert last_run().backend == Backend.GPU
        assert out.get().tobytes() == outs[0].tobytes()
        for place in [*range(0, count, count // 50), *range(count - 20, count)]:
            if text == "sum(x)":
                assert outs[0][place, 0].tobytes() == by_rationals(x[place]).tobytes()
