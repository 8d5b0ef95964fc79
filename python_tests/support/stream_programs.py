"""Random programs of work on several streams, ordered where necessary, and a model of them."""

import random
from dataclasses import dataclass, field
from typing import Optional

import numpy as np
from bindings import lib
from streams import KINDS, Memory, Resources, device_count, ok

OPERATIONS = {
    "gpuvec_add_i32": np.add,
    "gpuvec_sub_i32": np.subtract,
    "gpuvec_mul_i32": np.multiply,
}

# A stream, by its index in the program's list, or None without a stream.
Stream = Optional[int]


@dataclass
class Array:
    """An array, its expected content, and the streams that may still be working on it."""

    memory: Memory
    values: np.ndarray
    writer: Stream = None
    readers: set = field(default_factory=set)


class Program:
    """Arrays of all kinds of memory, streams of all devices and events."""

    LENGTHS = (1, 1000, 30_011, 300_007)

    def __init__(self, resources: Resources, seed: int) -> None:
        self.chance = random.Random(seed)
        self.n = self.chance.choice(self.LENGTHS)
        rng = np.random.default_rng(seed)
        devices = device_count()
        self.streams = [resources.stream(number % devices) for number in range(4)]
        self.events = [resources.event() for _ in range(3)]
        self.arrays = []
        for kind in 2 * KINDS:
            values = rng.integers(-(1 << 31), 1 << 31, 2 * self.n, np.int32)
            self.arrays.append(Array(resources.array(kind, values), values))

    def run(self, steps: int) -> None:
        """Makes `steps` calls and checks all arrays."""
        for _ in range(steps):
            self.chance.choice([self.operate, self.operate, self.copy, self.sum, self.look])()
        for stream in self.streams:
            ok(lib.gpuvec_stream_synchronize(stream))
        for array in self.arrays:
            assert np.array_equal(array.memory.get(np.int32), array.values)

    def any_stream(self) -> Stream:
        """Chooses a stream, or none."""
        return self.chance.choice([None, *range(len(self.streams))])

    def handle(self, stream: Stream) -> Optional[int]:
        """Returns the library's handle."""
        return None if stream is None else self.streams[stream]

    def operate(self) -> None:
        """Calls an operation on halves of three arrays, which may be the same."""
        stream = self.any_stream()
        a, b, out = (self.chance.choice(self.arrays) for _ in range(3))
        halves = [self.chance.randrange(2) * self.n for _ in range(3)]
        name = self.chance.choice(sorted(OPERATIONS))
        self.order(stream, reads=[a, b], writes=out)
        addresses = [x.memory.address + 4 * at for x, at in zip((a, b, out), halves)]
        ok(getattr(lib, name)(*addresses, self.n, self.handle(stream)))
        of_a, of_b, of_out = (x.values[at : at + self.n] for x, at in zip((a, b, out), halves))
        of_out[:] = OPERATIONS[name](of_a, of_b)

    def copy(self) -> None:
        """Copies any bytes of one array into another."""
        stream = self.any_stream()
        source, to = self.chance.sample(self.arrays, 2)
        bytes_ = self.chance.randrange(4 * self.n)
        start, end = (self.chance.randrange(4 * self.n) for _ in range(2))
        self.order(stream, reads=[source], writes=to)
        addresses = to.memory.address + end, source.memory.address + start
        ok(lib.gpuvec_copy(*addresses, bytes_, self.handle(stream)))
        values = source.values.view(np.uint8)[start : start + bytes_]
        to.values.view(np.uint8)[end : end + bytes_] = values

    def sum(self) -> None:
        """Stores the sum of half an array at the beginning of another."""
        stream = self.any_stream()
        array, out = self.chance.sample(self.arrays, 2)
        self.order(stream, reads=[array], writes=out)
        addresses = array.memory.address, out.memory.address
        ok(lib.gpuvec_sum_i32(*addresses, self.n, self.handle(stream)))
        out.values[:2] = array.values[: self.n].sum(dtype=np.int64, keepdims=True).view(np.int32)

    def look(self) -> None:
        """Returns the current content of an array that the host can access."""
        array = self.chance.choice(self.arrays)
        if array.memory.driver is None:
            self.order(None, reads=[array])
            assert np.array_equal(array.memory.view(np.int32), array.values)

    def order(self, stream: Stream, reads: list, writes: Optional[Array] = None) -> None:
        """Makes a stream, or the caller, wait for the earlier work that conflicts with its own."""
        before = {array.writer for array in reads}
        if writes:
            before |= {writes.writer, *writes.readers}
        for other in sorted(before - {None, stream}):
            self.wait(stream, other)
        for array in reads:
            if stream is not None:
                array.readers.add(stream)
        if writes:
            writes.writer, writes.readers = stream, set()

    def wait(self, stream: Stream, other: int) -> None:
        """Makes a stream, or the caller, wait for another stream in one of several ways."""
        event = self.chance.choice(self.events)
        way = self.chance.choice(["stream_wait", "stream_wait", "event_synchronize", "synchronize"])
        if way == "synchronize":
            ok(lib.gpuvec_stream_synchronize(self.streams[other]))
            return
        ok(lib.gpuvec_event_record(event, self.streams[other]))
        if way == "event_synchronize":
            ok(lib.gpuvec_event_synchronize(event))
        else:
            ok(lib.gpuvec_stream_wait(self.handle(stream), event))
