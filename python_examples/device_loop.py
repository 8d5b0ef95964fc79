"""Keeps data in a GPU's memory over a loop of operations, beside the same loop in NumPy.

    python python_examples/device_loop.py

The arrays are copied in once, every step is queued on a stream, and the results are copied out
once. The loop is one function: it takes NumPy arrays as well. All results have the same bits.
"""

import sys
import time

import numpy as np
from gpuvec import OnDevice, Stream, lib, pinned, to_device, where

N = 1_000_000
STEPS = 100

# A power of two: DT * v is exact, so that NumPy's x + DT * v is rounded once too, as axpy is.
DT = np.float32(1 / 64)
DAMPING = np.float32(0.99)


def loop(x, v, stream) -> None:
    """All steps: x += DT * v, then v *= DAMPING. With a stream they are queued, not waited for."""
    for _ in range(STEPS):
        lib.gpuvec_axpy_f32(DT, v, x, x, x.size, stream)
        lib.gpuvec_scale_f32(DAMPING, v, v, v.size, stream)


def numpy_loop(x: np.ndarray, v: np.ndarray) -> None:
    """The same in NumPy."""
    scratch = np.empty_like(v)
    for _ in range(STEPS):
        x += np.multiply(v, DT, out=scratch)
        v *= DAMPING


def on_device(x: OnDevice, v: OnDevice) -> np.float32:
    """The loop on a stream, and the dot product of what it leaves."""
    stream, dot = Stream(), pinned(1, np.float32)
    loop(x, v, stream)
    lib.gpuvec_dot_f32(x, v, dot, x.size, stream)
    stream.synchronize()
    return dot[0]


def timed(name: str, call):
    """What a call returns; prints how long it took."""
    start = time.perf_counter()
    result = call()
    print(f"{name:28} {1000 * (time.perf_counter() - start):8.2f} ms")
    return result


def main() -> None:
    """Runs the loop in three ways, and compares what they leave."""
    lib.gpuvec_init()
    start_x = np.random.default_rng(1).random(N, np.float32)
    start_v = np.random.default_rng(2).random(N, np.float32)

    x, v = start_x.copy(), start_v.copy()
    timed("NumPy", lambda: numpy_loop(x, v))
    host_x, host_v = start_x.copy(), start_v.copy()
    timed("gpuvec on NumPy arrays", lambda: loop(host_x, host_v, None))

    device_x, device_v = timed(
        "copies to the device", lambda: (to_device(start_x), to_device(start_v))
    )
    dot = timed("gpuvec on the device", lambda: on_device(device_x, device_v))
    print(f"the last call: {where()}")
    back_x, back_v = timed("copies to the host", lambda: (device_x.to_host(), device_v.to_host()))

    same = [np.array_equal(x, host_x), np.array_equal(v, host_v)]
    same += [np.array_equal(x, back_x), np.array_equal(v, back_v)]
    exact = np.dot(x.astype(np.float64), v.astype(np.float64))
    if not all(same) or abs(float(dot) - exact) > np.spacing(np.float32(exact)):
        sys.exit("the results differ")
    print(f"{STEPS} steps of {N:,} elements: the same bits; x . v = {dot:.9g}")


if __name__ == "__main__":
    main()
