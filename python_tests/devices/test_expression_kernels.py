"""The kernels of expressions on a GPU: the bits of the emulator, for any alignment and grid."""

import numpy as np
import pytest
from bindings import lib, why_cpu
from expression_kernels import (
    Arrays,
    Case,
    ExpressionKernel,
    blocks_of,
    cases,
    hashed,
    integer,
)

CASES = cases()
# Tests of the operations themselves compare the results of the kernels of operations, too.
ELEMENTWISE = [
    pytest.param(
        case,
        id=case.name,
        marks=pytest.mark.slow_on_fake_driver if case.name.startswith("op_") else (),
    )
    for case in CASES
    if not case.is_reduction()
]

pytestmark = [
    pytest.mark.skipif(lib.gpuvec_device_count() == 0, reason=why_cpu() or "no GPU"),
    pytest.mark.skipif(not CASES, reason="there are no cases: make gpu-bundle"),
]


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.is_reduction()], ids=lambda case: case.name
)
def test_the_states_and_results(driver, case: Case):
    kernel = ExpressionKernel(driver, case.image())
    for past in (0, 3):
        arrays = Arrays(driver, case, case.n, past)
        for blocks in (1, 7, 1000):
            # Exact sums by windows and by integers; other reductions with the index of the first
            # element.
            for mode in (0, 1) if case.is_exact() else (0,):
                state = arrays.reduced(kernel, blocks, mode, finish=False)
                result = arrays.reduced(kernel, blocks, mode, finish=True)
                if case.is_exact():
                    assert integer(state) == integer(case.state())
                else:
                    assert state.tobytes() == case.state().tobytes()
                assert result.tobytes()[: len(case.result())] == case.result()
        arrays.free()
    kernel.unload()


@pytest.mark.parametrize("case", ELEMENTWISE)
def test_the_bits(driver, case: Case):
    kernel = ExpressionKernel(driver, case.image())
    for past in range(4):
        arrays = Arrays(driver, case, case.n, past)
        for blocks in (blocks_of(case, case.n), 7):
            kernel.launch(arrays.parameters(), blocks)
            wrong = np.flatnonzero(hashed(arrays.results()) != case.hashes())
            assert not wrong.size, f"{wrong[:9]} of 4096 elements, {past} past, {blocks} blocks"
        arrays.free()
    kernel.unload()
