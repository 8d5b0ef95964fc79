"""gpuvec through ctypes: every exported function, constant and structure, and a few helpers.

The library is the one that the environment variable GPUVEC_LIB names, or the release build.
"""

import ctypes
import enum
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import (
    POINTER,
    Structure,
    c_char_p,
    c_double,
    c_float,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from pathlib import Path

import numpy as np
from operations import OPERATIONS, Operation

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = Path(os.environ.get("GPUVEC_LIB") or ROOT / "target/release/libgpuvec.so").resolve()


class Status(enum.IntEnum):
    """`gpuvec_status`, which functions return: `GPUVEC_` and these names."""

    OK = 0
    NOT_READY = 1
    ERROR_NULL = 101
    ERROR_MISALIGNED = 102
    ERROR_SIZE = 103
    ERROR_OVERLAP = 104
    ERROR_OUT_OF_BOUNDS = 105
    ERROR_POINTER = 106
    ERROR_VALUE = 107
    ERROR_HANDLE = 108
    ERROR_EMPTY = 109
    ERROR_NO_GPU = 201
    ERROR_FORKED = 202
    ERROR_ENVIRONMENT = 203
    ERROR_PLACEMENT = 204
    ERROR_REENTRANT = 205
    ERROR_OUT_OF_MEMORY = 301
    ERROR_DRIVER = 401
    ERROR_DEVICE_LOST = 402
    ERROR_INTERNAL = 901


class Place(enum.IntEnum):
    """Placements: `GPUVEC_PLACE_` and these names."""

    AUTO = 0
    GPU = 1
    CPU = 2
    ALL = 3


class Backend(enum.IntEnum):
    """Backends: `GPUVEC_BACKEND_` and these names."""

    NONE = 0
    CPU = 1
    GPU = 2


class PathBit(enum.IntFlag):
    """The paths of the last run: the bits `GPUVEC_PATH_` and these names."""

    CALLING_CORE = 1
    CORES = 2
    STAGED = 4
    DMA = 8
    MAPPED = 16
    RESIDENT = 32


class Run(Structure):
    """`gpuvec_run`."""

    _fields_ = [
        ("backend", c_int32),
        ("path", c_uint32),
        ("devices", c_uint64),
        ("threads", c_uint64),
        ("chunks", c_uint64),
        ("bytes_staged", c_uint64),
    ]


C_TYPES = {np.float32: c_float, np.float64: c_double, np.int32: c_int32, np.int64: c_int64}


def signature(operation: Operation) -> tuple:
    """Returns the types of the result and the arguments of an operation's function."""
    alpha = [C_TYPES[operation.dtype]] if operation.shape.takes_alpha else []
    stream = [c_void_p] if operation.takes_stream else []
    return c_int32, [*alpha, *[c_void_p] * len(operation.arrays), c_size_t, *stream]


# Pointers to arrays, and handles, are plain addresses, so that tests can pass any, right or wrong.
FUNCTIONS = {
    **{operation.name: signature(operation) for operation in OPERATIONS},
    "pinned_alloc": (c_void_p, [c_size_t]),
    "pinned_free": (c_int32, [c_void_p]),
    "gpuvec_pinned_alloc": (c_void_p, [c_size_t]),
    "gpuvec_pinned_free": (c_int32, [c_void_p]),
    "gpuvec_device_alloc": (c_void_p, [c_size_t, c_int32]),
    "gpuvec_device_free": (c_int32, [c_void_p]),
    "gpuvec_host_register": (c_int32, [c_void_p, c_size_t]),
    "gpuvec_host_unregister": (c_int32, [c_void_p]),
    "gpuvec_copy": (c_int32, [c_void_p, c_void_p, c_size_t, c_void_p]),
    "gpuvec_stream_create": (c_void_p, [c_int32]),
    "gpuvec_stream_from_native": (c_void_p, [c_void_p]),
    "gpuvec_stream_destroy": (c_int32, [c_void_p]),
    "gpuvec_stream_synchronize": (c_int32, [c_void_p]),
    "gpuvec_stream_query": (c_int32, [c_void_p]),
    "gpuvec_stream_wait": (c_int32, [c_void_p, c_void_p]),
    "gpuvec_event_create": (c_void_p, []),
    "gpuvec_event_record": (c_int32, [c_void_p, c_void_p]),
    "gpuvec_event_query": (c_int32, [c_void_p]),
    "gpuvec_event_synchronize": (c_int32, [c_void_p]),
    "gpuvec_event_elapsed": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "gpuvec_event_destroy": (c_int32, [c_void_p]),
    "gpuvec_last_error": (c_char_p, []),
    "gpuvec_last_status": (c_int32, []),
    "gpuvec_status_string": (c_char_p, [c_int32]),
    "gpuvec_set_placement": (c_int32, [c_int32]),
    "gpuvec_get_placement": (c_int32, []),
    "gpuvec_why_cpu": (c_char_p, []),
    "gpuvec_last_run": (c_int32, [POINTER(Run), c_size_t]),
    "gpuvec_init": (c_int32, []),
    "gpuvec_device_count": (c_int32, []),
    "gpuvec_device_name": (c_char_p, [c_int32]),
    "gpuvec_version": (c_char_p, []),
    "gpuvec_abi_version": (c_int32, []),
}


def load() -> ctypes.CDLL:
    """Loads the library and declares the types of all functions."""
    library = ctypes.CDLL(str(LIBRARY))
    for name, (restype, argtypes) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = restype, argtypes
    return library


lib = load()


def last_error() -> str:
    """Returns this thread's last error; empty after a success."""
    return lib.gpuvec_last_error().decode()


def why_cpu() -> str:
    """Returns the reason why there is no GPU to compute on; empty if there is one."""
    return lib.gpuvec_why_cpu().decode()


def last_run() -> Run:
    """Returns this thread's last run."""
    run = Run()
    assert lib.gpuvec_last_run(ctypes.byref(run), ctypes.sizeof(run)) == Status.OK
    return run


def pinned_empty(n: int, dtype) -> np.ndarray:
    """Makes an array of `n` elements in pinned memory, freed with the array's last view."""
    bytes_ = n * np.dtype(dtype).itemsize
    address = lib.pinned_alloc(bytes_)
    if not address:
        raise MemoryError(last_error())
    memory = (ctypes.c_char * bytes_).from_address(address)
    weakref.finalize(memory, lib.pinned_free, address)
    return np.ndarray(n, dtype, buffer=memory)


@contextmanager
def placed(place: Place) -> Iterator[Place]:
    """Sets the placement for the block."""
    before = lib.gpuvec_get_placement()
    assert lib.gpuvec_set_placement(place) == 0
    try:
        yield place
    finally:
        assert lib.gpuvec_set_placement(before) == 0
