"""Runs scripts in processes of their own, on a GPU or the fake driver."""

import os
import textwrap

import numpy as np
import programs
from arrays import assert_same_bits, call
from bindings import Backend, Place, Status, last_error, last_run, lib
from host import LARGE, MIDDLING, SMALL, cases, check, check_memory

# The beginning of all scripts.
PRELUDE = """
import os
import numpy as np
from arrays import assert_same_bits, call
from bindings import Backend, Place, Status, last_error, last_run, lib, pinned_empty, why_cpu
from host import LARGE, MIDDLING, SMALL, cases, check, check_all, check_memory
from on_gpu import SIZES, answers, check_in_place, place
from operations import OPERATIONS
from other_cuda_library import *
"""

SIZES = [SMALL, MIDDLING, LARGE]


def place(placement: Place) -> None:
    """Sets the placement."""
    assert lib.gpuvec_set_placement(placement) == Status.OK


def answers(placement: Place, *fine: Status) -> set[int]:
    """Calls every operation at each size; returns the statuses, which must be OK or in `fine`."""
    place(placement)
    found = set()
    for n in SIZES:
        for operation, (a, b), expected in cases(n):
            out = np.empty_like(expected)
            status = call(operation, a, b, out)
            assert status in (Status.OK, *fine), (placement, n, status, last_error())
            if status == Status.OK:
                assert_same_bits(out, expected)
            else:
                assert last_error() != ""
            found.add(status)
    return found


def check_in_place(n: int) -> None:
    """Adds into an input: the result has the oracle's bits."""
    operation, (a, b), expected = cases(n)[0]
    kept = a.copy()
    assert call(operation, kept, b, kept) == Status.OK, last_error()
    assert_same_bits(kept, expected)


def run_silently(script: str, **environment: str) -> None:
    """Runs a script that must exit with 0 and print nothing, not even to stderr.

    Passes GPUVEC_NUM_THREADS on if it is set.
    """
    threads = {name: text for name, text in os.environ.items() if name == "GPUVEC_NUM_THREADS"}
    programs.run_silently(PRELUDE + textwrap.dedent(script), **threads, **environment)


def answers_on_the_gpu() -> None:
    """Checks in a new process that all calls run on a GPU."""
    place(Place.GPU)
    check(SMALL, LARGE)
    assert last_run().backend == Backend.GPU


def answers_on_the_cpu() -> None:
    """Checks that a forked child gets FORKED with placement gpu, and uses the CPU with auto."""
    place(Place.GPU)
    assert lib.vector_add(8, 8, 8, 1) == Status.ERROR_FORKED
    place(Place.AUTO)
    check(SMALL, LARGE)
    check_memory()
    assert last_run().backend == Backend.CPU
