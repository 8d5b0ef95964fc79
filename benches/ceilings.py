"""Measures the machine's limits with the driver and plain loops, without gpuvec."""

import time
from concurrent.futures import ThreadPoolExecutor
from ctypes import memmove
from functools import partial
from pathlib import Path
from statistics import median
from typing import Callable

import numpy as np
from compiled import Compiled
from device import DRIVER_ERRORS, ROOT, Device
from timing import Contender, measure

IMAGE = ROOT / "benches" / "ceilings.ptx"
EMPTY_IMAGE = ROOT / "benches" / "empty.ptx"
THREADS = 512

# Launches per synchronization, to hide the cost of a launch.
LAUNCHES = 10

# The figures of a timing that a ceiling shows.
EXTREMES = {"value": "median", "min": "min", "max": "max"}

Work = Callable[[], None]


def rates(amount: float, work: Work, rounds: int) -> list[float]:
    """Returns `amount` per second for each round, after a warm-up round."""
    work()
    figures = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        figures.append(amount / (time.perf_counter() - start))
    return figures


def figure(figures: list[float], unit: str, what: str) -> dict:
    """Makes a ceiling with its spread."""
    spread = {"value": median(figures), "min": min(figures), "max": max(figures)}
    return {**spread, "unit": unit, "what": what}


def of_cpu(size: int, rounds: int, cores: int) -> dict[str, dict]:
    """Measures memcpy on one core and on all cores, in GB/s copied."""
    source, to = np.ones(size, np.uint8), np.ones(size, np.uint8)

    def copy(first: int, last: int) -> None:
        memmove(to.ctypes.data + first, source.ctypes.data + first, last - first)

    ends = [size * part // cores for part in range(cores + 1)]
    with ThreadPoolExecutor(cores) as pool:
        one = rates(size / 1e9, lambda: copy(0, size), rounds)
        every = rates(size / 1e9, lambda: list(pool.map(copy, ends[:-1], ends[1:])), rounds)
    return {
        "memcpy_core": figure(one, "GB/s", "memcpy on one core, bytes copied"),
        "memcpy_cores": figure(every, "GB/s", f"memcpy on all {cores} cores, bytes copied"),
    }


class OfGpu:
    """One GPU's ceilings, on arrays of `size` bytes."""

    def __init__(self, device: Device, size: int, rounds: int) -> None:
        self.device, self.rounds = device, rounds
        self.n = size // 4
        self.size = self.n * 4
        self.streams = [device.new_stream() for _ in range(2)]
        self.host = [device.pinned(self.n, np.float32) for _ in range(3)]
        self.device_arrays = [device.memory(self.n, np.float32) for _ in range(3)]
        for array in self.host:
            array.fill(1)
        for array in self.device_arrays:
            device.copy(array.address, self.host[0].ctypes.data, self.size)
        device.synchronize(None)
        self.on_host = tuple(array.ctypes.data for array in self.host)
        self.on_device = tuple(array.address for array in self.device_arrays)

    def close(self) -> None:
        """Frees the memory."""
        for array in self.host:
            self.device.free_pinned(array)
        for array in self.device_arrays:
            self.device.free(array)

    def transfers(self, inwards: int, outwards: int) -> Work:
        """Makes work that copies `inwards` arrays in and, concurrently, `outwards` arrays out."""
        first, second = self.streams

        def work() -> None:
            for _ in range(inwards):
                self.device.copy(self.on_device[0], self.on_host[0], self.size, first)
            for _ in range(outwards):
                self.device.copy(self.on_host[1], self.on_device[1], self.size, second)
            self.device.synchronize(first, second)

        return work

    def launches(self, kernel, blocks: int, addresses: tuple, n: int, count: int) -> Work:
        """Makes work that launches a kernel `count` times on the first `n` elements."""

        def work() -> None:
            for _ in range(count):
                self.device.launch(kernel, (blocks, THREADS), addresses, n, self.streams[0])
            self.device.synchronize(self.streams[0])

        return work

    def seconds(self, work: Work, count: int = 1) -> list[float]:
        """Returns the seconds for one of the work's `count` parts, in each round."""
        return [1 / rate for rate in rates(count, work, self.rounds)]

    def transfer(self, inwards: int, outwards: int) -> list[float]:
        """Returns the seconds for such transfers."""
        return self.seconds(self.transfers(inwards, outwards))

    def kernel(self, image: Path, name: str, addresses: tuple, count: int) -> list[float]:
        """Returns the seconds for a launch over the arrays, with the fastest grid."""
        kernel = self.device.kernel(image, name)
        n = self.n // 2 if name.endswith("64") else self.n
        grids = sorted({16, 64, *(self.device.multiprocessors * wave for wave in (1, 4, 16))})
        works = [self.launches(kernel, blocks, addresses, n, count) for blocks in grids]
        return min((self.seconds(work, count) for work in works), key=median)

    def device_copy(self) -> list[float]:
        """Returns the seconds for a device-to-device copy, by the driver or a plain kernel."""

        def work() -> None:
            for _ in range(LAUNCHES):
                self.device.copy(*reversed(self.on_device[:2]), self.size, self.streams[0])
            self.device.synchronize(self.streams[0])

        of_driver = self.seconds(work, LAUNCHES)
        try:
            of_kernel = self.kernel(IMAGE, "plain_copy", self.on_device, LAUNCHES)
        except DRIVER_ERRORS:
            return of_driver
        return min(of_driver, of_kernel, key=median)


def of_gpu(device: Device, size: int, rounds: int) -> tuple[dict[str, dict], dict[str, str]]:
    """Returns the GPU's ceilings, and why others could not be measured."""
    gpu = OfGpu(device, size, rounds)
    gigabytes, giga_elements = gpu.size / 1e9, gpu.n / 1e9
    host, on_device = gpu.on_host, gpu.on_device
    # The sum stays on the device, so that only reads cross the bus.
    read = (*host[:2], on_device[2])
    table = {
        "to_device": ("GB/s", gigabytes, lambda: gpu.transfer(1, 0), "host to device, pinned"),
        "from_device": ("GB/s", gigabytes, lambda: gpu.transfer(0, 1), "device to host, pinned"),
        "both_ways": ("GB/s", gigabytes, lambda: gpu.transfer(1, 1), "both directions, each"),
        "two_in_one_out": (
            *("Gelements/s", giga_elements, lambda: gpu.transfer(2, 1)),
            "the transfers of an f32 add: two arrays in, one out, concurrently",
        ),
        "zero_copy_read": (
            *("GB/s", 2 * gigabytes, lambda: gpu.kernel(IMAGE, "fma_dot_f32", read, 1)),
            "kernel reading pinned memory",
        ),
        "zero_copy_add": (
            *("Gelements/s", giga_elements, lambda: gpu.kernel(IMAGE, "plain_add_f32", host, 1)),
            "kernel adding f32 in pinned memory",
        ),
        "device_copy": (
            *("GB/s", 2 * gigabytes, gpu.device_copy),
            "copy in device memory, bytes read and written",
        ),
        **{
            f"{name}_{dtype}": (
                *("GB/s", inputs * gigabytes),
                partial(gpu.kernel, IMAGE, f"{name}_{dtype}", on_device, LAUNCHES),
                f"plain {dtype} {what} in device memory, bytes read",
            )
            for name, inputs, what in (("fma_dot", 2, "fma loop"), ("plain_sum", 1, "sum"))
            for dtype in ("f32", "f64")
        },
    }
    measured, missing = {}, {}
    for name, (unit, amount, seconds, what) in table.items():
        try:
            measured[name] = figure([amount / second for second in seconds()], unit, what)
        except DRIVER_ERRORS as error:
            missing[name] = f"{what}: {error}"
    gpu.close()
    return measured, missing


def of_calls(
    compiled: Compiled, device: Device, seconds: float, rounds: int
) -> tuple[dict[str, dict], dict[str, str]]:
    """Returns the times of the driver's shortest calls from C, and why others were not measured."""
    opened = compiled.open(EMPTY_IMAGE, "empty", 4, False)
    pageable, pinned = np.ones(1000, np.float32), device.pinned(1000, np.float32)
    there = device.memory(1000, np.float32)
    table = {
        "launch_synchronize": (
            compiled.launch_batch(opened, None, 0),
            "empty launch and synchronize, from C",
        ),
        "synchronize_default": (
            compiled.synchronize_batch(opened),
            "synchronize the idle default stream",
        ),
    }
    addresses = {"pageable": pageable.ctypes.data, "pinned": pinned.ctypes.data}
    for kind, address in {**addresses, "device": there.address}.items():
        for count, what in {
            5: "five attributes",
            1: "one attribute",
            0: "one attribute, single query",
        }.items():
            name = f"query_{kind}_{count or 'alone'}"
            batch = compiled.query_batch(opened, address, count)
            table[name] = (batch, f"query of a {kind} pointer's memory kind: {what}")
    name, what = "launch_pinned_1000", "launch of an add of 1,000 floats in pinned memory"
    missing = {}
    try:
        add = compiled.open(IMAGE, "plain_add_f32", 4, False)
        batch = compiled.launch_batch(add, pinned.ctypes.data, pinned.size)
        table[name] = (batch, f"{what} and synchronize, from C")
    except RuntimeError as error:
        missing[name] = f"{what}: {error}"
    contenders = [Contender(name, batch) for name, (batch, _) in table.items()]
    results = measure(contenders, seconds, rounds)
    device.free_pinned(pinned)
    device.free(there)
    measured = {
        name: {
            **{key: seen[f"{of}_us"] for key, of in EXTREMES.items()},
            **{"unit": "µs", "what": table[name][1]},
        }
        for name, seen in results.items()
    }
    return measured, missing
