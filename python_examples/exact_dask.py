"""Computes dot products and sums along axes of Dask arrays in several processes, exactly.

    PYTHONPATH=python python python_examples/exact_dask.py

The results have the same bits for any chunks and any workers. For dot products Dask adds the
integers of the chunks' states; for sums along axes its tree of reductions merges accumulators.
"""

import sys

import dask.array as da
import gpuvec
import numpy as np
from dask.core import flatten

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


def sums_of_chunk(x: np.ndarray, axis: tuple, keepdims: bool, computing_meta=False) -> object:
    """Returns the sums of a chunk along axes; an array where Dask asks for the type of a result."""
    if computing_meta:
        return x
    shape = [length for at, length in enumerate(x.shape) if at not in axis]
    sums = gpuvec.Accumulator("sum", x.dtype, shape)
    sums.add(x, axis=axis)
    return sums


def merged(parts: list, axis: tuple, keepdims: bool) -> gpuvec.Accumulator:
    """Returns the sums of several chunks, which are in nested lists."""
    each = list(flatten(parts)) if isinstance(parts, list) else [parts]
    total = gpuvec.Accumulator("sum", each[0].dtype, each[0].shape)
    for sums in each:
        total += sums
    return total


def values(parts: list, axis: tuple, keepdims: bool) -> np.ndarray:
    """Returns the sums of all chunks along the axes, rounded once."""
    sums = np.asarray(merged(parts, axis, keepdims).value())
    return np.expand_dims(sums, axis) if keepdims else sums


def sum_along(x: da.Array, axis: int) -> da.Array:
    """Returns the sums along an axis, which Dask computes when it needs them."""
    return da.reduction(
        x,
        chunk=sums_of_chunk,
        combine=merged,
        aggregate=values,
        axis=axis,
        dtype=x.dtype,
        concatenate=False,
        meta=np.empty((0,) * (x.ndim - 1), x.dtype),
    )


def dot_products(rng: np.random.Generator) -> None:
    """Computes dot products with chunks of several lengths."""
    x, y = (np.ldexp(rng.standard_normal(N), rng.integers(-40, 40, N)) for _ in range(2))
    whole = gpuvec.dot(x, y)
    for chunk in (100_000, 600_000):
        chunked = [da.from_array(array, chunks=chunk) for array in (x, y)]
        value, plain = dot(*chunked), da.dot(*chunked).compute()
        print(f"chunks of {chunk:,}: {float(value)!r}, by Dask's dot {float(plain)!r}")
        if value.tobytes() != whole.tobytes():
            sys.exit(f"the dot product of the whole is {float(whole)!r}")


def sums_of_columns(rng: np.random.Generator) -> None:
    """Computes sums along an axis with chunks of several shapes."""
    x = np.ldexp(rng.standard_normal((1000, 300)), rng.integers(-40, 40, (1000, 300)))
    whole = gpuvec.sum(x, axis=0)
    for chunks in ((100, 300), (333, 70)):
        chunked = da.from_array(x, chunks=chunks)
        sums = sum_along(chunked, 0).compute(scheduler="processes", num_workers=2)
        plain = chunked.sum(axis=0).compute()
        print(
            f"chunks of {chunks}: {(plain != sums).sum()} of {sums.size} sums by Dask are inexact"
        )
        if sums.tobytes() != whole.tobytes():
            sys.exit("the sums of the whole have other bits")


def main() -> None:
    """Compares the results of chunks with those of the whole."""
    rng = np.random.default_rng(1)
    dot_products(rng)
    sums_of_columns(rng)


if __name__ == "__main__":
    main()
