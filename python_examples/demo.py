"""gpuvec from Python: the three operations on ordinary and on page-locked arrays.

    python python_examples/demo.py

Loads the library that the environment variable GPUVEC_LIB names, or the release build. Checks
every result against NumPy and ends with code 1 if one is wrong.
"""

import ctypes
import os
import sys
import time
import weakref
from ctypes import c_char_p, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path

import numpy as np
from numpy.ctypeslib import ndpointer

N = 10_000_000
CALLS = 5

BACKENDS = {1: "CPU", 2: "GPU"}
PATHS = {1: "calling core", 2: "cores", 4: "staged", 8: "DMA", 16: "mapped", 32: "resident"}


class Run(ctypes.Structure):
    """gpuvec_run: where an operation ran, and how."""

    _fields_ = [
        ("backend", c_int32),
        ("path", c_uint32),
        ("devices", c_uint64),
        ("threads", c_uint64),
        ("chunks", c_uint64),
        ("bytes_staged", c_uint64),
    ]


def load() -> ctypes.CDLL:
    """The library, with the types of the functions that are used here."""
    built = Path(__file__).resolve().parent.parent / "target/release/libgpuvec.so"
    library = ctypes.CDLL(os.environ.get("GPUVEC_LIB") or str(built))
    floats = ndpointer(np.float32, ndim=1, flags="C_CONTIGUOUS, ALIGNED")
    integers = ndpointer(np.int32, ndim=1, flags="C_CONTIGUOUS, ALIGNED")
    library.vector_add.argtypes = [floats, floats, floats, c_size_t]
    library.add_arrays.argtypes = [integers, integers, integers, c_size_t]
    library.dot_product.argtypes = [floats, floats, floats, c_size_t]
    library.pinned_alloc.argtypes, library.pinned_alloc.restype = [c_size_t], c_void_p
    library.pinned_free.argtypes = [c_void_p]
    library.gpuvec_last_run.argtypes = [ctypes.POINTER(Run), c_size_t]
    for text in ("last_error", "version", "why_cpu", "device_name"):
        getattr(library, f"gpuvec_{text}").restype = c_char_p
    return library


gpuvec = load()


def check(status: int) -> None:
    """Ends the program if a call failed."""
    if status != 0:
        sys.exit(f"gpuvec: error {status}: {gpuvec.gpuvec_last_error().decode()}")


def pinned(n: int, dtype) -> np.ndarray:
    """An array in page-locked memory, given back when nobody has the array any more."""
    size = n * np.dtype(dtype).itemsize
    address = gpuvec.pinned_alloc(size)
    if not address:
        sys.exit(f"gpuvec: {gpuvec.gpuvec_last_error().decode()}")
    memory = (ctypes.c_char * size).from_address(address)
    weakref.finalize(memory, gpuvec.pinned_free, address)
    return np.frombuffer(memory, dtype)


def best_ms(call) -> float:
    """The shortest of a few calls' durations."""
    durations = []
    for _ in range(CALLS):
        start = time.perf_counter()
        call()
        durations.append(time.perf_counter() - start)
    return 1000 * min(durations)


def where() -> str:
    """Where this thread's last operation ran."""
    run = Run()
    check(gpuvec.gpuvec_last_run(run, ctypes.sizeof(run)))
    ways = [name for bit, name in PATHS.items() if run.path & bit]
    return f"{BACKENDS[run.backend]} ({', '.join(ways)}; {run.chunks} chunks)"


def is_right(name: str, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> bool:
    """Compares with NumPy: sums exactly; the dot product, rounded once, with float64's to 1 ulp."""
    if name != "dot_product":
        return np.array_equal(out, a + b)
    exact = np.dot(a.astype(np.float64), b.astype(np.float64))
    return abs(float(out[0]) - exact) <= np.spacing(np.float32(abs(exact)))


def show(name: str, memory: str, make) -> None:
    """Runs an operation on arrays that `make` makes, and prints a line about it."""
    is_dot, dtype = name == "dot_product", np.int32 if name == "add_arrays" else np.float32
    a, b, out = make(N, dtype), make(N, dtype), make(1 if is_dot else N, dtype)
    random = np.random.default_rng(1)
    a[:], b[:] = (random.integers(-(2**31), 2**31, N).astype(np.int32) for _ in range(2))

    ours = best_ms(lambda: check(getattr(gpuvec, name)(a, b, out, N)))
    ran = where()
    if not is_right(name, a, b, out):
        sys.exit(f"gpuvec: {name} of {memory} arrays is wrong")
    numpys = best_ms(lambda: np.dot(a, b) if is_dot else np.add(a, b, out=out))
    print(f"{name:12} {memory:9} {ours:7.2f} ms   NumPy {numpys:7.2f} ms   {ran}")


def main() -> None:
    """Says what there is to compute on, then shows every operation with both kinds of memory."""
    check(gpuvec.gpuvec_init())
    why = gpuvec.gpuvec_why_cpu().decode()
    names = [gpuvec.gpuvec_device_name(i).decode() for i in range(gpuvec.gpuvec_device_count())]
    on = f"the CPU: {why}" if why else ", ".join(names)
    print(f"gpuvec {gpuvec.gpuvec_version().decode()} on {on}; {N:,} elements")
    for name in ("vector_add", "add_arrays", "dot_product"):
        show(name, "pageable", np.zeros)
        show(name, "pinned", pinned)


if __name__ == "__main__":
    main()
