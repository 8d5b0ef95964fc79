"""The calls of a thread of tools/random_faults.py, while calls of the driver fail at random."""

import ctypes
import random
import time
from collections import Counter
from typing import Callable, Optional

import numpy as np
from arrays import call_at
from bindings import Place, Status, last_error, lib, why_cpu
from formulas import FORMULAS, Compiled, Formula
from load_cases import same_bytes
from operations import OPERATIONS, Operation

THREADS = 8
SIZES = [1, 1000, 4097, 65_537, 150_001]
PAGE = 4096
PART_BYTES = 6 * PAGE + 1000
# The number of attempts at a call that may fail by chance; after a device is lost all attempts
# fail.
TRIES = 100

ALLOWED = {Status.ERROR_OUT_OF_MEMORY, Status.ERROR_DRIVER, Status.ERROR_NO_GPU}
# With device arrays: the driver may not recognise an address, or the cores cannot access it.
ALLOWED_ON_DEVICE = {Status.ERROR_POINTER, Status.ERROR_PLACEMENT}


class Wrong(Exception):
    """An outcome that breaks a promise."""


class Ended(Exception):
    """An allowed failure of a call, which ends its unit of work."""


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

    def call(self, *addresses: int) -> int:
        """Calls the operation on inputs and an output; returns the status."""
        return call_at(self.operation, *addresses, self.n)


class FormulaCase(Case):
    """An expression with its inputs and its result."""

    def __init__(self, formula: Formula, n: int) -> None:
        self.operation, self.n = formula, n
        data = formula.data(n)
        self.inputs, self.expected = list(data.values()), formula.expected(data)
        self.compiled = Compiled(formula.text, formula.inputs)

    def call(self, *addresses: int) -> int:
        """Evaluates the expression; returns the status."""
        return self.compiled.run(list(addresses[:-1]), addresses[-1], self.n)


class Shared:
    """The cases, memory, streams and events that all threads share."""

    def __init__(self, may_lose: bool) -> None:
        self.may_lose, self.place = may_lose, Place.AUTO
        self.cases = [Case(operation, n) for operation in OPERATIONS for n in SIZES]
        self.cases += [FormulaCase(formula, n) for formula in FORMULAS for n in SIZES]
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

    def release(self, call: Callable[[int], int], address: int) -> bool:
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
            status = case.call(*given, out)
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
            if owners is not None and not self.release(calls[id(owners)], address):
                owners.append(address)

    def queue(self) -> None:
        """Makes calls that need each other's results, on a stream of their own."""
        stream = self.got(lib.gpuvec_stream_create(0), "gpuvec_stream_create")
        try:
            self.chain(stream, None)
        finally:
            self.destroy(lib.gpuvec_stream_destroy, stream)

    def meet(self) -> None:
        """Makes the same calls on a stream and with an event that all threads share."""
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
            status = case.call(*addresses, at)
            must = self.shared.place == Place.AUTO
            self.ok(status, f"{case} into registered memory", must=must)
            expect_bits(at, case.expected, f"{case} into registered memory")
        finally:
            if not self.release(lib.gpuvec_host_unregister, at):
                raise Wrong(f"registered memory cannot be unregistered: {last_error()}")

    def ask(self) -> None:
        """Queries devices, passes a wrong argument, and lets the library retry a failed device."""
        self.ok(lib.gpuvec_init(), "gpuvec_init")
        why_cpu()
        if lib.gpuvec_device_count() > 0 and lib.gpuvec_device_name(0) is None:
            self.outcomes["no name"] += 1
        if lib.vector_add(None, None, None, 3) != Status.ERROR_NULL:
            raise Wrong(f"NULL is {last_error()}")

    def release_all(self) -> None:
        """Releases memory that faults kept in use, or that the driver refused to free."""
        calls = [(lib.pinned_free, self.pinned), (lib.gpuvec_device_free, self.device)]
        for call, addresses in calls:
            for address in addresses:
                if not self.release(call, address):
                    raise Wrong(f"{call.__name__} of {address:#x}: {last_error()}")
