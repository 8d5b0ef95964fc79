"""Measures the errors of crates/math's functions against MPFR.

Needs numpy and gmpy2, and a folder with the programs `evaluate` and `evaluate_pairs`, which
`make function-errors` builds:

    python tools/function_errors.py target/every-float/release/examples
    python tools/function_errors.py FOLDER --points 100000 sin cos powf
    python tools/function_errors.py FOLDER --cases CASES

No error of a function of f64, in units of the last place, may be above the bound that `make
function-bounds` proves. Searches for greater errors begin at the worst arguments. Functions of two
f32 have an f at the end of their names: each result must be the float nearest to the exact value.
Half of their points have results close to the middle of two floats.

With --cases, the arguments are those of the files NAME.wc in a folder, such as CORE-MATH has them.
"""

import argparse
import subprocess
import sys
from functools import partial
from multiprocessing import Pool
from pathlib import Path

import gmpy2
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
from mpfr_oracle import oracle, worst
from progress import progress

# The angles of each binade nearest to even multiples of π/2, and to odd ones.
HARD_ANGLES = 16
# Searches begin at the worst of this many parts of the points, go on from the worst of those, and
# look at this many arguments around each.
PARTS, CLIMBERS, NEIGHBOURS = 64, 16, 500
# The bits of exact results of two f32.
PRECISION = 400
OF_PAIRS = [f"{name}f" for name in OF_TWO]

# The intervals of each function's arguments from which half of the points are taken, evenly; the
# other half have random bits.
INTERVALS = {
    "exp": [(-746, 710), (-1, 1), (-746, -707), (708, 710)],
    "exp2": [(-1076, 1025), (-1, 1), (-1076, -1020)],
    "expm1": [(-40, 710), (-1, 1), (-0.01, 0.01)],
    **dict.fromkeys(("sinh", "cosh"), [(-711, 711), (-2, 2), (-30, 30), (710, 710.5)]),
    "tanh": [(-20, 20), (-1, 1)],
    **dict.fromkeys(("log", "log2", "log10"), [(0, 4), (0.5, 2), (0.99, 1.01), (0, 1e300)]),
    "log1p": [(-1, 4), (-0.5, 1), (-0.01, 0.01), (0, 1e300)],
    **dict.fromkeys(("sin", "cos", "tan"), [(-10, 10), (-1, 1), (-1e6, 1e6), (-1e10, 1e10)]),
    "asin": [(-1, 1), (0.49, 0.51), (0.99, 1), (-0.1, 0.1)],
    "acos": [(-1, 1), (0.49, 0.51), (0.99, 1), (-1, -0.99), (-0.1, 0.1)],
    **dict.fromkeys(("atan", "atan2", "hypot"), [(-10, 10), (-1, 1), (-100, 100)]),
    "asinh": [(-10, 10), (-1, 1), (-0.01, 0.01), (-1e10, 1e10)],
    "acosh": [(1, 10), (1, 2), (1, 1.01), (1, 1e10)],
    "atanh": [(-1, 1), (-0.2, 0.2), (0.99, 1), (-0.01, 0.01)],
    "erf": [(-6, 6), (-1, 1), (0.6, 0.8)],
    "cbrt": [(-8, 8), (1, 2)],
    "pow": [(0, 10), (0.5, 2), (0.99, 1.01), (0, 1e10)],
}


def arguments(name, count):
    """Returns points of all exponents, of the function's intervals, and hard ones."""
    random = np.random.default_rng(16)
    intervals = INTERVALS[name]

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
    """Returns the greatest error over some points, and its arguments."""
    done = subprocess.run([program, name], input=points.tobytes(), capture_output=True, check=True)
    return worst(name, points, np.frombuffer(done.stdout))


def neighbours(random, x):
    """Returns arguments near x, at random distances from a thousandth down to a last bit."""
    shape = NEIGHBOURS, len(x)
    steps = random.choice([-1, 1], shape) * 2.0 ** random.uniform(-53, -10, shape)
    return np.concatenate([[x], np.array(x) * (1 + steps)])


def search(evaluate, points, rounds):
    """Returns the greatest error over points, and around the worst of them in some rounds."""
    random = np.random.default_rng(20)
    found = evaluate(np.array_split(points, PARTS))
    for _ in range(rounds):
        found = sorted(found, key=lambda pair: pair[0])[-CLIMBERS:]
        found = evaluate([neighbours(random, x) for _, x in found if x is not None] * 2)
    return max(found, key=lambda pair: pair[0])


def middles(x):
    """Returns the middle of each float and the next greater one."""
    return (x.astype(float) + np.nextafter(x, np.float32(np.inf)).astype(float)) / 2


def hard_pairs(name, random, x):
    """Makes pairs, from positive floats, whose results are close to the middle of two floats."""
    count = len(x)
    if name == "pow":
        # A power next to 1, where y has more bits than it takes; and numbers of few bits.
        near = (2.0 * random.integers(0, 2 ** random.integers(1, 20, count)) + 1) * 2.0**-24
        sign = random.integers(0, 2, count)
        y = np.where(sign, np.log1p(near), np.log1p(-near / 2)) / np.log(x.astype(float))
        few = random.integers(0, 4, count) == 0
        x = np.where(few, random.integers(1, 8192, count), x)
        return x, np.where(few, random.integers(1, 64, count) / 4, y)
    if name == "atan2":
        # For a middle z, the last of the convergents of tan z whose parts are floats.
        tangent = np.tan(middles(random.uniform(2.0**-20, 3.14159, count).astype(np.float32)))
        exponent = np.rint(np.log2(np.abs(tangent)))
        rest = np.abs(tangent) * 2.0**-exponent
        p, q, p_before, q_before = np.ones(count), np.zeros(count), np.zeros(count), np.ones(count)
        going = np.ones(count, bool)
        for _ in range(40):
            whole = np.floor(rest)
            next_p, next_q = whole * p + p_before, whole * q + q_before
            going &= (next_p < 2**24) & (next_q < 2**24)
            p, p_before = np.where(going, next_p, p), np.where(going, p, p_before)
            q, q_before = np.where(going, next_q, q), np.where(going, q, q_before)
            rest = 1 / np.maximum(rest - whole, 1e-30)
        return p * 2.0**exponent, np.sign(tangent) * q
    # One length that is half a last bit above the other, and Pythagorean triples.
    exact = x.astype(float)
    y = np.sqrt((middles(x) - exact) * (middles(x) + exact))
    m, n = random.integers(1, 8192, count), random.integers(1, 4096, count)
    triple = random.integers(0, 2, count) == 0
    return np.where(triple, np.abs(m**2 - n**2), x), np.where(triple, 2 * m * n, y)


def pairs(name, count):
    """Makes pairs of f32 whose results are mostly finite and not zero, and as many hard ones."""
    random = np.random.default_rng(19)
    x = random.integers(1, 0x7F800000, count, dtype=np.uint32).view(np.float32)
    ordinary = random.standard_normal((2, count)) * 2.0 ** random.integers(-20, 20, (2, count))
    if name == "pow":
        ordinary = x, random.uniform(-150, 128, count) / np.log2(x.astype(float))
    points = [np.stack(columns, 1) for columns in (ordinary, hard_pairs(name, random, x))]
    return np.concatenate(points).astype(np.float32)


def wrong_pairs(name, program, points):
    """Describes the results at pairs that are not the floats nearest to the exact values."""
    done = subprocess.run([program, name], input=points.tobytes(), capture_output=True, check=True)
    results = np.frombuffer(done.stdout, np.float32)
    with gmpy2.context(gmpy2.ieee(128), precision=PRECISION, emin=-(10**6), emax=10**6):
        exact = [oracle(name)(*map(gmpy2.mpfr, pair)) for pair in points.tolist()]
    with gmpy2.context(gmpy2.ieee(32)):
        # Subnormal floats, too, are rounded once.
        right = np.array([float(gmpy2.mpfr(number)) for number in exact], np.float32)
    differ = results.view(np.uint32) != right.view(np.uint32)
    wrong = np.flatnonzero(differ & ~(np.isnan(results) & np.isnan(right)))
    return [f"{name}f{tuple(points[i].tolist())}: {results[i]}, not {right[i]}" for i in wrong]


def checked(name, options, pool):
    """Checks a function; returns True if its errors are within the bound, and a text."""
    listed = options.cases and listed_arguments(options.cases / f"{name}.wc")
    if name in OF_PAIRS:
        of = name.removesuffix("f")
        points = pairs(of, options.points) if listed is None else listed.astype(np.float32)
        call = partial(wrong_pairs, of, options.programs / "evaluate_pairs")
        wrong = sum(pool.map(call, np.array_split(points, PARTS)), [])
        return not wrong, "\n".join([*wrong[:10], f"{len(wrong)} wrong of {len(points)} points"])
    points = arguments(name, options.points) if listed is None else listed
    call = partial(errors, name, options.programs / "evaluate")
    greatest, where = search(partial(pool.map, call), points, options.rounds)
    bound = proved_bounds()[name]
    good = greatest <= bound
    text = f"{greatest:.4f}, {'proved' if good else 'NOT BELOW'} {bound:.2f}"
    return good, f"{text}, at {' '.join(x.hex() for x in where)} of {len(points)} points"


def main():
    """Prints the greatest error of each function, or the number of wrong results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", type=Path, metavar="FOLDER")
    parser.add_argument("functions", nargs="*", default=[*OF_ONE, *OF_TWO, *OF_PAIRS])
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--cases", type=Path)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_intermixed_args()
    failed = False
    names = progress(options.functions, "errors of functions")
    with Pool() as pool:
        for name in names:
            good, text = checked(name, options, pool)
            failed |= not good
            names.write(f"{name:6} {text}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
