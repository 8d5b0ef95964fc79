"""Adds and multiplies NumPy arrays, in pageable and in pinned memory, and compares with NumPy.

    PYTHONPATH=python python python_examples/demo.py

Checks every result and exits with code 1 if one is wrong.
"""

import sys
import time

import gpuvec
import numpy as np

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


def random(n: int, dtype, empty) -> np.ndarray:
    """Makes an array of random whole numbers with `empty`."""
    array = empty(n, dtype)
    array[:] = np.random.default_rng(1).integers(-(2**31), 2**31, n).astype(np.int32)
    return array


def where() -> str:
    """Describes where the last operation ran."""
    run = gpuvec.last_run()
    return f"{run.backend.upper()} ({', '.join(run.path)}; {run.chunks} chunks)"


def show_add(dtype, memory: str, empty) -> None:
    """Adds two arrays, and prints a line about it."""
    a, b, out = (random(N, dtype, empty) for _ in range(3))
    ours = best_ms(lambda: gpuvec.add(a, b, out=out))
    ran = where()
    if not np.array_equal(out, a + b):
        sys.exit(f"gpuvec: the sum of {memory} arrays is wrong")
    show("add", dtype, memory, ours, best_ms(lambda: np.add(a, b, out=out)), ran)


def show_dot(memory: str, empty) -> None:
    """Computes a dot product, which is right to 1 ulp, and prints a line about it."""
    a, b = (random(N, np.float32, empty) for _ in range(2))
    result = gpuvec.dot(a, b)
    exact = np.dot(a.astype(np.float64), b.astype(np.float64))
    if abs(float(result) - exact) > np.spacing(np.float32(abs(exact))):
        sys.exit(f"gpuvec: the dot product of {memory} arrays is wrong")
    ours = best_ms(lambda: gpuvec.dot(a, b))
    show("dot", np.float32, memory, ours, best_ms(lambda: np.dot(a, b)), where())


def show(name: str, dtype, memory: str, ours: float, numpys: float, ran: str) -> None:
    """Prints a line."""
    title = f"{name} {np.dtype(dtype)}"
    print(f"{title:12} {memory:9} {ours:7.2f} ms   NumPy {numpys:7.2f} ms   {ran}")


def main() -> None:
    """Prints the processor, then runs every operation with both memory kinds."""
    gpuvec.init()
    devices = [gpuvec.device_name(i) for i in range(gpuvec.device_count())]
    why = gpuvec.why_cpu()
    on = f"the CPU: {why}" if why else ", ".join(devices)
    print(f"gpuvec {gpuvec.__version__} on {on}; {N:,} elements")
    for memory, empty in (("pageable", np.empty), ("pinned", gpuvec.pinned_empty)):
        show_add(np.float32, memory, empty)
        show_add(np.int32, memory, empty)
        show_dot(memory, empty)


if __name__ == "__main__":
    try:
        main()
    except gpuvec.Error as error:
        sys.exit(f"gpuvec: {error}")
