"""Runs many threads of mixed calls for a while, and checks every result and all resources.

    tools/load.py [--seconds 120] [--threads 64]

Mixes operations, sizes from 1 to 2 million, kinds of memory, in-place calls, errors, allocations,
placements, streams, events and registered memory (load_streams.py), and expressions
(load_expressions.py). Compares every result bit by
bit with a precomputed one from NumPy.

Samples resident memory, threads, open files, free device memory, and the fake driver's counters. A
quantity has grown if all its samples in the last third of the time after the warm-up (the first
quarter) exceed all samples of the first third by more than its margin. Frees everything at the end.
Exits 1 on a wrong bit or on growth.

Runs without a GPU, on the fake driver, and on a GPU. Takes some 6 GB of memory.
"""

import argparse
import ctypes
import os
import random
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Optional

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python_tests/support"))
from arrays import call_at
from bindings import Backend, Place, Status, last_error, last_run, lib, pinned_empty, why_cpu
from cuda_driver import DeviceArray
from load_cases import MOST_BYTES, MOST_ON_DEVICE, OFFSETS, Case, Cases, Gpu
from load_expressions import ExpressionWork, SharedExpressions
from load_streams import Shared, StreamWork
from progress import progress
from streams import Resources, ok

GUARD_BYTES = 64
GUARD = 0xA5

MIB = 1 << 20
# Counts that are not listed must not grow at all.
MARGINS = {"resident bytes": 16 * MIB, "device bytes": 4 * MIB}


class Calls:
    """A thread's calls without streams, on arrays of random memory kinds."""

    def __init__(self, number: int, cases: Cases, gpu: Optional[Gpu]) -> None:
        self.chance = random.Random(number)
        self.cases, self.gpu = cases, gpu
        self.bytes = 0
        size = MOST_BYTES + 8 * max(OFFSETS) + 2 * GUARD_BYTES
        self.scratch = {
            "pageable": np.empty(size, np.uint8),
            "pinned": pinned_empty(size, np.uint8),
        }
        for array in self.scratch.values():
            array[:] = GUARD
        self.on_device = None
        if gpu:
            self.on_device = DeviceArray(gpu.driver, np.zeros(MOST_ON_DEVICE + 3, np.uint64))

    def round(self) -> str:
        """Makes a call, sometimes with an error and an allocation; returns where the call ran."""
        case = Cases.any_of(self.cases.all, self.chance)
        if self.chance.random() < 0.02:
            assert lib.vector_add(None, None, None, 3) == Status.ERROR_NULL
        if self.chance.random() < 0.02:
            size = self.chance.randrange(1, MIB)
            address = lib.pinned_alloc(size)
            assert address, last_error()
            ctypes.memset(address, 1, size)
            ok(lib.pinned_free(address))
        return self.operate(case)

    def operate(self, case: Case) -> str:
        """Makes one call; fails unless its result has the right bits; returns where it ran."""
        pick = self.chance.choice
        kinds = [pick(list(addresses)) for addresses in case.addresses]
        addresses = [by_kind[kind] for by_kind, kind in zip(case.addresses, kinds)]
        to_device = self.on_device is not None and case.n <= MOST_ON_DEVICE and pick([0, 0, 1])
        kinds.append("device" if to_device else pick(list(self.scratch)))
        start = pick(OFFSETS) * case.expected.itemsize
        inputs = range(case.operation.shape.arity if case.operation.may_be_in_place else 0)
        in_place = pick([None, None, *inputs])
        before = case.expected[:0] if in_place is None else case.inputs[in_place]
        if to_device:
            out = self.device_output(start, before)
        else:
            out = self.host_output(kinds[2], start, case, before)
        if in_place is not None:
            addresses[in_place] = out
        status = call_at(case.operation, *addresses, out, case.n)
        self.bytes += case.expected.nbytes + sum(values.nbytes for values in case.inputs)
        what = f"{case.operation} of {case.n}, {kinds}, in place {in_place}, {start} bytes on"
        if status == Status.ERROR_PLACEMENT and "device" in kinds:
            return "out of reach"
        assert status == Status.OK, f"{what}: status {status}, {last_error()}"
        ran = Backend(last_run().backend).name
        if to_device:
            host = np.empty_like(case.expected)
            self.gpu.copy_out(host, out)
            out = host.ctypes.data
        else:
            assert self.guards_are_intact(kinds[2], start, case, before), f"{what}: guards"
        assert case.is_right(out), f"{what}: wrong bits"
        return ran

    def device_output(self, start: int, before: np.ndarray) -> int:
        """Returns an address in this thread's device memory, to which `before` is copied."""
        address = self.on_device.address + start
        self.gpu.copy_in(address, before)
        return address

    def host_output(self, kind: str, start: int, case: Case, before: np.ndarray) -> int:
        """Returns an address between guards in this thread's scratch memory, holding `before`."""
        scratch, first, end = self.output_in(kind, start, case, before)
        scratch[first - GUARD_BYTES : first] = GUARD
        scratch[end : end + GUARD_BYTES] = GUARD
        scratch[first : first + before.nbytes] = before.view(np.uint8)
        return scratch.ctypes.data + first

    def guards_are_intact(self, kind: str, start: int, case: Case, before: np.ndarray) -> bool:
        """Returns whether nothing around the output was written."""
        scratch, first, end = self.output_in(kind, start, case, before)
        around = scratch[first - GUARD_BYTES : first], scratch[end : end + GUARD_BYTES]
        return all((part == GUARD).all() for part in around)

    def output_in(self, kind: str, start: int, case: Case, before: np.ndarray) -> tuple:
        """Returns the scratch memory, and the beginning and the end of the output there."""
        first = GUARD_BYTES + start
        return self.scratch[kind], first, first + max(case.expected.nbytes, before.nbytes)


class Worker(threading.Thread):
    """Works until `stop` is set, or something is wrong."""

    def __init__(self, number: int, works: list, gpu: Optional[Gpu], stop: threading.Event):
        super().__init__(name=f"load-{number}")
        self.chance = random.Random(number)
        self.works, self.gpu, self.stop = works, gpu, stop
        self.rounds: Counter = Counter()
        self.wrong = ""

    @property
    def bytes(self) -> int:
        """Returns the bytes of all arrays so far."""
        return sum(work.bytes for work in self.works)

    def run(self) -> None:
        """Does rounds of work."""
        if self.gpu:
            self.gpu.enter()
        try:
            while not self.stop.is_set():
                self.rounds[self.chance.choice(self.works).round()] += 1
        except BaseException as error:
            self.wrong = f"{type(error).__name__}: {error}"


def sample(gpu: Optional[Gpu]) -> dict[str, int]:
    """Returns the counts that must not grow."""
    with open("/proc/self/status") as file:
        [resident] = [int(line.split()[1]) for line in file if line.startswith("VmRSS:")]
    return {
        "resident bytes": resident * 1024,
        "threads": len(os.listdir("/proc/self/task")),
        "files": len(os.listdir("/proc/self/fd")),
        **(gpu.holdings() if gpu else {}),
    }


def growth(values: list) -> int:
    """Returns the distance between the first third's maximum and the last third's minimum."""
    warm = values[len(values) // 4 :]
    third = max(len(warm) // 3, 1)
    return min(warm[-third:]) - max(warm[:third])


def watch(workers: list, gpu: Optional[Gpu], seconds: float, stop: threading.Event) -> list:
    """Samples while the workers work, and changes the placement with every sample."""
    samples = []
    places = list(Place) if gpu else [Place.AUTO, Place.CPU]
    end, pause = time.monotonic() + seconds, max(seconds / 60, 0.25)
    with progress(what=f"{len(workers)} threads", total=seconds, unit="s") as shown:
        while time.monotonic() < end and not any(worker.wrong for worker in workers):
            lib.gpuvec_set_placement(places[len(samples) % len(places)])
            stop.wait(pause)
            samples.append(sample(gpu))
            shown.update(pause)
            if gpu:
                gpu.forget_calls()
    stop.set()
    for worker in workers:
        worker.join()
    lib.gpuvec_set_placement(Place.AUTO)
    return samples


def report(workers: list, wrong: list, samples: list) -> bool:
    """Prints the work and the findings; returns whether everything is right."""
    rounds = sum((worker.rounds for worker in workers), Counter())
    print(f"{sum(rounds.values()):,} rounds: {dict(rounds)}")
    print(f"{sum(worker.bytes for worker in workers) / 1e9:.1f} GB in arrays")
    print(f"{len(wrong)} wrong: {wrong[:5]}")
    grown = []
    for name in samples[0]:
        values = [one[name] for one in samples]
        by, margin = growth(values), MARGINS.get(name, 0)
        if by > margin:
            grown.append(name)
        ends = f"first {values[0]}, last {values[-1]}, most {max(values)}"
        print(f"{name}: {ends}; grew by {max(by, 0)}, margin {margin}")
    print("passed" if not wrong and not grown else f"FAILED; grew: {grown}")
    return not wrong and not grown


def main() -> None:
    """Runs the load and reports."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--threads", type=int, default=64)
    options = parser.parse_args()
    gpu = Gpu() if lib.gpuvec_device_count() > 0 else None
    print(f"{lib.gpuvec_device_name(0).decode() if gpu else why_cpu()}", flush=True)
    cases = Cases(gpu)
    before = cases.checksum()
    stop = threading.Event()
    with Resources() as resources:
        shared = Shared(resources, cases, options.threads)
        expressions = SharedExpressions()
        workers = []
        for number in range(options.threads):
            works = [
                Calls(number, cases, gpu),
                StreamWork(resources, shared, number),
                ExpressionWork(expressions, number),
            ]
            workers.append(Worker(number, works, gpu, stop))
        for worker in workers:
            worker.start()
        samples = watch(workers, gpu, options.seconds, stop)
        wrong = [worker.wrong for worker in workers if worker.wrong]
    if cases.checksum() != before:
        wrong.append("an input was changed")
    if gpu and gpu.violation():
        wrong.append(gpu.violation())
    sys.exit(0 if report(workers, wrong, samples) else 1)


if __name__ == "__main__":
    main()
