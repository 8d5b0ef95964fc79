"""Eight threads call everything while one in a hundred calls of the driver fails.

    make fake-driver
    python tools/random_faults.py [--seconds 600] [--seed 1] [--rounds N]

Runs on the fake driver, in rounds of about ten seconds, each in a process and with a seed of its
own. Every outcome is the right bits or a status that docs/faults.md allows; never a wrong bit under
GPUVEC_OK, a hang or a crash.

In rounds with an odd seed the driver's codes do not lose a device: when the faults end, all work
runs on the GPU again, everything can be released, and the process holds no more objects of the
driver than a process without faults. The other rounds include codes that lose a device: then
placement auto still gives right bits, placement gpu gives right bits or an error that says so, and
everything can be released. A round can be repeated, as far as its threads allow:
`--seed N --rounds 1`.
"""

import argparse
import ctypes
import faulthandler
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Callable, Optional

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python_tests/support"))
from arrays import call_at
from bindings import Backend, Place, Status, last_error, last_run, lib, why_cpu
from fake_driver import FAKE_DRIVER_FOLDER, FakeDriver
from load_cases import same_bytes
from operations import OPERATIONS, Operation
from programs import before, library_environment

THREADS = 8
ROUND_SECONDS = 10
# A round that takes this much longer counts as hanging.
PATIENCE_SECONDS = 60
# The number of placement changes in a round, between the threads' calls.
PHASES = 10
PER_10000 = 100

TRANSIENT = [
    *[1, 2, 3, 4, 35, 36, 46, 100, 101, 200, 201, 218, 222, 304, 400, 401, 500, 600, 701, 709],
    *[712, 713, 801, 802, 803, 805, 806, 900, 901, 905, 906, 909, 12345],
]
LOSING = [214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911, 999]
# A code that loses the device is rare enough for a round to keep the device for some seconds.
MANY_TRANSIENT = 30 * TRANSIENT

SIZES = [1, 1000, 4097, 65_537, 150_001]
PAGE = 4096
PART_BYTES = 6 * PAGE + 1000
# The attempts at a call that may fail by chance; after a device is lost all of them fail.
TRIES = 100

ALLOWED = {Status.ERROR_OUT_OF_MEMORY, Status.ERROR_DRIVER, Status.ERROR_NO_GPU}
# With device arrays: the driver may not recognise an address, or the cores cannot access it.
ALLOWED_ON_DEVICE = {Status.ERROR_POINTER, Status.ERROR_PLACEMENT}


class Wrong(Exception):
    """An outcome that breaks a promise."""


class Ended(Exception):
    """An allowed failure of a call, which ends its unit of work."""


def view(address: int, n: int, dtype) -> np.ndarray:
    """Makes an array of memory that the host can access."""
    size = n * np.dtype(dtype).itemsize
    return np.frombuffer((ctypes.c_uint8 * size).from_address(address), dtype)


def expect_bits(address: int, expected: np.ndarray, what: str) -> None:
    """Fails unless the memory has these bytes."""
    if not same_bytes(address, np.ascontiguousarray(expected)):
        raise Wrong(f"{what}: wrong bits after GPUVEC_OK")


class Case:
    """An operation with its inputs and its result."""

    def __init__(self, operation: Operation, n: int) -> None:
        self.operation, self.n = operation, n
        self.inputs = operation.data(np.random.default_rng(n), n)
        self.expected = operation.oracle(*self.inputs)

    def __str__(self) -> str:
        """Operation and length."""
        return f"{self.operation} of {self.n}"


class Shared:
    """The cases, memory, streams and events that all threads share."""

    def __init__(self, may_lose: bool) -> None:
        self.may_lose, self.place = may_lose, Place.AUTO
        self.cases = [Case(operation, n) for operation in OPERATIONS for n in SIZES]
        self.registered = np.empty(THREADS * PART_BYTES + 2 * PAGE, np.uint8)
        self.parts = self.registered.ctypes.data + -self.registered.ctypes.data % PAGE
        self.streams: list[int] = []
        self.events: list[int] = []


class Caller:
    """One thread's calls, its memory, and the outcomes."""

    def __init__(self, shared: Shared, seed: int) -> None:
        self.shared, self.chance = shared, random.Random(seed)
        self.outcomes: Counter = Counter()
        self.part = shared.parts + seed % THREADS * PART_BYTES
        self.pinned: list[int] = []
        self.device: list[int] = []
        self.wrong = ""
        self.is_on_device = False
        self.units = [
            *[self.operate] * 6,
            *[self.queue] * 4,
            *[self.device_memory, self.pinned_memory, self.register, self.meet, self.ask],
        ]

    def work(self, seconds: float) -> None:
        """Does random units of work for some time."""
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end:
                self.is_on_device = False
                try:
                    self.chance.choice(self.units)()
                except Ended:
                    pass
        except BaseException as error:
            self.wrong = f"{type(error).__name__}: {error}"

    # Outcomes.

    def ok(self, status: int, what: str, *, must: bool = False) -> None:
        """Goes on after a success; ends the unit of work after an allowed error."""
        name = Status(status).name
        self.outcomes[name] += 1
        if status == Status.OK:
            return
        text = last_error()
        allowed = set() if must else set(ALLOWED)
        if self.is_on_device and not must:
            allowed |= ALLOWED_ON_DEVICE
        if self.shared.may_lose and not must:
            allowed.add(Status.ERROR_DEVICE_LOST)
        if status not in allowed or not text:
            raise Wrong(f"{what} with placement {self.shared.place.name}: {name}, '{text}'")
        raise Ended(what)

    def got(self, handle: Optional[int], what: str) -> int:
        """Returns a handle or an address; ends the unit of work if it is NULL."""
        self.outcomes["handle" if handle else "NULL"] += 1
        if not handle and not last_error():
            raise Wrong(f"{what}: NULL without a text")
        if not handle:
            raise Ended(what)
        return handle

    def give_back(self, call: Callable[[int], int], address: int) -> bool:
        """Releases memory, repeatedly if the driver refuses; returns whether it is released."""
        name = call.__name__
        for _ in range(TRIES):
            status = call(address)
            self.outcomes[Status(status).name] += 1
            if status in (Status.OK, Status.ERROR_DEVICE_LOST):
                if status != Status.OK and not self.shared.may_lose:
                    raise Wrong(f"{name}: {last_error()}")
                return True
            if status not in ALLOWED:
                raise Wrong(f"{name}: {Status(status).name}, {last_error()}")
        return False

    def destroy(self, call: Callable[[int], int], handle: int) -> None:
        """Destroys a stream or an event, which succeeds in any case."""
        status = call(handle)
        self.outcomes[Status(status).name] += 1
        if status != Status.OK:
            raise Wrong(f"{call.__name__}: {Status(status).name}, {last_error()}")

    def is_at_rest(self, stream: int) -> bool:
        """Waits for a stream's work; returns whether the library reports that all of it is done."""
        for _ in range(TRIES):
            status = lib.gpuvec_stream_synchronize(stream)
            self.outcomes[Status(status).name] += 1
            if status in (Status.OK, Status.ERROR_DEVICE_LOST):
                return status == Status.OK
        return False

    # Work.

    def any_case(self, most: int = max(SIZES)) -> Case:
        """Chooses a case of at most this length."""
        return self.chance.choice([case for case in self.shared.cases if case.n <= most])

    def operate(self) -> None:
        """Calls an operation on arrays of any kinds, without a stream."""
        case = self.any_case()
        kinds = [self.chance.choice(["pageable", "pinned", "device"]) for _ in case.inputs]
        kept, given = [], []
        try:
            for kind, values in zip(kinds, case.inputs):
                given.append(self.input(kind, values, kept))
            out_kind = self.chance.choice(["pageable", "pinned"])
            out = self.output(out_kind, case.expected, kept)
            must = self.shared.place == Place.AUTO and not self.is_on_device
            status = call_at(case.operation, *given, out, case.n)
            self.ok(status, f"{case}, {kinds} into {out_kind}", must=must)
            expect_bits(out, case.expected, f"{case}, {kinds} into {out_kind}")
            for kind, address, values in zip(kinds, given, case.inputs):
                if kind != "device":
                    expect_bits(address, values, f"{case}: its {kind} input")
        finally:
            self.keep(kept)

    def input(self, kind: str, values: np.ndarray, kept: list) -> int:
        """Makes an array with these values in memory of a kind; returns its address."""
        if kind == "pageable":
            return values.ctypes.data
        if kind == "pinned":
            return self.output(kind, values, kept, values)
        address = self.got(lib.gpuvec_device_alloc(values.nbytes, 0), "gpuvec_device_alloc")
        kept.append((self.device, address))
        self.is_on_device = True
        status = lib.gpuvec_copy(address, values.ctypes.data, values.nbytes, None)
        self.ok(status, f"a copy of {values.nbytes} bytes to a device")
        return address

    def output(
        self, kind: str, like: np.ndarray, kept: list, values: Optional[np.ndarray] = None
    ) -> int:
        """Makes an array like another in host memory of a kind; returns its address."""
        if kind == "pageable":
            array = np.empty_like(like)
            kept.append((None, array))
            address = array.ctypes.data
        else:
            address = self.got(lib.pinned_alloc(like.nbytes), "pinned_alloc")
            kept.append((self.pinned, address))
        filling = like.view(np.uint8) ^ 0xFF if values is None else values
        ctypes.memmove(address, np.ascontiguousarray(filling).ctypes.data, like.nbytes)
        return address

    def keep(self, kept: list) -> None:
        """Releases memory that no work uses any more."""
        calls = {id(self.pinned): lib.pinned_free, id(self.device): lib.gpuvec_device_free}
        for owners, address in kept:
            if owners is not None and not self.give_back(calls[id(owners)], address):
                owners.append(address)

    def queue(self) -> None:
        """Makes calls that need each other's results, on a stream of their own."""
        stream = self.got(lib.gpuvec_stream_create(0), "gpuvec_stream_create")
        try:
            self.chain(stream, None)
        finally:
            self.destroy(lib.gpuvec_stream_destroy, stream)

    def meet(self) -> None:
        """Makes such calls on a stream and with an event that all threads share."""
        shared = self.shared
        if shared.streams and shared.events:
            self.chain(self.chance.choice(shared.streams), self.chance.choice(shared.events))

    def chain(self, stream: int, event: Optional[int]) -> None:
        """Queues (a + b) * b and its sum, waits for them, checks them and releases their memory."""
        n = self.chance.choice(SIZES)
        rng = np.random.default_rng(n)
        a, b = (rng.integers(-(1 << 40), 1 << 40, n) for _ in range(2))
        product = (a + b) * b
        kept: list = []
        own = None
        try:
            at_a, at_b = (self.input("pinned", values, kept) for values in (a, b))
            kind = self.chance.choice(["pinned", "device"])
            between = self.input(kind, a, kept)
            out, total = (self.output("pinned", x, kept) for x in (product, product[:1]))
            if event is None:
                event = own = self.got(lib.gpuvec_event_create(), "gpuvec_event_create")
            at = f"a chain of {n} by {kind} memory"
            self.ok(lib.gpuvec_add_i64(at_a, at_b, between, n, stream), at)
            self.ok(lib.gpuvec_mul_i64(between, at_b, between, n, stream), at)
            self.ok(lib.gpuvec_copy(out, between, product.nbytes, stream), at)
            self.ok(lib.gpuvec_sum_i64(between, total, n, stream), at)
            self.ok(lib.gpuvec_event_record(event, stream), at)
            self.wait(stream, event if own else None)
            expect_bits(out, product, at)
            expect_bits(total, product.sum(keepdims=True), f"the sum of {at}")
        finally:
            if own:
                self.destroy(lib.gpuvec_event_destroy, own)
            if kept and not self.is_at_rest(stream):
                # The memory may still be in use: it is released in the end.
                self.abandon(kept)
            else:
                self.keep(kept)

    def abandon(self, kept: list) -> None:
        """Leaves memory allocated until the faults have ended."""
        for owners, address in kept:
            if owners is not None:
                owners.append(address)

    def wait(self, stream: int, event: Optional[int]) -> None:
        """Waits for a stream in one of several ways, `event` being no other thread's."""
        way = self.chance.choice(["synchronize", "query", *["event"] * (event is not None)])
        if way == "synchronize":
            self.ok(lib.gpuvec_stream_synchronize(stream), way)
        elif way == "event":
            self.ok(lib.gpuvec_event_synchronize(event), way)
        else:
            while (status := lib.gpuvec_stream_query(stream)) == Status.NOT_READY:
                time.sleep(0)
            self.ok(status, way)

    def pinned_memory(self) -> None:
        """Allocates pinned memory, uses it and frees it."""
        kept: list = []
        try:
            self.output("pinned", np.zeros(self.chance.randrange(1, 200_000), np.uint8), kept)
        finally:
            self.keep(kept)

    def device_memory(self) -> None:
        """Copies bytes to device memory, and from any of them on back."""
        values = self.any_case().inputs[0].view(np.uint8)
        back, kept = np.zeros_like(values), []
        try:
            address = self.input("device", values, kept)
            first = self.chance.randrange(values.size)
            to = back.ctypes.data
            status = lib.gpuvec_copy(to, address + first, values.size - first, None)
            self.ok(status, "a copy from a device")
            expect_bits(to, values[first:], "a copy from a device")
        finally:
            self.keep(kept)

    def register(self) -> None:
        """Calls an operation into memory whose pages other threads register and unregister."""
        case = self.any_case(1000)
        at = self.part + self.chance.randrange(PAGE // 8) * 8
        self.ok(lib.gpuvec_host_register(at, case.expected.nbytes), "gpuvec_host_register")
        try:
            ctypes.memset(at, 7, case.expected.nbytes)
            addresses = [values.ctypes.data for values in case.inputs]
            status = call_at(case.operation, *addresses, at, case.n)
            must = self.shared.place == Place.AUTO
            self.ok(status, f"{case} into registered memory", must=must)
            expect_bits(at, case.expected, f"{case} into registered memory")
        finally:
            if not self.give_back(lib.gpuvec_host_unregister, at):
                raise Wrong(f"registered memory cannot be unregistered: {last_error()}")

    def ask(self) -> None:
        """Queries devices, passes a wrong argument, and lets the library retry a failed device."""
        self.ok(lib.gpuvec_init(), "gpuvec_init")
        why_cpu()
        if lib.gpuvec_device_count() > 0 and lib.gpuvec_device_name(0) is None:
            self.outcomes["no name"] += 1
        if lib.vector_add(None, None, None, 3) != Status.ERROR_NULL:
            raise Wrong(f"NULL is {last_error()}")

    def give_all_back(self) -> None:
        """Releases memory that faults kept in use, or that the driver refused to free."""
        calls = [(lib.pinned_free, self.pinned), (lib.gpuvec_device_free, self.device)]
        for call, addresses in calls:
            for address in addresses:
                if not self.give_back(call, address):
                    raise Wrong(f"{call.__name__} of {address:#x}: {last_error()}")


def in_threads(function: Callable, arguments: list) -> None:
    """Calls a function in a thread for each argument."""
    threads = [threading.Thread(target=function, args=(argument,)) for argument in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Round:
    """A round in this process."""

    def __init__(self, seed: int, may_lose: bool) -> None:
        self.fake_driver, self.may_lose = FakeDriver(), may_lose
        self.shared = Shared(may_lose)
        self.callers = [Caller(self.shared, seed * THREADS + i) for i in range(THREADS)]

    def run(self) -> dict:
        """Makes the calls, ends the faults, checks everything again, and returns a report."""
        for phase in range(PHASES):
            self.shared.place = (Place.AUTO, Place.GPU)[phase % 2]
            lib.gpuvec_set_placement(self.shared.place)
            self.make_shared()
            in_threads(lambda caller: caller.work(ROUND_SECONDS / PHASES), self.callers)
            if self.wrongs():
                break
        made = {
            "calls": self.fake_driver.driver.fake_driver_calls(),
            "faults": self.fake_driver.count("faults"),
        }
        wrong = self.wrongs()
        self.fake_driver.plan("")
        if not wrong:
            try:
                self.check_afterwards()
            except Wrong as error:
                wrong.append(f"afterwards: {error}")
        outcomes = sum((caller.outcomes for caller in self.callers), Counter())
        return {**made, "outcomes": outcomes, "wrong": wrong}

    def wrongs(self) -> list[str]:
        """Returns all broken promises so far."""
        found = [caller.wrong for caller in self.callers if caller.wrong]
        if self.fake_driver.violation():
            found.append(f"a violation of the driver's rules: {self.fake_driver.violation()}")
        return found

    def make_shared(self) -> None:
        """Makes the streams and events that all threads share, unless the driver fails."""
        self.destroy_shared()
        made = [lib.gpuvec_stream_create(0) for _ in range(2)]
        self.shared.streams = [stream for stream in made if stream]
        made = [lib.gpuvec_event_create() for _ in range(2)]
        self.shared.events = [event for event in made if event]

    def destroy_shared(self) -> None:
        """Destroys the shared streams and events, which always succeeds."""
        for stream in self.shared.streams:
            self.callers[0].destroy(lib.gpuvec_stream_destroy, stream)
        for event in self.shared.events:
            self.callers[0].destroy(lib.gpuvec_event_destroy, event)

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
            caller.give_all_back()

    def check_case(self, case: Case, place: Place) -> None:
        """Checks a case in pageable memory, without faults."""
        out = np.empty_like(case.expected)
        addresses = [values.ctypes.data for values in case.inputs]
        status = call_at(case.operation, *addresses, out.ctypes.data, case.n)
        gone = (Status.ERROR_DEVICE_LOST, Status.ERROR_NO_GPU)
        if status in gone and self.may_lose and place == Place.GPU:
            return
        if status != Status.OK:
            raise Wrong(f"{case} with placement {place.name}: {last_error()}")
        if place == Place.GPU and last_run().backend != Backend.GPU:
            raise Wrong(f"{case} did not run on the GPU")
        expect_bits(out.ctypes.data, case.expected, f"{case} with placement {place.name}")


def saturated(fake_driver: FakeDriver) -> dict[str, int]:
    """Returns the driver's ledger once the library keeps as many objects as it ever does.

    Makes concurrent calls, twice as many as threads, while streams are held, until the ledger no
    longer grows.
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
                threads = [threading.Thread(target=make, args=call) for _ in range(2 * THREADS)]
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
    command = [sys.executable, __file__, "--child", str(seed)]
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


def round_is_right(seed: int, only: list[int], baseline: dict[str, int]) -> bool:
    """Runs a round and prints its outcomes; returns whether all of them are right."""
    report, wrong = in_process(seed, only)
    wrongs = [wrong] if wrong else report["wrong"]
    if "held" in report:
        more = {what: now - baseline[what] for what, now in report["held"].items()}
        more = {what: by for what, by in more.items() if by > 0}
        if more:
            wrongs = [f"more is held than without faults: {more}"]
    kind = "no code loses a device" if seed % 2 else "any codes"
    counts = {name: report.get(name, "?") for name in ("calls", "faults")}
    print(f"seed {seed}, {kind}: {counts['calls']} calls, {counts['faults']} faults", end="")
    print(f", {dict(sorted(report.get('outcomes', {}).items()))}", flush=True)
    for text in wrongs[:5]:
        print(f"    WRONG: {text}\n    repeat by: --seed {seed} --rounds 1", flush=True)
    return not wrongs


def main() -> int:
    """Runs rounds; returns 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1, help="of the first round")
    parser.add_argument("--rounds", type=int, help="number of rounds, in place of seconds")
    parser.add_argument("--codes", type=int, nargs="+", default=[], help="these codes only")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        child(options.child)
        return 0
    if not (FAKE_DRIVER_FOLDER / "libcuda.so.1").exists():
        sys.exit("the fake driver is not built: make fake-driver")
    baseline, wrong = in_process(0, [])
    if wrong:
        sys.exit(f"without faults: {wrong}")
    end, seed, failed = time.monotonic() + options.seconds, options.seed, []
    while seed < options.seed + options.rounds if options.rounds else time.monotonic() < end:
        if not round_is_right(seed, options.codes, baseline):
            failed.append(seed)
        seed += 1
    print(f"{seed - options.seed} rounds, wrong: {failed or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
