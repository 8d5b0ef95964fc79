"""Measures what a call from Python costs beside NumPy's own, on arrays of ten floats.

    PYTHONPATH=python python benches/python_overhead.py

All contenders take turns in one process. The table has the median and the fastest of the rounds, in
nanoseconds for a call, and the quotient of the medians by that of `np.add(out=)`.
"""

import argparse
import ctypes
import statistics
import timeit
from typing import Callable

import gpuvec
import numpy as np
from numpy.ctypeslib import ndpointer

N = 10


def own_function(arrays) -> ctypes._CFuncPtr:
    """The function as a program declares it itself, with a type for arrays."""
    function = ctypes.CDLL(gpuvec.library_path()).gpuvec_add_f32
    function.argtypes = [arrays, arrays, arrays, ctypes.c_size_t, ctypes.c_void_p]
    return function


def contenders() -> dict[str, Callable[[], object]]:
    """The calls to compare: each adds ten floats to ten floats."""
    a, b, out = (np.ones(N, np.float32) for _ in range(3))
    read_only = [np.ones(N, np.float32) for _ in range(2)]
    for array in read_only:
        array.flags.writeable = False
    by_address, by_array = own_function(ctypes.c_void_p), own_function(ndpointer(np.float32))
    addresses = [array.ctypes.data for array in (a, b, out)]
    device = [gpuvec.to_device(array) for array in (a, b, out)]
    total, stream = np.zeros((), np.float32), gpuvec.Stream()
    return {
        "np.add(a, b, out=out)": lambda: np.add(a, b, out=out),
        "ctypes, c_void_p, kept addresses": lambda: by_address(*addresses, N, None),
        "ctypes, ndpointer": lambda: by_array(a, b, out, N, None),
        "gpuvec.add(a, b, out=out)": lambda: gpuvec.add(a, b, out=out),
        "gpuvec.add, two read-only inputs": lambda: gpuvec.add(*read_only, out=out),
        "gpuvec.add(a, b)": lambda: gpuvec.add(a, b),
        "gpuvec.axpy(2, a, b, out=out)": lambda: gpuvec.axpy(2, a, b, out=out),
        "gpuvec.sum(a)": lambda: gpuvec.sum(a),
        "gpuvec.sum(a, out=total)": lambda: gpuvec.sum(a, out=total),
        "gpuvec.add of DeviceArrays": lambda: gpuvec.add(*device[:2], out=device[2]),
        "gpuvec.add of DeviceArrays, stream=": lambda: gpuvec.add(
            *device[:2], out=device[2], stream=stream
        ),
    }


def measured(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Returns the times of each call in nanoseconds; in each round all take a turn."""
    batch = 20_000
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(1e9 * timeit.timeit(call, number=batch) / batch)
    return times


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=25)
    rounds = parser.parse_args().rounds
    with gpuvec.placement("cpu"):
        times = measured(contenders(), rounds)
    reference = statistics.median(times["np.add(a, b, out=out)"])
    print(f"| call, n = {N} | ns | fastest | of np.add |\n|---|---|---|---|")
    for name, found in times.items():
        median = statistics.median(found)
        print(f"| `{name}` | {median:,.0f} | {min(found):,.0f} | {median / reference:.1f} |")


if __name__ == "__main__":
    main()
