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
import powers
import roots
import trigonometry
from flint import arb
from forms import Piece, number
from interpreter import Run
from pieces import refined
from recordings import read

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python_tests" / "support"))
from hard_arguments import MATH, proved_bounds, worst_arguments  # noqa: E402
from mpfr_oracle import worst  # noqa: E402

FAMILIES = (exponentials, logarithms, trigonometry, inverses, roots, powers)
FUNCTIONS = {name: pieces for family in FAMILIES for name, pieces in family.FUNCTIONS.items()}

work: list = []


def bound(job: tuple) -> tuple:
    """Returns a bound of the error on a piece, and the worst part of it."""
    place, limit = job
    return refined(*work[place], limit)


def stated() -> dict:
    """Returns the stated bounds by function, after a check that the documentation states the
    same."""
    bounds = proved_bounds()
    text = (MATH / "src" / "double" / "mod.rs").read_text()
    rows = [f"{name} {limit:.2f}" for name, limit in bounds.items()]
    missing = [row for row in rows if f" {row} " not in text]
    if missing:
        sys.exit(f"{MATH}/src/double/mod.rs does not state {missing}")
    return bounds


def greatest_known(name: str, recording) -> tuple:
    """Returns the greatest error of the known worst arguments, by MPFR, and where."""
    points = worst_arguments(name)
    piece = Piece(arb(0))
    results = [Run(recording, piece, list(map(number, xs))).result().constant for xs in points]
    return worst(name, points, np.array(results))


def main() -> None:
    """Proves the stated bounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recordings", type=Path)
    parser.add_argument("functions", nargs="*")
    options = parser.parse_args()
    recordings = read(options.recordings.read_text())
    bounds = stated()
    if not FUNCTIONS.keys() == recordings.keys() == bounds.keys():
        sys.exit("each function of f64 needs a stated bound, and pieces in tools/function_bounds")
    failed = False
    print("function stated proved  known  greatest bound, and greatest known error at")
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
        where = f"{low.hex()} to {high.hex()}; {' '.join(x.hex() for x in at)}"
        shown = f"{proved:6.4f} {error:6.4f}  {where}{'' if good else ' NOT PROVED'}"
        print(f"{name:8} {bounds[name]:6.2f} {shown}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
