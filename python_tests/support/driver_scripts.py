"""Runs scripts that call the fake driver directly, to test it.

The fake driver behaves as the CUDA driver API's reference says, and tests of gpuvec rely on it.
"""

import textwrap

from on_fake_driver import environment
from programs import run_python

# The beginning of all scripts: `code` returns the result of a driver call, `made` the handle or
# address that a call makes; `on_device` makes a device's context current; `memory` allocates memory
# and returns its address and its bytes.
PRELUDE = """
import ctypes
import mmap
import os
import re
from ctypes import byref, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
import numpy as np
from bindings import ROOT
from cuda_driver import Driver
from fake_driver import FakeDriver

OK, INVALID_VALUE, INVALID_CONTEXT, INVALID_HANDLE, NOT_READY = 0, 1, 201, 400, 600
OUT_OF_MEMORY = 2
ILLEGAL_ADDRESS, ALREADY_REGISTERED, NOT_REGISTERED = 700, 712, 713
DISABLE_TIMING = 2
PAGE = mmap.PAGESIZE

driver, fake_driver = Driver(), FakeDriver()

def code(name, *arguments):
    arguments = (c_uint64(word) if isinstance(word, int) else word for word in arguments)
    return getattr(driver.driver, name)(*arguments)

def made(name, *arguments):
    to = c_uint64()
    assert code(name, byref(to), *arguments) == OK
    return to.value

def on_device(number):
    assert code("cuCtxSetCurrent", made("cuDevicePrimaryCtxRetain", number)) == OK

def stream():
    return made("cuStreamCreateWithPriority", 1, 0)

def bytes_at(address, size):
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))

mapped = []

def pages(count):
    mapped.append(mmap.mmap(-1, count * PAGE))
    return np.frombuffer(mapped[-1], np.uint8).ctypes.data

def memory(kind, size):
    if kind == "pinned":
        address = made("cuMemHostAlloc", size, 0)
    elif kind == "registered":
        address = pages(-(-size // PAGE))
        assert code("cuMemHostRegister_v2", address, size, 0) == OK
    else:
        return fake_driver.memory(kind, size)
    return address, bytes_at(address, size)

def elapsed(start, end):
    ms = c_float(-1)
    return code("cuEventElapsedTime", byref(ms), start, end), ms.value
"""

CLEAN = """
assert fake_driver.violation() == ""
assert fake_driver.count("pending") == 0
"""


def run(script: str, epilogue: str = CLEAN, **settings: object) -> None:
    """Runs a script on the fake driver with its settings (FAKE_DRIVER_...)."""
    run_python(PRELUDE + textwrap.dedent(script) + epilogue, **environment(**settings))


def run_alone(script: str, **settings: object) -> None:
    """Runs a script in a process that has loaded the driver but has not called it."""
    prelude = 'import ctypes\ndriver = ctypes.CDLL("libcuda.so.1")\n'
    run_python(prelude + textwrap.dedent(script), **environment(**settings))
