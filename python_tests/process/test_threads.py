"""Many threads of one program call at once: each gets its own right results."""

import random

import numpy as np
import pytest
from arrays import KINDS, assert_same_bits, call, filled, output
from bindings import Status, last_error, last_run, lib
from operations import OPERATIONS, SAMPLE
from programs import run_python
from threads import THREADS, in_threads

ROUNDS = 12
SIZES = [0, 1, 1000, 65_537, 300_001, 1_100_001]


@pytest.fixture(scope="module")
def cases():
    """Inputs with results, of each operation and size."""
    made = []
    for operation in SAMPLE:
        for n in SIZES[0 if operation.shape.has_empty_result else 1 :]:
            a, b = operation.data(np.random.default_rng(n), n)
            made.append((operation, a, b, operation.oracle(a, b)))
    return made


def test_operations_of_all_sizes_in_all_memory(placement, cases):
    """Results, inputs and surroundings are right in every thread."""

    def work(number):
        chance = random.Random(number)
        for _ in range(ROUNDS):
            operation, a_values, b_values, expected = chance.choice(cases)
            memory = chance.choices(sorted(KINDS), k=3)
            a, b = filled(memory[0], a_values), filled(memory[1], b_values)
            out = output(operation, memory[2], a.array.size)
            assert call(operation, a.array, b.array, out.array) == 0, last_error()
            assert_same_bits(out.array, expected)
            assert_same_bits(a.array, a_values)
            assert_same_bits(b.array, b_values)
            assert out.guards_are_intact()

    in_threads(work)


def test_shared_inputs(placement, cases):
    """Threads may read the same arrays at once."""
    large = [case for case in cases if case[1].size == max(SIZES)]

    def work(number):
        operation, a, b, expected = large[number % len(large)]
        for _ in range(5):
            out = np.empty_like(expected)
            assert call(operation, a, b, out) == 0, last_error()
            assert_same_bits(out, expected)

    in_threads(work)


def test_parts_of_one_output(placement):
    """Threads may each write their part of one array."""
    n = 100_003
    a, b = OPERATIONS[0].data(np.random.default_rng(1), THREADS * n)
    out = np.zeros(THREADS * n, np.float32)

    def work(number):
        part = slice(number * n, (number + 1) * n)
        assert call(OPERATIONS[0], a[part], b[part], out[part]) == 0, last_error()

    in_threads(work)
    assert_same_bits(out, OPERATIONS[0].oracle(a, b))


def test_errors_and_records_stay_apart(placement):
    """Each thread has its own last error and its own last run."""

    def work(number):
        array = np.ones(1000, np.float32)
        for _ in range(200):
            if number % 2:
                assert lib.vector_add(None, None, None, number) == Status.ERROR_NULL
                assert f"length is {number}:" in last_error()
                assert last_run().chunks == 0
            else:
                assert call(OPERATIONS[0], array, array, array.copy()) == Status.OK
                assert last_error() == ""
                assert last_run().chunks == 1

    in_threads(work)


def test_memory_from_many_threads(placement):
    """Memory that one thread allocates may be freed by another; no two allocations overlap."""
    addresses = [[] for _ in range(THREADS)]

    def allocate(number):
        addresses[number] = [lib.pinned_alloc(size) for size in (1, 4096, 100_000)]

    def free_the_next_ones(number):
        for address in addresses[(number + 1) % THREADS]:
            assert lib.pinned_free(address) == Status.OK

    in_threads(allocate)
    every = [address for some in addresses for address in some]
    assert len(set(every)) == len(every) and None not in every
    in_threads(free_the_next_ones)


def test_first_calls_at_once():
    """Threads that race for a process's first call all get right results."""
    script = """
    import numpy as np
    from arrays import compute
    from operations import OPERATIONS
    from threads import in_threads
    a, b = OPERATIONS[0].data(np.random.default_rng(1), 1_100_001)
    expected = OPERATIONS[0].oracle(a, b).tobytes()

    def work(number):
        assert compute(OPERATIONS[0], a, b).tobytes() == expected

    in_threads(work)
    """
    run_python(script)


def test_ten_thousand_short_threads_leave_nothing(placement_variables, program):
    """Less than a megabyte of memory remains, and no thread or open file."""
    program("short_threads", **placement_variables)
