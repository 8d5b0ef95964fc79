"""Measures what a call from Python costs beside NumPy's own, on arrays of ten floats.

    PYTHONPATH=python python benches/python_overhead.py

All contenders take turns in one process. The table has the median and the fastest of the rounds, in
nanoseconds for a call, and the quotient of the medians by that of `np.add(out=)`.
"""

import argparse
import ctypes
import statistics
import timeit
from typing import Any

import gpuvec
import numpy as np
from numpy.ctypeslib import ndpointer

N = 10
CALLS = 20_000

# Statements with the names of `arguments`.
CONTENDERS = {
    "np.add(a, b, out=out)": "np.add(a, b, out=out)",
    "ctypes, c_void_p, kept addresses": "by_address(pa, pb, pout, 10, None)",
    "ctypes, ndpointer": "by_array(a, b, out, 10, None)",
    "gpuvec.add(a, b, out=out)": "add(a, b, out=out)",
    "the same, a and b read-only": "add(fixed_a, fixed_b, out=out)",
    "gpuvec.add(a, b)": "add(a, b)",
    "gpuvec.axpy(2, a, b, out=out)": "axpy(2, a, b, out=out)",
    "gpuvec.sum(a)": "sum(a)",
    "gpuvec.sum(a, out=total)": "sum(a, out=total)",
    "gpuvec.add of DeviceArrays": "add(da, db, out=dout)",
    "gpuvec.add of DeviceArrays, stream=": "add(da, db, out=dout, stream=stream)",
}


def own_function(arrays: Any) -> Any:
    """The function as a program declares it itself, with a type for arrays."""
    function = ctypes.CDLL(gpuvec.library_path()).gpuvec_add_f32
    function.argtypes = [arrays, arrays, arrays, ctypes.c_size_t, ctypes.c_void_p]
    return function


def arguments() -> dict[str, Any]:
    """Returns the variables of the statements."""
    a, b, out, fixed_a, fixed_b = (np.ones(N, np.float32) for _ in range(5))
    fixed_a.flags.writeable = fixed_b.flags.writeable = False
    pa, pb, pout = (array.ctypes.data for array in (a, b, out))
    da, db, dout = (gpuvec.to_device(array) for array in (a, b, out))
    by_address, by_array = own_function(ctypes.c_void_p), own_function(ndpointer(np.float32))
    total, stream = np.zeros((), np.float32), gpuvec.Stream()
    add, axpy, sum = gpuvec.add, gpuvec.axpy, gpuvec.sum
    return {"np": np, **locals()}


def measured(rounds: int) -> dict[str, list[float]]:
    """Returns the times of each call in nanoseconds; in each round all take a turn."""
    names = arguments()
    timers = {title: timeit.Timer(call, globals=names) for title, call in CONTENDERS.items()}
    times: dict[str, list[float]] = {title: [] for title in timers}
    for _ in range(rounds):
        for title, timer in timers.items():
            times[title].append(1e9 * timer.timeit(CALLS) / CALLS)
    return times


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=25)
    rounds = parser.parse_args().rounds
    with gpuvec.placement("cpu"):
        times = measured(rounds)
    reference = statistics.median(times["np.add(a, b, out=out)"])
    print(f"| call, n = {N} | ns | fastest | of np.add |\n|---|---|---|---|")
    for title, found in times.items():
        median = statistics.median(found)
        print(f"| `{title}` | {median:,.0f} | {min(found):,.0f} | {median / reference:.1f} |")


if __name__ == "__main__":
    main()
