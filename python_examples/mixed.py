"""Mixes arrays of all memory kinds in one call, starting at any element.

    PYTHONPATH=python python python_examples/mixed.py

Tries all 64 mixes of two inputs and an output in pageable, pinned, registered and device memory.
"""

import sys
from contextlib import ExitStack
from itertools import product

import gpuvec
import numpy as np

N = 100_003
KINDS = ("pageable", "pinned", "registered", "device")


def arrays() -> dict:
    """Makes an array of every kind; host arrays start one element into their memory."""
    return {
        "pageable": np.empty(N + 1)[1:],
        "pinned": gpuvec.pinned_empty(N + 1, np.float64)[1:],
        "registered": np.empty(N + 1)[1:],
        "device": gpuvec.DeviceArray(N, np.float64),
    }


def is_right(out, expected: np.ndarray) -> bool:
    """Checks if an array of any kind holds these values."""
    result = np.empty(N)
    gpuvec.copy(result, out)
    return np.array_equal(result, expected)


def fill(kinds: dict, values: np.ndarray) -> None:
    """Copies the same values to an array of every kind."""
    for array in kinds.values():
        gpuvec.copy(array, values)


def main() -> None:
    """Adds in every mix; prints the four mixes that have each kind in each position."""
    values_a, values_b = np.random.default_rng(1).random((2, N))
    a, b, out = arrays(), arrays(), arrays()
    with ExitStack() as stack:
        for kinds in (a, b, out):
            stack.enter_context(gpuvec.pinned(kinds["registered"]))
        fill(a, values_a)
        fill(b, values_b)
        for mix in product(range(4), repeat=3):
            kind_a, kind_b, kind_out = (KINDS[i] for i in mix)
            fill(out, np.zeros(N))
            gpuvec.add(a[kind_a], b[kind_b], out=out[kind_out])
            if (mix[1] - mix[0]) % 4 == (mix[2] - mix[1]) % 4 == 1:
                path = ", ".join(gpuvec.last_run().path)
                print(f"{kind_a:>10} + {kind_b:>10} -> {kind_out:10}  {path}")
            if not is_right(out[kind_out], values_a + values_b):
                sys.exit(f"{kind_a} + {kind_b} -> {kind_out} is wrong")
    print(f"all {len(KINDS) ** 3} mixes gave the same result")


if __name__ == "__main__":
    main()
