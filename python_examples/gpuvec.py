"""gpuvec for NumPy, by ctypes alone: what the examples share.

    from gpuvec import lib

    lib.gpuvec_add_f32(a, b, out, a.size, None)

`lib` is the library that the environment variable GPUVEC_LIB names, or the release build. Its
functions take NumPy arrays, whose type and layout ctypes checks, and arrays on a device in their
place. A call that fails raises `Error`.
"""

import contextlib
import ctypes
import os
import weakref
from ctypes import c_double, c_float, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path

import numpy as np
from numpy.ctypeslib import ndpointer

BUILT = Path(__file__).resolve().parent.parent / "target/release/libgpuvec.so"

NOT_READY = 1
BACKENDS = {0: "nothing", 1: "CPU", 2: "GPU"}
PATHS = {1: "calling core", 2: "cores", 4: "staged", 8: "DMA", 16: "mapped", 32: "resident"}


class Error(RuntimeError):
    """A call failed: the function, its status and what gpuvec says of it."""


class Run(ctypes.Structure):
    """gpuvec_run: where an operation ran, and how."""

    _fields_ = [
        ("backend", c_int32),
        ("path", c_uint32),
        ("devices", c_uint64),
        ("threads", c_uint64),
        ("chunks", c_uint64),
        ("bytes_staged", c_uint64),
    ]


def array_of(dtype, flags: str = ""):
    """The type of an argument: a contiguous NumPy array of a type (None: any), or `OnDevice`."""

    class Argument(ndpointer(dtype, flags=f"C_CONTIGUOUS, ALIGNED{flags}")):
        @classmethod
        def from_param(cls, argument):
            if isinstance(argument, OnDevice) and dtype in (None, argument.dtype):
                return argument
            return super().from_param(argument)

    return Argument


def writable(dtype):
    """The type of an output: as `array_of`, and not read-only."""
    return array_of(dtype, ", WRITEABLE")


def shapes(dtype, alpha) -> dict:
    """The arguments of the family's operations on a type, before the length and the stream."""
    array, out = array_of(dtype), writable(dtype)
    result = out if alpha else writable(np.int64)
    operations = {name: [array, array, out] for name in ("add", "sub", "mul")}
    if alpha:
        operations["div"] = [array, array, out]
        operations["scale"] = [alpha, array, out]
        operations["axpy"] = [alpha, array, array, out]
    return {**operations, "dot": [array, array, result], "sum": [array, result]}


def classic(dtype) -> list:
    """The arguments of a function without a stream."""
    return [array_of(dtype), array_of(dtype), writable(dtype), c_size_t]


# The family's types: NumPy's, and for floats the type of alpha.
TYPES = {
    "f32": (np.float32, c_float),
    "f64": (np.float64, c_double),
    "i32": (np.int32, None),
    "i64": (np.int64, None),
}
FAMILY = {
    f"gpuvec_{operation}_{suffix}": [*arguments, c_size_t, c_void_p]
    for suffix, (dtype, alpha) in TYPES.items()
    for operation, arguments in shapes(dtype, alpha).items()
}

# Functions that return a status. A stream or an event is a pointer; None is no stream.
STATUS = {
    "vector_add": classic(np.float32),
    "add_arrays": classic(np.int32),
    "dot_product": classic(np.float32),
    **FAMILY,
    "pinned_free": [c_void_p],
    "gpuvec_device_free": [c_void_p],
    "gpuvec_host_register": [array_of(None), c_size_t],
    "gpuvec_host_unregister": [array_of(None)],
    "gpuvec_copy": [writable(None), array_of(None), c_size_t, c_void_p],
    "gpuvec_stream_destroy": [c_void_p],
    "gpuvec_stream_synchronize": [c_void_p],
    "gpuvec_stream_query": [c_void_p],
    "gpuvec_stream_wait": [c_void_p, c_void_p],
    "gpuvec_event_record": [c_void_p, c_void_p],
    "gpuvec_event_query": [c_void_p],
    "gpuvec_event_synchronize": [c_void_p],
    "gpuvec_event_elapsed": [c_void_p, c_void_p, ctypes.POINTER(c_float)],
    "gpuvec_event_destroy": [c_void_p],
    "gpuvec_last_run": [ctypes.POINTER(Run), c_size_t],
    "gpuvec_init": [],
}

# Functions that return a pointer, or NULL on failure.
POINTERS = {
    "pinned_alloc": [c_size_t],
    "gpuvec_device_alloc": [c_size_t, c_int32],
    "gpuvec_stream_create": [c_int32],
    "gpuvec_event_create": [],
}

TEXTS = {
    "gpuvec_last_error": [],
    "gpuvec_version": [],
    "gpuvec_why_cpu": [],
    "gpuvec_device_name": [c_int32],
}


def checked_status(status: int, function, _) -> int:
    """The status of a call, unless it is an error."""
    if status not in (0, NOT_READY):
        raise Error(f"{function.__name__}: error {status}: {lib.gpuvec_last_error().decode()}")
    return status


def checked_pointer(pointer: int, function, _) -> int:
    """The pointer that a call returned, unless it is NULL."""
    if not pointer:
        raise Error(f"{function.__name__}: {lib.gpuvec_last_error().decode()}")
    return pointer


def load() -> ctypes.CDLL:
    """The library, with its functions declared."""
    library = ctypes.CDLL(os.environ.get("GPUVEC_LIB") or str(BUILT))
    for name, arguments in STATUS.items():
        function = getattr(library, name)
        function.argtypes, function.errcheck = arguments, checked_status
    for name, arguments in POINTERS.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, c_void_p
        function.errcheck = checked_pointer
    for name, arguments in TEXTS.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, ctypes.c_char_p
    return library


class OnDevice:
    """An array in a device's memory, freed with the object; ordinary memory without a GPU."""

    def __init__(self, n: int, dtype, device: int = 0):
        self.dtype = np.dtype(dtype)
        self.nbytes = n * self.dtype.itemsize
        self.size = n
        address = lib.gpuvec_device_alloc(self.nbytes, device)
        self._as_parameter_ = c_void_p(address)
        weakref.finalize(self, lib.gpuvec_device_free, address)

    def to_host(self) -> np.ndarray:
        """A copy in a new NumPy array."""
        array = np.empty(self.size, self.dtype)
        lib.gpuvec_copy(array, self, self.nbytes, None)
        return array


def to_device(array: np.ndarray) -> OnDevice:
    """A copy of a contiguous array in a device's memory."""
    result = OnDevice(array.size, array.dtype)
    lib.gpuvec_copy(result, array, array.nbytes, None)
    return result


class Stream:
    """Work in order, done while the caller goes on; destroyed with the object."""

    def __init__(self, device: int = 0):
        handle = lib.gpuvec_stream_create(device)
        self._as_parameter_ = c_void_p(handle)
        weakref.finalize(self, lib.gpuvec_stream_destroy, handle)

    def synchronize(self) -> None:
        """Waits until all of the stream's work is done."""
        lib.gpuvec_stream_synchronize(self)


class Event:
    """A mark in a stream's work; destroyed with the object."""

    def __init__(self):
        handle = lib.gpuvec_event_create()
        self._as_parameter_ = c_void_p(handle)
        weakref.finalize(self, lib.gpuvec_event_destroy, handle)

    def ms_since(self, start: "Event") -> float:
        """Milliseconds between two events; waits for this one."""
        ms = c_float()
        lib.gpuvec_event_synchronize(self)
        lib.gpuvec_event_elapsed(start, self, ms)
        return ms.value


def pinned(n: int, dtype) -> np.ndarray:
    """An array in page-locked memory, given back when nobody has the array any more."""
    size = n * np.dtype(dtype).itemsize
    address = lib.pinned_alloc(size)
    memory = (ctypes.c_char * size).from_address(address)
    weakref.finalize(memory, lib.pinned_free, address)
    return np.frombuffer(memory, dtype)


@contextlib.contextmanager
def registered(*arrays: np.ndarray):
    """Page-locks arrays where they lie, for the time of a with statement."""
    with contextlib.ExitStack() as stack:
        for array in arrays:
            lib.gpuvec_host_register(array, array.nbytes)
            stack.callback(lib.gpuvec_host_unregister, array)
        yield


def where() -> str:
    """Where this thread's last operation ran."""
    run = Run()
    lib.gpuvec_last_run(run, ctypes.sizeof(run))
    ways = [name for bit, name in PATHS.items() if run.path & bit]
    return f"{BACKENDS[run.backend]} ({', '.join(ways)}; {run.chunks} chunks)"


lib = load()
