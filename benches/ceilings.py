"""Measures the machine's limits with the driver and plain loops, without gpuvec.

Finds the ceiling that bounds a case, and the time that the case would take at it.
"""

from argparse import Namespace
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from ctypes import memmove
from functools import partial
from statistics import median
from typing import NamedTuple, Optional

import numpy as np
from calls import Loops
from cases import DTYPES, case_of, formula
from device import DRIVER_ERRORS, Device, count, device_if_any, image
from harness import Call, Contender, Row, cores, measure, rates

THREADS = 512
# Launches per synchronization, to hide the cost of a launch.
LAUNCHES = 10
# Repetitions of a GPU's work in a round, so that all GPUs are busy most of the time; the blocks per
# multiprocessor of its kernel.
REPETITIONS, WAVES = 4, 4
# Below this total size arrays may stay in the cores' caches, and memcpy's rate is not a bound.
BEYOND_CACHES = 512 << 20


class Bound(NamedTuple):
    """The minimum time of a case in microseconds, and the ceiling's name."""

    us: float
    why: str


def value(ceilings: list[Row], name: str) -> Optional[float]:
    """Returns a ceiling's figure; None if it was not measured."""
    return next((row["value"] for row in ceilings if row["name"] == name), None)


def bound(row: Row, on_gpu: bool, ceilings: list[Row]) -> Optional[Bound]:
    """Returns the bound of a row's case, if its ceiling was measured."""
    case = case_of(row)
    text, size = formula(case.call), case.n * np.dtype(DTYPES[case.dtype]).itemsize
    reads = len(text.inputs)
    moved = (reads + (not text.is_reduction())) * size
    if not on_gpu:
        # memcpy moves each byte twice.
        rate = value(ceilings, "memcpy_cores")
        is_bounded = rate and moved >= BEYOND_CACHES
        return Bound(moved / (2 * rate) / 1e3, "memcpy_cores") if is_bounded else None
    if case.kind == "device":
        loop = f"fma_dot_{case.dtype}" if reads == 2 else f"plain_sum_{case.dtype}"
        name = loop if text.is_reduction() else "device_copy"
    elif text.is_reduction() or reads > 2:
        name, moved = "to_device", reads * size
    else:
        name, moved = ("two_in_one_out", size / 4) if reads == 2 else ("both_ways", size)
    rate, launch = value(ceilings, name), value(ceilings, "launch_synchronize")
    if not rate or not launch:
        return None
    return max(Bound(moved / rate / 1e3, name), Bound(launch, "launch_synchronize"))


def figure(name: str, figures: list[float], unit: str, what: str) -> Row:
    """Makes a ceiling with its spread."""
    extremes = {"value": median(figures), "min": min(figures), "max": max(figures)}
    return {"name": name, **extremes, "unit": unit, "what": what}


def of_cpu(size: int, rounds: int) -> Iterator[Row]:
    """Measures memcpy on one core and on all cores, in GB/s copied."""
    source, to = np.ones(size, np.uint8), np.ones(size, np.uint8)

    def copy(first: int, last: int) -> None:
        memmove(to.ctypes.data + first, source.ctypes.data + first, last - first)

    ends = [size * part // cores() for part in range(cores() + 1)]
    with ThreadPoolExecutor(cores()) as pool:
        one = rates(size / 1e9, lambda: copy(0, size), rounds)
        every = rates(size / 1e9, lambda: list(pool.map(copy, ends[:-1], ends[1:])), rounds)
    yield figure("memcpy_core", one, "GB/s", "memcpy on one core, bytes copied")
    what = f"memcpy on all {cores()} cores, bytes copied"
    yield figure("memcpy_cores", every, "GB/s", what)


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

    def transfers(self, inwards: int, outwards: int) -> Call:
        """Makes work that copies `inwards` arrays in and, concurrently, `outwards` arrays out."""
        first, second = self.streams

        def work() -> None:
            for _ in range(inwards):
                self.device.copy(self.on_device[0], self.on_host[0], self.size, first)
            for _ in range(outwards):
                self.device.copy(self.on_host[1], self.on_device[1], self.size, second)
            self.device.synchronize(first, second)

        return work

    def launches(self, kernel, blocks: int, addresses: tuple, n: int, count: int) -> Call:
        """Makes work that launches a kernel `count` times on the first `n` elements."""

        def work() -> None:
            for _ in range(count):
                self.device.launch(kernel, (blocks, THREADS), addresses, n, self.streams[0])
            self.device.synchronize(self.streams[0])

        return work

    def seconds(self, work: Call, count: int = 1) -> list[float]:
        """Returns the seconds for one of the work's `count` parts, in each round."""
        return [1 / rate for rate in rates(count, work, self.rounds)]

    def kernel(self, name: str, addresses: tuple, count: int) -> list[float]:
        """Returns the seconds for a launch over the arrays, with the fastest grid."""
        kernel = self.device.kernel(name)
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
            of_kernel = self.kernel("plain_copy", self.on_device, LAUNCHES)
        except DRIVER_ERRORS:
            return of_driver
        return min(of_driver, of_kernel, key=median)


def of_gpu(device: Device, size: int, rounds: int) -> Iterator[Row]:
    """Measures the GPU's ceilings, and tells why others could not be measured."""
    gpu = OfGpu(device, size, rounds)
    gigabytes, giga_elements = gpu.size / 1e9, gpu.n / 1e9
    host, on_device = gpu.on_host, gpu.on_device
    transfer = lambda *ways: partial(gpu.seconds, gpu.transfers(*ways))  # noqa: E731
    # The sum stays on the device, so that only reads cross the bus.
    read = (*host[:2], on_device[2])
    table = {
        "to_device": ("GB/s", gigabytes, transfer(1, 0), "host to device, pinned"),
        "from_device": ("GB/s", gigabytes, transfer(0, 1), "device to host, pinned"),
        "both_ways": ("GB/s", gigabytes, transfer(1, 1), "both directions, each"),
        "two_in_one_out": (
            *("Gelements/s", giga_elements, transfer(2, 1)),
            "the transfers of an f32 add: two arrays in, one out, concurrently",
        ),
        "zero_copy_read": (
            *("GB/s", 2 * gigabytes, partial(gpu.kernel, "fma_dot_f32", read, 1)),
            "kernel reading pinned memory",
        ),
        "zero_copy_add": (
            *("Gelements/s", giga_elements, partial(gpu.kernel, "plain_add_f32", host, 1)),
            "kernel adding f32 in pinned memory",
        ),
        "device_copy": (
            *("GB/s", 2 * gigabytes, gpu.device_copy),
            "copy in device memory, bytes read and written",
        ),
        **{
            f"{name}_{dtype}": (
                *("GB/s", inputs * gigabytes),
                partial(gpu.kernel, f"{name}_{dtype}", on_device, LAUNCHES),
                f"plain {dtype} {what} in device memory, bytes read",
            )
            for name, inputs, what in (("fma_dot", 2, "fma loop"), ("plain_sum", 1, "sum"))
            for dtype in ("f32", "f64")
        },
    }
    for name, (unit, amount, seconds, what) in table.items():
        try:
            yield figure(name, [amount / second for second in seconds()], unit, what)
        except DRIVER_ERRORS as error:
            yield {"missing": {name: f"{what}: {error}"}}
    gpu.close()


def of_calls(device: Device, seconds: float, rounds: int) -> Iterator[Row]:
    """Measures the driver's shortest calls from C."""
    loops = Loops()
    pageable, pinned = np.ones(1000, np.float32), device.pinned(1000, np.float32)
    there = device.memory(1000, np.float32)
    addresses = {"pageable": pageable.ctypes.data, "pinned": pinned.ctypes.data}
    queries = {5: "five attributes", 1: "one attribute", 0: "one attribute, single query"}
    try:
        empty, add = (loops.open(image(), name, 4, False) for name in ("empty", "plain_add_f32"))
    except DRIVER_ERRORS as error:
        yield {"missing": {"launch_synchronize": str(error)}}
        return
    launch, none, of_pinned = loops.built.launch_call, (None, None, None), addresses["pinned"]
    table = {
        "launch_synchronize": (
            *("empty launch and synchronize, from C", launch),
            *(*none, 0, empty),
        ),
        "synchronize_default": (
            *("synchronize the idle default stream", loops.built.synchronize_call),
            *(*none, 0, empty),
        ),
        "launch_pinned_1000": (
            "launch of an add of 1,000 floats in pinned memory and synchronize, from C",
            *(launch, of_pinned, of_pinned, of_pinned, 1000, add),
        ),
        **{
            f"query_{kind}_{count or 'alone'}": (
                f"query of a {kind} pointer's memory kind: {what}",
                *(loops.built.query_call, address, None, None, count, empty),
            )
            for kind, address in {**addresses, "device": there.address}.items()
            for count, what in queries.items()
        },
    }
    contenders = [Contender(name, loops.calls(*call)) for name, (_, *call) in table.items()]
    found = measure(contenders, seconds, rounds)
    device.free_pinned(pinned)
    device.free(there)
    for name, (what, *_) in table.items():
        yield figure(name, sorted([found["us"][name], *found["spread"][name]]), "µs", what)


def run(given: Namespace) -> Iterator[Row]:
    """The machine's limits: transfers, launches and memory, without gpuvec."""
    size, device = int(given.bytes), device_if_any()
    yield from of_cpu(size, given.rounds)
    if device:
        # Room for three arrays and for other processes.
        size = min(size, device.free_bytes() // 4)
        yield from of_gpu(device, size, given.rounds)
        yield from of_calls(device, given.seconds, given.rounds)


def works_of(gpu: OfGpu) -> dict[str, tuple[Call, float, str]]:
    """Returns a GPU's work items, with their amounts and units."""
    gpu.device.enter()
    kernel, blocks = gpu.device.kernel("plain_add_f32"), WAVES * gpu.device.multiprocessors
    bytes_, elements = (gpu.size / 1e9, "GB/s"), (gpu.n / 1e9, "Gelements/s")
    return {
        "host to device": (gpu.transfers(1, 0), *bytes_),
        "device to host": (gpu.transfers(0, 1), *bytes_),
        "both ways, each": (gpu.transfers(1, 1), *bytes_),
        "two in, one out": (gpu.transfers(2, 1), *elements),
        "zero-copy add f32": (gpu.launches(kernel, blocks, gpu.on_host, gpu.n, 1), *elements),
    }


def repeated(gpu: OfGpu, work: Call) -> None:
    """Does a GPU's work several times, in any thread."""
    gpu.device.enter()
    for _ in range(REPETITIONS):
        work()


def gpus(given: Namespace) -> Iterator[Row]:
    """Measures the ceilings of 1, 2, 4, … and all GPUs concurrently."""
    number = count()
    all_gpus = [OfGpu(Device(index), int(given.bytes), given.rounds) for index in range(number)]
    tables = [works_of(gpu) for gpu in all_gpus]
    with ThreadPoolExecutor(number) as pool:
        for used in sorted({1 << power for power in range(number.bit_length())} | {number}):
            for name, (_, amount, unit) in tables[0].items():
                todo = [(gpu, table[name][0]) for gpu, table in zip(all_gpus[:used], tables)]
                work = lambda todo=todo: [*pool.map(repeated, *zip(*todo))]  # noqa: E731
                figures = rates(used * REPETITIONS * amount, work, given.rounds)
                yield {"GPUs": used, **figure(name, figures, unit, f"{name}, all at once")}
    for gpu in all_gpus:
        gpu.device.enter()
        gpu.close()
