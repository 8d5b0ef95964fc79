"""The CUDA driver as another library in the process would use it, through ctypes."""

import ctypes
import threading
from contextlib import contextmanager
from ctypes import CFUNCTYPE, byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

import numpy as np

ATTACH_GLOBAL = 1
NON_BLOCKING = 1

# The longest time that a stream is held up, so that a failing test does not wait for ever.
HELD_SECONDS = 60


def is_emulated() -> bool:
    """Says whether the driver is the fake one, which emulates kernels, thread by thread."""
    return hasattr(ctypes.CDLL("libcuda.so.1"), "fake_driver_faults")


class Driver:
    """Calls of the driver that must succeed, in a device's primary context."""

    def __init__(self, device: int = 0) -> None:
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        self.context = c_void_p()
        self.call("cuDevicePrimaryCtxRetain", byref(self.context), device)

    def call(self, name: str, *arguments) -> None:
        """Calls a function of the driver; fails unless it returns CUDA_SUCCESS."""
        code = getattr(self.driver, name)(*arguments)
        assert code == 0, f"{name} returned {code}"

    def set_current(self, context) -> None:
        """Makes a context current on the calling thread, or none."""
        self.call("cuCtxSetCurrent", context)

    def current(self):
        """Returns the calling thread's context; None if it has none."""
        context = c_void_p()
        self.call("cuCtxGetCurrent", byref(context))
        return context.value

    @contextmanager
    def entered(self):
        """Pushes the primary context on the calling thread's stack for the block."""
        self.call("cuCtxPushCurrent_v2", self.context)
        try:
            yield self
        finally:
            self.call("cuCtxPopCurrent_v2", byref(c_void_p()))

    def new_context(self) -> c_void_p:
        """Creates a context that is not the primary one, current on the calling thread."""
        context = c_void_p()
        self.call("cuCtxCreate_v2", byref(context), 0, 0)
        return context

    def new_stream(self) -> c_void_p:
        """Creates a stream of the current context that the legacy default stream ignores."""
        stream = c_void_p()
        call = "cuStreamCreateWithPriority"
        self.call(call, byref(stream), c_uint(NON_BLOCKING), c_int(0))
        return stream

    def free_bytes(self) -> int:
        """Returns the device's free memory in bytes."""
        return self.memory_bytes()[0]

    def memory_bytes(self) -> tuple[int, int]:
        """Returns the device's free and total memory in bytes."""
        free, total = c_size_t(), c_size_t()
        self.call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value, total.value

    def fill_later(self, address: int, bits: int, count: int) -> None:
        """Queues a fill of 32-bit words on the legacy default stream, and does not wait for it."""
        there, words = c_uint64(address), c_size_t(count)
        self.call("cuMemsetD32Async", there, c_uint(bits), words, c_void_p())


class HeldUp:
    """A stream of the driver whose work waits for `let_go`."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.may_go = threading.Event()
        self.function = CFUNCTYPE(None, c_void_p)(lambda _: self.may_go.wait(HELD_SECONDS))
        with driver.entered():
            self.stream = driver.new_stream()
            driver.call("cuLaunchHostFunc", self.stream, self.function, c_void_p())

    def let_go(self) -> None:
        """Lets the stream begin its work."""
        self.may_go.set()

    def destroy(self) -> None:
        """Lets the stream go, and destroys it when its work is done."""
        self.let_go()
        with self.driver.entered():
            self.driver.call("cuStreamSynchronize", self.stream)
            self.driver.call("cuStreamDestroy_v2", self.stream)


class DeviceArray:
    """An array in device or managed memory, in the current context."""

    def __init__(self, driver: Driver, values: np.ndarray, managed: bool = False) -> None:
        self.driver, self.like = driver, values
        address = c_uint64()
        if managed:
            size = c_size_t(values.nbytes)
            driver.call("cuMemAllocManaged", byref(address), size, ATTACH_GLOBAL)
        else:
            driver.call("cuMemAlloc_v2", byref(address), c_size_t(values.nbytes))
        self.address = address.value
        self.fill(values)

    def fill(self, values: np.ndarray) -> None:
        """Copies the values to the array."""
        source = np.ascontiguousarray(values)
        to, size = c_uint64(self.address), c_size_t(source.nbytes)
        self.driver.call("cuMemcpyHtoD_v2", to, c_void_p(source.ctypes.data), size)

    def fill_later(self, bits: int) -> None:
        """Queues a fill with 32 bits on the legacy default stream, and does not wait for it."""
        self.driver.fill_later(self.address, bits, self.like.nbytes // 4)

    def values(self) -> np.ndarray:
        """Returns the current content."""
        values = np.empty_like(self.like)
        where = c_uint64(self.address)
        to = c_void_p(values.ctypes.data)
        self.driver.call("cuMemcpyDtoH_v2", to, where, c_size_t(values.nbytes))
        return values

    def free(self) -> None:
        """Frees the memory."""
        self.driver.call("cuMemFree_v2", c_uint64(self.address))
