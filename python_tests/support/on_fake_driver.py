"""Runs scripts on the fake driver of `make fake-driver`, each in a process that may hang or die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest
from bindings import ROOT
from fake_driver import FAKE_DRIVER_FOLDER
from programs import before, library_environment

IS_BUILT = (FAKE_DRIVER_FOLDER / "libcuda.so.1").exists()
NOT_BUILT = "the fake driver is not built: make fake-driver"

# A test that only runs scripts on the fake driver. The driver that pytest itself finds makes no
# difference to it, so `make test-fake-driver` leaves it to `make test`.
needs_fake_driver = pytest.mark.on_fake_driver


def by_turns(first: list, second: list, every: int) -> list:
    """Returns all pairs as a test's parameters, of which the fake driver runs one in `every`.

    There each element of `second` is tried with other elements of `first`.
    """
    slow = pytest.mark.slow_on_fake_driver
    return [
        pytest.param(one, other, marks=slow if (place + number) % every else ())
        for place, one in enumerate(first)
        for number, other in enumerate(second)
    ]


# The beginning of all scripts. A script that hangs prints its threads' stacks, and ends.
PRELUDE = """
import faulthandler
faulthandler.enable()
faulthandler.dump_traceback_later({limit}, exit=True)
import ctypes
import os
import threading
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p
import numpy as np
from arrays import assert_same_bits, call, call_at, filled, output
from bindings import Backend, Place, Status, last_error, last_run, lib, pinned_empty, why_cpu
from device_calls import LONG, PAIR, attempt, backends, check_in_place, check_staging, devices
from fake_driver import FakeDriver
from fork import in_child
from operations import FOR_A_GPU, OPERATIONS, SAMPLE, repeated

fake_driver = FakeDriver()

def ok(status):
    assert status == Status.OK, f"{{Status(status).name}}: {{last_error()}}"

class Started(threading.Thread):
    "A function in a thread of its own that has begun; `get` gives what it returned or raises."

    def __init__(self, function, *arguments):
        super().__init__(daemon=True)
        self.function, self.arguments = function, arguments
        self.result = self.error = None
        self.start()

    def run(self):
        try:
            self.result = self.function(*self.arguments)
        except BaseException as error:
            self.error = error

    def get(self):
        self.join()
        if self.error:
            raise self.error
        return self.result
"""

EPILOGUE = """
assert fake_driver.violation() == "", fake_driver.violation()
assert fake_driver.count("pending") == 0
"""


def environment(**settings: object) -> dict[str, str]:
    """Returns the variables with which a process uses the fake driver, set by FAKE_DRIVER_...."""
    variables = {f"FAKE_DRIVER_{name}": str(value) for name, value in settings.items()}
    return {"LD_LIBRARY_PATH": before("LD_LIBRARY_PATH", FAKE_DRIVER_FOLDER), **variables}


def run(
    script: str,
    limit: float = 110,
    variables: dict[str, str] | None = None,
    command: tuple = (sys.executable,),
    threads: int | None = None,
    **settings: object,
) -> str:
    """Runs a script on the fake driver with its settings (FAKE_DRIVER_...) and returns its output.

    A script that does not end within `limit` seconds fails the test, with all of its processes.
    With `threads=1` equal calls make the same driver calls in the same order, because the library
    has one thread and no completion flags.
    """
    variables = dict(variables or {})
    if threads:
        variables["GPUVEC_NUM_THREADS"] = str(threads)
        settings["FLAGS"] = 0
    text = PRELUDE.format(limit=limit) + textwrap.dedent(script) + EPILOGUE
    process = subprocess.Popen(
        [*command, "-c", text],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=library_environment(**environment(**settings), **variables),
        cwd=ROOT,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=limit + 5)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
        pytest.fail(f"the script did not end within {limit} s\n{output}\n{errors}")
    finally:
        # Children that hang would outlive the script.
        end_group(process.pid)
    assert process.returncode == 0, f"the script ended with {process.returncode}\n{output}{errors}"
    return output


def end_group(group: int) -> None:
    """Kills the processes of a group that still run."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass
