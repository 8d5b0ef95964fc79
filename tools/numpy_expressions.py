"""Compares random expressions with NumPy, and prints the smallest of each that is wrong.

    tools/numpy_expressions.py [--arrays] [--count 100000] [--seed 1] [--first 0]

A number, with the seed, stands for a text and its data: `--first NUMBER --count 1` repeats one. See
python_tests/support/random_expressions.py for what is written, and numpy_oracle.py for what is
expected. With --arrays, expressions are called on arrays of any shapes and strides, and reduce some
axes: see random_arrays.py. Exits 1 if anything is wrong.
"""

import argparse
import os
import sys
import time
from collections import Counter
from multiprocessing import Pool
from pathlib import Path
from types import ModuleType

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python_tests/support"))
import random_arrays
import random_expressions
from progress import progress

# The cases of one job.
BLOCK = 500
MOST_SHOWN = 20


def run(job: tuple[bool, int, range]) -> tuple[Counter[str], list[int]]:
    """Checks the cases of some numbers; returns the outcomes, and which are wrong."""
    arrays, seed, numbers = job
    outcomes: Counter[str] = Counter()
    wrong = []
    for number in numbers:
        outcome = cases(arrays).outcome(seed, number)
        outcomes[outcome] += 1
        if outcome == "wrong":
            wrong.append(number)
    return outcomes, wrong


def cases(arrays: bool) -> ModuleType:
    """Returns the module that makes the cases."""
    return random_arrays if arrays else random_expressions


def main() -> None:
    """Checks the cases on all cores."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arrays", action="store_true")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    start = time.monotonic()
    end = options.first + options.count
    blocks = [
        (options.arrays, options.seed, range(first, min(first + BLOCK, end)))
        for first in range(options.first, end, BLOCK)
    ]
    outcomes: Counter[str] = Counter()
    wrong: list[int] = []
    workers = min(len(blocks), len(os.sched_getaffinity(0)))
    with Pool(workers) as pool, progress(what="expressions", total=options.count) as shown:
        for counted, found in pool.imap(run, blocks):
            outcomes += counted
            wrong += found
            shown.update(sum(counted.values()))
    for number in wrong[:MOST_SHOWN]:
        print(cases(options.arrays).report(options.seed, number), end="\n\n")
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(outcomes.items()))
    print(f"{options.count:,} expressions in {time.monotonic() - start:.0f} s: {counts}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
