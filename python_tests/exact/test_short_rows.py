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


@needs_gpu
@pytest.mark.parametrize("in_rows", [True, False], ids=["rows", "columns"])
@pytest.mark.parametrize("length", LENGTHS)
def test_rows_of_all_kinds(resources, length, in_rows):
    """Cores have the same bits, and fractions have those of some results of each kind."""
    random = np.random.default_rng(length)
    # As many as are needed for warps to have results of their own.
    each = (140 if is_emulated() else 4500) * 32 // len(KINDS)
    x = np.concatenate([kind(random, (each, length)) for kind in KINDS])
    x = np.ascontiguousarray(x if in_rows else x.T)
    axis = 1 if in_rows else 0
    results = np.zeros(len(KINDS) * each, "f4")
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
    for place in range(0, len(results), each // 10):
        row = x[place] if in_rows else x[:, place]
        assert results[place].tobytes() == by_rationals(row).tobytes()
