"""Times a process's first call, in new processes, with an empty and a warm driver cache.

python3 benches/fresh.py bare|load|init|add LIBRARY      prints the seconds of one measurement
"""

import ctypes
import os
import subprocess
import sys
import tempfile
import time

WHAT = {
    "load": "dlopen of the library",
    "bare": "dlopen of the driver, cuInit, primary context",
    "init": "dlopen of the library, gpuvec_init",
    "add": "dlopen of the library, vector_add of 1,000 elements on the GPU",
}


def seconds_of(what: str, library: str) -> float:
    """Runs the measurement in this process."""
    floats = ctypes.c_float * 1000
    arrays = [floats(), floats(), floats()]
    start = time.perf_counter()
    if what == "bare":
        driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
        code = driver.cuInit(0) or driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    else:
        gpuvec, code = ctypes.CDLL(library), 0
        if what == "init":
            code = gpuvec.gpuvec_init()
        if what == "add":
            code = gpuvec.gpuvec_set_placement(1) or gpuvec.vector_add(
                *arrays, ctypes.c_size_t(1000)
            )
    seconds = time.perf_counter() - start
    if code != 0:
        sys.exit(f"{what} returned {code}")
    return seconds


def new_process(what: str, library: str, cache: str) -> float:
    """Runs it in a new process whose driver caches compiled kernels in `cache`."""
    command = [sys.executable, "-S", __file__, what, library]
    environment = {**os.environ, "CUDA_CACHE_PATH": cache, "CUDA_CACHE_DISABLE": "0"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return float(done.stdout)


def first_calls(library: str, has_gpu: bool, repetitions: int) -> dict[str, list[float]]:
    """Returns the milliseconds of each repetition, by measurement and cache."""
    kinds = list(WHAT) if has_gpu else ["load", "init"]
    seen: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as warm:
        if has_gpu:
            new_process("add", library, warm)
        for _ in range(repetitions):
            for what in kinds:
                with tempfile.TemporaryDirectory() as empty:
                    for name, cache in (("empty", empty), ("warm", warm)):
                        ms = 1000 * new_process(what, library, cache)
                        seen.setdefault(f"{what}, {name} cache", []).append(ms)
    return seen


if __name__ == "__main__":
    print(seconds_of(*sys.argv[1:]))
