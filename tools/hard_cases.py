"""Writes crates/math/tests/hard: hard arguments of each function of f64, with the exact results.

    python tools/hard_cases.py [FUNCTION...]

A line has the arguments' bits, and how much the exact result is above the double nearest to it, in
units of its last place. Needs numpy and gmpy2.
"""

import math
import struct
import sys
from itertools import islice
from pathlib import Path

import gmpy2
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python_tests" / "support"))
from hard_arguments import ANGLES, MATH, WORST, angles, hard_arguments, worst_arguments
from mpfr_oracle import oracle, precise, units

HARD = MATH / "tests" / "hard"
OTHERS = 200


def line(name: str, xs: list) -> str:
    """Returns a case's line, or nothing if the result is not a finite number beside zero."""
    exact = oracle(name)(*map(gmpy2.mpfr, xs))
    nearest = float(exact)
    if not math.isfinite(nearest) or nearest == 0:
        return ""
    bits = " ".join(struct.pack(">d", x).hex() for x in xs)
    return f"{bits} {-units(nearest, exact):.4f}\n"


def lines(name: str):
    """Yields the lines of the worst cases, the nearest angles of each binade, and some others."""
    worst = worst_arguments(name).tolist()
    nearest = [[x] for x in angles(ANGLES.get(name, ()), 1)]
    yield from (line(name, xs) for xs in worst + nearest)
    others = np.random.default_rng(18).permutation(hard_arguments(name, 1)).tolist()
    yield from islice(filter(None, (line(name, xs) for xs in others)), OTHERS)


def main() -> None:
    """Writes the files of all functions, or of those named."""
    for name in sys.argv[1:] or WORST:
        HARD.mkdir(exist_ok=True)
        with precise():
            (HARD / f"{name}.txt").write_text("".join(dict.fromkeys(lines(name))))


if __name__ == "__main__":
    main()
