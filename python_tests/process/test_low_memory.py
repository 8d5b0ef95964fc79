"""Memory that runs out in any call: the call fails, and the process goes on."""

from pathlib import Path

import pytest
from programs import compile_program, run_program, run_silently

MIB = 1 << 20

# Bytes that a process may map in addition: for the first calls without helpers, for the
# stacks of some helpers or of all of them, and for what the C library reserves for each thread.
BUDGETS = [(0, 6 * MIB, 4096), (6 * MIB, 24 * MIB, 24_576), (24 * MIB, 280 * MIB, MIB + 4096)]


@pytest.fixture(scope="module")
def budgets(tmp_path_factory):
    """The program that tries budgets."""
    built = tmp_path_factory.mktemp("budgets") / "budgets"
    compile_program(Path(__file__).with_name("budgets.c"), built)
    return built


@pytest.mark.long
@pytest.mark.parametrize("start, end, step", BUDGETS)
def test_every_budget_of_address_space(budgets, start, end, step):
    """With any limit on memory a call is right or OUT_OF_MEMORY, and the process goes on."""
    environment = {"GPUVEC_PLACEMENT": "cpu", "GPUVEC_NUM_THREADS": "16"}
    print(run_program(budgets, start, end, step, **environment))


@pytest.mark.parametrize("threads", [1, 16])
@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("extra", [0, 4096, 65_536, 1_000_000, 10_000_000])
def test_little_address_space(program, extra, before, threads):
    """With little address space, first and later calls on the CPU are right or fail."""
    settings = {"GPUVEC_PLACEMENT": "cpu", "GPUVEC_NUM_THREADS": str(threads)}
    program("short_of_memory", extra, before, 0, **settings)


@pytest.mark.parametrize("threads", [1, 16])
@pytest.mark.parametrize("before", [0, 1])
def test_no_memory_at_all(program, before, threads):
    """Calls are right or fail when not even malloc has a byte left."""
    settings = {"GPUVEC_PLACEMENT": "cpu", "GPUVEC_NUM_THREADS": str(threads)}
    program("short_of_memory", 0, before, 1, **settings)


def test_an_allocation_fails_while_an_expression_is_compiled(program):
    """Each large one in turn: what grows with the text fails with a status."""
    program("failing_allocations")


def test_nothing_may_be_locked_in_memory(placement_variables):
    script = """
    import resource
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
    from host import check_all
    check_all()
    """
    run_silently(script, **placement_variables)
