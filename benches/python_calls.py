"""Measures what calls from Python cost beside NumPy's, on small arrays.

    PYTHONPATH=python python benches/python_calls.py
    LD_LIBRARY_PATH=target/fake_driver PYTHONPATH=python python benches/python_calls.py --device

Prints the fastest of many repeats of each call in microseconds, gpuvec's beside NumPy's of the same
run, and the milliseconds of `import gpuvec` after `import numpy`. With ``--device`` it measures
calls on arrays in device memory, gpuvec's own and another library's: on the fake driver they show
what Python and the library need, since a formula's kernel takes longer there than on a GPU.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import timeit
from typing import Any

import gpuvec
import numpy as np

CALLS = 500

# The name of each call, with gpuvec's statement and NumPy's.
HOST = [
    ("operation, out=", "gpuvec.add(a, b, out=c)", "np.add(a, b, out=c)"),
    ("operation", "gpuvec.add(a, b)", "np.add(a, b)"),
    ("dot of 1,000", "gpuvec.dot(long, long)", "np.dot(long, long)"),
    ("evaluate, three inputs", 'gpuvec.evaluate("a*b + c", a=a, b=b, c=c)', "a*b + c"),
    ("Expression, out=", "product(a=a, b=b, out=c)", "np.multiply(a, b, out=c)"),
    ("Expression", "product(a=a, b=b)", "a * b"),
    ("a row to 10 x 10", 'gpuvec.evaluate("a + b", a=table, b=a)', "table + a"),
    ("every other element", "gpuvec.add(gaps, gaps)", "gaps + gaps"),
    ("sum of 10 x 10, axis=0", "gpuvec.sum(table, axis=0)", "table.sum(axis=0)"),
    ("sum of 10 x 10, axis=1", "gpuvec.sum(table, axis=1)", "table.sum(axis=1)"),
    ("evaluate, two formulas", 'gpuvec.evaluate("a + b; a - b", a=a, b=b)', "a + b, a - b"),
    ("Expression, two formulas", "both(a=a, b=b)", "a + b, a - b"),
    ("evaluate, NumPy's scalar", 'gpuvec.evaluate("k*a", a=a, k=k)', "k * a"),
    ("evaluate, an int", 'gpuvec.evaluate("k*a", a=a, k=2)', "2 * a"),
]
DEVICE = [
    ("operation, out=", "gpuvec.add(x, y, out=z)"),
    ("by the CUDA array interface", "gpuvec.add(ix, iy, out=iz)"),
    ("by DLPack", "gpuvec.add(dx, dy, out=dz)"),
    ("an export by DLPack", "dx.__dlpack__(stream=1, max_version=(1, 0))"),
    ("operation, a new result of 64 KiB", "gpuvec.add(wide, wide)"),
    ("the same, out=", "gpuvec.add(wide, wide, out=wide)"),
    ("a new DeviceArray of 64 KiB", "gpuvec.DeviceArray(1 << 14)"),
    ("a new DeviceArray of 40 B", "gpuvec.DeviceArray(10)"),
    ("Expression, out=", "product(a=x, b=y, out=z)"),
    ("Expression", "product(a=x, b=y)"),
]


class Interface:
    """An array of another library, known by its CUDA array interface."""

    def __init__(self, array: gpuvec.DeviceArray) -> None:
        self.owner, self.__cuda_array_interface__ = array, array.__cuda_array_interface__


class Exporter:
    """An array of another library, known by DLPack, that exports it as NumPy does."""

    def __init__(self, array: gpuvec.DeviceArray) -> None:
        self.array, self.device = array, array.__dlpack_device__()

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the device."""
        return self.device

    def __dlpack__(self, **keywords: Any) -> object:
        """Export the array."""
        return self.array.__dlpack__(**keywords)


def names() -> dict[str, Any]:
    """Returns the variables of the statements on the host."""
    a, b, c = (np.ones(10, np.float32) for _ in range(3))
    table, long = np.ones((10, 10), np.float32), np.ones(1000, np.float32)
    gaps, k = np.ones(20, np.float32)[::2], np.float32(2)
    product = gpuvec.Expression("a*b", a=np.float32, b=np.float32)
    both = gpuvec.Expression("a + b; a - b", a=np.float32, b=np.float32)
    return {"gpuvec": gpuvec, "np": np, **locals()}


def device_names() -> dict[str, Any]:
    """Returns the variables of the statements on a device."""
    x, y, z = (gpuvec.to_device(np.ones(10, np.float32)) for _ in range(3))
    if x.device is None:
        sys.exit(f"there is no GPU: {gpuvec.why_cpu()}")
    ix, iy, iz = map(Interface, (x, y, z))
    dx, dy, dz = map(Exporter, (x, y, z))
    wide = gpuvec.to_device(np.ones(1 << 14, np.float32))
    return {**names(), **locals()}


def microseconds(statement: str, variables: dict[str, Any], repeats: int) -> float:
    """Returns the time of the fastest repeat."""
    times = timeit.repeat(statement, globals=variables, number=CALLS, repeat=repeats)
    return 1e6 * min(times) / CALLS


def import_milliseconds(repeats: int) -> float:
    """Returns the least time that a new process takes to import gpuvec after NumPy."""
    script = "import time, numpy; start = time.perf_counter(); import gpuvec; "
    script += "print(1e3 * (time.perf_counter() - start))"
    with tempfile.TemporaryDirectory() as cache:
        # Compiled modules, which the first process writes.
        variables = {**os.environ, "PYTHONPYCACHEPREFIX": cache, "PYTHONDONTWRITEBYTECODE": ""}
        command = [sys.executable, "-c", script]
        run = lambda: subprocess.run(command, env=variables, capture_output=True, check=True)  # noqa: E731
        return min(float(run().stdout) for _ in range(repeats))


def main() -> None:
    """Prints a line for each call."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", action="store_true", help="arrays in device memory")
    parser.add_argument("--repeats", type=int, default=60)
    given = parser.parse_args()
    if given.device:
        variables = device_names()
        for title, statement in DEVICE:
            print(f"{title:34} {microseconds(statement, variables, given.repeats):7.2f} µs")
        return
    variables = names()
    print(f"{'':26} gpuvec   NumPy, µs")
    for title, ours, numpys in HOST:
        times = [microseconds(one, variables, given.repeats) for one in (ours, numpys)]
        print(f"{title:26} {times[0]:6.2f} {times[1]:7.2f}")
    print(f"{'import gpuvec':26} {import_milliseconds(10):6.2f} ms beyond NumPy's")


if __name__ == "__main__":
    main()
