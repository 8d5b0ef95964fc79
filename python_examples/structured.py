"""Copies structured NumPy arrays to a device and back, and computes on their fields.

PYTHONPATH=python python python_examples/structured.py
"""

import sys

import gpuvec
import numpy as np

N = 1_000_000
DT = 0.25
PARTICLE = np.dtype([("id", np.int32), ("x", np.float32), ("v", np.float32), ("name", "S4")])


def particles() -> np.ndarray:
    """Makes the particles."""
    result = np.zeros(N, PARTICLE)
    result["id"] = np.arange(N)
    result["x"] = np.arange(N) % 1000
    result["v"] = np.arange(N) % 7 - 3
    result["name"] = b"abc"
    return result


def column(array: np.ndarray, field: str):
    """Copies a field of all elements to the device as a contiguous array."""
    return gpuvec.to_device(np.ascontiguousarray(array[field]))


def move(array: np.ndarray) -> np.ndarray:
    """Computes x += DT * v on the device, and returns the moved particles."""
    x, v = column(array, "x"), column(array, "v")
    gpuvec.axpy(DT, v, x, out=x)
    print(f"x += DT * v: {gpuvec.last_run()}")
    moved = array.copy()
    moved["x"] = x.to_host()
    return moved


def moved_in_place(array: np.ndarray) -> np.ndarray:
    """Computes the same on the cores, which read and write the fields where they are."""
    moved = array.copy()
    with gpuvec.placement("cpu"):
        gpuvec.axpy(DT, moved["v"], moved["x"], out=moved["x"])
    return moved


def main() -> None:
    """Copies, computes and checks the results."""
    array = particles()
    if not np.array_equal(gpuvec.to_device(array).to_host(), array):
        sys.exit("the copy changed the structures")
    print(f"{N:,} structures of {PARTICLE.itemsize} bytes came back unchanged")
    expected = array.copy()
    expected["x"] += np.float32(DT) * expected["v"]
    for moved in move(array), moved_in_place(array):
        if not np.array_equal(moved, expected):
            sys.exit("the particles are in the wrong place")
    print(f"{N:,} particles moved")


if __name__ == "__main__":
    main()
