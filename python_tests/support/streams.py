"""Streams, events and memory of every kind, given back when a test ends, and chains of work."""

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
    """The driver in a device's primary context."""
    return Driver(device)


@dataclass
class Memory:
    """Bytes that are filled and read without the library."""

    address: int
    size: int
    # The driver that reaches them; None for memory that the host reaches.
    driver: Optional[Driver] = None
    # Keeps the memory alive.
    owner: Optional[np.ndarray] = None

    def view(self, dtype=np.uint8) -> np.ndarray:
        """The bytes as an array, as the host sees it now."""
        assert self.driver is None, "the host does not reach a device's memory"
        bytes_ = (ctypes.c_uint8 * self.size).from_address(self.address)
        return np.frombuffer(bytes_, dtype)

    def put(self, values: np.ndarray) -> None:
        """Puts values at the beginning."""
        if self.driver is None:
            self.view()[: values.nbytes] = values.reshape(-1).view(np.uint8)
            return
        there, here = c_uint64(self.address), c_void_p(values.ctypes.data)
        with self.driver.entered() as driver:
            driver.call("cuMemcpyHtoD_v2", there, here, c_size_t(values.nbytes))
            # The copy may still be in flight, and other devices' streams are not ordered with it.
            driver.call("cuStreamSynchronize", c_void_p())

    def get(self, dtype=np.uint8) -> np.ndarray:
        """A copy of what is there; a device's, when all that was queued on it is done."""
        if self.driver is None:
            return self.view(dtype).copy()
        values = np.empty(self.size // np.dtype(dtype).itemsize, dtype)
        there, here = c_uint64(self.address), c_void_p(values.ctypes.data)
        with self.driver.entered() as driver:
            driver.call("cuMemcpyDtoH_v2", here, there, c_size_t(values.nbytes))
        return values


# Kinds of memory. Where there is one GPU, or none, "other device" is the first one; where there is
# none, foreign pinned memory is pageable.
HOST_KINDS = ("pageable", "pinned", "registered", "foreign pinned")
KINDS = (*HOST_KINDS, "managed", "device", "other device")
# Those that queued work may use: a call on a stream returns before it is done.
QUEUED_KINDS = ("pinned", "registered", "foreign pinned", "managed", "device")


PAGE = 4096


class Resources(ExitStack):
    """Makes streams, events and memory, and gives them back when its block ends."""

    def stream(self, device: int = 0) -> int:
        """A stream."""
        stream = lib.gpuvec_stream_create(device)
        assert stream, last_error()
        self.callback(lambda: ok(lib.gpuvec_stream_destroy(stream)))
        return stream

    def event(self) -> int:
        """An event."""
        event = lib.gpuvec_event_create()
        assert event, last_error()
        self.callback(lambda: ok(lib.gpuvec_event_destroy(event)))
        return event

    def memory(self, kind: str, size: int) -> Memory:
        """Memory of a kind."""
        if kind in ("device", "other device"):
            return self.device_memory(size, int(kind == "other device" and device_count() > 1))
        if kind == "pinned":
            return self.pinned_memory(size)
        if kind in ("managed", "foreign pinned", "foreign device") and has_gpu():
            return self.foreign_memory(kind, size)
        # Anywhere in a page; the pages hold nothing else that could be registered.
        owner = np.empty(size + 3 * PAGE, np.uint8)
        address = owner.ctypes.data + PAGE - owner.ctypes.data % PAGE + 72
        if kind == "registered":
            ok(lib.gpuvec_host_register(address, size))
            # The callback keeps the owner until then.
            self.callback(lambda _: ok(lib.gpuvec_host_unregister(address)), owner)
        return Memory(address, size, owner=owner)

    def array(self, kind: str, values: np.ndarray) -> Memory:
        """Memory of a kind that holds values."""
        memory = self.memory(kind, values.nbytes)
        memory.put(values)
        return memory

    def device_memory(self, size: int, device: int = 0) -> Memory:
        """Memory of gpuvec_device_alloc."""
        address = lib.gpuvec_device_alloc(size, device)
        assert address, last_error()
        self.callback(lambda: ok(lib.gpuvec_device_free(address)))
        return Memory(address, size, driver_of(device) if has_gpu() else None)

    def pinned_memory(self, size: int) -> Memory:
        """Memory of pinned_alloc."""
        address = lib.pinned_alloc(size)
        assert address, last_error()
        self.callback(lambda: ok(lib.pinned_free(address)))
        return Memory(address, size)

    def foreign_memory(self, kind: str, size: int) -> Memory:
        """Memory that another library has from the driver."""
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
        """Gives another library's memory back."""
        with driver_of(0).entered() as driver:
            driver.call(call, address)


def device_count() -> int:
    """Counts the devices to allocate on: without a GPU there is one, the host."""
    return lib.gpuvec_device_count() if has_gpu() else 1


class Hold:
    """An event that is not done before `let_go`. Needs a GPU.

    While it holds, nothing may be asked of the driver that waits for all of a device: memory is
    allocated and freed, kernels are loaded, and files of the GPU's are opened before and after.
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
    """A hold that is let go at the block's end, however it ends."""
    with Resources() as resources:
        hold = Hold(resources, device)
        try:
            yield hold
        finally:
            hold.let_go()


# The steps of a chain, in turn: each uses what the one before it wrote, and in another order they
# give other values.
STEPS = [
    ("gpuvec_sub_i32", np.subtract, 0),
    ("gpuvec_mul_i32", np.multiply, 1),
    ("gpuvec_add_i32", np.add, 0),
]


class Chain:
    """Calls that each need what the one before it wrote, on two arrays of 32-bit integers."""

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
        """Copies one of the arrays to where the host sees it."""
        ok(lib.gpuvec_copy(self.result.address, self.arrays[0].address, 4 * self.n, stream))

    def check(self) -> None:
        """Fails unless the copied values are right now."""
        result = self.result.view(np.int32)
        assert np.array_equal(result, self.values[0]), f"{(result != self.values[0]).sum()} differ"
