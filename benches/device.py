"""A GPU through the CUDA driver, without gpuvec: memory, streams, kernels of PTX or CUDA C++."""

import ctypes
import subprocess
import sys
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from functools import cache
from typing import Optional

import numpy as np
from cuda_driver import Driver
from harness import ROOT

BUNDLED = ROOT / "target/gpu/ceilings.ptx"

PORTABLE_AND_MAPPED = 1 | 2
MULTIPROCESSORS = 16

# The exceptions if the driver lacks a function, a kernel or memory, or if nothing compiles kernels.
DRIVER_ERRORS = (AssertionError, AttributeError, RuntimeError)


def why_no_gpu() -> str:
    """Returns the reason why there is no GPU; empty if there is one."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return str(error)
    count = c_int()
    code = driver.cuInit(0) or driver.cuDeviceGetCount(byref(count))
    if code != 0:
        return f"the driver returned {code}"
    return "" if count.value > 0 else "the driver finds no GPU"


@cache
def device_if_any() -> Optional["Device"]:
    """Returns the first GPU; None if there is none."""
    return None if why_no_gpu() else Device()


def count() -> int:
    """Returns the number of GPUs."""
    if why_no_gpu():
        return 0
    number = c_int()
    Driver().call("cuDeviceGetCount", byref(number))
    return number.value


class DeviceMemory:
    """An array in device memory, which CuPy, PyTorch and Numba can wrap."""

    def __init__(self, address: int, n: int, dtype) -> None:
        self.address, self.n, self.dtype = address, n, np.dtype(dtype)

    def first(self, n: int) -> "DeviceMemory":
        """Returns its first `n` elements."""
        return DeviceMemory(self.address, n, self.dtype)

    @property
    def __cuda_array_interface__(self) -> dict:
        """The protocol by which libraries share device arrays."""
        what = {"shape": (self.n,), "typestr": self.dtype.str, "version": 3}
        return {**what, "data": (self.address, False)}


class Device(Driver):
    """A GPU with its primary context, which becomes the calling thread's current one."""

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self.index = index
        self.set_current(self.context)
        self.multiprocessors = self.attribute(MULTIPROCESSORS)

    def enter(self) -> None:
        """Makes the primary context the calling thread's current one."""
        self.set_current(self.context)

    def attribute(self, number: int) -> int:
        """Returns one of the device's attributes."""
        value = c_int()
        self.call("cuDeviceGetAttribute", byref(value), number, self.index)
        return value.value

    def name(self) -> str:
        """Returns the GPU's name."""
        name = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", name, len(name), self.index)
        return name.value.decode()

    def pinned(self, n: int, dtype) -> np.ndarray:
        """Allocates an array in pinned memory, to be freed by `free_pinned`."""
        address = c_void_p()
        size = c_size_t(n * np.dtype(dtype).itemsize)
        self.call("cuMemHostAlloc", byref(address), size, c_uint(PORTABLE_AND_MAPPED))
        memory = (ctypes.c_char * size.value).from_address(address.value)
        return np.ndarray(n, dtype, buffer=memory)

    def free_pinned(self, array: np.ndarray) -> None:
        """Frees pinned memory."""
        self.call("cuMemFreeHost", c_void_p(array.ctypes.data))

    def memory(self, n: int, dtype) -> DeviceMemory:
        """Allocates an array in device memory, to be freed by `free`."""
        address = c_uint64()
        self.call("cuMemAlloc_v2", byref(address), c_size_t(n * np.dtype(dtype).itemsize))
        return DeviceMemory(address.value, n, dtype)

    def free(self, memory: DeviceMemory) -> None:
        """Frees device memory."""
        self.call("cuMemFree_v2", c_uint64(memory.address))

    def put(self, address: int, values: np.ndarray) -> None:
        """Copies values to device memory."""
        source, size = c_void_p(values.ctypes.data), c_size_t(values.nbytes)
        self.call("cuMemcpyHtoD_v2", c_uint64(address), source, size)

    def get(self, address: int, values: np.ndarray) -> None:
        """Copies values from device memory."""
        to, size = c_void_p(values.ctypes.data), c_size_t(values.nbytes)
        self.call("cuMemcpyDtoH_v2", to, c_uint64(address), size)

    def copy(self, to: int, source: int, size: int, stream=None) -> None:
        """Queues a copy between pinned and device memory."""
        where, what = c_uint64(to), c_uint64(source)
        self.call("cuMemcpyAsync", where, what, c_size_t(size), stream)

    def synchronize(self, *streams) -> None:
        """Synchronizes streams."""
        for stream in streams:
            self.call("cuStreamSynchronize", stream)

    def kernel(self, name: str, ptx: Optional[bytes] = None) -> c_void_p:
        """Loads a kernel of a PTX image, or of ceilings.cu."""
        module, function = c_void_p(), c_void_p()
        self.call("cuModuleLoadData", byref(module), c_char_p(ptx or image()))
        self.call("cuModuleGetFunction", byref(function), module, c_char_p(name.encode()))
        return function

    def launch(self, kernel, grid: tuple, addresses: tuple, n: int, stream=None) -> None:
        """Queues a kernel with arguments (a, b, out, n) on a grid (blocks, threads)."""
        values = [c_uint64(value) for value in (*addresses, n)]
        places = (c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        blocks, threads = (c_uint(size) for size in grid)
        one, none = c_uint(1), c_uint(0)
        self.call(
            *("cuLaunchKernel", kernel, blocks, one, one, threads, one, one),
            *(none, stream, places, None),
        )


@cache
def image() -> bytes:
    """Returns the PTX of ceilings.cu, from `make gpu-bundle` or from NVRTC."""
    if BUNDLED.exists():
        return BUNDLED.read_bytes()
    sys.path.insert(0, str(ROOT / "kernels"))
    import build

    try:
        return build.Compiler().ptx(ROOT / "benches/ceilings.cu").encode()
    except SystemExit as error:
        raise RuntimeError(error.code) from None


def driver_version() -> str:
    """Returns the driver's version and the bus, as nvidia-smi reports them."""
    fields = "driver_version,pcie.link.gen.max,pcie.link.width.max"
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    driver, generation, width = (word.strip() for word in done.stdout.splitlines()[0].split(","))
    return f"{driver}, PCIe {generation} x{width}"
