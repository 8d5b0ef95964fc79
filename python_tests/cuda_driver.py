"""The CUDA driver as another library in the process would use it, through ctypes."""

import ctypes
from ctypes import byref, c_size_t, c_uint, c_uint64, c_void_p

import numpy as np

ATTACH_GLOBAL = 1


class Driver:
    """Calls of the driver that must succeed, in the first device's primary context."""

    def __init__(self) -> None:
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        self.context = c_void_p()
        self.call("cuDevicePrimaryCtxRetain", byref(self.context), 0)

    def call(self, name: str, *arguments) -> None:
        """Calls a function of the driver; fails unless it returns CUDA_SUCCESS."""
        code = getattr(self.driver, name)(*arguments)
        assert code == 0, f"{name} returned {code}"

    def set_current(self, context) -> None:
        """Makes a context, or none, the calling thread's."""
        self.call("cuCtxSetCurrent", context)

    def current(self):
        """The calling thread's context; None if it has none."""
        context = c_void_p()
        self.call("cuCtxGetCurrent", byref(context))
        return context.value

    def new_context(self) -> c_void_p:
        """A context that is not the primary one, current on the calling thread."""
        context = c_void_p()
        self.call("cuCtxCreate_v2", byref(context), 0, 0)
        return context

    def free_bytes(self) -> int:
        """The device's memory that nobody has."""
        free, total = c_size_t(), c_size_t()
        self.call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value


class DeviceArray:
    """An array of 32-bit elements in device or managed memory, in the current context."""

    def __init__(self, driver: Driver, values: np.ndarray, managed: bool = False) -> None:
        self.driver, self.like = driver, values
        address = c_uint64()
        if managed:
            size = c_size_t(values.nbytes)
            driver.call("cuMemAllocManaged", byref(address), size, ATTACH_GLOBAL)
        else:
            driver.call("cuMemAlloc_v2", byref(address), c_size_t(values.nbytes))
        self.address = address.value
        source = np.ascontiguousarray(values)
        where = c_uint64(self.address)
        driver.call("cuMemcpyHtoD_v2", where, c_void_p(source.ctypes.data), c_size_t(source.nbytes))

    def fill_later(self, bits: int) -> None:
        """Queues a fill on the legacy default stream, and does not wait for it."""
        count = c_size_t(self.like.size)
        where = c_uint64(self.address)
        self.driver.call("cuMemsetD32Async", where, c_uint(bits), count, c_void_p())

    def values(self) -> np.ndarray:
        """What is in it now."""
        values = np.empty_like(self.like)
        where = c_uint64(self.address)
        to = c_void_p(values.ctypes.data)
        self.driver.call("cuMemcpyDtoH_v2", to, where, c_size_t(values.nbytes))
        return values

    def free(self) -> None:
        """Gives the memory back."""
        self.driver.call("cuMemFree_v2", c_uint64(self.address))
