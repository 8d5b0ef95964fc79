"""A GPU through the CUDA driver, without gpuvec: memory, streams, kernels of PTX or CUDA C++."""

import ctypes
import subprocess
import sys
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from typing import Optional

import numpy as np
from cuda_driver import Driver
from harness import ROOT

SOURCE = ROOT / "benches/ceilings.cu"

PORTABLE_AND_MAPPED = 1 | 2
MULTIPROCESSORS, MAJOR, MINOR = 16, 75, 76

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
        where = (self.address, False)
        shape = (self.n,)
        return {"shape": shape, "typestr": self.dtype.str, "data": where, "version": 3}


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

    def image(self) -> bytes:
        """Returns the PTX of ceilings.cu for this GPU."""
        return compiled(10 * self.attribute(MAJOR) + self.attribute(MINOR))

    def kernel(self, name: str, image: Optional[bytes] = None) -> c_void_p:
        """Loads a kernel of a PTX image, or of ceilings.cu."""
        module, function = c_void_p(), c_void_p()
        self.call("cuModuleLoadData", byref(module), c_char_p(image or self.image()))
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
def compiled(capability: int) -> bytes:
    """Compiles ceilings.cu to PTX; for an earlier GPU if NVRTC does not know this one."""
    nvrtc, error = nvrtc_library(), None
    for number in (capability, 75, 60):
        try:
            return by_nvrtc(nvrtc, f"-arch=compute_{number}")
        except RuntimeError as failure:
            error = error or failure
    raise RuntimeError(str(error))


def nvrtc_library() -> ctypes.CDLL:
    """Loads NVRTC: of a package of NVIDIA's, or of the system."""
    folders = [Path(folder) for folder in sys.path if Path(folder, "nvidia").is_dir()]
    files = [str(file) for folder in folders for file in folder.glob("nvidia/*/lib/libnvrtc.so.1?")]
    for name in [*files, *(f"libnvrtc.so.{version}" for version in (12, 13, 11))]:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise RuntimeError("NVRTC is missing: pip install -r benches/requirements.txt")


def by_nvrtc(nvrtc: ctypes.CDLL, option: str) -> bytes:
    """Compiles ceilings.cu by NVRTC."""
    program, size = c_void_p(), c_size_t()
    source = (SOURCE.read_bytes(), SOURCE.name.encode())
    nvrtc.nvrtcCreateProgram(byref(program), *source, 0, None, None)
    options = (c_char_p * 2)(option.encode(), b"--std=c++17")
    code = nvrtc.nvrtcCompileProgram(program, len(options), options)
    what = "PTX" if code == 0 else "ProgramLog"
    getattr(nvrtc, f"nvrtcGet{what}Size")(program, byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{what}")(program, text)
    if code != 0:
        raise RuntimeError(f"NVRTC returned {code}: {text.value.decode()}")
    return text.value


def driver_version() -> str:
    """Returns the driver's version and the bus, as nvidia-smi reports them."""
    fields = "driver_version,pcie.link.gen.max,pcie.link.width.max"
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    if done.returncode != 0:
        return "unknown"
    driver, generation, width = (word.strip() for word in done.stdout.splitlines()[0].split(","))
    return f"{driver}, PCIe {generation} x{width}"
