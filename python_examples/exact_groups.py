"""Sums a file by key, piece by piece, with less memory than the file has bytes, exactly.

    PYTHONPATH=python python python_examples/exact_groups.py

The sum of each key has the same bits for any length of the pieces. Sums by NumPy's bincount do
not.
"""

import os
import sys
import tempfile

import gpuvec
import numpy as np

try:
    import resource
except ImportError:  # Windows has no such limits.
    resource = None

RECORD = np.dtype([("key", np.int32), ("value", np.float64)])
N, GROUPS = 6_000_000, 1000
# The bytes that the program may allocate while it reads the file.
LIMIT = 48 << 20


def write(path: str) -> None:
    """Writes records in pieces, as another program would."""
    rng = np.random.default_rng(1)
    with open(path, "wb") as file:
        for _ in range(10):
            records = np.empty(N // 10, RECORD)
            records["key"] = rng.integers(0, GROUPS, records.size)
            values = rng.standard_normal(records.size)
            records["value"] = np.ldexp(values, rng.integers(-40, 40, records.size))
            records.tofile(file)


def limit_memory() -> None:
    """Makes further allocations of more than `LIMIT` bytes fail."""
    if resource is None:
        return
    with open("/proc/self/status") as status:
        [line] = [line for line in status if line.startswith("VmData")]
    allocated = int(line.split()[1]) << 10
    resource.setrlimit(resource.RLIMIT_DATA, (allocated + LIMIT, resource.RLIM_INFINITY))


def sums(path: str, piece: int) -> tuple:
    """Returns the exact sums of a file by key, and the sums of NumPy's sums of the pieces."""
    exact, plain = gpuvec.Accumulator("sum", np.float64, groups=GROUPS), np.zeros(GROUPS)
    with open(path, "rb") as file:
        while (records := np.fromfile(file, RECORD, piece)).size:
            keys, values = (np.ascontiguousarray(records[name]) for name in RECORD.names)
            exact.add(values, by=keys)
            plain += np.bincount(keys, values, GROUPS)
    return exact.value(), plain


def main() -> None:
    """Sums a file by key in pieces of several lengths."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "records")
        write(path)
        sums(path, N // 100)  # Starts the library's threads.
        limit_memory()
        print(f"a file of {os.path.getsize(path):,} bytes, {LIMIT:,} bytes of memory")
        of_pieces = {piece: sums(path, piece) for piece in (10_000, 65_537, 500_000)}
    first, _ = of_pieces[10_000]
    for piece, (exact, plain) in of_pieces.items():
        inexact = np.count_nonzero(plain != exact)
        print(f"pieces of {piece:7,}: {inexact} of {GROUPS} sums by NumPy are inexact")
        if exact.tobytes() != first.tobytes():
            sys.exit("the exact sums of pieces of two lengths have other bits")


if __name__ == "__main__":
    main()
