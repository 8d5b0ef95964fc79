"""Measures what calls from Python cost on small arrays, beside NumPy's and ctypes'.

On the fake driver, calls on device arrays show what Python and the library need.
"""

import ctypes
import os
import subprocess
import sys
import tempfile
import timeit
from argparse import Namespace
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from calls import library_path, package, package_folder, suffix_of
from harness import Contender, OtherProcess, Row, measure
from numpy.ctypeslib import ndpointer

# The name of each call, with gpuvec's statement and NumPy's or another contender's.
HOST = {
    "operation, out=": ("gpuvec.add(a, b, out=c)", "np.add(a, b, out=c)"),
    "operation, out=, read-only inputs": ("gpuvec.add(fixed, fixed, out=c)", ""),
    "operation": ("gpuvec.add(a, b)", "np.add(a, b)"),
    "by ctypes, kept addresses": ("", "by_address(pa, pb, pc, 10, None)"),
    "by ctypes, ndpointer": ("", "by_array(a, b, c, 10, None)"),
    "axpy, out=": ("gpuvec.axpy(2, a, b, out=c)", ""),
    "sum": ("gpuvec.sum(a)", "np.sum(a)"),
    "sum, out=": ("gpuvec.sum(a, out=total)", "np.sum(a, out=total)"),
    "dot of 1,000": ("gpuvec.dot(long, long)", "np.dot(long, long)"),
    "evaluate, three inputs": ('gpuvec.evaluate("a*b + c", a=a, b=b, c=c)', "a*b + c"),
    "Expression, out=": ("product(a=a, b=b, out=c)", "np.multiply(a, b, out=c)"),
    "Expression": ("product(a=a, b=b)", "a * b"),
    "a row to 10 x 10": ('gpuvec.evaluate("a + b", a=table, b=a)', "table + a"),
    "every other element": ("gpuvec.add(gaps, gaps)", "gaps + gaps"),
    "sum of 10 x 10, axis=0": ("gpuvec.sum(table, axis=0)", "table.sum(axis=0)"),
    "sum of 10 x 10, axis=1": ("gpuvec.sum(table, axis=1)", "table.sum(axis=1)"),
    "evaluate, two formulas": ('gpuvec.evaluate("a + b; a - b", a=a, b=b)', "a + b, a - b"),
    "Expression, two formulas": ("both(a=a, b=b)", "a + b, a - b"),
    "evaluate, NumPy's scalar": ('gpuvec.evaluate("k*a", a=a, k=k)', "k * a"),
    "evaluate, an int": ('gpuvec.evaluate("k*a", a=a, k=2)', "2 * a"),
}
DEVICE = {
    "device arrays, out=": "gpuvec.add(x, y, out=z)",
    "device arrays, out=, stream=": "gpuvec.add(x, y, out=z, stream=stream)",
    "by the CUDA array interface": "gpuvec.add(ix, iy, out=iz)",
    "by DLPack": "gpuvec.add(dx, dy, out=dz)",
    "an export by DLPack": "dx.__dlpack__(stream=1, max_version=(1, 0))",
    "device arrays, a new result of 64 KiB": "gpuvec.add(wide, wide)",
    "device arrays of 64 KiB, out=": "gpuvec.add(wide, wide, out=wide)",
    "a new DeviceArray of 64 KiB": "gpuvec.DeviceArray(1 << 14)",
    "a new DeviceArray of 40 B": "gpuvec.DeviceArray(10)",
    "Expression of device arrays, out=": "product(a=x, b=y, out=z)",
    "Expression of device arrays": "product(a=x, b=y)",
}


class Interface:
    """An array of another library, known by its CUDA array interface."""

    def __init__(self, array: Any) -> None:
        self.owner, self.__cuda_array_interface__ = array, array.__cuda_array_interface__


class Exporter:
    """An array of another library, known by DLPack, that exports it as NumPy does."""

    def __init__(self, array: Any) -> None:
        self.array, self.device = array, array.__dlpack_device__()

    def __dlpack_device__(self) -> tuple[int, int]:
        """Returns the device."""
        return self.device

    def __dlpack__(self, **keywords: Any) -> object:
        """Exports the array."""
        return self.array.__dlpack__(**keywords)


def own_function(arrays: Any) -> Any:
    """Returns the function as a program declares it itself, with a type for arrays."""
    function = ctypes.CDLL(library_path()).gpuvec_add_f32
    function.argtypes = [arrays, arrays, arrays, ctypes.c_size_t, ctypes.c_void_p]
    return function


@cache
def host_names() -> dict[str, Any]:
    """Returns the variables of the statements on the host."""
    gpuvec = package()
    gpuvec.set_placement("cpu")
    a, b, c, fixed = (np.ones(10, np.float32) for _ in range(4))
    fixed.flags.writeable = False
    pa, pb, pc = (array.ctypes.data for array in (a, b, c))
    by_address, by_array = own_function(ctypes.c_void_p), own_function(ndpointer(np.float32))
    table, long, total = np.ones((10, 10), "f4"), np.ones(1000, "f4"), np.zeros((), "f4")
    gaps, k = np.ones(20, np.float32)[::2], np.float32(2)
    product = gpuvec.Expression("a*b", a=np.float32, b=np.float32)
    both = gpuvec.Expression("a + b; a - b", a=np.float32, b=np.float32)
    return {"np": np, **locals()}


@cache
def device_names() -> dict[str, Any]:
    """Returns the variables of the statements on a device."""
    gpuvec = package()
    gpuvec.set_placement("gpu")
    x, y, z = (gpuvec.to_device(np.ones(10, np.float32)) for _ in range(3))
    ix, iy, iz = map(Interface, (x, y, z))
    dx, dy, dz = map(Exporter, (x, y, z))
    wide, stream = gpuvec.to_device(np.ones(1 << 14, np.float32)), gpuvec.Stream()
    return {**host_names(), **locals()}


@cache
def timer(statement: str, is_device: bool) -> timeit.Timer:
    """Returns what times a statement."""
    return timeit.Timer(statement, globals=device_names() if is_device else host_names())


def answer(statement: str, is_device: bool, calls: int) -> float:
    """Makes calls, here or for another process, and returns the seconds."""
    return timer(statement, is_device).timeit(calls)


def run(given: Namespace) -> Iterator[Row]:
    """Measures each call, and in turn NumPy's, ctypes' and another build's."""
    gpuvec = package()
    rows = {
        (what, False): {"gpuvec": ours, "beside": other} for what, (ours, other) in HOST.items()
    }
    if gpuvec.device_count():
        rows |= {(what, True): {"gpuvec": statement} for what, statement in DEVICE.items()}
    else:
        yield {"missing": {"device arrays": gpuvec.why_cpu()}}
    libraries = {"gpuvec": library_path()}
    libraries |= {f"gpuvec{suffix_of(path)}": path for path in given.against}
    others = {
        name: OtherProcess("python_calls", GPUVEC_LIB=path)
        for name, path in list(libraries.items())[1:]
    }
    for (what, is_device), statements in rows.items():
        contenders = []
        for name, statement in statements.items():
            # The placement of a device's arrays differs from that of others.
            gpuvec.set_placement("gpu" if is_device else "cpu")
            if not statement:
                continue
            name = "ctypes" if "by_a" in statement else "NumPy" if name == "beside" else name
            batch = lambda calls, of=(statement, is_device): answer(*of, calls)  # noqa: E731
            contenders.append(Contender(name, batch))
            for title, process in others.items() if name == "gpuvec" else ():
                contenders.append(process.contender(title, statement, is_device))
        seconds = given.seconds * len(contenders)
        yield {"what": what, **measure(contenders, seconds, given.rounds)}
    for process in others.values():
        process.close()
    us = {name: import_us(path) for name, path in libraries.items()}
    yield {"what": "import gpuvec, after NumPy", "us": us}


def import_us(library: str) -> float:
    """Returns the least time that a new process takes to import gpuvec after NumPy."""
    script = "import time, numpy; start = time.perf_counter(); import gpuvec; "
    script += "print(1e6 * (time.perf_counter() - start))"
    with tempfile.TemporaryDirectory() as cache:
        # Compiled modules, which the first process writes.
        variables = {**os.environ, "PYTHONPYCACHEPREFIX": cache, "PYTHONDONTWRITEBYTECODE": ""}
        variables |= {"GPUVEC_LIB": library, "PYTHONPATH": package_folder(library)}
        command = [sys.executable, "-c", script]
        run = lambda: subprocess.run(command, env=variables, capture_output=True, check=True)  # noqa: E731
        return min(float(run().stdout) for _ in range(10))
