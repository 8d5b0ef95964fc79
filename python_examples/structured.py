"""Structured NumPy arrays and a device: as bytes there and back, and as columns to compute on.

python python_examples/structured.py
"""

import ctypes
import sys

import numpy as np
from gpuvec import lib, to_device, where

N = 1_000_000
DT = 0.25
PARTICLE = np.dtype([("id", np.int32), ("x", np.float32), ("v", np.float32), ("name", "S4")])


def particles() -> np.ndarray:
    """Some particles."""
    result = np.zeros(N, PARTICLE)
    result["id"] = np.arange(N)
    result["x"] = np.arange(N) % 1000
    result["v"] = np.arange(N) % 7 - 3
    result["name"] = b"abc"
    return result


def column(array: np.ndarray, field: str):
    """A field of all elements on the device: contiguous, as operations take it."""
    return to_device(np.ascontiguousarray(array[field]))


def move(array: np.ndarray) -> np.ndarray:
    """The particles after x += DT * v, computed on the device."""
    x, v = column(array, "x"), column(array, "v")
    lib.gpuvec_axpy_f32(DT, v, x, x, N, None)
    print(f"x += DT * v: {where()}")
    moved = array.copy()
    moved["x"] = x.to_host()
    return moved


def is_refused(field: np.ndarray) -> bool:
    """Whether ctypes refuses a field as it lies, with the other fields in between."""
    try:
        lib.gpuvec_scale_f32(2, field, field, field.size, None)
    except ctypes.ArgumentError:
        return True
    return False


def main() -> None:
    """Copies, computes, and checks."""
    array = particles()
    if not np.array_equal(to_device(array).to_host(), array):
        sys.exit("the structures changed on their way")
    print(f"{N:,} structures of {PARTICLE.itemsize} bytes came back as they went")
    if not is_refused(array["x"]):
        sys.exit("a field that is not contiguous was taken")
    moved = move(array)
    expected = array.copy()
    expected["x"] += np.float32(DT) * expected["v"]
    if not np.array_equal(moved, expected):
        sys.exit("the particles are in the wrong place")
    print(f"{N:,} particles moved")


if __name__ == "__main__":
    main()
