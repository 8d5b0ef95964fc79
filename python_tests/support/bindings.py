"""gpuvec through ctypes, as the header declares it, and a few helpers.

The library is the one that the environment variable GPUVEC_LIB names, or the release build.
"""

import ctypes
import enum
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import c_double, c_float, c_int32, c_int64
from pathlib import Path

import header
import numpy as np
from header import ROOT

LIBRARY = Path(os.environ.get("GPUVEC_LIB") or ROOT / "target/release/libgpuvec.so").resolve()


def named(name: str, prefix: str) -> type:
    """Makes an enumeration of the header, whose names begin with the prefix, one of Python."""
    values = header.enumeration(f"gpuvec_{name.lower()}")
    return enum.IntEnum(name, {key.removeprefix(prefix): n for key, n in values.items()})


Status = named("Status", "GPUVEC_")
Place = named("Place", "GPUVEC_PLACE_")
Backend = named("Backend", "GPUVEC_BACKEND_")
Choice = named("Choice", "GPUVEC_CHOICE_")
Reason = named("Reason", "GPUVEC_REASON_")

PATH = "GPUVEC_PATH_"
# The paths of the last run.
PathBit = enum.IntFlag(
    "PathBit",
    {key.removeprefix(PATH): bit for key, bit in header.defines().items() if key.startswith(PATH)},
)


class Run(ctypes.Structure):
    """`gpuvec_run`."""

    _fields_ = header.fields("gpuvec_run")


class Memory(ctypes.Structure):
    """`gpuvec_memory_info`."""

    _fields_ = header.fields("gpuvec_memory_info")


C_TYPES = {np.float32: c_float, np.float64: c_double, np.int32: c_int32, np.int64: c_int64}

# Pointers are plain addresses, so that tests can pass any, right or wrong.
FUNCTIONS = header.prototypes()


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


def held_memory() -> Memory:
    """Returns what the library holds of all devices."""
    memory, everywhere = Memory(), -1
    size = ctypes.sizeof(memory)
    assert lib.gpuvec_memory(everywhere, ctypes.addressof(memory), size) == Status.OK
    return memory


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
