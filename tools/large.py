"""Arrays past 2^32 elements, on the GPU: host arrays in chunks, device arrays in one launch.

Needs about 40 GB of host memory, 60 GB of device memory, and a few minutes. Prints a line for each
call; exits 1 if a result is wrong.
"""

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python_tests/support"))
import bindings
from bindings import PathBit, Place
from streams import Memory, Resources, ok

N = (1 << 32) + 5
BLOCK = 1 << 26


def call(name: str, place: Place, *addresses: int) -> bindings.Run:
    """Calls an operation on N elements."""
    ok(bindings.lib.gpuvec_set_placement(place))
    start = time.perf_counter()
    ok(getattr(bindings.lib, name)(*addresses, N))
    seconds, run = time.perf_counter() - start, bindings.last_run()
    print(
        f"  {name}: n = {N}, backend {run.backend}, path {run.path}, {run.chunks} chunks, "
        f"{run.bytes_staged} bytes staged, {seconds:.2f} s",
        flush=True,
    )
    return run


def blocks(array: np.ndarray):
    """Yields the array's blocks with their values, which depend on the index and are exact."""
    pattern = (np.arange(BLOCK, dtype=np.int64) % 8191 - 4095).astype(array.dtype)
    for number, start in enumerate(range(0, array.size, BLOCK)):
        block = array[start : start + BLOCK]
        yield block, pattern[: block.size] + array.dtype.type(number)


def filled(kind: str, dtype: Any, resources: Resources) -> tuple[np.ndarray, Memory]:
    """Returns an array of these values in memory of a kind, and its copy in host memory."""
    memory = resources.memory(kind if kind != "device" else "pageable", N * 4)
    array = memory.view(dtype)
    for block, values in blocks(array):
        block[:] = values
    return array, resources.array(kind, array) if kind == "device" else memory


def check_doubled(array: np.ndarray) -> None:
    """Exits unless each element is twice its value."""
    if not all((block == 2 * values).all() for block, values in blocks(array)):
        sys.exit("a sum is wrong")


def main() -> None:
    """Makes and checks the calls."""
    for kind in ("pageable", "pinned"):
        print(f"{kind} memory")
        with Resources() as resources:
            array, memory = filled(kind, np.float32, resources)
            at, bits = memory.address, []
            for place in (Place.GPU, Place.CPU):
                result = np.zeros(1, np.float32)
                call("dot_product", place, at, at, result.ctypes.data)
                bits.append(result.tobytes())
            if bits[0] != bits[1]:
                sys.exit("the dot product does not have the bits of the CPU's")
            call("vector_add", Place.GPU, at, at, at)
            check_doubled(array)
    print("device memory")
    with Resources() as resources:
        array, a = filled("device", np.int32, resources)
        b, out = resources.array("device", array), resources.memory("device", N * 4)
        run = call("add_arrays", Place.GPU, a.address, b.address, out.address)
        if run.chunks != 1 or run.path != PathBit.RESIDENT:
            sys.exit("device arrays are not used in place, in one chunk")
        check_doubled(out.get(np.int32))
    print("all right")


if __name__ == "__main__":
    main()
