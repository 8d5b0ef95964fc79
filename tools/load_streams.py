"""The stream work of a thread of tools/load.py: queued calls and copies, events, memory."""

import ctypes
import random
import time
from ctypes import byref, c_float
from typing import Optional

import numpy as np
from arrays import call_at
from bindings import Status, last_error, lib
from load_cases import MOST_ON_DEVICE, OFFSETS, Case, Cases, same_bytes
from streams import HOST_KINDS, PAGE, Memory, Resources, device_count, ok

# A stream, or None for a call without one.
Stream = Optional[int]

# Bytes for this thread's results: room for the largest array at any offset.
BUFFERS = (*HOST_KINDS, "managed", "device", "device", "other device")
ON_DEVICE = ("device", "other device")
BUFFER_BYTES = 8 * (MOST_ON_DEVICE + max(OFFSETS))
# The length of a thread's part of the memory that all threads register in parts: not a multiple of
# the page size.
PART_BYTES = 6 * PAGE + 1000


class Shared:
    """The objects that all threads use at once."""

    def __init__(self, resources: Resources, cases: Cases, threads: int) -> None:
        self.cases = cases
        devices = device_count()
        self.streams = [resources.stream(number % devices) for number in range(3)]
        self.events = [resources.event() for _ in range(3)]
        self.registered = np.empty(threads * PART_BYTES + 2 * PAGE, np.uint8)
        self.parts = self.registered.ctypes.data + -self.registered.ctypes.data % PAGE


class StreamWork:
    """Rounds of calls. Each round waits for all queued work that uses this thread's memory."""

    def __init__(self, resources: Resources, shared: Shared, number: int) -> None:
        self.chance = random.Random(number)
        self.cases, self.events = shared.cases.on_device, [resources.event() for _ in range(2)]
        self.short = [case for case in self.cases if case.expected.nbytes < PART_BYTES - PAGE]
        own = [resources.stream(number % device_count()) for _ in range(2)]
        self.shared, self.streams = shared, own + shared.streams
        self.buffers = [(kind, resources.memory(kind, BUFFER_BYTES)) for kind in BUFFERS]
        for _, buffer in self.buffers:
            # Resident from the start, so that nothing seems to grow.
            buffer.put(np.zeros(BUFFER_BYTES, np.uint8))
        self.part = shared.parts + number * PART_BYTES
        self.seen = np.full(BUFFER_BYTES, 0, np.uint8)
        self.bytes = 0
        self.rounds = [
            *[self.operate] * 4,
            *[self.copy] * 4,
            *[self.allocate, self.register, self.destroy, self.measure, self.meet],
        ]

    def round(self) -> str:
        """Does one round; returns its name."""
        round_ = self.chance.choice(self.rounds)
        round_()
        return round_.__name__

    def any_stream(self) -> Stream:
        """Chooses a stream of this thread, or one that all threads share."""
        return self.chance.choice(self.streams)

    def any_case(self) -> Case:
        """Chooses a case that has an array in every kind of memory."""
        return Cases.any_of(self.cases, self.chance)

    def any_input(self, case: Case) -> tuple[int, np.ndarray]:
        """Returns the address of a case's first input, and its values."""
        return self.chance.choice(list(case.addresses[0].values())), case.inputs[0]

    def follow(self, stream: Stream) -> Stream:
        """Chooses a stream, or none, and makes its next work wait for all work of another one."""
        way = self.chance.choice(["stay", "stay", "event", "wait", "wait for event"])
        if way == "stay" or stream is None:
            return stream
        if way == "wait":
            ok(lib.gpuvec_stream_synchronize(stream))
            return self.chance.choice([None, self.any_stream()])
        event = self.chance.choice(self.events)
        ok(lib.gpuvec_event_record(event, stream))
        other = self.any_stream() if way == "event" else None
        ok(lib.gpuvec_stream_wait(other, event))
        return other

    def finish(self, stream: Stream) -> None:
        """Returns when all work of a stream is done."""
        way = self.chance.choice(["synchronize", "event", "query"])
        if stream is None:
            return
        if way == "synchronize":
            ok(lib.gpuvec_stream_synchronize(stream))
            return
        event = self.chance.choice(self.events)
        ok(lib.gpuvec_event_record(event, stream))
        if way == "event":
            ok(lib.gpuvec_event_synchronize(event))
            return
        while (status := lib.gpuvec_event_query(event)) == Status.NOT_READY:
            time.sleep(0)
        ok(status)

    def queue(self, case: Case, out: int, stream: Stream) -> bool:
        """Calls a case's operation; returns False if placement cpu cannot access an array."""
        kinds = [self.chance.choice(list(addresses)) for addresses in case.addresses]
        inputs = [addresses[kind] for addresses, kind in zip(case.addresses, kinds)]
        status = call_at(case.operation, *inputs, out, case.n, stream=stream)
        self.bytes += case.expected.nbytes + sum(values.nbytes for values in case.inputs)
        if status == Status.ERROR_PLACEMENT:
            assert "device memory" in last_error(), last_error()
            return False
        assert status == Status.OK, f"{case.operation} of {case.n}, {kinds}: {last_error()}"
        return True

    def copy_bytes(self, to: int, source: int, bytes_: int, stream: Stream) -> None:
        """Makes one copy."""
        ok(lib.gpuvec_copy(to, source, bytes_, stream))
        self.bytes += 2 * bytes_

    def check(self, kind: str, address: int, expected: np.ndarray, what: object) -> None:
        """Fails unless the bytes have arrived."""
        if kind in ON_DEVICE:
            ok(lib.gpuvec_copy(self.seen.ctypes.data, address, expected.nbytes, None))
            address = self.seen.ctypes.data
        assert same_bytes(address, expected), f"{what}: wrong bits, in {kind} memory"

    def operate(self) -> None:
        """Queues an operation, and a copy of its result."""
        case, stream = self.any_case(), self.any_stream()
        (kind, out), (back_kind, back) = self.chance.sample(self.buffers, 2)
        start = self.chance.choice(OFFSETS) * case.expected.itemsize
        stream = stream if case.operation.takes_stream else None
        if self.queue(case, out.address + start, stream):
            stream = self.follow(stream)
            bytes_ = case.expected.nbytes
            self.copy_bytes(back.address + start, out.address + start, bytes_, stream)
            self.finish(stream)
            what = f"{case.operation} of {case.n} into {kind} memory, copied"
            self.check(back_kind, back.address + start, case.expected, what)

    def copy(self) -> None:
        """Copies some bytes from one memory to the next, on one stream after the other."""
        address, values = self.any_input(self.any_case())
        stream = self.chance.choice([None, self.any_stream()])
        first = self.chance.randrange(values.nbytes)
        expected = values.view(np.uint8)[first : first + self.chance.randrange(values.nbytes)]
        address += first
        way: list[tuple[str, Memory]] = self.chance.sample(self.buffers, self.chance.randint(1, 4))
        for _, buffer in way:
            to = buffer.address + self.chance.randrange(8)
            self.copy_bytes(to, address, expected.nbytes, stream)
            address, stream = to, self.follow(stream)
        self.finish(stream)
        kinds = [kind for kind, _ in way]
        self.check(kinds[-1], address, expected, f"{expected.nbytes} bytes through {kinds}")

    def allocate(self) -> None:
        """Allocates device memory, and frees it while a stream may still use it."""
        case, stream = self.any_case(), self.any_stream()
        memory = lib.gpuvec_device_alloc(case.expected.nbytes, 0)
        assert memory, last_error()
        was_queued = self.queue(case, memory, stream if case.operation.takes_stream else None)
        kind, back = self.chance.choice(self.buffers)
        self.copy_bytes(back.address, memory, case.expected.nbytes, stream)
        ok(lib.gpuvec_device_free(memory))
        self.finish(stream)
        if was_queued:
            self.check(kind, back.address, case.expected, f"{case.operation} into new memory")

    def register(self) -> None:
        """Computes in memory whose pages other threads register and unregister meanwhile."""
        case, stream = Cases.any_of(self.short, self.chance), self.any_stream()
        at = self.part + self.chance.randrange(PAGE // 8) * 8
        bytes_ = case.expected.nbytes
        ok(lib.gpuvec_host_register(at, bytes_))
        # Overlapping registrations: an array inside, and the same one again.
        inside = at + self.chance.randrange(bytes_)
        ok(lib.gpuvec_host_register(inside, at + bytes_ - inside))
        ok(lib.gpuvec_host_register(at, bytes_))
        for address in self.chance.sample([at, inside], 2):
            ok(lib.gpuvec_host_unregister(address))
        ctypes.memset(at, 0, bytes_)
        was_queued = self.queue(case, at, stream if case.operation.takes_stream else None)
        self.finish(stream)
        if was_queued:
            self.check("registered", at, case.expected, f"{case.operation}")
        ok(lib.gpuvec_host_unregister(at))

    def destroy(self) -> None:
        """Destroys a stream and an event while the stream is at work."""
        stream, event = lib.gpuvec_stream_create(0), lib.gpuvec_event_create()
        assert stream and event, last_error()
        address, values = self.any_input(self.any_case())
        kind, buffer = self.chance.choice(self.buffers)
        self.copy_bytes(buffer.address, address, values.nbytes, stream)
        ok(lib.gpuvec_event_record(event, stream))
        ok(lib.gpuvec_stream_destroy(stream))
        assert lib.gpuvec_stream_query(stream) == Status.ERROR_HANDLE
        other = self.any_stream()
        ok(lib.gpuvec_stream_wait(other, event))
        ok(lib.gpuvec_event_destroy(event))
        assert lib.gpuvec_event_query(event) == Status.ERROR_HANDLE
        self.finish(other)
        self.check(kind, buffer.address, values, "copied on a stream that was destroyed")

    def measure(self) -> None:
        """Measures the time of a copy."""
        (start, end), stream, ms = self.events, self.any_stream(), c_float(-1)
        address, values = self.any_input(self.any_case())
        kind, buffer = self.chance.choice(self.buffers)
        ok(lib.gpuvec_event_record(start, stream))
        self.copy_bytes(buffer.address, address, values.nbytes, stream)
        ok(lib.gpuvec_event_record(end, stream))
        while (status := lib.gpuvec_event_elapsed(start, end, byref(ms))) == Status.NOT_READY:
            time.sleep(0)
        ok(status)
        assert ms.value >= 0, f"{ms.value} ms"
        self.check(kind, buffer.address, values, "copied between two events")

    def meet(self) -> None:
        """Uses events and streams that all threads share."""
        event, other = (self.chance.choice(self.shared.events) for _ in range(2))
        stream = self.any_stream()
        ok(lib.gpuvec_event_record(event, self.any_stream()))
        ok(lib.gpuvec_stream_wait(stream, other))
        for status in (lib.gpuvec_event_query(event), lib.gpuvec_stream_query(stream)):
            assert status in (Status.OK, Status.NOT_READY), last_error()
        ok(lib.gpuvec_event_synchronize(other))
