"""Mixes arrays of all memory kinds in one call, starting at any element.

    python python_examples/mixed.py

Tries all 64 mixes of two inputs and an output in pageable, pinned, registered and device memory.
"""

import sys
from itertools import product

import numpy as np
from gpuvec import OnDevice, lib, pinned, registered, where

N = 100_003
KINDS = ("pageable", "pinned", "registered", "device")


def arrays() -> dict:
    """Makes an array of every kind; host arrays start one element into their memory."""
    return {
        "pageable": np.empty(N + 1)[1:],
        "pinned": pinned(N + 1, np.float64)[1:],
        "registered": np.empty(N + 1)[1:],
        "device": OnDevice(N, np.float64),
    }


def is_right(out, expected: np.ndarray) -> bool:
    """Checks if an array of any kind holds these values."""
    result = np.empty(N)
    lib.gpuvec_copy(result, out, result.nbytes, None)
    return np.array_equal(result, expected)


def fill(kinds: dict, values: np.ndarray) -> None:
    """Copies the same values to an array of every kind."""
    for array in kinds.values():
        lib.gpuvec_copy(array, values, values.nbytes, None)


def main() -> None:
    """Adds in every mix; prints the four mixes that have each kind in each position."""
    values_a, values_b = np.random.default_rng(1).random((2, N))
    a, b, out = arrays(), arrays(), arrays()
    with registered(a["registered"], b["registered"], out["registered"]):
        fill(a, values_a)
        fill(b, values_b)
        for mix in product(range(4), repeat=3):
            kind_a, kind_b, kind_out = (KINDS[i] for i in mix)
            fill(out, np.zeros(N))
            lib.gpuvec_add_f64(a[kind_a], b[kind_b], out[kind_out], N, None)
            if (mix[1] - mix[0]) % 4 == (mix[2] - mix[1]) % 4 == 1:
                print(f"{kind_a:>10} + {kind_b:>10} -> {kind_out:10}  {where()}")
            if not is_right(out[kind_out], values_a + values_b):
                sys.exit(f"{kind_a} + {kind_b} -> {kind_out} is wrong")
    print(f"all {len(KINDS) ** 3} mixes gave the same result")


if __name__ == "__main__":
    main()
