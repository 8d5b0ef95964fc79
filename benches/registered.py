"""Times a call on page-locked arrays while many others are registered.

    python3 benches/registered.py target/release/libgpuvec.so [OTHER_BUILD.so ...]

Each build runs in a process of its own: an addition of 1,000 pinned f32, in place, with placement
cpu after one with placement gpu has opened the driver, from C; first with nothing registered, then
beside 10, 1,000, 10,000 and 100,000 registered pages.
"""

import ctypes
import mmap
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python_tests/support"))

N = 1000
COUNTS = (0, 10, 1000, 10_000, 100_000)
PAGE = mmap.PAGESIZE
CALLS, ROUNDS = 2000, 7


def measure() -> None:
    """Prints the time of a call beside each number of registrations, for one build."""
    import numpy as np
    from bindings import Place, lib, pinned_empty
    from compiled import Compiled

    array = pinned_empty(N, np.float32)
    array[:] = 0
    # Every other page, so that no two registrations touch.
    memory = mmap.mmap(-1, 2 * PAGE * max(COUNTS))
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    lib.gpuvec_set_placement(Place.GPU)
    assert lib.vector_add(*[array.ctypes.data] * 3, N) == 0
    registered, times = 0, []
    with tempfile.TemporaryDirectory() as folder:
        addresses = (array.ctypes.data,) * 3
        batch = Compiled(Path(folder)).batch(lib.vector_add, addresses, N)
        for count in COUNTS:
            lib.gpuvec_set_placement(Place.GPU)
            while registered < count:
                memory[2 * PAGE * registered] = 1
                assert lib.gpuvec_host_register(start + 2 * PAGE * registered, PAGE) == 0
                registered += 1
            lib.gpuvec_set_placement(Place.CPU)
            best = min(batch(CALLS) for _ in range(ROUNDS)) / CALLS
            times.append(f"{count:,}: {1e6 * best:.2f} us")
    print("  ".join(times), flush=True)


def main() -> None:
    """Measures each build in turn."""
    for library in sys.argv[1:]:
        print(library, end="  ", flush=True)
        environment = {**os.environ, "GPUVEC_LIB": library}
        # Memory that is locked is unlocked when the process ends.
        subprocess.run([sys.executable, __file__], env=environment, check=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main()
    else:
        measure()
