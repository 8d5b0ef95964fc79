"""Computes the dot product of Dask arrays in several processes, exactly.

    PYTHONPATH=python python python_examples/exact_dask.py

The result has the same bits for any chunks and any workers: Dask adds the integers of the chunks'
states.
"""

import sys

import dask.array as da
import gpuvec
import numpy as np

N = 1_000_003
WORDS = gpuvec.Accumulator("dot", np.float64).to_words().size


def state(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns the integers of the dot product of two chunks."""
    product = gpuvec.Accumulator("dot", np.float64)
    product.add(x, y)
    return product.to_words()


def dot(x: da.Array, y: da.Array) -> np.float64:
    """Returns the dot product of arrays in the same chunks, on two local processes."""
    states = da.map_blocks(state, x, y, dtype=np.int64, chunks=((WORDS,) * x.numblocks[0],))
    words = states.reshape(-1, WORDS).sum(axis=0)
    merged = gpuvec.Accumulator.from_words(words.compute(scheduler="processes", num_workers=2))
    return merged.value()


def main() -> None:
    """Computes with chunks of several lengths."""
    rng = np.random.default_rng(1)
    x, y = (np.ldexp(rng.standard_normal(N), rng.integers(-40, 40, N)) for _ in range(2))
    whole = gpuvec.dot(x, y)
    for chunk in (100_000, 600_000):
        chunked = [da.from_array(array, chunks=chunk) for array in (x, y)]
        value, plain = dot(*chunked), da.dot(*chunked).compute()
        print(f"chunks of {chunk:,}: {float(value)!r}, by Dask's dot {float(plain)!r}")
        if value.tobytes() != whole.tobytes():
            sys.exit(f"the dot product of the whole is {float(whole)!r}")


if __name__ == "__main__":
    main()
