"""Many threads make random calls of every kind for a while, and check every result.

    tools/stress.py load [--seconds 120] [--threads 64]
    tools/stress.py faults [--seconds 600] [--seed 1] [--rounds N] [--codes CODE...]

`load` runs without a GPU, on the fake driver and on a GPU, where it takes some 6 GB of memory. No
call may fail. The placement changes all the time. Samples resident memory, threads, open files,
free device memory, and the fake driver's counters: a quantity has grown if all its samples in the
last third of the time after the warm-up (the first quarter) exceed all samples of the first third
by more than its margin. Exits 1 on a wrong bit or on growth.

`faults` runs on the fake driver, of whose calls one in a hundred fails, in rounds of about ten
seconds, each in a process and with a seed of its own. Every outcome is the right bits or a status
that docs/contributing/faults.md allows; never a wrong bit under GPUVEC_OK, a hang or a crash. In
rounds with an odd seed the driver's codes do not lose a device: when the faults end, all work runs
on the GPU again, everything can be released, and the process holds no more objects of the driver
than a process without faults. The other rounds include codes that lose a device: then placement
auto still gives right bits, placement gpu gives right bits or an error that says so, and everything
can be released. A round can be repeated, as far as its threads allow: `--seed N --rounds 1`.
"""

import argparse
import faulthandler
import json
import os
import subprocess
import sys
import threading
import time
import zlib
from collections import Counter
from pathlib import Path
from typing import Callable, Optional

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python_tests/support"))
from bindings import Backend, Place, Status, last_error, last_run, lib, why_cpu
from cuda_driver import Driver, is_emulated
from fake_driver import FAKE_DRIVER_FOLDER, FakeDriver
from programs import before, library_environment
from progress import progress
from streams import Resources
from stress_work import Caller, Case, Shared, Wrong
from threads import in_threads

MIB = 1 << 20
# How much each quantity may grow; others must not grow at all.
MARGINS = {"resident bytes": 16 * MIB, "device bytes": 4 * MIB}

FAULTY_THREADS = 8


class Gpu:
    """The driver, used as by another library in the process."""

    def __init__(self) -> None:
        self.driver = Driver()
        self.enter()
        self.free_at_first = self.driver.free_bytes()
        self.fake_driver = FakeDriver() if is_emulated() else None

    def enter(self) -> None:
        """Makes the primary context current on the calling thread."""
        self.driver.set_current(self.driver.context)

    def holdings(self) -> dict[str, int]:
        """Counts the driver's objects of this process; the fake driver counts more kinds."""
        held = {"device bytes": self.free_at_first - self.driver.free_bytes()}
        if self.fake_driver:
            for what in ("streams", "events", "registered", "host_allocations"):
                held[f"driver's {what}"] = self.fake_driver.count(what)
            # Empties the list of calls.
            self.fake_driver.plan("")
        return held


def checksum(shared: Shared) -> int:
    """Returns the checksum of the inputs that all threads use in pageable memory."""
    return zlib.crc32(
        repr([zlib.crc32(values) for case in shared.cases for values in case.inputs]).encode()
    )


def load(seconds: float, threads: int) -> int:
    """Runs the load and reports; returns 1 if anything was wrong."""
    gpu = Gpu() if lib.gpuvec_device_count() > 0 else None
    print(f"{lib.gpuvec_device_name(0).decode() if gpu else why_cpu()}", flush=True)
    shared, stop = Shared(threads), threading.Event()
    inputs = checksum(shared)

    def work(caller: Caller) -> None:
        if gpu:
            gpu.enter()
        caller.work(stop)

    with Resources() as resources:
        shared.share(resources)
        callers = [Caller(shared, number) for number in range(threads)]
        workers = [threading.Thread(target=work, args=[caller]) for caller in callers]
        for worker in workers:
            worker.start()
        samples = watch(callers, gpu, seconds, stop)
        stop.set()
        for worker in workers:
            worker.join()
        lib.gpuvec_set_placement(Place.AUTO)
    wrong = [caller.wrong for caller in callers if caller.wrong]
    if checksum(shared) != inputs:
        wrong.append("an input was changed")
    if gpu and gpu.fake_driver and gpu.fake_driver.violation():
        wrong.append(gpu.fake_driver.violation())
    return report(callers, wrong, samples)


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


def watch(
    callers: list[Caller], gpu: Optional[Gpu], seconds: float, stop: threading.Event
) -> list[dict[str, int]]:
    """Samples while the threads work, and changes the placement with every sample."""
    samples: list[dict[str, int]] = []
    places = list(Place) if gpu else [Place.AUTO, Place.CPU]
    end, pause = time.monotonic() + seconds, max(seconds / 60, 0.25)
    with progress(what=f"{len(callers)} threads", total=seconds, unit="s") as shown:
        while time.monotonic() < end and not any(caller.wrong for caller in callers):
            lib.gpuvec_set_placement(places[len(samples) % len(places)])
            stop.wait(pause)
            samples.append(sample(gpu))
            shown.update(pause)
    return samples


def report(callers: list[Caller], wrong: list[str], samples: list[dict[str, int]]) -> int:
    """Prints the work and the findings; returns 1 if anything is wrong."""
    outcomes = sum((caller.outcomes for caller in callers), Counter())
    print(f"{sum(caller.bytes for caller in callers) / 1e9:.1f} GB in arrays: {dict(outcomes)}")
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
    return int(bool(wrong or grown))


ROUND_SECONDS = 10
# A round that takes this much longer counts as hanging.
PATIENCE_SECONDS = 60
# The number of placement changes in a round, between the threads' calls.
PHASES = 10
PHASE_SECONDS = ROUND_SECONDS / PHASES
PER_10000 = 100

TRANSIENT = [
    *[1, 2, 3, 4, 35, 36, 46, 100, 101, 200, 201, 218, 222, 304, 400, 401, 500, 600, 701, 709],
    *[712, 713, 801, 802, 803, 805, 806, 900, 901, 905, 906, 909, 12345],
]
LOSING = [214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911, 999]
# Codes that lose the device are rare enough for a round to keep the device for some seconds.
MANY_TRANSIENT = 30 * TRANSIENT


class Round:
    """A round in this process."""

    def __init__(self, seed: int, may_lose: bool) -> None:
        self.fake_driver, self.may_lose = FakeDriver(), may_lose
        self.shared = Shared(FAULTY_THREADS, has_faults=True, may_lose=may_lose)
        first = seed * FAULTY_THREADS
        self.callers = [Caller(self.shared, first + i) for i in range(FAULTY_THREADS)]

    def run(self) -> dict:
        """Makes the calls, ends the faults, checks everything again, and returns a report."""
        for phase in range(PHASES):
            self.shared.place = (Place.AUTO, Place.GPU)[phase % 2]
            lib.gpuvec_set_placement(self.shared.place)
            self.make_shared()
            stop = threading.Event()
            timer = threading.Timer(PHASE_SECONDS, stop.set)
            timer.start()
            in_threads(lambda number: self.callers[number].work(stop), FAULTY_THREADS)  # noqa: B023
            if self.wrongs():
                break
        calls = self.fake_driver.driver.fake_driver_calls()
        faults = self.fake_driver.count("faults")
        wrong = self.wrongs()
        self.fake_driver.plan("")
        if not wrong:
            try:
                self.check_afterwards()
            except Wrong as error:
                wrong.append(f"afterwards: {error}")
        outcomes = sum((caller.outcomes for caller in self.callers), Counter())
        return {"calls": calls, "faults": faults, "outcomes": outcomes, "wrong": wrong}

    def wrongs(self) -> list[str]:
        """Returns all broken promises so far."""
        found = [caller.wrong for caller in self.callers if caller.wrong]
        if self.fake_driver.violation():
            found.append(f"a violation of the driver's rules: {self.fake_driver.violation()}")
        return found

    def make_shared(self) -> None:
        """Makes the streams and events that all threads share, unless the driver fails."""
        self.destroy_shared()
        self.shared.streams = [*filter(None, (lib.gpuvec_stream_create(0) for _ in range(2)))]
        self.shared.events = [*filter(None, (lib.gpuvec_event_create() for _ in range(2)))]

    def destroy_shared(self) -> None:
        """Destroys the shared streams and events, which always succeeds."""
        for stream in self.shared.streams:
            self.callers[0].destroyed(lib.gpuvec_stream_destroy, stream)
        for event in self.shared.events:
            self.callers[0].destroyed(lib.gpuvec_event_destroy, event)

    def check_afterwards(self) -> None:
        """Fails unless everything works again, as far as the device does, and can be released."""
        self.destroy_shared()
        self.fake_driver.drain()
        status = lib.gpuvec_init()
        if status != Status.OK and not self.may_lose:
            raise Wrong(f"gpuvec_init: {last_error()}")
        for place in (Place.AUTO, Place.GPU):
            lib.gpuvec_set_placement(place)
            for case in self.shared.cases:
                self.check_case(case, place)
        for caller in self.callers:
            caller.release_all()

    def check_case(self, case: Case, place: Place) -> None:
        """Checks a case in pageable memory, without faults."""
        out = np.empty_like(case.expected)
        status = case.call([values.ctypes.data for values in case.inputs], out.ctypes.data)
        gone = (Status.ERROR_DEVICE_LOST, Status.ERROR_NO_GPU)
        if status in gone and self.may_lose and place == Place.GPU:
            return
        if status != Status.OK:
            raise Wrong(f"{case} with placement {place.name}: {last_error()}")
        if place == Place.GPU and last_run().backend != Backend.GPU:
            raise Wrong(f"{case} did not run on the GPU")
        if out.tobytes() != case.expected.tobytes():
            raise Wrong(f"{case} with placement {place.name}: wrong bits")


def saturated(fake_driver: FakeDriver) -> dict[str, int]:
    """Returns the driver's ledger once the library holds its maximum number of objects.

    Makes concurrent calls, twice as many as threads, while streams are held, until the ledger no
    longer grows. Counts the device memory that is left when the library has given back what no call
    uses: it keeps memory that callers freed, and what they freed depends on the round.
    """
    lib.gpuvec_set_placement(Place.GPU)
    n, long = 100_001, 5_000_003
    pageable, pinned = np.ones(n, np.float32), lib.pinned_alloc(4 * long)
    result = lib.pinned_alloc(4 * long)
    calls = []
    for address, out, size in (
        (pageable.ctypes.data, None, n),
        (pinned, result, n),
        (pinned, result, long),
    ):
        calls += [(call, address, out, size) for call in (lib.vector_add, lib.dot_product)]

    def make(call: Callable, address: int, out: Optional[int], size: int) -> None:
        own = np.empty(size, np.float32)
        status = call(address, address, out or own.ctypes.data, size)
        assert status == Status.OK, last_error()

    ledgers: list[dict[str, int]] = []
    while len(ledgers) < 4 or ledgers[-4:] != [ledgers[-1]] * 4:
        for call in calls:
            make(*call)
            with fake_driver.held():
                threads = [
                    threading.Thread(target=make, args=call) for _ in range(2 * FAULTY_THREADS)
                ]
                for thread in threads:
                    thread.start()
                wait_for_rest(fake_driver)
            for thread in threads:
                thread.join()
        ledgers.append(fake_driver.ledger())
        assert len(ledgers) < 40, f"more and more is held: {ledgers[-4:]}"
    for address in (pinned, result):
        assert lib.pinned_free(address) == Status.OK, last_error()
    ledger = fake_driver.ledger()
    assert lib.gpuvec_trim(None) == Status.OK, last_error()
    for what in ("device_bytes", "device_allocations"):
        ledger[what] = fake_driver.count(what)
    # The number of loaded kernels depends on the faults.
    del ledger["modules"]
    return ledger


def wait_for_rest(fake_driver: FakeDriver) -> None:
    """Returns when the threads wait for their work and make no more driver calls."""
    before = -1
    while (calls := fake_driver.driver.fake_driver_calls()) != before:
        before = calls
        time.sleep(0.01)


def child(seed: int) -> None:
    """Runs one round, or with seed 0 a process without faults; prints its report as JSON."""
    faulthandler.dump_traceback_later(ROUND_SECONDS + PATIENCE_SECONDS - 5, exit=True)
    if seed == 0:
        print(json.dumps(saturated(FakeDriver())))
        return
    may_lose = seed % 2 == 0
    round_ = Round(seed, may_lose)
    report = round_.run()
    if not report["wrong"] and not may_lose:
        report["held"] = saturated(round_.fake_driver)
    print(json.dumps(report))
    sys.stdout.flush()
    # Does not wait for hanging threads, nor free memory.
    os._exit(0)


def plan_of(seed: int, only: list[int]) -> str:
    """Returns the plan of faults of a round, with the codes in `only` if there are any."""
    if seed == 0:
        return ""
    losing = LOSING[seed // 2 % len(LOSING)]
    codes = only or (TRANSIENT if seed % 2 else [*MANY_TRANSIENT, losing])
    return f"random:{seed}:{PER_10000}:{'/'.join(map(str, codes))}"


def in_process(seed: int, only: list[int]) -> tuple[dict, str]:
    """Runs a round in a process of its own; returns its report, and the process's failure."""
    environment = library_environment(
        LD_LIBRARY_PATH=before("LD_LIBRARY_PATH", FAKE_DRIVER_FOLDER),
        FAKE_DRIVER_FAULTS=plan_of(seed, only),
        FAKE_DRIVER_DELAY=str(seed % 3 * 100),
    )
    command = [sys.executable, __file__, "faults", "--child", str(seed)]
    limit = ROUND_SECONDS + PATIENCE_SECONDS
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired as hang:
        return {}, f"it did not end within {limit} s: {hang.stderr}"
    if done.returncode != 0:
        return {}, f"it ended with {done.returncode}: {done.stderr[-3000:]}"
    return json.loads(done.stdout), ""


def round_is_right(
    seed: int, only: list[int], baseline: dict[str, int], write: Callable[[str], None]
) -> bool:
    """Runs a round and writes its outcomes; returns whether all of them are right."""
    report, wrong = in_process(seed, only)
    wrongs = [wrong] if wrong else report["wrong"]
    if "held" in report:
        more = {what: now - baseline[what] for what, now in report["held"].items()}
        more = {what: by for what, by in more.items() if by > 0}
        if more:
            wrongs = [f"more is held than without faults: {more}"]
    kind = "no code loses a device" if seed % 2 else "any codes"
    calls, faults = (report.get(name, "?") for name in ("calls", "faults"))
    outcomes = dict(sorted(report.get("outcomes", {}).items()))
    write(f"seed {seed}, {kind}: {calls} calls, {faults} faults, {outcomes}")
    for text in wrongs[:5]:
        write(f"    WRONG: {text}\n    repeat by: --seed {seed} --rounds 1")
    return not wrongs


def faults(options: argparse.Namespace, seconds: float) -> int:
    """Runs rounds with faults; returns 1 if anything was wrong."""
    if options.child is not None:
        child(options.child)
        return 0
    if not (FAKE_DRIVER_FOLDER / "libcuda.so.1").exists():
        sys.exit("the fake driver is not built: make fake-driver")
    baseline, wrong = in_process(0, [])
    if wrong:
        sys.exit(f"without faults: {wrong}")
    end, seed, failed = time.monotonic() + seconds, options.seed, []
    rounds = options.rounds or seconds / ROUND_SECONDS
    with progress(what="random faults", total=rounds, unit="rounds") as shown:
        while seed < options.seed + options.rounds if options.rounds else time.monotonic() < end:
            if not round_is_right(seed, options.codes, baseline, shown.write):
                failed.append(seed)
            seed += 1
            shown.update(1)
    print(f"{seed - options.seed} rounds, wrong: {failed or 'none'}")
    return 1 if failed else 0


def main() -> int:
    """Runs a scenario; returns 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("scenario", choices=("load", "faults"))
    add("--seconds", type=float, help="120 for load, 600 for faults")
    add("--threads", type=int, default=64, help="for load")
    add("--seed", type=int, default=1, help="of the first round of faults")
    add("--rounds", type=int, help="number of rounds of faults, in place of seconds")
    add("--codes", type=int, nargs="+", default=[], help="these codes of the driver only")
    add("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.scenario == "load":
        return load(options.seconds or 120, options.threads)
    return faults(options, options.seconds or 600)


if __name__ == "__main__":
    sys.exit(main())
