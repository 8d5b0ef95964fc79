"""Measures the kernels of expressions on device arrays, beside a copy.

make gpu-bundle                                  on a machine with Rust
CUDA_CACHE_DISABLE=1 python3 benches/expression_rates.py      on a GPU machine
"""

import argparse
import re
import sys
import time
from ctypes import byref, c_float, c_int, c_size_t, c_uint64, c_void_p
from pathlib import Path
from statistics import median

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "python_tests" / "support"))
from cuda_driver import DeviceArray, Driver
from expression_kernels import SCRATCH_BYTES, TYPES, Case, ExpressionKernel, blocks_of, cases

LOCAL_BYTES, REGISTERS = 3, 4
CALLS, ROUNDS = 10, 7


def used(image: bytes, inputs: int) -> list[int]:
    """Returns the inputs whose addresses a text loads."""
    return [i for i in range(inputs) if re.search(rb"\[a%d\]" % i, image)]


def milliseconds(driver: Driver, launch) -> float:
    """Returns the time of a launch, the median of some rounds."""
    events = [c_void_p(), c_void_p()]
    for event in events:
        driver.call("cuEventCreate", byref(event), 0)
    found = []
    for _ in range(ROUNDS + 1):
        driver.call("cuEventRecord", events[0], None)
        for _ in range(CALLS):
            launch()
        driver.call("cuEventRecord", events[1], None)
        driver.call("cuEventSynchronize", events[1])
        elapsed = c_float()
        driver.call("cuEventElapsedTime", byref(elapsed), *events)
        found.append(elapsed.value / CALLS)
    return median(found[1:])


def attribute(driver: Driver, kernel: ExpressionKernel, number: int) -> int:
    """Returns an attribute of a kernel."""
    value = c_int()
    driver.call("cuFuncGetAttribute", byref(value), number, kernel.function)
    return value.value


def multiprocessors(driver: Driver) -> int:
    """Returns the device's multiprocessors."""
    count = c_int()
    driver.call("cuDeviceGetAttribute", byref(count), 16, 0)
    return count.value


def main() -> None:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=lambda text: int(float(text)), default=1 << 29)
    size = parser.parse_args().bytes
    driver = Driver()
    driver.set_current(driver.context)
    # A float that is finite in both formats, between 1 and 2.
    arrays = [DeviceArray(driver, np.full(size // 4, 0x3FA03FA0, np.uint32)) for _ in range(5)]
    places = [array.address for array in arrays]
    scratch = DeviceArray(driver, np.zeros(SCRATCH_BYTES, np.uint8)).address

    to, source, count = c_uint64(places[1]), c_uint64(places[0]), c_size_t(size)
    taken = milliseconds(driver, lambda: driver.call("cuMemcpyAsync", to, source, count, None))
    copy = 2 * size / taken / 1e6
    print(f"driver's copy {copy:.0f} GB/s\n")
    print("kernel                load ms  regs  local      ms    GB/s of copy  Gelements/s")
    for case in cases():
        if case.name.startswith(("op_", "to_")):
            continue
        show(driver, case, places, scratch, size, copy)


def show(
    driver: Driver, case: Case, places: list[int], scratch: int, size: int, copy: float
) -> None:
    """Prints a kernel's line."""
    start = time.perf_counter()
    kernel = ExpressionKernel(driver, case.image())
    load = 1e3 * (time.perf_counter() - start)
    n = size // np.dtype(TYPES[case.inputs[0]]).itemsize
    moved = len(used(case.image(), len(case.inputs))) * size
    if case.is_reduction():
        # The blocks of src/cuda/grid.rs.
        parameters = [*places[:4], 0, n, 0, scratch, places[4], 0]
        blocks = min(n >> 12, 8 * multiprocessors(driver))
    else:
        moved += size
        parameters = [*places, n, 0]
        blocks = blocks_of(case, n)
    taken = milliseconds(driver, lambda: kernel.launch(parameters, blocks))
    rate = moved / taken / 1e6
    numbers = [attribute(driver, kernel, which) for which in (REGISTERS, LOCAL_BYTES)]
    print(
        f"{case.name:20} {load:8.2f} {numbers[0]:5} {numbers[1]:6} {taken:7.3f} {rate:7.0f} "
        f"{rate / copy:7.3f} {n / taken / 1e6:12.1f}",
        flush=True,
    )
    kernel.unload()


if __name__ == "__main__":
    main()
