"""Measures the errors of src/math's functions of f64 in units of the last place, against MPFR.

Needs numpy and gmpy2, and the functions as a program, which `make function-errors` builds:

    python tools/function_errors.py target/every-float/release/examples/evaluate
    python tools/function_errors.py PROGRAM --points 100000 sin cos
"""

import argparse
import math
import subprocess
import sys
from multiprocessing import Pool

import gmpy2
import numpy as np

# No function may be wrong by a whole unit in the last place.
BOUND = 1.0

# The intervals of each function's arguments from which half of the points are taken, evenly; the
# other half has any bits.
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
    "erf": [(-6, 6), (-1, 1), (0.6, 0.8)],
    "cbrt": [(-8, 8), (1, 2)],
    "atan2": [(-10, 10), (-1, 1), (-100, 100)],
    "hypot": [(-10, 10), (-1, 1), (-100, 100)],
    "pow": [(0, 10), (0.5, 2), (0.99, 1.01), (0, 1e10)],
}
PAIRS = {"atan2", "hypot", "pow"}
# 1 to 1e22 times this double is nearest to a multiple of π/2 (Muller, Elementary Functions).
HARD_ANGLE = 6381956970095103.0
TWO_1024 = gmpy2.exp2(1024)


def hard_points(random):
    """Arguments that are special for some function: edges, and numbers around simple ones."""
    simple = [0.0, 0.5, 0.6875, 1.0, 6.0, 22.0, 709.78, 710.4758, 745.0, 1e22, 1e308]
    simple += [2.0**e for e in range(-1074, 1024)]
    simple += [10.0**e for e in range(-308, 309)]
    simple += [k * math.pi / 4 for k in range(1, 4000)]
    simple += [k * math.log(2) / 2 for k in range(1, 2100)]
    simple += [math.ldexp(HARD_ANGLE, e) for e in range(-60, 970)]
    near = np.array(simple)
    steps = [near]
    with np.errstate(over="ignore"):
        for _ in range(3):
            steps += [np.nextafter(steps[-1], np.inf)]
    steps += [np.nextafter(near, 0), near * (1 + random.uniform(-1e-9, 1e-9, len(near)))]
    points = np.concatenate(steps)
    return np.concatenate([points, -points])


def arguments(name, count):
    """Points of all exponents, of the function's intervals, and hard ones."""
    random = np.random.default_rng(16)
    intervals = INTERVALS[name]

    def any_bits(n):
        return random.integers(0, 2**64, n, dtype=np.uint64).view(np.float64)

    even = np.concatenate(
        [random.uniform(low, high, count // 2 // len(intervals)) for low, high in intervals]
    )
    small = random.uniform(-1, 1, count // 8) * 2.0 ** random.integers(-60, 2, count // 8)
    first = np.concatenate([even, small, any_bits(count // 2), hard_points(random)])
    columns = companions(name, random, first) if name in PAIRS else [first]
    return np.stack(columns, axis=1)


def companions(name, random, first):
    """Pairs of which most have results that are neither zero nor infinite."""
    n = len(first)
    size = np.abs(first)

    def mostly(share, values, others):
        return np.where(random.random(n) < share, values, others)

    with np.errstate(all="ignore"):
        if name == "pow":
            # Results of all magnitudes, and small whole powers.
            second = random.uniform(-1080, 1030, n) / np.log2(size)
            second = mostly(0.8, second, random.permutation(first))
            return [size, mostly(0.9, second, random.integers(-20, 20, n))]
        close = first * random.choice([-1, 1], n) * 2.0 ** random.uniform(-60, 60, n)
        return [first, mostly(0.7, close, random.permutation(first))]


def oracle(name):
    """The function by MPFR."""
    return (lambda x, y: x**y) if name == "pow" else getattr(gmpy2, name)


def errors(job):
    """The greatest error over some points, and its arguments."""
    name, program, points = job
    function = oracle(name)
    done = subprocess.run([program, name], input=points.tobytes(), capture_output=True, check=True)
    results = np.frombuffer(done.stdout)
    context = gmpy2.context(precision=140, emin=-(10**9), emax=10**9)
    worst, where = 0.0, None
    with context:
        for xs, result in zip(points.tolist(), results.tolist()):
            exact = function(*map(gmpy2.mpfr, xs))
            if gmpy2.is_nan(exact) or gmpy2.is_infinite(exact) or exact == 0:
                good = math.isnan(result) if gmpy2.is_nan(exact) else result == exact
                error = 0.0 if good else math.inf
            else:
                # Infinity stands for 2^1024, and is right for all that is beyond.
                if math.isinf(result):
                    exact = max(-TWO_1024, min(exact, TWO_1024))
                    result = TWO_1024 if result > 0 else -TWO_1024
                exponent = min(max(gmpy2.get_exp(exact), -1021), 1024)
                difference = abs(gmpy2.mpfr(result) - exact)
                error = float(gmpy2.mul_2exp(difference / gmpy2.exp2(exponent), 53))
            if not error <= worst:
                worst, where = error, xs
    return worst, where


def main():
    """Prints the greatest error of each function."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("functions", nargs="*")
    parser.add_argument("--points", type=int, default=1_000_000)
    options = parser.parse_intermixed_args()
    failed = False
    with Pool() as pool:
        for name in options.functions or INTERVALS:
            points = arguments(name, options.points)
            jobs = [(name, options.program, chunk) for chunk in np.array_split(points, 16)]
            found = pool.map(errors, jobs, chunksize=1)
            worst, where = max(found, key=lambda pair: pair[0])
            failed |= not worst < BOUND
            print(f"{name:6} {worst:.4f} at {where} of {len(points)} points", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
