"""Reductions along axes with many results, which a GPU's warps compute alone."""

import numpy as np
import pytest
from axes_cases import REDUCTIONS, filled_arrays, result_in_memory, result_of
from bindings import Backend, Place, last_run, lib, placed, why_cpu
from cuda_driver import is_emulated
from streams import Resources

pytestmark = [
    pytest.mark.skipif(lib.gpuvec_device_count() == 0, reason=why_cpu() or "no GPU"),
    pytest.mark.skipif(
        lib.gpuvec_device_count() > 0 and is_emulated(), reason="takes minutes in the emulator"
    ),
]

# Rows and columns around the numbers of elements that lanes, batches and warps have.
SHAPES = [
    ((400_003, 1), 1),
    ((400_003, 4), 1),
    ((4, 400_003), 0),
    ((150_001, 33), 1),
    ((60_001, 70), 1),
    ((64, 110_003), 0),
    ((9_001, 513), 1),
    ((3_300, 2_049), 1),
    ((90, 40, 1_030), 1),
]


@pytest.mark.parametrize("reduction", REDUCTIONS, ids=str)
@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
def test_results_of_few_elements_have_the_bits_of_cores(shape, axis, reduction):
    arrays = filled_arrays(np.random.default_rng(11), reduction, shape)
    with placed(Place.CPU):
        wanted = result_of(reduction, arrays, (axis,))
    with placed(Place.GPU), Resources() as resources:
        got = result_in_memory(resources, reduction, arrays, axis)
        assert last_run().backend == Backend.GPU
    assert got.tobytes() == wanted.tobytes()
