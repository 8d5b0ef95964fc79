"""Threads that call everything at once for a while: every result is right, and nothing grows.

    tools/load.py [--seconds 120] [--threads 64]

Mixes operations, sizes from 1 to 4 million, kinds of memory, in-place calls, errors, allocations
and placements. Every result is compared bit by bit with NumPy's, computed beforehand. Resident
memory, threads, open files and free device memory are sampled; a quantity has grown if all of
its samples in the last third of the time after the warm-up (the first quarter) are above all of
those in the first third, by more than its margin. Exits 1 on a wrong bit or on growth.

Runs without a GPU, on the stand-in driver, and on a GPU. Takes some 3 GB of memory.
"""

import argparse
import ctypes
import os
import random
import sys
import threading
import time
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python_tests"))
from bindings import Backend, Place, Status, last_error, last_run, lib, pinned_empty, why_cpu
from cuda_driver import DeviceArray, Driver
from operations import OPERATIONS, Operation

SIZES = [1, 7, 1000, 4097, 65_536, 65_537, 300_001, 1_100_001, 4_000_000]
# Small calls are as frequent as in a program that mixes both.
WEIGHTS = [8, 8, 8, 8, 6, 6, 4, 2, 1]
MOST_ON_DEVICE = 300_001
GUARD_ELEMENTS = 16
GUARD = 0xA5A5A5A5
OFFSETS = [0, 1, 3]
KINDS = ["pageable", "pinned", "device"]

MIB = 1 << 20
MARGINS = {"resident bytes": 16 * MIB, "threads": 0, "files": 0, "device bytes": 4 * MIB}

libc = ctypes.CDLL(None)
libc.memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]


@dataclass
class Case:
    """An operation's inputs, in each kind of memory by address, and what should come out."""

    operation: Operation
    n: int
    inputs: list
    addresses: list
    expected: np.ndarray


class Gpu:
    """The driver as another library in the process uses it, for arrays in device memory."""

    def __init__(self) -> None:
        self.driver = Driver()
        self.enter()
        self.free_at_first = self.driver.free_bytes()
        self.is_stand_in = hasattr(self.driver.driver, "stand_in_faults")

    def enter(self) -> None:
        """Makes the primary context the calling thread's."""
        self.driver.set_current(self.driver.context)

    def copy_in(self, to: int, array: np.ndarray) -> None:
        """Copies an array to device memory."""
        source = ctypes.c_void_p(array.ctypes.data)
        size = ctypes.c_size_t(array.nbytes)
        self.driver.call("cuMemcpyHtoD_v2", ctypes.c_uint64(to), source, size)

    def copy_out(self, array: np.ndarray, source: int) -> None:
        """Copies device memory to an array."""
        to = ctypes.c_void_p(array.ctypes.data)
        size = ctypes.c_size_t(array.nbytes)
        self.driver.call("cuMemcpyDtoH_v2", to, ctypes.c_uint64(source), size)

    def taken_bytes(self) -> int:
        """Device memory that was free at first and is not now."""
        return self.free_at_first - self.driver.free_bytes()

    def forget_calls(self) -> None:
        """Empties the list of all calls that the stand-in driver keeps."""
        if self.is_stand_in:
            self.driver.driver.stand_in_faults(b"")

    def violation(self) -> str:
        """What the stand-in driver saw that no driver forgives; empty if there was nothing."""
        if not self.is_stand_in:
            return ""
        self.driver.driver.stand_in_violation.restype = ctypes.c_char_p
        return self.driver.driver.stand_in_violation().decode()


def made_cases(gpu: Optional[Gpu], keep: list) -> list:
    """Every operation at every size. Adds to `keep` what must stay alive."""
    cases = []
    for operation in OPERATIONS:
        for n in SIZES:
            inputs = operation.data(np.random.default_rng(n), n)
            addresses = []
            for values in inputs:
                pinned = pinned_empty(n, operation.dtype)
                pinned[:] = values
                by_kind = {"pageable": values.ctypes.data, "pinned": pinned.ctypes.data}
                keep.append(pinned)
                if gpu and n <= MOST_ON_DEVICE:
                    by_kind["device"] = DeviceArray(gpu.driver, values).address
                addresses.append(by_kind)
            cases.append(Case(operation, n, list(inputs), addresses, operation.oracle(*inputs)))
    return cases


class Worker(threading.Thread):
    """Calls until it is told to stop, or something is wrong."""

    def __init__(self, number: int, cases: list, gpu: Optional[Gpu], stop: threading.Event):
        super().__init__(name=f"load-{number}")
        self.chance = random.Random(number)
        self.cases, self.gpu, self.stop = cases, gpu, stop
        self.weights = [WEIGHTS[SIZES.index(case.n)] for case in cases]
        self.calls: Counter = Counter()
        self.bytes = 0
        self.wrong: list = []
        size = max(SIZES) + 2 * GUARD_ELEMENTS
        self.scratch = {
            "pageable": np.empty(size, np.uint32),
            "pinned": pinned_empty(size, np.uint32),
        }
        for array in self.scratch.values():
            array[:] = GUARD
        self.on_device = None
        if gpu:
            self.on_device = DeviceArray(gpu.driver, np.zeros(MOST_ON_DEVICE + 3, np.uint32))

    def run(self) -> None:
        """The thread's work."""
        if self.gpu:
            self.gpu.enter()
        try:
            while not self.stop.is_set() and not self.wrong:
                self.one_round()
        except BaseException as error:
            self.wrong.append(f"{type(error).__name__}: {error}")

    def one_round(self) -> None:
        """An operation; now and then an error and an allocation as well."""
        [case] = self.chance.choices(self.cases, self.weights)
        self.operate(case)
        if self.chance.random() < 0.02:
            self.expect(lib.vector_add(None, None, None, 3) == Status.ERROR_NULL, "no error")
        if self.chance.random() < 0.02:
            size = self.chance.randrange(1, MIB)
            address = lib.pinned_alloc(size)
            self.expect(bool(address), "pinned_alloc")
            ctypes.memset(address, 1, size)
            self.expect(lib.pinned_free(address) == Status.OK, "pinned_free")

    def operate(self, case: Case) -> None:
        """One call on arrays of random kinds; its result's bits."""
        pick = self.chance.choice
        kinds = [pick(list(addresses)) for addresses in case.addresses]
        addresses = [by_kind[kind] for by_kind, kind in zip(case.addresses, kinds)]
        to_device = self.on_device is not None and case.n <= MOST_ON_DEVICE and pick([0, 0, 1])
        kinds.append("device" if to_device else pick(["pageable", "pinned"]))
        start = pick(OFFSETS)
        in_place = pick([None, None, 0, 1])
        source = None if in_place is None else case.inputs[in_place]
        out = self.device_output(start, source) if to_device else None
        host = None if to_device else self.host_output(kinds[2], start, case, source)
        addresses.append(out if to_device else host.ctypes.data)
        if in_place is not None:
            addresses[in_place] = addresses[2]
        status = getattr(lib, case.operation.name)(*addresses, case.n)
        self.bytes += 4 * case.n * 3
        what = f"{case.operation} of {case.n}, {kinds}, in place {in_place}, offset {start}"
        if status == Status.ERROR_PLACEMENT and "device" in kinds:
            self.calls["out of reach"] += 1
            return
        self.expect(status == Status.OK, f"{what}: status {status}, {last_error()}")
        self.calls[Backend(last_run().backend).name] += 1
        if to_device:
            host = np.empty_like(case.expected)
            self.gpu.copy_out(host, out)
        expected = case.expected
        same = libc.memcmp(host.ctypes.data, expected.ctypes.data, expected.nbytes) == 0
        self.expect(same, f"{what}: wrong bits")
        if not to_device:
            self.expect(self.guards_are_intact(kinds[2], start, case, in_place), f"{what}: guards")

    def device_output(self, start: int, source: Optional[np.ndarray]) -> int:
        """An address in this thread's device memory, where `source` is, if there is one."""
        address = self.on_device.address + 4 * start
        if source is not None:
            self.gpu.copy_in(address, source)
        return address

    def host_output(self, kind: str, start: int, case: Case, source) -> np.ndarray:
        """Part of this thread's scratch memory, with `source` in it, between guards."""
        scratch = self.scratch[kind]
        first = GUARD_ELEMENTS + start
        size = case.expected.size if source is None else case.n
        scratch[first - GUARD_ELEMENTS : first] = GUARD
        scratch[first + size : first + size + GUARD_ELEMENTS] = GUARD
        out = scratch[first : first + size].view(case.operation.dtype)
        if source is not None:
            out[:] = source
        return out

    def guards_are_intact(self, kind: str, start: int, case: Case, in_place) -> bool:
        """Whether nothing around the output was written."""
        scratch = self.scratch[kind]
        first = GUARD_ELEMENTS + start
        size = case.expected.size if in_place is None else case.n
        below = scratch[first - GUARD_ELEMENTS : first]
        above = scratch[first + size : first + size + GUARD_ELEMENTS]
        return bool((below == GUARD).all() and (above == GUARD).all())

    def expect(self, holds: bool, what: str) -> None:
        """Notes what is wrong."""
        if not holds:
            self.wrong.append(what)


def sample(gpu: Optional[Gpu]) -> dict:
    """What may not grow."""
    with open("/proc/self/status") as file:
        [resident] = [int(line.split()[1]) for line in file if line.startswith("VmRSS:")]
    found = {
        "resident bytes": resident * 1024,
        "threads": len(os.listdir("/proc/self/task")),
        "files": len(os.listdir("/proc/self/fd")),
    }
    if gpu:
        found["device bytes"] = gpu.taken_bytes()
    return found


def growth(values: list) -> int:
    """By how much all of the last third is above all of the first third after the warm-up."""
    warm = values[len(values) // 4 :]
    third = max(len(warm) // 3, 1)
    return min(warm[-third:]) - max(warm[:third])


def watch(workers: list, gpu: Optional[Gpu], seconds: float, stop: threading.Event) -> list:
    """Samples while the workers work, and changes the placement with every sample."""
    samples = []
    places = [Place.AUTO, Place.GPU, Place.CPU] if gpu else [Place.AUTO, Place.CPU]
    end = time.monotonic() + seconds
    while time.monotonic() < end and not any(worker.wrong for worker in workers):
        lib.gpuvec_set_placement(places[len(samples) % len(places)])
        stop.wait(max(seconds / 60, 0.25))
        samples.append(sample(gpu))
        if gpu:
            gpu.forget_calls()
    stop.set()
    for worker in workers:
        worker.join()
    return samples


def checksum(cases: list) -> int:
    """Of all inputs."""
    return zlib.crc32(repr([zlib.crc32(x) for case in cases for x in case.inputs]).encode())


def main() -> None:
    """Runs the load and reports."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--threads", type=int, default=64)
    options = parser.parse_args()
    gpu = Gpu() if lib.gpuvec_device_count() > 0 else None
    print(f"{lib.gpuvec_device_name(0).decode() if gpu else why_cpu()}", flush=True)
    keep: list = []
    cases = made_cases(gpu, keep)
    before = checksum(cases)
    stop = threading.Event()
    workers = [Worker(number, cases, gpu, stop) for number in range(options.threads)]
    for worker in workers:
        worker.start()
    samples = watch(workers, gpu, options.seconds, stop)
    calls = sum((worker.calls for worker in workers), Counter())
    wrong = [what for worker in workers for what in worker.wrong]
    if checksum(cases) != before:
        wrong.append("an input was changed")
    if gpu and gpu.violation():
        wrong.append(gpu.violation())
    print(f"{sum(calls.values())} calls: {dict(calls)}")
    print(f"{sum(worker.bytes for worker in workers) / 1e9:.1f} GB in arrays")
    print(f"{len(wrong)} wrong: {wrong[:5]}")
    grown = []
    for name in samples[0]:
        values = [one[name] for one in samples]
        by = growth(values)
        if by > MARGINS[name]:
            grown.append(name)
        ends = f"first {values[0]}, last {values[-1]}, most {max(values)}"
        print(f"{name}: {ends}; grew by {max(by, 0)}, margin {MARGINS[name]}")
    print("all right" if not wrong and not grown else f"NOT right; grew: {grown}")
    sys.exit(1 if wrong or grown else 0)


if __name__ == "__main__":
    main()
