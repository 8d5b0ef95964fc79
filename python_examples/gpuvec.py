"""A binding of gpuvec for NumPy through ctypes, which the examples share.

    from gpuvec import lib

    lib.gpuvec_add_f32(a, b, out, a.size, None)

`lib` is the library that the environment variable GPUVEC_LIB names, or the release build. Its
functions take NumPy arrays, whose type and layout ctypes checks, or device arrays. A call that
fails raises `Error`.
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
    """A call failed: the function, its status and gpuvec's text."""


class Run(ctypes.Structure):
    """gpuvec_run: where and how an operation ran."""

    _fields_ = [
        ("backend", c_int32),
        ("path", c_uint32),
        ("devices", c_uint64),
        ("threads", c_uint64),
        ("chunks", c_uint64),
        ("bytes_staged", c_uint64),
    ]


def array_of(dtype, flags: str = ""):
    """Makes an argument type: a contiguous NumPy array of `dtype` (None: any), or `OnDevice`."""

    class Argument(ndpointer(dtype, flags=f"C_CONTIGUOUS, ALIGNED{flags}")):
        @classmethod
        def from_param(cls, argument):
            if isinstance(argument, OnDevice) and dtype in (None, argument.dtype):
                return argument
            return super().from_param(argument)

    return Argument


def writable(dtype):
    """Makes the argument type of an output: like `array_of`, and writable."""
    return array_of(dtype, ", WRITEABLE")


def shapes(dtype, alpha) -> dict:
    """Returns the arguments of a type's operations, before the length and the stream."""
    array, out = array_of(dtype), writable(dtype)
    result = out if alpha else writable(np.int64)
    operations = {name: [array, array, out] for name in ("add", "sub", "mul")}
    if alpha:
        operations["div"] = [array, array, out]
        operations["scale"] = [alpha, array, out]
        operations["axpy"] = [alpha, array, array, out]
    extremes = {name: [array, out] for name in ("min", "max")}
    return {**operations, **extremes, "dot": [array, array, result], "sum": [array, result]}


def classic(dtype) -> list:
    """Returns the arguments of a function without a stream."""
    return [array_of(dtype), array_of(dtype), writable(dtype), c_size_t]


# The element types: NumPy's and, for floats, the type of alpha.
TYPES = {
    "f32": (np.float32, c_float),
    "f64": (np.float64, c_double),
    "i32": (np.int32, None),
    "i64": (np.int64, None),
}
OPERATIONS = {
    f"gpuvec_{operation}_{suffix}": [*arguments, c_size_t, c_void_p]
    for suffix, (dtype, alpha) in TYPES.items()
    for operation, arguments in shapes(dtype, alpha).items()
}

# Functions that return a status. Streams and events are pointers; None is a NULL stream.
STATUS = {
    "vector_add": classic(np.float32),
    "add_arrays": classic(np.int32),
    "dot_product": classic(np.float32),
    **OPERATIONS,
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
    """Returns the status of a call; raises `Error` if it is an error."""
    if status not in (0, NOT_READY):
        raise Error(f"{function.__name__}: error {status}: {lib.gpuvec_last_error().decode()}")
    return status


def checked_pointer(pointer: int, function, _) -> int:
    """Returns the pointer that a call returned; raises `Error` if it is NULL."""
    if not pointer:
        raise Error(f"{function.__name__}: {lib.gpuvec_last_error().decode()}")
    return pointer


def load() -> ctypes.CDLL:
    """Loads the library and declares its functions."""
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
    """An array in device memory (ordinary memory without a GPU), freed with the object."""

    def __init__(self, n: int, dtype, device: int = 0):
        self.dtype = np.dtype(dtype)
        self.nbytes = n * self.dtype.itemsize
        self.size = n
        address = lib.gpuvec_device_alloc(self.nbytes, device)
        self._as_parameter_ = c_void_p(address)
        weakref.finalize(self, lib.gpuvec_device_free, address)

    def to_host(self) -> np.ndarray:
        """Copies it to a new NumPy array."""
        array = np.empty(self.size, self.dtype)
        lib.gpuvec_copy(array, self, self.nbytes, None)
        return array


def to_device(array: np.ndarray) -> OnDevice:
    """Copies a contiguous array to device memory."""
    result = OnDevice(array.size, array.dtype)
    lib.gpuvec_copy(result, array, array.nbytes, None)
    return result


class Stream:
    """A queue of work, done in order while the caller goes on; destroyed with the object."""

    def __init__(self, device: int = 0):
        handle = lib.gpuvec_stream_create(device)
        self._as_parameter_ = c_void_p(handle)
        weakref.finalize(self, lib.gpuvec_stream_destroy, handle)

    def synchronize(self) -> None:
        """Waits until all of the stream's work is done."""
        lib.gpuvec_stream_synchronize(self)


class Event:
    """A point in a stream's work; destroyed with the object."""

    def __init__(self):
        handle = lib.gpuvec_event_create()
        self._as_parameter_ = c_void_p(handle)
        weakref.finalize(self, lib.gpuvec_event_destroy, handle)

    def ms_since(self, start: "Event") -> float:
        """Waits for this event, and returns the milliseconds since `start`."""
        ms = c_float()
        lib.gpuvec_event_synchronize(self)
        lib.gpuvec_event_elapsed(start, self, ms)
        return ms.value


def pinned(n: int, dtype) -> np.ndarray:
    """Allocates an array in pinned memory, which is freed with the last reference to the array."""
    size = n * np.dtype(dtype).itemsize
    address = lib.pinned_alloc(size)
    memory = (ctypes.c_char * size).from_address(address)
    weakref.finalize(memory, lib.pinned_free, address)
    return np.frombuffer(memory, dtype)


@contextlib.contextmanager
def registered(*arrays: np.ndarray):
    """Page-locks existing arrays during a with statement."""
    with contextlib.ExitStack() as stack:
        for array in arrays:
            lib.gpuvec_host_register(array, array.nbytes)
            stack.callback(lib.gpuvec_host_unregister, array)
        yield


def where() -> str:
    """Describes where this thread's last operation ran."""
    run = Run()
    lib.gpuvec_last_run(run, ctypes.sizeof(run))
    path = [name for bit, name in PATHS.items() if run.path & bit]
    return f"{BACKENDS[run.backend]} ({', '.join(path)}; {run.chunks} chunks)"


lib = load()
