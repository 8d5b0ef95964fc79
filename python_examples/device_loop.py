"""Keeps data in device memory during a loop of operations; compares with the loop in NumPy.

    PYTHONPATH=python python python_examples/device_loop.py

Copies the arrays to the device once, queues every step on a stream, and copies the results back
once. The loop is one function, which takes NumPy arrays as well. All results have the same bits.
"""

import sys
import time

import gpuvec
import numpy as np

N = 1_000_000
STEPS = 100

# A power of two makes DT * v exact, so that NumPy rounds x + DT * v once, as axpy does.
DT = np.float32(1 / 64)
DAMPING = np.float32(0.99)


def loop(x, v, stream=None) -> None:
    """Computes x += DT * v and v *= DAMPING in each step; with a stream, only queues the steps."""
    for _ in range(STEPS):
        gpuvec.axpy(DT, v, x, out=x, stream=stream)
        gpuvec.scale(DAMPING, v, out=v, stream=stream)


def numpy_loop(x: np.ndarray, v: np.ndarray) -> None:
    """Computes the same with NumPy."""
    scratch = np.empty_like(v)
    for _ in range(STEPS):
        x += np.multiply(v, DT, out=scratch)
        v *= DAMPING


def on_device(x: gpuvec.DeviceArray, v: gpuvec.DeviceArray) -> np.float32:
    """Runs the loop on a stream, and returns the dot product of its results."""
    dot = gpuvec.pinned_empty(())
    with gpuvec.Stream() as stream:
        loop(x, v, stream)
        gpuvec.dot(x, v, out=dot, stream=stream)
    return dot[()]


def timed(name: str, call):
    """Makes a call, prints its time and returns its result."""
    start = time.perf_counter()
    result = call()
    print(f"{name:28} {1000 * (time.perf_counter() - start):8.2f} ms")
    return result


def main() -> None:
    """Runs the loop in three ways, and compares the results."""
    gpuvec.init()
    start_x = np.random.default_rng(1).random(N, np.float32)
    start_v = np.random.default_rng(2).random(N, np.float32)

    x, v = start_x.copy(), start_v.copy()
    timed("NumPy", lambda: numpy_loop(x, v))
    host_x, host_v = start_x.copy(), start_v.copy()
    timed("gpuvec on NumPy arrays", lambda: loop(host_x, host_v))

    device_x, device_v = timed(
        "copies to the device", lambda: (gpuvec.to_device(start_x), gpuvec.to_device(start_v))
    )
    dot = timed("gpuvec on the device", lambda: on_device(device_x, device_v))
    print(f"the last call: {gpuvec.last_run()}")
    back_x, back_v = timed("copies to the host", lambda: (device_x.to_host(), device_v.to_host()))

    same = [np.array_equal(x, host_x), np.array_equal(v, host_v)]
    same += [np.array_equal(x, back_x), np.array_equal(v, back_v)]
    exact = np.dot(x.astype(np.float64), v.astype(np.float64))
    if not all(same) or abs(float(dot) - exact) > np.spacing(np.float32(exact)):
        sys.exit("the results differ")
    print(f"{STEPS} steps of {N:,} elements: the same bits; x . v = {dot:.9g}")


if __name__ == "__main__":
    main()
