"""Streams, events and memory of every kind, released when a test ends, and chains of work."""

import ctypes
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from ctypes import byref, c_size_t, c_uint, c_uint64, c_void_p
from dataclasses import dataclass
from functools import cache
from typing import Optional

import numpy as np
from bindings import Status, last_error, lib, why_cpu
from cuda_driver import ATTACH_GLOBAL, Driver, HeldUp


def ok(status: int) -> None:
    """Fails unless a call succeeded and left no error behind."""
    assert status == Status.OK, f"{status}: {last_error()}"
    assert last_error() == ""


def has_gpu() -> bool:
    """Returns whether there is a GPU to use with the current placement."""
    return why_cpu() == ""


@cache
def driver_of(device: int) -> Driver:
    """Returns the driver in a device's primary context."""
    return Driver(device)


@dataclass
class Memory:
    """Memory that tests fill and read without the library."""

    address: int
    size: int
    # The driver that copies device memory; None for memory that the host can access.
    driver: Optional[Driver] = None
    # Keeps the memory alive.
    owner: Optional[np.ndarray] = None

    def view(self, dtype=np.uint8) -> np.ndarray:
        """Returns the bytes as an array in host memory."""
        assert self.driver is None, "the host does not reach a device's memory"
        bytes_ = (ctypes.c_uint8 * self.size).from_address(self.address)
        return np.frombuffer(bytes_, dtype)

    def put(self, values: np.ndarray) -> None:
        """Copies values to the beginning."""
        if self.driver is None:
            self.view()[: values.nbytes] = values.reshape(-1).view(np.uint8)
            return
        there, here = c_uint64(self.address), c_void_p(values.ctypes.data)
        with self.driver.entered() as driver:
            driver.call("cuMemcpyHtoD_v2", there, here, c_size_t(values.nbytes))
            # The copy may still be in flight, and other devices' streams are not ordered with it.
            driver.call("cuStreamSynchronize", c_void_p())

    def get(self, dtype=np.uint8) -> np.ndarray:
        """Returns a copy of the content; of device memory, after all queued work of the device."""
        if self.driver is None:
            return self.view(dtype).copy()
        values = np.empty(self.size // np.dtype(dtype).itemsize, dtype)
        there, here = c_uint64(self.address), c_void_p(values.ctypes.data)
        with self.driver.entered() as driver:
            driver.call("cuMemcpyDtoH_v2", here, there, c_size_t(values.nbytes))
        return values


# Kinds of memory. With fewer than two GPUs "other device" is the first device; without a GPU
# foreign pinned memory is pageable.
HOST_KINDS = ("pageable", "pinned", "registered", "foreign pinned")
KINDS = (*HOST_KINDS, "managed", "device", "other device")
# The kinds that queued work may use after the call has returned.
QUEUED_KINDS = ("pinned", "registered", "foreign pinned", "managed", "device")


PAGE = 4096


class Resources(ExitStack):
    """Makes streams, events and memory, and releases them when its block ends."""

    def stream(self, device: int = 0) -> int:
        """Makes a stream."""
        stream = lib.gpuvec_stream_create(device)
        assert stream, last_error()
        self.callback(lambda: ok(lib.gpuvec_stream_destroy(stream)))
        return stream

    def event(self) -> int:
        """Makes an event."""
        event = lib.gpuvec_event_create()
        assert event, last_error()
        self.callback(lambda: ok(lib.gpuvec_event_destroy(event)))
        return event

    def memory(self, kind: str, size: int) -> Memory:
        """Makes memory of a kind."""
        if kind in ("device", "other device"):
            return self.device_memory(size, int(kind == "other device" and device_count() > 1))
        if kind == "pinned":
            return self.pinned_memory(size)
        if kind in ("managed", "foreign pinned", "foreign device") and has_gpu():
            return self.foreign_memory(kind, size)
        # At any offset in pages that hold nothing else that could be registered.
        owner = np.empty(size + 3 * PAGE, np.uint8)
        address = owner.ctypes.data + PAGE - owner.ctypes.data % PAGE + 72
        if kind == "registered":
            ok(lib.gpuvec_host_register(address, size))
            # The callback keeps the owner until then.
            self.callback(lambda _: ok(lib.gpuvec_host_unregister(address)), owner)
        return Memory(address, size, owner=owner)

    def array(self, kind: str, values: np.ndarray) -> Memory:
        """Makes memory of a kind that holds values."""
        memory = self.memory(kind, values.nbytes)
        memory.put(values)
        return memory

    def device_memory(self, size: int, device: int = 0) -> Memory:
        """Makes memory of gpuvec_device_alloc."""
        address = lib.gpuvec_device_alloc(size, device)
        assert address, last_error()
        self.callback(lambda: ok(lib.gpuvec_device_free(address)))
        return Memory(address, size, driver_of(device) if has_gpu() else None)

    def pinned_memory(self, size: int) -> Memory:
        """Makes memory of pinned_alloc."""
        address = lib.pinned_alloc(size)
        assert address, last_error()
        self.callback(lambda: ok(lib.pinned_free(address)))
        return Memory(address, size)

    def foreign_memory(self, kind: str, size: int) -> Memory:
        """Makes memory as another library gets it from the driver."""
        driver, address, bytes_ = driver_of(0), c_uint64(), c_size_t(size)
        with driver.entered():
            if kind == "foreign device":
                driver.call("cuMemAlloc_v2", byref(address), bytes_)
                self.callback(self.free_foreign, "cuMemFree_v2", c_uint64(address.value))
                return Memory(address.value, size, driver)
            if kind == "managed":
                driver.call("cuMemAllocManaged", byref(address), bytes_, c_uint(ATTACH_GLOBAL))
                self.callback(self.free_foreign, "cuMemFree_v2", c_uint64(address.value))
            else:
                driver.call("cuMemHostAlloc", byref(address), bytes_, c_uint(0))
                self.callback(self.free_foreign, "cuMemFreeHost", c_void_p(address.value))
        return Memory(address.value, size)

    @staticmethod
    def free_foreign(call: str, address) -> None:
        """Frees another library's memory."""
        with driver_of(0).entered() as driver:
            driver.call(call, address)


def device_count() -> int:
    """Counts the devices to allocate on; without a GPU the host counts as one."""
    return lib.gpuvec_device_count() if has_gpu() else 1


class Hold:
    """An event that is not done before `let_go`. Needs a GPU.

    Meanwhile the test must make no driver call that waits for the whole device: before or after, it
    allocates and frees memory, loads kernels, and opens files of the GPU.
    """

    def __init__(self, resources: Resources, device: int = 0) -> None:
        held = HeldUp(driver_of(device))
        resources.callback(held.destroy)
        self.let_go = held.let_go
        self.event = resources.event()
        stream = lib.gpuvec_stream_from_native(held.stream)
        assert stream, last_error()
        ok(lib.gpuvec_event_record(self.event, stream))
        ok(lib.gpuvec_stream_destroy(stream))


@contextmanager
def holding(device: int = 0) -> Iterator[Hold]:
    """Holds an event back until the block ends in any way."""
    with Resources() as resources:
        hold = Hold(resources, device)
        try:
            yield hold
        finally:
            hold.let_go()


# The steps of a chain, in turn. Each uses the previous step's result, and another order gives other
# values.
STEPS = [
    ("gpuvec_sub_i32", np.subtract, 0),
    ("gpuvec_mul_i32", np.multiply, 1),
    ("gpuvec_add_i32", np.add, 0),
]


class Chain:
    """Calls on two arrays of 32-bit integers; each call needs the previous one's result."""

    def __init__(self, resources: Resources, kind: str, n: int, seed: int = 1) -> None:
        rng = np.random.default_rng(seed)
        self.n = n
        self.values = [rng.integers(-(1 << 31), 1 << 31, n, np.int32) | 1 for _ in range(2)]
        self.arrays = [resources.array(kind, values) for values in self.values]
        self.result = resources.memory("pinned", 4 * n)

    def queue(self, steps: int, stream: Optional[int]) -> None:
        """Queues `steps` operations and computes their results."""
        x, y = (array.address for array in self.arrays)
        for number in range(steps):
            name, function, written = STEPS[number % len(STEPS)]
            ok(getattr(lib, name)(x, y, (x, y)[written], self.n, stream))
            self.values[written] = function(*self.values)

    def queue_copy(self, stream: Optional[int]) -> None:
        """Queues a copy of one of the arrays to host memory."""
        ok(lib.gpuvec_copy(self.result.address, self.arrays[0].address, 4 * self.n, stream))

    def check(self) -> None:
        """Fails unless the copied values are right."""
        result = self.result.view(np.int32)
        assert np.array_equal(result, self.values[0]), f"{(result != self.values[0]).sum()} differ"

    def finish(self, stream: Optional[int]) -> None:
        """Copies one of the arrays, waits for the stream's work, and checks the copy."""
        self.queue_copy(stream)
        ok(lib.gpuvec_stream_synchronize(stream))
        self.check()
