"""Arrays past 2^32 elements, on the GPU: host arrays in chunks, device arrays in one launch.

Needs about 40 GB of host memory and 60 GB of device memory, CuPy for the device arrays, and a few
minutes. Prints a line for each check; exits 1 if one fails.
"""

import ctypes
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python_tests/support"))
import bindings
from bindings import Place

N = (1 << 32) + 5
BLOCK = 1 << 26


def call(name: str, a: int, b: int, out: int) -> bindings.Run:
    """Calls an operation on N elements at three addresses; exits if it fails."""
    function = getattr(bindings.lib, name)
    start = time.perf_counter()
    status = function(*(ctypes.c_void_p(address) for address in (a, b, out)), N)
    seconds = time.perf_counter() - start
    if status != 0:
        sys.exit(f"{name}: {bindings.last_error()}")
    run = bindings.last_run()
    print(
        f"{name}: n = {N}, backend {run.backend}, path {run.path}, {run.chunks} chunks, "
        f"{run.bytes_staged} bytes staged, {seconds:.2f} s",
        flush=True,
    )
    return run


def require(what: str, holds: bool) -> None:
    """Exits with 1 and `what` if a condition does not hold."""
    print(f"  {what}: {'yes' if holds else 'NO'}", flush=True)
    if not holds:
        sys.exit(1)


def blocks(array: np.ndarray):
    """Yields the array's blocks with their values, which depend on the index and are exact."""
    pattern = (np.arange(BLOCK, dtype=np.int64) % 8191 - 4095).astype(array.dtype)
    for number, start in enumerate(range(0, array.size, BLOCK)):
        block = array[start : start + BLOCK]
        yield block, pattern[: block.size] + array.dtype.type(number)


def fill(array: np.ndarray) -> None:
    """Stores each element's value."""
    for block, values in blocks(array):
        block[:] = values


def is_doubled(array: np.ndarray) -> bool:
    """Returns whether each element is twice the value that `fill` stored."""
    return all((block == 2 * values).all() for block, values in blocks(array))


def host_arrays(name: str, make) -> None:
    """Adds an array to itself in place, and compares its dot product with the CPU's."""
    print(f"{name} host memory")
    array = make(N, np.float32)
    fill(array)
    address = array.ctypes.data
    bits = []
    for place in (Place.GPU, Place.CPU):
        bindings.lib.gpuvec_set_placement(place)
        result = np.zeros(1, np.float32)
        call("dot_product", address, address, result.ctypes.data)
        bits.append(result.tobytes())
    require("dot_product has the CPU's bits", bits[0] == bits[1])
    bindings.lib.gpuvec_set_placement(Place.GPU)
    call("vector_add", address, address, address)
    require("vector_add is right in every element", is_doubled(array))


def device_arrays() -> None:
    """Adds arrays in another library's device memory, which one launch processes."""
    import cupy

    print("device memory")
    bindings.lib.gpuvec_set_placement(Place.GPU)
    a = cupy.arange(N, dtype=cupy.int32)
    b = cupy.full(N, 7, dtype=cupy.int32)
    out = cupy.zeros(N, dtype=cupy.int32)
    cupy.cuda.Device().synchronize()
    run = call("add_arrays", a.data.ptr, b.data.ptr, out.data.ptr)
    require("one chunk, used in place", run.chunks == 1 and run.path == 32)
    a += 7
    require("add_arrays is right in every element", bool((a == out).all()))


def main() -> None:
    """Runs every check."""
    host_arrays("pageable", np.empty)
    host_arrays("pinned", bindings.pinned_empty)
    device_arrays()
    print("all right")


if __name__ == "__main__":
    main()
