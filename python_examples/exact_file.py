"""Sums a file that need not fit into memory, piece by piece, exactly.

    PYTHONPATH=python python python_examples/exact_file.py

The sum has the same bits for any length of the pieces; the sum of NumPy's sums does not. On a
terminal the program shows its progress.
"""

import sys
import tempfile
from collections.abc import Iterator

import gpuvec
import numpy as np

N = 1_000_003


def with_progress(starts: range) -> Iterator[int]:
    """Yields the starts of the pieces, and shows on a terminal how many are done."""
    for done, start in enumerate(starts):
        if sys.stderr.isatty():
            print(f"{done} of {len(starts)} pieces", end="\r", file=sys.stderr)
        yield start


def sums(path: str, piece: int) -> tuple:
    """Returns the exact sum of a file of float64, and the sum of NumPy's sums of the pieces."""
    exact, plain = gpuvec.Accumulator("sum", np.float64), 0.0
    values = np.memmap(path, np.float64, mode="r")
    for start in with_progress(range(0, values.size, piece)):
        exact.add(values[start : start + piece])
        plain += float(values[start : start + piece].sum())
    return exact.value(), plain


def main() -> None:
    """Sums a file in pieces of several lengths."""
    rng = np.random.default_rng(1)
    values = np.ldexp(rng.standard_normal(N), rng.integers(-40, 40, N))
    whole = gpuvec.sum(values)
    with tempfile.NamedTemporaryFile() as file:
        values.tofile(file.name)
        for piece in (1000, 65_536, N):
            exact, plain = sums(file.name, piece)
            print(f"pieces of {piece:9,}: {float(exact)!r}, by NumPy {plain!r}")
            if exact.tobytes() != whole.tobytes():
                sys.exit(f"the sum of the whole is {float(whole)!r}")


if __name__ == "__main__":
    main()
