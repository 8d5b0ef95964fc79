"""The work of a thread of tools/stress.py: random calls of every kind, whose results are checked.

A thread does one unit of work after another. A unit makes its memory, streams and events, and
releases them in the end. Where calls of the driver fail at random, an allowed error ends a unit.
"""

import ctypes
import random
import threading
import time
from collections import Counter
from contextlib import contextmanager
from ctypes import byref, c_float
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from typing import Callable, Optional, Union

import numpy as np
from arrays import call_at
from bindings import Backend, Place, Status, last_error, last_run, lib, why_cpu
from formulas import FORMULAS, Compiled, Formula
from operations import OPERATIONS, SAMPLE, Operation
from streams import PAGE, Resources, device_count

# Lengths, with the frequency of each: a program that mixes them makes more short calls.
SIZES = {1: 8, 7: 8, 1000: 8, 4097: 8, 65_537: 6, 150_001: 4, 1_100_001: 2, 2_200_001: 1}
# The longest arrays of most operations, and of all in device memory.
MOST = 150_001
# The elements around an array, with the offsets of its first element there, and their bytes.
GUARDS, OFFSETS, GUARD = 8, (0, 1, 3), 0xA5
# The length of a thread's part of the memory that all threads register in parts: not a multiple of
# the page size.
PART_BYTES = 6 * PAGE + 1000
# The number of attempts at a release that may fail by chance.
TRIES = 100
# The number of texts of expressions that come and go: more than the library remembers.
TEXTS = 100

FAILURES = {Status.ERROR_OUT_OF_MEMORY, Status.ERROR_DRIVER, Status.ERROR_NO_GPU}
# With device arrays: the driver may not recognise an address, or the cores cannot access it.
FAILURES_ON_DEVICE = {Status.ERROR_POINTER, Status.ERROR_PLACEMENT}

libc = ctypes.CDLL(None)
libc.memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
# Long arrays are returned to the system when they are freed, so that heaps of many threads do not
# grow for minutes.
M_MMAP_THRESHOLD = -3
libc.mallopt(M_MMAP_THRESHOLD, 1 << 18)

# A stream, or None for a call without one.
Stream = Optional[int]


class Wrong(Exception):
    """An outcome that breaks a promise."""


class Ended(Exception):
    """An allowed error, which ends a unit of work."""


class Case:
    """An operation or an expression with its inputs and its result."""

    def __init__(self, operation: Union[Operation, Formula], n: int) -> None:
        self.operation, self.n = operation, n
        if isinstance(operation, Formula):
            data = operation.data(n)
            self.inputs, self.expected = list(data.values()), operation.expected(data)
            self.arity, self.takes_stream = 0, True
            self.compiled = Compiled(operation.text, operation.inputs)
        else:
            self.inputs = list(operation.data(np.random.default_rng(n), n))
            self.expected = operation.oracle(*self.inputs)
            self.arity = operation.shape.arity if operation.may_be_in_place else 0
            self.takes_stream = operation.takes_stream
        # The inputs that all threads use: an address for each kind of memory.
        self.shared = [{"pageable": values.ctypes.data} for values in self.inputs]

    def __str__(self) -> str:
        """Operation and length."""
        return f"{self.operation} of {self.n}"

    def call(self, inputs: list[int], out: int, stream: Stream = None) -> int:
        """Calls the operation, or evaluates the expression; returns the status."""
        if isinstance(self.operation, Formula):
            return self.compiled.run(inputs, out, self.n, stream)
        return call_at(self.operation, *inputs, out, self.n, stream=stream)


@dataclass(eq=False)
class Shared:
    """The objects that all threads use, and the errors that they may get."""

    threads: int
    # Calls of the driver fail, and a failure may lose the device.
    has_faults: bool = False
    may_lose: bool = False
    # The placement; None if it changes during calls.
    place: Optional[Place] = None
    streams: list[int] = field(default_factory=list)
    events: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Makes the cases, and the memory that threads register."""
        most = max(SIZES) if not self.has_faults else MOST
        self.cases = [
            Case(operation, n)
            for operation in (*OPERATIONS, *FORMULAS)
            for n in SIZES
            if n <= MOST or (n <= most and operation in SAMPLE)
        ]
        self.registered = np.empty(self.threads * PART_BYTES + 2 * PAGE, np.uint8)
        self.parts = self.registered.ctypes.data + -self.registered.ctypes.data % PAGE
        self.devices = 1 if self.has_faults else device_count()
        self.kinds = ["pageable", "pinned", "registered", "device"]
        if not self.has_faults:
            # Another library's, whose calls of the driver must succeed.
            self.kinds += ["managed", "foreign pinned", "other device"]

    def share(self, resources: Resources) -> None:
        """Makes streams, events, and inputs in pinned and device memory, for all threads."""
        for case in self.cases:
            for values, addresses in zip(case.inputs, case.shared):
                for kind in ("pinned", "device") if case.n <= MOST else ():
                    addresses[kind] = resources.array(kind, values).address
        self.streams = [resources.stream(number % self.devices) for number in range(3)]
        self.events = [resources.event() for _ in range(3)]


@cache
def cases_of(shared: Shared, most: int, bytes_: int) -> tuple[list[Case], list[int]]:
    """Returns the cases of at most these sizes, and the sums of their frequencies."""
    some = [x for x in shared.cases if x.n <= most and x.expected.nbytes < bytes_]
    return some, list(accumulate(SIZES[case.n] for case in some))


class Array:
    """An array between guards, in memory of a kind, with the content that it should have."""

    def __init__(self, kind: str, memory: int, values: np.ndarray, offset: int) -> None:
        self.is_on_device, self.memory = kind.endswith("device"), memory
        self.start = (GUARDS + offset) * values.itemsize
        self.address = memory + self.start
        self.content = np.full(Array.room(values), GUARD, np.uint8)
        self.expect(values)

    @staticmethod
    def room(values: np.ndarray) -> int:
        """Returns the bytes of an array with its guards."""
        return values.nbytes + 2 * GUARDS * values.itemsize

    def expect(self, values: np.ndarray) -> None:
        """Changes the content between the guards."""
        bytes_ = np.ascontiguousarray(values).view(np.uint8)
        self.content[self.start : self.start + values.nbytes] = bytes_


class Caller:
    """One thread's units of work, their memory, and the outcomes of all calls."""

    def __init__(self, shared: Shared, seed: int) -> None:
        self.shared, self.chance = shared, random.Random(seed)
        self.outcomes: Counter = Counter()
        self.part = shared.parts + seed % shared.threads * PART_BYTES
        # Memory that the driver refused to release, or may still use.
        self.left: list[tuple[Callable[[int], int], int]] = []
        self.left_alive: list[object] = []
        self.bytes, self.wrong = 0, ""
        self.units = [
            *[self.operate] * 12,
            *[self.chain] * 4,
            *[self.copy] * 3,
            *[self.free_early, self.register, self.destroy, self.measure, self.meet],
            *[self.compile, self.ask],
        ]

    def work(self, stop: threading.Event) -> None:
        """Does random units of work until `stop` is set, or something is wrong."""
        try:
            while not stop.is_set():
                with self.unit():
                    self.chance.choice(self.units)()
        except BaseException as error:
            self.wrong = f"{type(error).__name__}: {error}"

    @contextmanager
    def unit(self):
        """Releases what a unit has made; a unit may end with an allowed error."""
        self.is_on_device = self.is_adrift = False
        self.used: set[int] = set()
        self.memory: list[tuple[Callable[[int], int], int]] = []
        self.handles: list[tuple[Callable[[int], int], int]] = []
        self.alive: list[object] = []
        with Resources() as self.foreign:
            try:
                yield
            except Ended:
                pass
            finally:
                is_at_rest = all([self.is_at_rest(stream) for stream in self.used])
                for call, handle in self.handles:
                    self.destroyed(call, handle)
                if is_at_rest and not self.is_adrift:
                    self.left += [each for each in self.memory if not self.released(*each)]
                else:
                    # Queued work may still use it.
                    self.left += self.memory
                    self.left_alive += self.alive

    # Outcomes.

    def ok(self, status: int, what: object, *, must: bool = False) -> None:
        """Returns after a success; ends the unit after an allowed error."""
        self.outcomes[Status(status).name] += 1
        if status == Status.OK:
            return
        text = last_error()
        allowed = {Status.ERROR_PLACEMENT} if self.is_on_device else set()
        if self.shared.has_faults:
            allowed = FAILURES | (FAILURES_ON_DEVICE if self.is_on_device else set())
            allowed |= {Status.ERROR_DEVICE_LOST} if self.shared.may_lose else set()
        if must or status not in allowed or not text:
            raise Wrong(f"{what}, {self.shared.place}: {Status(status).name}, '{text}'")
        raise Ended

    def do(self, name: str, *arguments: object) -> None:
        """Calls a function of the library, which may fail as it is allowed."""
        self.ok(getattr(lib, f"gpuvec_{name}")(*arguments), name)

    def got(self, handle: Optional[int], what: str) -> int:
        """Returns a handle or an address; ends the unit if a fault made it NULL."""
        self.outcomes["handle" if handle else "NULL"] += 1
        if not handle and (not self.shared.has_faults or not last_error()):
            raise Wrong(f"{what}: NULL, '{last_error()}'")
        if not handle:
            raise Ended
        return handle

    def released(self, call: Callable[[int], int], address: int) -> bool:
        """Releases memory, repeatedly if the driver refuses; returns False if it always does."""
        for _ in range(TRIES if self.shared.has_faults else 1):
            status = call(address)
            self.outcomes[Status(status).name] += 1
            lost = status == Status.ERROR_DEVICE_LOST and self.shared.may_lose
            if status == Status.OK or lost:
                return True
            if not self.shared.has_faults or status not in FAILURES:
                raise Wrong(f"{call.__name__}: {Status(status).name}, {last_error()}")
        return False

    def destroyed(self, call: Callable[[int], int], handle: int) -> None:
        """Destroys a stream or an event, which succeeds in any case."""
        if (status := call(handle)) != Status.OK:
            raise Wrong(f"{call.__name__}: {Status(status).name}, {last_error()}")

    def is_at_rest(self, stream: int) -> bool:
        """Waits for a stream's work; returns whether the library reports that all of it is done."""
        for _ in range(TRIES):
            status = lib.gpuvec_stream_synchronize(stream)
            self.outcomes[Status(status).name] += 1
            if status in (Status.OK, Status.ERROR_DEVICE_LOST):
                return status == Status.OK
        return False

    def expect(self, address: int, expected: np.ndarray, what: object) -> None:
        """Fails unless host memory has these bytes."""
        wanted = np.ascontiguousarray(expected)
        if libc.memcmp(address, wanted.ctypes.data, wanted.nbytes) != 0:
            raise Wrong(f"{what}: wrong bits after GPUVEC_OK")

    def check(self, array: Array, what: object) -> None:
        """Fails unless an array and its guards have the expected content."""
        if not array.is_on_device:
            return self.expect(array.memory, array.content, what)
        seen = np.empty_like(array.content)
        self.ok(lib.gpuvec_copy(seen.ctypes.data, array.memory, seen.nbytes, None), what)
        return self.expect(seen.ctypes.data, array.content, what)

    # Streams, events and memory.

    def new(self, what: str, *arguments: int) -> int:
        """Makes a stream or an event, which the unit destroys."""
        handle = self.got(getattr(lib, f"gpuvec_{what}_create")(*arguments), what)
        self.handles.append((getattr(lib, f"gpuvec_{what}_destroy"), handle))
        return handle

    def new_stream(self) -> int:
        """Makes a stream."""
        return self.using(self.new("stream", self.chance.randrange(self.shared.devices)))

    def using(self, stream: Stream) -> Stream:
        """Notes that queued work of a stream may use the unit's memory."""
        if stream is not None:
            self.used.add(stream)
        return stream

    def any_stream(self) -> int:
        """Returns a stream that all threads share, or a new one."""
        if self.shared.streams and self.chance.random() < 0.5:
            return self.using(self.chance.choice(self.shared.streams))
        return self.new_stream()

    def allocate(self, kind: str, size: int) -> int:
        """Makes memory of a kind, which the unit releases."""
        if kind.endswith("device"):
            device = self.shared.devices - 1 if kind.startswith("other") else 0
            address = self.got(lib.gpuvec_device_alloc(size, device), "gpuvec_device_alloc")
            self.memory.append((lib.gpuvec_device_free, address))
            self.is_on_device = True
        elif kind == "pinned":
            address = self.got(lib.pinned_alloc(size), "pinned_alloc")
            self.memory.append((lib.pinned_free, address))
        elif kind in ("managed", "foreign pinned"):
            memory = self.foreign.memory(kind, size)
            self.alive.append(memory)
            address = memory.address
        else:
            owner = np.empty(size + 3 * PAGE, np.uint8)
            self.alive.append(owner)
            # In pages that hold nothing else that is registered.
            address = owner.ctypes.data + PAGE - owner.ctypes.data % PAGE + 72
        if kind == "registered":
            self.do("host_register", address, size)
            self.memory.append((lib.gpuvec_host_unregister, address))
        return address

    def array(self, values: np.ndarray, kind: str = "") -> Array:
        """Makes an array with these values, in memory of a kind or of any one."""
        kind = kind or self.any_kind(values.size)
        memory = self.allocate(kind, Array.room(values))
        array = Array(kind, memory, values, self.chance.choice(OFFSETS))
        self.alive.append(array)
        source, size = array.content.ctypes.data, array.content.nbytes
        if array.is_on_device:
            self.ok(lib.gpuvec_copy(memory, source, size, None), f"a copy of {size} bytes")
        else:
            ctypes.memmove(memory, source, size)
        return array

    def output(self, like: np.ndarray, kind: str = "") -> Array:
        """Makes an array with other values than these, which it should have in the end."""
        array = self.array((like.view(np.uint8) ^ 0xFF).view(like.dtype), kind)
        array.expect(like)
        return array

    def free(self, call: Callable[[int], int], address: int) -> None:
        """Releases some of the unit's memory."""
        if self.released(call, address):
            self.memory.remove((call, address))

    # Choices.

    def any_case(self, most: int = max(SIZES), bytes_: int = 1 << 40) -> Case:
        """Returns a case of at most this length and result, a short one more often."""
        some, cumulated = cases_of(self.shared, most, bytes_)
        return self.chance.choices(some, cum_weights=cumulated)[0]

    def any_kind(self, n: int) -> str:
        """Returns a kind of memory for an array of that length."""
        return self.chance.choice(self.shared.kinds if n <= MOST else ["pageable", "pinned"])

    def any_shared(self, case: Case) -> list[int]:
        """Returns addresses of the inputs that all threads use."""
        kinds = [self.chance.choice(list(addresses)) for addresses in case.shared]
        self.is_on_device |= "device" in kinds
        return [addresses[kind] for addresses, kind in zip(case.shared, kinds)]

    def queue(self, case: Case, inputs: list[int], out: int, stream: Stream) -> None:
        """Calls a case's operation."""
        stream = self.using(stream) if case.takes_stream else None
        must = self.shared.place == Place.AUTO and not self.is_on_device and stream is None
        self.ok(case.call(inputs, out, stream), case, must=must)
        self.bytes += case.expected.nbytes + sum(values.nbytes for values in case.inputs)
        if stream is None:
            self.outcomes[Backend(last_run().backend).name] += 1

    def follow(self, stream: Stream) -> Stream:
        """Chooses a stream, or none, and makes its next work wait for all work of another one."""
        way = self.chance.choice(["stay", "stay", "event", "wait", "wait for event"])
        if way == "stay" or stream is None:
            return stream
        if way == "wait":
            self.ok(lib.gpuvec_stream_synchronize(stream), way)
            return self.chance.choice([None, self.any_stream()])
        event = self.new("event")
        self.ok(lib.gpuvec_event_record(event, stream), way)
        other = self.any_stream() if way == "event" else None
        self.ok(lib.gpuvec_stream_wait(other, event), way)
        return other

    def finish(self, stream: Stream) -> None:
        """Waits for a stream in one of several ways."""
        way = self.chance.choice(["synchronize", "query", "event", "query of an event"])
        if stream is None:
            return
        if way == "synchronize":
            return self.ok(lib.gpuvec_stream_synchronize(stream), way)
        call, handle = lib.gpuvec_stream_query, stream
        if way != "query":
            handle = self.new("event")
            self.ok(lib.gpuvec_event_record(handle, stream), way)
            call = lib.gpuvec_event_synchronize if way == "event" else lib.gpuvec_event_query
        return self.wait_until_ready(lambda: call(handle), way)

    def wait_until_ready(self, call: Callable[[], int], what: str) -> None:
        """Makes a call until its status is another than NOT_READY."""
        while (status := call()) == Status.NOT_READY:
            time.sleep(0)
        self.ok(status, what)

    # Units of work.

    def operate(self) -> None:
        """Calls an operation, perhaps in place, on arrays in memory of any kinds."""
        case = self.any_case()
        inputs, arrays = self.any_shared(case), []
        for number, values in enumerate(case.inputs):
            if self.chance.random() < 0.5:
                arrays.append(self.array(values))
                inputs[number] = arrays[-1].address
        in_place = self.chance.choice([None, None, *range(case.arity)])
        if in_place is None:
            out = self.output(case.expected)
        else:
            out = self.array(case.inputs[in_place])
            inputs[in_place] = out.address
            out.expect(case.expected)
        stream = self.chance.choice([None, self.any_stream()])
        self.queue(case, inputs, out.address, stream)
        self.finish(self.follow(stream))
        for array in (out, *arrays):
            self.check(array, f"{case}, in place {in_place}")

    def chain(self) -> None:
        """Queues (a + b) * b, a copy of it and its sum, from stream to stream."""
        n = self.chance.choice([n for n in SIZES if n <= MOST])
        rng = np.random.default_rng(n)
        a, b = (rng.integers(-(1 << 40), 1 << 40, n) for _ in range(2))
        product = (a + b) * b
        at_a, at_b, between = self.array(a, "pinned"), self.array(b, "pinned"), self.array(a)
        out, total = (
            self.output(product, "pinned"),
            self.output(product.sum(keepdims=True), "pinned"),
        )
        stream = self.any_stream()
        what = f"a chain of {n}"
        self.ok(lib.gpuvec_add_i64(at_a.address, at_b.address, between.address, n, stream), what)
        stream = self.follow(stream)
        product_at = between.address
        self.ok(lib.gpuvec_mul_i64(product_at, at_b.address, product_at, n, stream), what)
        stream = self.follow(stream)
        self.ok(lib.gpuvec_copy(out.address, product_at, product.nbytes, stream), what)
        self.ok(lib.gpuvec_sum_i64(product_at, total.address, n, stream), what)
        self.finish(stream)
        self.check(out, what)
        self.check(total, f"the sum of {what}")

    def copy(self) -> None:
        """Copies some bytes from one memory to the next, on one stream after the other."""
        case = self.any_case(MOST)
        values, address = case.inputs[0].view(np.uint8), self.any_shared(case)[0]
        first = self.chance.randrange(values.size)
        expected = values[first : first + self.chance.randrange(1, values.size + 1)]
        stream, address = self.chance.choice([None, self.any_stream()]), address + first
        for _ in range(self.chance.randint(1, 4)):
            last = self.output(expected)
            self.do("copy", last.address, address, expected.size, stream)
            self.bytes += 2 * expected.size
            address, stream = last.address, self.follow(stream)
        self.finish(stream)
        self.check(last, f"a copy of {expected.size} bytes")

    def free_early(self) -> None:
        """Frees device memory while a stream may still use it."""
        case, stream = self.any_case(MOST), self.any_stream()
        memory = self.allocate("device", case.expected.nbytes)
        self.queue(case, self.any_shared(case), memory, stream)
        out = self.output(case.expected)
        self.ok(lib.gpuvec_copy(out.address, memory, case.expected.nbytes, stream), case)
        self.free(lib.gpuvec_device_free, memory)
        self.finish(stream)
        self.check(out, f"{case}, memory freed early")

    def register(self) -> None:
        """Computes in memory whose pages other threads register and unregister meanwhile."""
        case = self.any_case(MOST, PART_BYTES - PAGE)
        at, size = self.part + self.chance.randrange(PAGE // 8) * 8, case.expected.nbytes
        # Overlapping registrations: an array inside, and the same one again.
        inside = at + self.chance.randrange(size)
        for address, length in ((at, size), (inside, at + size - inside), (at, size)):
            self.do("host_register", address, length)
            self.memory.append((lib.gpuvec_host_unregister, address))
        for address in self.chance.sample([at, inside], 2):
            self.free(lib.gpuvec_host_unregister, address)
        ctypes.memset(at, GUARD, size)
        stream = self.any_stream()
        self.queue(case, self.any_shared(case), at, stream)
        self.finish(stream)
        self.expect(at, case.expected, f"{case} into registered memory")

    def destroy(self) -> None:
        """Destroys a stream and an event while the stream is at work."""
        case, stream, event = self.any_case(MOST), self.new_stream(), self.new("event")
        other, out = self.any_stream(), self.output(case.inputs[0])
        source = self.any_shared(case)[0]
        # If the unit ends early, nothing can wait for the stream's work.
        self.is_adrift = True
        size = case.inputs[0].nbytes
        self.do("copy", out.address, source, size, stream)
        self.do("event_record", event, stream)
        self.used.remove(stream)
        self.handles.remove((lib.gpuvec_stream_destroy, stream))
        self.destroyed(lib.gpuvec_stream_destroy, stream)
        self.do("stream_wait", other, event)
        self.handles.remove((lib.gpuvec_event_destroy, event))
        self.destroyed(lib.gpuvec_event_destroy, event)
        for status in (lib.gpuvec_stream_query(stream), lib.gpuvec_event_query(event)):
            if status != Status.ERROR_HANDLE:
                raise Wrong(f"a destroyed handle: {Status(status).name}")
        self.finish(other)
        self.is_adrift = False
        self.check(out, "copied on a stream that was destroyed")

    def measure(self) -> None:
        """Measures the time of a copy."""
        case, stream, ms = self.any_case(MOST), self.any_stream(), c_float(-1)
        start, end, out = self.new("event"), self.new("event"), self.output(case.inputs[0])
        self.do("event_record", start, stream)
        source = self.any_shared(case)[0]
        self.do("copy", out.address, source, case.inputs[0].nbytes, stream)
        self.do("event_record", end, stream)
        elapsed = "gpuvec_event_elapsed"
        self.wait_until_ready(lambda: lib.gpuvec_event_elapsed(start, end, byref(ms)), elapsed)
        if ms.value < 0:
            raise Wrong(f"{elapsed}: {ms.value} ms")
        self.check(out, "copied between two events")

    def meet(self) -> None:
        """Uses events and streams that all threads share."""
        if not self.shared.events or not self.shared.streams:
            return
        event, other = (self.chance.choice(self.shared.events) for _ in range(2))
        stream = self.any_stream()
        self.do("event_record", event, self.any_stream())
        self.do("stream_wait", stream, other)
        for call, handle in ((lib.gpuvec_event_query, event), (lib.gpuvec_stream_query, stream)):
            status = call(handle)
            self.ok(Status.OK if status == Status.NOT_READY else status, "a query")
        self.do("event_synchronize", other)

    def compile(self) -> None:
        """Evaluates a new expression, or one that the library remembers."""
        case = self.any_case(MOST)
        values = np.arange(case.n, dtype=np.float32)
        shift = self.chance.randrange(TEXTS)
        with Compiled(f"2*a + {shift}", {"a": "f4"}) as compiled:
            a, out = self.array(values), self.output(2 * values + np.float32(shift))
            must = self.shared.place == Place.AUTO and not self.is_on_device
            self.ok(compiled.run([a.address], out.address, case.n), "an expression", must=must)
            self.check(out, "an expression")
            if self.chance.random() < 0.03:
                status = lib.gpuvec_expr_prepare(compiled.handle, 0)
                # Without a GPU, and with placement cpu.
                self.ok(Status.OK if status == Status.ERROR_NO_GPU else status, "prepare")

    def ask(self) -> None:
        """Queries devices, passes a wrong argument, and lets the library retry a failed device."""
        self.do("init")
        why_cpu()
        if lib.gpuvec_device_count() > 0 and lib.gpuvec_device_name(0) is None:
            self.outcomes["no name"] += 1
        if lib.vector_add(None, None, None, 3) != Status.ERROR_NULL:
            raise Wrong(f"NULL is {last_error()}")

    def release_all(self) -> None:
        """Releases the memory that is left after the faults."""
        for each in self.left:
            if not self.released(*each):
                raise Wrong(f"{each[0].__name__} of {each[1]:#x}: {last_error()}")
