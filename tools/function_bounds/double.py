"""Proves bounds of the errors of crates/math's functions of f64, in units in the last place.

Needs python-flint, and the recordings of the functions, which `make function-bounds` writes:

    python tools/function_bounds/double.py RECORDINGS [FUNCTION...]
"""

from __future__ import annotations

import argparse
import os
import sys
from multiprocessing import Pool
from pathlib import Path

import exponentials
import inverses
import logarithms
import numpy as np
import roots
import trigonometry
from flint import arb
from forms import Piece, number
from interpreter import Run
from pieces import refined
from recordings import read

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python_tests" / "support"))
from hard_arguments import WORST  # noqa: E402
from mpfr_oracle import worst  # noqa: E402

MATH = Path(__file__).resolve().parents[2] / "crates" / "math"
FUNCTIONS = {
    **exponentials.FUNCTIONS,
    **logarithms.FUNCTIONS,
    **trigonometry.FUNCTIONS,
    **inverses.FUNCTIONS,
    **roots.FUNCTIONS,
}

work: list = []


def bound(job: tuple) -> tuple:
    """Bounds the error on a piece."""
    place, limit = job
    evaluate, interval = work[place]
    return refined(evaluate, interval, limit)


def stated() -> dict:
    """Returns the stated bounds by function, after a check that the documentation states the
    same."""
    rows = (MATH / "tests" / "hard" / "bounds.txt").read_text().splitlines()
    bounds = dict(map(str.split, rows))
    text = (MATH / "src" / "double" / "mod.rs").read_text()
    missing = [row for row in rows if f" {row} " not in text]
    if missing:
        sys.exit(f"{MATH}/src/double/mod.rs does not state {missing}")
    return {name: float(limit) for name, limit in bounds.items()}


def greatest_known(name: str, recording) -> tuple:
    """Returns the greatest error of the known worst arguments, by MPFR, and where."""
    points = [[float.fromhex(x) for x in row.split()] for row in WORST[name]]
    piece = Piece(arb(0))
    results = [Run(recording, piece, list(map(number, xs))).result().constant for xs in points]
    return worst(name, np.array(points), np.array(results))


def main() -> None:
    """Proves the stated bounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recordings", type=Path)
    parser.add_argument("functions", nargs="*")
    options = parser.parse_args()
    recordings = read(options.recordings.read_text())
    bounds = stated()
    failed = False
    for name, pieces in FUNCTIONS.items():
        if options.functions and name not in options.functions:
            continue
        work[:] = pieces(recordings[name])
        # Processes are forked here, and know the pieces.
        with Pool(len(os.sched_getaffinity(0))) as pool:
            jobs = [(place, bounds[name]) for place in range(len(work))]
            found = pool.map(bound, jobs, chunksize=4)
        proved, (low, high) = max(found)
        error, at = greatest_known(name, recordings[name])
        good = error <= proved <= bounds[name]
        failed |= not good
        verdict = "proved" if good else "NOT PROVED"
        where = f"{low.hex()} to {high.hex()}"
        known = f"known {error:.4f} at {' '.join(x.hex() for x in at)}"
        print(
            f"{name:6} {bounds[name]:.2f} {verdict}: {proved:.4f} from {where}; {known}", flush=True
        )
    sys.exit(failed)


if __name__ == "__main__":
    main()
