"""Computes exact dot products, sums along an axis and sums by key of arrays on several MPI ranks.

    PYTHONPATH=python mpiexec -n 3 python python_examples/exact_mpi.py

Any number of ranks gets the same bits: MPI adds the integers of the ranks' states.
"""

import sys

import gpuvec
import numpy as np
from mpi4py import MPI

N = 1_000_003
COLUMNS = 5
GROUPS = 100


def arrays() -> tuple:
    """Makes the whole arrays, which a real program would not have in one place."""
    rng = np.random.default_rng(1)
    return tuple(np.ldexp(rng.standard_normal(N), rng.integers(-40, 40, N)) for _ in range(2))


def main() -> None:
    """Adds this rank's part, merges all ranks' states, and compares with the whole."""
    ranks = MPI.COMM_WORLD
    x, y = arrays()
    part = slice(ranks.rank * N // ranks.size, (ranks.rank + 1) * N // ranks.size)
    mine = gpuvec.Accumulator("dot", np.float64)
    mine.add(x[part], y[part])

    words = mine.to_words()
    ranks.Allreduce(MPI.IN_PLACE, words, MPI.SUM)
    merged = gpuvec.Accumulator.from_words(words)

    value, whole = merged.value(), gpuvec.dot(x, y)
    if merged.count != N or value.tobytes() != whole.tobytes():
        sys.exit(f"rank {ranks.rank} has {float(value)!r}, and the whole is {float(whole)!r}")
    plain = ranks.allreduce(float(np.dot(x[part], y[part])))
    if ranks.rank == 0:
        print(f"{ranks.size} ranks: {float(value)!r}, by sums of NumPy's {plain!r}")
    sums_of_columns(ranks, x[: N // COLUMNS * COLUMNS].reshape(-1, COLUMNS))
    sums_by_key(ranks, x, part)


def sums_of_columns(ranks: MPI.Comm, x: np.ndarray) -> None:
    """Adds this rank's rows, and merges the states of all columns in one call."""
    part = slice(ranks.rank * len(x) // ranks.size, (ranks.rank + 1) * len(x) // ranks.size)
    mine = gpuvec.Accumulator("sum", np.float64, shape=COLUMNS)
    mine.add(x[part], axis=0)

    words = mine.to_words()
    ranks.Allreduce(MPI.IN_PLACE, words, MPI.SUM)
    sums, whole = gpuvec.Accumulator.from_words(words).value(), gpuvec.sum(x, axis=0)
    if sums.tobytes() != whole.tobytes():
        sys.exit(f"rank {ranks.rank} has the sums {sums}, and the whole has {whole}")


def sums_by_key(ranks: MPI.Comm, x: np.ndarray, part: slice) -> None:
    """Adds this rank's part by key, and merges the states of all groups in one call."""
    keys = np.random.default_rng(2).integers(0, GROUPS, x.size)
    mine = gpuvec.Accumulator("sum", np.float64, groups=GROUPS)
    mine.add(x[part], by=keys[part])

    words = mine.to_words()
    ranks.Allreduce(MPI.IN_PLACE, words, MPI.SUM)
    sums, whole = gpuvec.Accumulator.from_words(words).value(), gpuvec.sum(x, by=keys)
    if sums.tobytes() != whole.tobytes():
        sys.exit(f"rank {ranks.rank} has other sums by key than the whole")


if __name__ == "__main__":
    main()
