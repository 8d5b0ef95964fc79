"""Memory that runs out at every point of the first calls: an error, and the process goes on."""

import pytest
from programs import compile_program, run_program

MIB = 1 << 20
SECONDS = 60

# Bytes that a process may map beside what it has: for the first calls without helpers, for the
# stacks of some helpers or of all of them, and for what the C library reserves for each thread.
BUDGETS = [(0, 6 * MIB, 4096), (6 * MIB, 24 * MIB, 24_576), (24 * MIB, 280 * MIB, MIB + 4096)]


@pytest.fixture(scope="module")
def budgets(tmp_path_factory):
    """The program that tries budgets."""
    built = tmp_path_factory.mktemp("budgets") / "budgets"
    compile_program("budgets.c", built)
    return built


@pytest.mark.parametrize("start, end, step", BUDGETS)
def test_every_budget_of_address_space(budgets, start, end, step):
    """With any limit on memory a call is right or OUT_OF_MEMORY, and the process goes on."""
    environment = {"GPUVEC_PLACEMENT": "cpu", "GPUVEC_NUM_THREADS": "16"}
    print(run_program(budgets, start, end, step, timeout=SECONDS, **environment))
