"""The last error: empty after a success, separate for each thread, unchanged by queries."""

import ctypes
import re
import threading

import numpy as np
import pytest
from arrays import compute
from bindings import Run, Status, last_error, lib
from operations import OPERATIONS

INT32 = [-(2**31), -1, 2, 100, 112, 200, 206, 300, 400, 500, 900, 902, 2**31 - 1]


def fail() -> str:
    """Makes a call that fails and returns its text."""
    assert lib.vector_add(None, None, None, 5) == Status.ERROR_NULL
    text = last_error()
    assert text
    return text


def ask_last_run() -> int:
    """Calls gpuvec_last_run and returns its status."""
    run = Run()
    return lib.gpuvec_last_run(ctypes.byref(run), ctypes.sizeof(run))


SUCCESSES = {
    "operation": lambda: compute(OPERATIONS[0], *np.ones((2, 10), np.float32)),
    "nothing to do": lambda: lib.vector_add(None, None, None, 0),
    "pinned_alloc": lambda: lib.pinned_free(lib.pinned_alloc(1)),
    "pinned_free of NULL": lambda: lib.pinned_free(None),
    "set_placement": lambda: lib.gpuvec_set_placement(lib.gpuvec_get_placement()),
    "set_num_threads": lambda: lib.gpuvec_set_num_threads(0),
    "init": lib.gpuvec_init,
}

QUESTIONS = {
    "last_error": lib.gpuvec_last_error,
    "last_status": lib.gpuvec_last_status,
    "status_string": lambda: lib.gpuvec_status_string(5),
    "why_cpu": lib.gpuvec_why_cpu,
    "last_run": ask_last_run,
    "get_placement": lib.gpuvec_get_placement,
    "get_num_threads": lib.gpuvec_get_num_threads,
    "device_count": lib.gpuvec_device_count,
    "version": lib.gpuvec_version,
    "abi_version": lib.gpuvec_abi_version,
}


def test_a_question_that_is_wrong_is_a_failure():
    """It has a text of its own."""
    fail()
    assert lib.gpuvec_last_run(None, 8) == lib.gpuvec_last_status() == Status.ERROR_NULL
    assert last_error() == "run is NULL: pass the address for the result"


@pytest.mark.parametrize("name", SUCCESSES)
def test_a_success_clears_it(placement, name):
    """The text is empty after a call that succeeded."""
    fail()
    SUCCESSES[name]()
    assert last_error() == ""


def test_its_status_after_null(placement):
    """A function that returned NULL has a status, which a success and a query treat alike."""
    assert lib.pinned_alloc(2**64 - 1) is None
    assert lib.gpuvec_last_status() == Status.ERROR_SIZE
    assert last_error() and lib.gpuvec_last_status() == Status.ERROR_SIZE
    fail()
    assert lib.gpuvec_last_status() == Status.ERROR_NULL
    assert lib.pinned_free(lib.pinned_alloc(1)) == Status.OK
    assert lib.gpuvec_last_status() == Status.OK


@pytest.mark.parametrize("name", QUESTIONS)
def test_queries_keep_it(placement, name):
    """A program may query the library between an error and reading its text."""
    text = fail()
    QUESTIONS[name]()
    assert last_error() == text


def test_each_thread_has_its_own():
    """One thread's errors and successes do not change another's text."""
    texts = {}
    failed, done = threading.Event(), threading.Event()

    def other():
        texts["at first"] = last_error()
        lib.pinned_free(4096)
        failed.set()
        done.wait()
        texts["after the success of another"] = last_error()

    text = fail()
    thread = threading.Thread(target=other, daemon=True)
    thread.start()
    failed.wait()
    assert last_error() == text
    compute(OPERATIONS[0], *np.ones((2, 10), np.float32))
    done.set()
    thread.join()
    assert texts["at first"] == ""
    assert texts["after the success of another"].startswith("ptr is 0x1000")


def test_the_string_is_valid_until_the_next_call():
    """The borrowed string is plain UTF-8 text of one line, in place until the next call."""
    fail()
    function = ctypes.CFUNCTYPE(ctypes.c_void_p)(("gpuvec_last_error", lib))
    address = function()
    before = ctypes.string_at(address)
    lib.gpuvec_version(), lib.gpuvec_why_cpu(), lib.gpuvec_status_string(0)
    assert ctypes.string_at(address) == before
    assert before.decode().isprintable()


@pytest.mark.parametrize("status", Status)
def test_every_status_has_its_name_and_a_meaning(status):
    """The text begins with the status's name in the header."""
    text = lib.gpuvec_status_string(status).decode()
    assert re.fullmatch(rf"GPUVEC_{status.name}: \S.*", text)


@pytest.mark.parametrize("number", INT32)
def test_other_numbers_are_not_statuses(number):
    """Other numbers have a text, too, which is not that of a status."""
    assert lib.gpuvec_status_string(number).decode() == "not a status of gpuvec"
