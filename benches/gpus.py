"""Measures all visible GPUs concurrently, each from its own thread, and gpuvec on all of them."""

import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from threading import Barrier

from bindings import lib
from cases import Arrays
from ceilings import IMAGE, OfGpu, Work
from compiled import Compiled
from device import Device
from gpuvec_calls import Gpuvec, placements, ran
from points import check
from timing import measure

N = 100_000_000

# Repetitions of a GPU's work in a round, so that all GPUs are busy most of the time.
REPETITIONS = 4
# Blocks per multiprocessor.
WAVES = 4


def works(gpu: OfGpu) -> dict[str, tuple[Work, float, str]]:
    """Returns a GPU's work items, with their amounts and units."""
    gpu.device.set_current(gpu.device.context)
    kernel = gpu.device.kernel(IMAGE, "plain_add_f32")
    blocks = WAVES * gpu.device.multiprocessors
    bytes_, elements = (gpu.size / 1e9, "GB/s"), (gpu.n / 1e9, "Gelements/s")
    return {
        "host to device": (gpu.transfers(1, 0), *bytes_),
        "device to host": (gpu.transfers(0, 1), *bytes_),
        "both ways, each": (gpu.transfers(1, 1), *bytes_),
        "two in, one out": (gpu.transfers(2, 1), *elements),
        "zero-copy add f32": (gpu.launches(kernel, blocks, gpu.on_host, gpu.n, 1), *elements),
    }


def in_parallel(pool: ThreadPoolExecutor, gpus: list[OfGpu], todo: list[Work], rounds: int) -> list:
    """Returns the seconds from the first start to the last end, per round after a warm-up."""
    begin = Barrier(len(gpus))

    def one(gpu: OfGpu, work: Work) -> tuple[float, float]:
        gpu.device.set_current(gpu.device.context)
        begin.wait()
        start = time.perf_counter()
        for _ in range(REPETITIONS):
            work()
        return start, time.perf_counter()

    seconds = []
    for _ in range(rounds + 1):
        times = list(pool.map(one, gpus, todo))
        seconds.append(max(end for _, end in times) - min(start for start, _ in times))
    return seconds[1:]


def aggregate(count: int, size: int, rounds: int) -> list[dict]:
    """Measures the ceilings of 1, 2, 4, … and all GPUs."""
    gpus = [OfGpu(Device(index), size, rounds) for index in range(count)]
    tables = [works(gpu) for gpu in gpus]
    some = sorted({1 << power for power in range(count.bit_length())} | {count})
    rows = []
    with ThreadPoolExecutor(count) as pool:
        for used in some:
            for name, (_, amount, unit) in tables[0].items():
                todo = [table[name][0] for table in tables[:used]]
                seconds = in_parallel(pool, gpus[:used], todo, rounds)
                rates = [used * REPETITIONS * amount / second for second in seconds]
                row = {"GPUs": used, "what": name, "figure": median(rates), "unit": unit}
                rows.append({**row, "min": min(rates), "max": max(rates)})
    for gpu in gpus:
        gpu.device.set_current(gpu.device.context)
        gpu.close()
    return rows


def of_gpuvec(compiled: Compiled, count: int, seconds: float, rounds: int) -> list[dict]:
    """Measures gpuvec's calls on host arrays, in elements per second."""
    rows, device = [], Device()
    for kind in ("pinned", "pageable"):
        arrays = Arrays("f32", kind, N, device)
        for op in ("add", "dot"):
            case = arrays.case(op, N)
            ours = [Gpuvec(case, place) for place in placements(case, True)]
            devices = []
            for gpuvec in ours:
                check(gpuvec.case, gpuvec.once)
                devices.append(bin(ran()["devices"]).count("1"))
            results = measure([gpuvec.from_c(compiled) for gpuvec in ours], seconds, rounds)
            for gpuvec, used in zip(ours, devices):
                seen = results[gpuvec.name]
                rate = {name: N / 1e3 / seen[f"{name}_us"] for name in ("median", "min", "max")}
                what = f"{gpuvec.name}, {kind} {op} f32 n = {N:,}"
                row = {"GPUs": used, "what": what, "figure": rate["median"]}
                spread = {"min": rate["max"], "max": rate["min"]}
                rows.append({**row, "unit": "Gelements/s", **spread})
        arrays.close()
    return rows


def gpus(compiled: Compiled, count: int, size: int, seconds: float, rounds: int) -> list[dict]:
    """Returns all rows: the ceilings, then gpuvec."""
    rows = aggregate(count, size, rounds)
    lib.gpuvec_init()
    return rows + of_gpuvec(compiled, count, seconds, rounds)
