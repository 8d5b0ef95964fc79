"""Measures the errors of crates/math's functions of f64 in units of the last place, against MPFR.

Needs numpy and gmpy2, and the functions as a program, which `make function-errors` builds:

    python tools/function_errors.py target/every-float/release/examples/evaluate
    python tools/function_errors.py PROGRAM --points 100000 sin cos
    python tools/function_errors.py PROGRAM --cases FOLDER

Searches for greater errors begin at the worst arguments. The last command takes the arguments of
the files NAME.wc in a folder, such as CORE-MATH has them.

No error may be above the bound that `make function-bounds` proves.
"""

import argparse
import subprocess
import sys
from functools import partial
from multiprocessing import Pool
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python_tests" / "support"))
from functions import OF_ONE, OF_TWO
from hard_arguments import (
    PAIRS,
    companions,
    hard_arguments,
    listed_arguments,
    proved_bounds,
    worst_arguments,
)
from mpfr_oracle import worst
from progress import progress

# The angles of each binade nearest to even multiples of π/2, and to odd ones.
HARD_ANGLES = 16
# Searches begin at the worst of this many parts of the points, go on from the worst of those, and
# look at this many arguments around each.
PARTS, CLIMBERS, NEIGHBOURS = 64, 16, 500

# The intervals of each function's arguments from which half of the points are taken, evenly; the
# other half have random bits.
INTERVALS = {
    "exp": [(-746, 710), (-1, 1), (-746, -707), (708, 710)],
    "exp2": [(-1076, 1025), (-1, 1), (-1076, -1020)],
    "expm1": [(-40, 710), (-1, 1), (-0.01, 0.01)],
    "sinh": [(-711, 711), (-2, 2), (-30, 30), (710, 710.5)],
    "cosh": [(-711, 711), (-2, 2), (-30, 30), (710, 710.5)],
    "tanh": [(-20, 20), (-1, 1)],
    "log": [(0, 4), (0.5, 2), (0.99, 1.01), (0, 1e300)],
    "log2": [(0, 4), (0.5, 2), (0.99, 1.01), (0, 1e300)],
    "log10": [(0, 4), (0.5, 2), (0.99, 1.01), (0, 1e300)],
    "log1p": [(-1, 4), (-0.5, 1), (-0.01, 0.01), (0, 1e300)],
    "sin": [(-10, 10), (-1, 1), (-1e6, 1e6), (-1e10, 1e10)],
    "cos": [(-10, 10), (-1, 1), (-1e6, 1e6), (-1e10, 1e10)],
    "tan": [(-10, 10), (-1, 1), (-1e6, 1e6), (-1e10, 1e10)],
    "asin": [(-1, 1), (0.49, 0.51), (0.99, 1), (-0.1, 0.1)],
    "acos": [(-1, 1), (0.49, 0.51), (0.99, 1), (-1, -0.99), (-0.1, 0.1)],
    "atan": [(-10, 10), (-1, 1), (-100, 100)],
    "asinh": [(-10, 10), (-1, 1), (-0.01, 0.01), (-1e10, 1e10)],
    "acosh": [(1, 10), (1, 2), (1, 1.01), (1, 1e10)],
    "atanh": [(-1, 1), (-0.2, 0.2), (0.99, 1), (-0.01, 0.01)],
    "erf": [(-6, 6), (-1, 1), (0.6, 0.8)],
    "cbrt": [(-8, 8), (1, 2)],
    "atan2": [(-10, 10), (-1, 1), (-100, 100)],
    "hypot": [(-10, 10), (-1, 1), (-100, 100)],
    "pow": [(0, 10), (0.5, 2), (0.99, 1.01), (0, 1e10)],
}


def arguments(name, count):
    """Points of all exponents, of the function's intervals, and hard ones."""
    random = np.random.default_rng(16)
    intervals = INTERVALS.get(name, [(-10, 10), (-1, 1)])

    def any_bits(n):
        return random.integers(0, 2**64, n, dtype=np.uint64).view(np.float64)

    even = np.concatenate(
        [random.uniform(low, high, count // 2 // len(intervals)) for low, high in intervals]
    )
    small = random.uniform(-1, 1, count // 8) * 2.0 ** random.integers(-60, 2, count // 8)
    first = np.concatenate([even, small, any_bits(count // 2)])
    columns = companions(name, random, first) if name in PAIRS else [first]
    hard = hard_arguments(name, HARD_ANGLES), worst_arguments(name)
    return np.concatenate([np.stack(columns, axis=1), *hard])


def errors(name, program, points):
    """The greatest error over some points, and its arguments."""
    done = subprocess.run([program, name], input=points.tobytes(), capture_output=True, check=True)
    return worst(name, points, np.frombuffer(done.stdout))


def neighbours(random, x):
    """Arguments at random distances around some, from a thousandth down to a last bit."""
    shape = NEIGHBOURS, len(x)
    steps = random.choice([-1, 1], shape) * 2.0 ** random.uniform(-53, -10, shape)
    return np.concatenate([[x], np.array(x) * (1 + steps)])


def search(evaluate, points, rounds):
    """The greatest error over points, and around the worst of parts of them, in some rounds."""
    random = np.random.default_rng(20)
    found = evaluate(np.array_split(points, PARTS))
    for _ in range(rounds):
        found = sorted(found, key=lambda pair: pair[0])[-CLIMBERS:]
        found = evaluate([neighbours(random, x) for _, x in found if x is not None] * 2)
    return max(found, key=lambda pair: pair[0])


def main():
    """Prints the greatest error of each function."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("functions", nargs="*")
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--cases", type=Path)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_intermixed_args()
    bounds = proved_bounds()
    failed = False
    names = progress(options.functions or OF_ONE + OF_TWO, "errors of functions")
    with Pool() as pool:
        for name in names:
            if options.cases:
                points = listed_arguments(options.cases / f"{name}.wc")
            else:
                points = arguments(name, options.points)
            call = partial(errors, name, options.program)
            greatest, where = search(partial(pool.map, call), points, options.rounds)
            good = greatest <= bounds[name]
            failed |= not good
            names.write(
                f"{name:6} {greatest:.4f}, {'proved' if good else 'NOT BELOW'} {bounds[name]:.2f},"
                f" at {' '.join(x.hex() for x in where)} of {len(points)} points"
            )
    sys.exit(failed)


if __name__ == "__main__":
    main()
