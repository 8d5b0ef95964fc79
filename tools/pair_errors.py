"""Compares functions of two f32 with MPFR: results must be the floats nearest to the exact values.

Needs numpy and gmpy2, and the functions as a program, which `make function-errors` builds:

    python tools/pair_errors.py target/every-float/release/examples/evaluate_pairs
    python tools/pair_errors.py PROGRAM --points 100000000 --hard 10000000 pow
    python tools/pair_errors.py PROGRAM --cases FOLDER

The points are ordinary, or have results close to the middle of two floats; or they are those of the
files NAME.wc in a folder, such as CORE-MATH has them for binary32. NumPy's result of 80 bits
decides where it is not within 2^-50 of the middle: its error is some units of 2^-63. MPFR decides
the others.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import gmpy2
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python_tests" / "support"))
from hard_arguments import listed_arguments
from progress import progress

CHUNK = 1_000_000
# The relative distance from the middle of two floats from which NumPy's result decides.
NEAR = 2.0**-50
PRECISION = 400
WIDE = {"pow": np.power, "atan2": np.arctan2, "hypot": np.hypot}
EXACT = {"pow": lambda x, y: x**y, "atan2": gmpy2.atan2, "hypot": gmpy2.hypot}


def sizes(random: np.random.Generator, count: int) -> np.ndarray:
    """Returns positive floats of all magnitudes."""
    return random.integers(1, 0x7F800000, count, dtype=np.uint32).view(np.float32)


def middles(x: np.ndarray) -> np.ndarray:
    """Returns the middles of floats and the next greater ones."""
    return (x.astype(float) + np.nextafter(x, np.float32(np.inf)).astype(float)) / 2


def ordinary(name: str, random: np.random.Generator, count: int) -> np.ndarray:
    """Returns pairs whose results are mostly finite and not zero."""
    if name == "pow":
        x = sizes(random, count)
        y = random.uniform(-150, 128, count) / np.log2(x.astype(float))
        return np.stack([x, y.astype(np.float32)], axis=1)
    pairs = random.standard_normal((count, 2)) * 2.0 ** random.integers(-20, 20, (count, 2))
    return pairs.astype(np.float32)


def hard(name: str, random: np.random.Generator, count: int) -> np.ndarray:
    """Returns pairs whose results are close to the middle of two floats, or there."""
    x = sizes(random, count)
    if name == "pow":
        # A power next to 1, where y has more bits than it takes; and numbers of few bits.
        near = (2.0 * random.integers(0, 2 ** random.integers(1, 20, count)) + 1) * 2.0**-24
        sign = random.integers(0, 2, count)
        log = np.where(sign, np.log1p(near), np.log1p(-near / 2))
        y = log / np.log(x.astype(float))
        few = random.integers(0, 4, count) == 0
        x = np.where(few, random.integers(1, 8192, count), x)
        y = np.where(few, random.integers(1, 64, count) / 4, y)
    elif name == "atan2":
        # For a middle z, the last of the convergents of tan z whose parts are floats.
        z = middles(random.uniform(2.0**-20, 3.14159, count).astype(np.float32))
        tangent = np.tan(z)
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
        x, y = p * 2.0**exponent, np.sign(tangent) * q
    else:
        # One length that is half a last bit above the other, and Pythagorean triples.
        exact = x.astype(float)
        y = np.sqrt((middles(x) - exact) * (middles(x) + exact))
        m, n = random.integers(1, 8192, count), random.integers(1, 4096, count)
        triple = random.integers(0, 2, count) == 0
        x, y = np.where(triple, np.abs(m**2 - n**2), x), np.where(triple, 2 * m * n, y)
    return np.stack([x, y], axis=1).astype(np.float32)


def nearest(name: str, pairs: np.ndarray) -> tuple[np.ndarray, int]:
    """Returns the floats nearest to the exact values, and how many of them MPFR decided."""
    x, y = pairs.astype(np.longdouble).T
    with np.errstate(all="ignore"):
        wide = WIDE[name](x, y)
        results = wide.astype(np.float32)
        # The ends that NumPy's error and more leaves.
        ends = [(wide * (1 + sign * np.longdouble(NEAR))).astype(np.float32) for sign in (-1, 1)]
    open_ = np.flatnonzero((ends[0] != ends[1]) & ~np.isnan(wide))
    with gmpy2.context(gmpy2.ieee(128), precision=PRECISION, emin=-(10**6), emax=10**6):
        for i in open_:
            exact = EXACT[name](*(gmpy2.mpfr(float(number)) for number in pairs[i]))
            with gmpy2.context(gmpy2.ieee(32)):
                # Subnormal floats, too, are rounded once.
                results[i] = float(gmpy2.mpfr(exact))
    return results, len(open_)


def chunks(name: str, options: argparse.Namespace) -> Iterator[tuple[str, np.ndarray]]:
    """Yields kinds of pairs, and pairs."""
    if options.cases:
        yield "listed", listed_arguments(options.cases / f"{name}.wc").astype(np.float32)
        return
    random = np.random.default_rng(19)
    for kind, make, count in (("ordinary", ordinary, options.points), ("hard", hard, options.hard)):
        for start in range(0, count, CHUNK):
            yield kind, make(name, random, min(CHUNK, count - start))


def main() -> None:
    """Prints for each function how many results are wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("functions", nargs="*")
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--hard", type=int, default=1_000_000)
    parser.add_argument("--cases", type=Path)
    options = parser.parse_intermixed_args()
    failed = False
    names = progress(options.functions or list(WIDE), "errors of pairs")
    for name in names:
        counts: dict[str, np.ndarray] = {}
        for kind, pairs in chunks(name, options):
            command = [options.program, name]
            done = subprocess.run(command, input=pairs.tobytes(), capture_output=True, check=True)
            results = np.frombuffer(done.stdout, np.float32)
            right, by_mpfr = nearest(name, pairs)
            differ = results.view(np.uint32) != right.view(np.uint32)
            bad = differ & ~(np.isnan(results) & np.isnan(right))
            for i in np.flatnonzero(bad)[:10]:
                names.write(f"{name}{tuple(map(float, pairs[i]))}: {results[i]}, not {right[i]}")
            found = np.array([bad.sum(), len(pairs), by_mpfr])
            counts[kind] = counts.get(kind, np.zeros(3, int)) + found
            failed |= bool(bad.any())
        for kind, (wrong, count, by_mpfr) in counts.items():
            counted = f"{wrong} wrong of {count} {kind} points, {by_mpfr} decided by MPFR"
            names.write(f"{name:6} {counted}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
