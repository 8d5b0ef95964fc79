"""Scenarios of several calls each: streams, events, copies, and memory that is released."""

import ctypes
from collections.abc import Iterator
from contextlib import AbstractContextManager
from ctypes import byref, c_float, c_int, c_uint, c_void_p
from dataclasses import dataclass, field
from typing import Callable, Optional

import numpy as np
from arrays import GUARD_BYTE
from bindings import Place, Status, last_error, lib
from fake_driver import FakeDriver
from oracles import wrapping, wrapping_sum
from streams import PAGE
from work import (
    NULL,
    ONE_OF_EACH,
    RIGHT,
    OnArrays,
    Work,
    assert_holds,
    outcome_of,
)


class CallFailed(Exception):
    """A failed call of the library: its outcome and the library's text."""

    def __init__(self, outcome: str) -> None:
        super().__init__(outcome)
        self.outcome, self.text = outcome, last_error()


def ok(status: int) -> None:
    """Continues if a call succeeded."""
    if status != Status.OK:
        raise CallFailed(outcome_of(status))
    assert last_error() == "", f"a success with the text '{last_error()}'"


def got(given: Optional[int]) -> int:
    """Returns a handle or an address; continues if it is not NULL."""
    if not given:
        raise CallFailed(NULL)
    return given


class Handles(AbstractContextManager):
    """Streams and events that are destroyed when the block ends, if not before."""

    def __init__(self) -> None:
        self.held: dict[int, Callable[[int], int]] = {}

    def stream(self, device: int = 0) -> int:
        """Creates a stream."""
        return self.keep(lib.gpuvec_stream_create(device), lib.gpuvec_stream_destroy)

    def adopted(self, native) -> int:
        """Adopts a stream of another library."""
        return self.keep(lib.gpuvec_stream_from_native(native), lib.gpuvec_stream_destroy)

    def event(self) -> int:
        """Creates an event."""
        return self.keep(lib.gpuvec_event_create(), lib.gpuvec_event_destroy)

    def keep(self, handle: Optional[int], destroy: Callable[[int], int]) -> int:
        """Remembers a handle and the function that destroys it."""
        self.held[got(handle)] = destroy
        return handle

    def destroy(self, handle: int) -> None:
        """Destroys a handle, which always succeeds."""
        destroy = self.held.pop(handle)
        assert destroy(handle) == Status.OK, last_error()
        assert destroy(handle) == Status.ERROR_HANDLE, "destroyed twice"

    def __exit__(self, *_) -> None:
        """Destroys the remaining objects."""
        for handle in list(self.held):
            self.destroy(handle)


class Steps(Work):
    """A sequence of calls. The first failure ends the attempt and is its outcome."""

    always_answers = False
    codes = ONE_OF_EACH

    def attempt(self) -> str:
        """Makes the calls."""
        try:
            with Handles() as handles:
                self.steps(handles)
        except CallFailed as failed:
            self.said = failed.text
            return failed.outcome
        self.said = ""
        return RIGHT

    def steps(self, handles: Handles) -> None:
        """Makes the calls of the scenario."""
        raise NotImplementedError

    def text(self) -> str:
        """Returns the library's error text for the call that failed."""
        return self.said


class OnStreams(Steps, OnArrays):
    """Calls, some of them queued, on arrays `a` and `b` and on arrays that the calls write."""

    queues = True

    def check(self, outcome: str, calls: list[str]) -> None:
        """Fails unless results are right after a success, and nothing else was ever written."""
        self.check_arrays(outcome, may_have_written=True)

    def lay_out_integers(self, kinds: dict[str, str], n: int) -> None:
        """Lays out `a`, `b`, and of `c`, `d` and `total`: (a + b) * b, the same, and its sum."""
        rng = np.random.default_rng(n)
        a, b = (rng.integers(-(1 << 31), 1 << 31, n, np.int32) for _ in range(2))
        c = wrapping(np.multiply)(wrapping(np.add)(a, b), b)
        results = {"c": c, "d": c, "total": wrapping_sum(c)}
        results = {name: result for name, result in results.items() if name in kinds}
        before = {name: np.full_like(result, GUARD_BYTE) for name, result in results.items()}
        self.lay_out(kinds, {"a": a, "b": b, **before}, results)

    def queue_product(self, stream: int) -> None:
        """Queues two calls that write c, the second in place."""
        a, b, c = self.addresses("a b c")
        ok(lib.gpuvec_add_i32(a, b, c, self.n, stream))
        ok(lib.gpuvec_mul_i32(c, b, c, self.n, stream))


# Ways to wait for a stream.
WAITS = ("synchronize", "query", "event")


@dataclass
class Chain(OnStreams):
    """Calls on two streams: the second waits for the first, and the caller for the second."""

    kinds: tuple[str, ...]
    wait: str = "synchronize"
    devices: int = 1
    n: int = 3001

    def __str__(self) -> str:
        """For a scenario's name."""
        return f"two streams, {' '.join(self.kinds)}, by {self.wait}"

    def in_parent(self) -> None:
        """Makes the arrays, of the kinds in turn."""
        kinds = [self.kinds[number % len(self.kinds)] for number in range(5)]
        self.lay_out_integers(dict(zip(("a", "b", "c", "d", "total"), kinds)), self.n)

    def steps(self, handles: Handles) -> None:
        """Queues operations, a copy and a reduction."""
        first, second = handles.stream(), handles.stream(self.devices - 1)
        event = handles.event()
        self.queue_product(first)
        ok(lib.gpuvec_event_record(event, first))
        ok(lib.gpuvec_stream_wait(second, event))
        c, d, total = self.addresses("c d total")
        ok(lib.gpuvec_copy(d, c, 4 * self.n, second))
        ok(lib.gpuvec_sum_i32(c, total, self.n, second))
        self.wait_for(second, event)
        if self.devices == 1:
            # Each of two devices reports failures of its own work only.
            self.check_arrays(RIGHT, may_have_written=True)
        for stream in (second, first):
            ok(lib.gpuvec_stream_synchronize(stream))

    def wait_for(self, stream: int, event: int) -> None:
        """Returns when the stream's work is done."""
        if self.wait == "synchronize":
            ok(lib.gpuvec_stream_synchronize(stream))
        elif self.wait == "query":
            # Drained first, so that one query is enough.
            FakeDriver().drain()
            ok(lib.gpuvec_stream_query(stream))
        else:
            ok(lib.gpuvec_event_record(event, stream))
            ok(lib.gpuvec_event_synchronize(event))


@dataclass
class KeptStream(OnStreams):
    """Calls on one stream that remains in use after errors, unless its device is lost."""

    kind: str
    n: int = 3001
    stream: Optional[int] = None

    turns = (1,)

    def __str__(self) -> str:
        """For a scenario's name."""
        return f"one stream for all, {self.kind}"

    def in_parent(self) -> None:
        """Makes the arrays."""
        self.lay_out_integers(dict.fromkeys(("a", "b", "c", "total"), self.kind), self.n)

    def steps(self, handles: Handles) -> None:
        """Queues operations and a reduction; replaces the stream of a lost device."""
        self.stream = self.stream or got(lib.gpuvec_stream_create(0))
        try:
            self.queue_product(self.stream)
            ok(lib.gpuvec_sum_i32(*self.addresses("c total"), self.n, self.stream))
            ok(lib.gpuvec_stream_synchronize(self.stream))
        except CallFailed as failed:
            if failed.outcome == Status.ERROR_DEVICE_LOST.name:
                assert lib.gpuvec_stream_destroy(self.stream) == Status.OK
                self.stream = None
            raise


@dataclass
class LongSum(OnStreams):
    """A reduction so long that its states are merged in several steps."""

    n: int

    codes = (2, 700)
    turns = (1,)

    def __str__(self) -> str:
        """For a scenario's name."""
        return f"a sum of {self.n} on a stream"

    def in_parent(self) -> None:
        """Makes the arrays."""
        a = np.random.default_rng(1).integers(-(1 << 31), 1 << 31, self.n, np.int32)
        results = {"total": wrapping_sum(a)}
        before = {"a": a, "total": np.full(1, GUARD_BYTE)}
        self.lay_out({"a": "device", "total": "pinned"}, before, results)

    def steps(self, handles: Handles) -> None:
        """Queues the reduction and waits for it."""
        stream = handles.stream()
        ok(lib.gpuvec_sum_i32(*self.addresses("a total"), self.n, stream))
        ok(lib.gpuvec_stream_synchronize(stream))


class DestroyedInFlight(OnStreams):
    """Streams and an event that are destroyed before any of their work is done."""

    n = 3001
    turns = (1,)

    def __str__(self) -> str:
        """For a scenario's name."""
        return "destroyed with work to do"

    def in_parent(self) -> None:
        """Makes the arrays."""
        self.lay_out_integers(dict.fromkeys(("a", "b", "c", "d"), "device"), self.n)

    def steps(self, handles: Handles) -> None:
        """Waits for the last event, before which all work is done as if nothing were destroyed."""
        first, second = handles.stream(), handles.stream()
        between, last = handles.event(), handles.event()
        with FakeDriver().held():
            self.queue_product(first)
            ok(lib.gpuvec_event_record(between, first))
            ok(lib.gpuvec_stream_wait(second, between))
            for handle in (first, between):
                handles.destroy(handle)
            c, d = self.addresses("c d")
            ok(lib.gpuvec_copy(d, c, 4 * self.n, second))
            ok(lib.gpuvec_event_record(last, second))
            handles.destroy(second)
        ok(lib.gpuvec_event_synchronize(last))
        self.check_arrays(RIGHT, may_have_written=True)
        # The fake driver's streams end shortly after their last work.
        FakeDriver().drain()


class Events(OnStreams):
    """Events before and after work, and the time between them."""

    n = 3001

    def __str__(self) -> str:
        """For a scenario's name."""
        return "events"

    def in_parent(self) -> None:
        """Makes the arrays."""
        self.lay_out_integers(dict.fromkeys(("a", "b", "c"), "device"), self.n)

    def steps(self, handles: Handles) -> None:
        """Records events, waits for them, queries them, and records them again."""
        stream, start, end = handles.stream(), handles.event(), handles.event()
        ok(lib.gpuvec_event_record(start, stream))
        self.queue_product(stream)
        ok(lib.gpuvec_event_record(end, stream))
        ok(lib.gpuvec_stream_wait(None, end))
        self.check_arrays(RIGHT, may_have_written=True)
        ok(lib.gpuvec_event_query(start))
        milliseconds = c_float(-1)
        ok(lib.gpuvec_event_elapsed(start, end, byref(milliseconds)))
        assert milliseconds.value >= 0, milliseconds
        ok(lib.gpuvec_event_record(start, stream))
        ok(lib.gpuvec_stream_synchronize(stream))
        ok(lib.gpuvec_event_elapsed(end, start, byref(milliseconds)))
        assert milliseconds.value >= 0, milliseconds


@dataclass
class Adopted(OnStreams):
    """Work on an adopted stream of another library, or on the legacy default stream."""

    whose: str
    n: int = 3001

    def __str__(self) -> str:
        """For a scenario's name."""
        return f"{self.whose} stream"

    def in_parent(self) -> None:
        """Makes the arrays."""
        self.lay_out_integers(dict.fromkeys(("a", "b", "c", "total"), "device"), self.n)

    def in_child(self) -> None:
        """Makes the arrays and the stream."""
        super().in_child()
        self.native = c_void_p()
        if self.whose == "another library's":
            create = FakeDriver().driver.cuStreamCreateWithPriority
            assert create(byref(self.native), c_uint(0), c_int(0)) == 0

    def steps(self, handles: Handles) -> None:
        """Queues operations and a reduction."""
        stream = handles.adopted(self.native)
        self.queue_product(stream)
        ok(lib.gpuvec_sum_i32(*self.addresses("c total"), self.n, stream))
        ok(lib.gpuvec_stream_synchronize(stream))


@dataclass
class Copy(OnStreams):
    """A copy between two kinds of memory, with a stream or without."""

    kinds: tuple[str, str]
    has_stream: bool
    n: int = 300_007

    turns = (1,)

    def __str__(self) -> str:
        """For a scenario's name."""
        there, here = self.kinds
        return f"a copy from {there} to {here}" + " on a stream" * self.has_stream

    def in_parent(self) -> None:
        """Makes the arrays; some of their bytes are copied."""
        source = np.random.default_rng(1).integers(-(1 << 31), 1 << 31, self.n, np.int32)
        before = np.full_like(source, GUARD_BYTE)
        result = before.copy()
        result.view(np.uint8)[1:-1] = source.view(np.uint8)[2:]
        kinds = dict(zip(("a", "c"), self.kinds))
        self.lay_out(kinds, {"a": source, "c": before}, {"c": result})

    @property
    def queues(self) -> bool:
        """Returns whether work may be left in flight, as only on a stream."""
        return self.has_stream

    @property
    def always_answers(self) -> bool:
        """Returns whether the cores can copy: both arrays are in host memory."""
        return not self.is_on_device and not self.has_stream

    @property
    def needs_gpu(self) -> bool:
        """Returns whether a device's memory is copied; the cores may always copy other memory."""
        return any(kind.startswith("device") for kind in self.kinds)

    def steps(self, handles: Handles) -> None:
        """Copies from the third byte on to the second byte on."""
        stream = handles.stream() if self.has_stream else None
        source, to = self.addresses("a c")
        ok(lib.gpuvec_copy(to + 1, source + 2, 4 * self.n - 2, stream))
        ok(lib.gpuvec_stream_synchronize(stream))


@dataclass
class Released(Steps):
    """Memory that is released by its address, once, and again after a failure."""

    held: list[tuple[Callable[[int], int], int]] = field(default_factory=list, init=False)

    def may_leave(self, failed: set[str]) -> bool:
        """Returns True: memory that could not be released is released by the next attempt."""
        of_memory = {"cuMemFree_v2", "cuMemFreeHost", "cuMemHostUnregister"}
        return super().may_leave(failed - of_memory - {"cuCtxPushCurrent_v2"})

    def steps(self, handles: Handles) -> None:
        """Releases the objects of the earlier attempt, then those of this one."""
        self.release()
        try:
            self.use()
        finally:
            self.release()

    def use(self) -> None:
        """Allocates and uses memory."""
        raise NotImplementedError

    def release(self) -> None:
        """Releases all memory, in turn. Memory of a lost device is gone with it."""
        while self.held:
            function, address = self.held[0]
            status = function(address)
            failed = CallFailed(outcome_of(status))
            if status in (Status.OK, Status.ERROR_DEVICE_LOST):
                self.held.pop(0)
                if (function, address) not in self.held:
                    assert function(address) == Status.ERROR_POINTER, "released twice"
            if status != Status.OK:
                raise failed


@dataclass
class Allocated(Released):
    """Memory that is allocated, written, read and freed by its address."""

    name: str

    BYTES = 10_000

    @property
    def needs_gpu(self) -> bool:
        """Returns whether it is device memory; the cores may always copy to pinned memory."""
        return self.name != "pinned"

    def __str__(self) -> str:
        """For a scenario's name."""
        return f"{self.name}_alloc and {self.name}_free"

    def use(self) -> None:
        """Allocates the memory, and copies to it and back."""
        values = np.arange(self.BYTES, dtype=np.uint8)
        back = np.zeros_like(values)
        is_device = self.name == "gpuvec_device"
        address = got(getattr(lib, f"{self.name}_alloc")(self.BYTES, *[0] * is_device))
        self.held.append((getattr(lib, f"{self.name}_free"), address))
        ok(lib.gpuvec_copy(address, values.ctypes.data, self.BYTES, None))
        ok(lib.gpuvec_copy(back.ctypes.data, address, self.BYTES, None))
        assert np.array_equal(back, values)

    def check(self, outcome: str, calls: list[str]) -> None:
        """Fails unless pinned memory that could not be freed still has its content."""
        for _, address in self.held:
            if self.name == "pinned":
                ctypes.memset(address, GUARD_BYTE, self.BYTES)


class Registered(Released):
    """Two arrays that share a page, registered and used; then all of their pages."""

    N = PAGE // 4 + 100

    def __str__(self) -> str:
        """For a scenario's name."""
        return "gpuvec_host_register and gpuvec_host_unregister"

    def in_parent(self) -> None:
        """Makes the arrays, in pages of their own."""
        rng = np.random.default_rng(1)
        block = np.zeros(8 * PAGE, np.uint8)
        start = -block.ctypes.data % PAGE
        self.pages = block[start : start + 7 * PAGE]
        at = 2 * PAGE + 72
        size = 4 * self.N
        self.a, self.b = (
            self.pages[begin : begin + size].view(np.int32) for begin in (at, at + size)
        )
        for array in (self.a, self.b):
            array[:] = rng.integers(-(1 << 31), 1 << 31, self.N, np.int32)
        self.before = self.pages.copy()
        self.out = np.zeros(self.N, np.int32)
        self.sum = wrapping(np.add)(self.a, self.b)

    def use(self) -> None:
        """Registers the arrays, one of them twice, and sums them."""
        for array in (self.b, self.a, self.pages[100:-100], self.a):
            ok(lib.gpuvec_host_register(array.ctypes.data, array.nbytes))
            self.held.append((lib.gpuvec_host_unregister, array.ctypes.data))
        self.out[:] = 0
        addresses = (array.ctypes.data for array in (self.a, self.b, self.out))
        ok(lib.gpuvec_add_i32(*addresses, self.N, None))
        assert_holds(self.out, self.sum, "out")

    def check(self, outcome: str, calls: list[str]) -> None:
        """Fails unless the arrays are unchanged."""
        assert np.array_equal(self.pages, self.before)


CHAINS = [("device",), ("pinned",), ("device", "pinned+3", "managed"), ("pageable",)]
# Kinds of a, which is first used on the other device, of b, c, d and their sum.
ON_TWO_DEVICES = ("other device", "device", "device", "other device", "pinned")
DIRECTIONS = [
    *[("pageable", "device"), ("device", "pageable+1"), ("pinned", "device+5")],
    *[("device", "pinned+3"), ("device", "device+5"), ("pageable", "pinned")],
    *[("pinned", "pinned+3"), ("managed", "pageable")],
]
# Several turns of every warp of a reduction.
LONG = 2048 * 4096 + 5000


def works() -> Iterator[tuple[Work, Place]]:
    """Yields all work with each placement that may use a GPU."""
    for place in (Place.GPU, Place.AUTO):
        for work in (
            *[Chain(kinds) for kinds in CHAINS],
            *[Chain(CHAINS[0], wait) for wait in WAITS[1:]],
            Chain(ON_TWO_DEVICES, devices=2),
            *[KeptStream(kind) for kind in ("device", "pinned")],
            *[DestroyedInFlight(), Events(), LongSum(LONG)],
            *[Adopted(whose) for whose in ("another library's", "the legacy default")],
            *[Copy(kinds, has_stream) for kinds in DIRECTIONS for has_stream in (False, True)],
            *[Allocated(name) for name in ("pinned", "gpuvec_device")],
            Registered(),
        ):
            yield work, place
