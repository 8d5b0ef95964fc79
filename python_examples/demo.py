"""Runs the three classic operations from Python, on pageable and pinned arrays.

    python python_examples/demo.py

Loads the library that the environment variable GPUVEC_LIB names, or the release build. Checks
every result against NumPy and exits with code 1 if one is wrong.
"""

import sys
import time

import gpuvec
import numpy as np
from gpuvec import lib, pinned, where

N = 10_000_000
CALLS = 5


def best_ms(call) -> float:
    """Returns the shortest duration of a few calls."""
    durations = []
    for _ in range(CALLS):
        start = time.perf_counter()
        call()
        durations.append(time.perf_counter() - start)
    return 1000 * min(durations)


def is_right(name: str, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> bool:
    """Compares sums with NumPy's exactly, and the dot product with float64's to 1 ulp."""
    if name != "dot_product":
        return np.array_equal(out, a + b)
    exact = np.dot(a.astype(np.float64), b.astype(np.float64))
    return abs(float(out[0]) - exact) <= np.spacing(np.float32(abs(exact)))


def show(name: str, memory: str, make) -> None:
    """Runs an operation on arrays from `make`, and prints a line about it."""
    is_dot, dtype = name == "dot_product", np.int32 if name == "add_arrays" else np.float32
    a, b, out = make(N, dtype), make(N, dtype), make(1 if is_dot else N, dtype)
    random = np.random.default_rng(1)
    a[:], b[:] = (random.integers(-(2**31), 2**31, N).astype(np.int32) for _ in range(2))

    ours = best_ms(lambda: getattr(lib, name)(a, b, out, N))
    ran = where()
    if not is_right(name, a, b, out):
        sys.exit(f"gpuvec: {name} of {memory} arrays is wrong")
    numpys = best_ms(lambda: np.dot(a, b) if is_dot else np.add(a, b, out=out))
    print(f"{name:12} {memory:9} {ours:7.2f} ms   NumPy {numpys:7.2f} ms   {ran}")


def main() -> None:
    """Prints the processor, then runs every operation with both memory kinds."""
    lib.gpuvec_init()
    why = lib.gpuvec_why_cpu().decode()
    names = [lib.gpuvec_device_name(i).decode() for i in range(lib.gpuvec_device_count())]
    on = f"the CPU: {why}" if why else ", ".join(names)
    print(f"gpuvec {lib.gpuvec_version().decode()} on {on}; {N:,} elements")
    for name in ("vector_add", "add_arrays", "dot_product"):
        show(name, "pageable", np.zeros)
        show(name, "pinned", pinned)


if __name__ == "__main__":
    try:
        main()
    except gpuvec.Error as error:
        sys.exit(f"gpuvec: {error}")
