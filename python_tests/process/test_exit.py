"""Calls from destructors and exit handlers, and exits with live objects or during calls."""

import os
import shutil
from pathlib import Path

import pytest
from bindings import ROOT
from on_fake_driver import IS_BUILT, NOT_BUILT
from on_fake_driver import environment as on_fake_driver
from programs import linking, run, run_program, run_silently

SMALL, FOR_THREADS, FOR_SEVERAL_GPUS = 10, 300_000, 6_000_001
CXX = os.environ.get("CXX", "c++")

each_length = pytest.mark.parametrize("n", [SMALL, FOR_THREADS, FOR_SEVERAL_GPUS])


@pytest.fixture(params=["cpu", "gpu"])
def place(request) -> dict:
    """Returns the environment for calls on the cores, or on two GPUs of the fake driver."""
    if request.param == "cpu":
        return {"GPUVEC_PLACEMENT": "cpu", "GPUVEC_NUM_THREADS": "4"}
    if not IS_BUILT:
        pytest.skip(NOT_BUILT)
    return {"GPUVEC_PLACEMENT": "gpu", **on_fake_driver(DEVICES=2)}


@pytest.fixture(scope="module")
def cpp_program(tmp_path_factory):
    """Compiles the C++ program: the C++ runtime calls the destructors of its objects."""
    if not shutil.which(CXX):
        pytest.skip("there is no C++ compiler")
    built = tmp_path_factory.mktemp("late_calls_cpp") / "late_calls"
    strict = ["-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", ROOT / "include"]
    run([CXX, *strict, Path(__file__).with_name("late_calls.cpp"), "-o", built, *linking(built)])
    return built


@pytest.mark.any_driver
@each_length
@pytest.mark.parametrize("before_it", ["", "-called", "-called-before-key"])
@pytest.mark.parametrize("end", ["thread", "main", "exit"])
def test_calls_at_the_end_of_a_thread_or_process(program, place, end, before_it, n):
    """Destructors of thread-specific data and handlers of exit may call, also as the first call."""
    program("late_calls", end + before_it, n, **place)


@pytest.mark.any_driver
@each_length
@pytest.mark.parametrize("what", ["thread", "main", "global"])
def test_calls_from_destructors_of_objects(cpp_program, place, what, n):
    """Destructors of C++'s thread-local and global objects may call, also as the first call."""
    assert run_program(cpp_program, what, n, **place) == ""


@pytest.mark.parametrize("start", ["main", "thread", "during"])
@pytest.mark.parametrize("way", ["exit", "_exit", "quick_exit"])
def test_exit(placement_variables, program, way, start):
    """A process may exit with live pinned memory, from any thread, and during calls of others."""
    program("exits", way, start, **placement_variables)


@pytest.mark.wheel
def test_exit_of_python_without_cleanup(placement_variables):
    run_silently(
        "from host import *\ncheck_all()\nkept = pinned_empty(9, 'f')\nos._exit(0)",
        **placement_variables,
    )


@pytest.mark.wheel
def test_sys_exit_among_a_pool_of_threads(placement_variables):
    script = """
    import sys
    from concurrent.futures import ThreadPoolExecutor
    from host import LARGE, MIDDLING, check
    check(MIDDLING, LARGE)
    with ThreadPoolExecutor(8) as pool:
        for _ in range(16):
            pool.submit(check, MIDDLING, LARGE)
        sys.exit(0)
    """
    run_silently(script, **placement_variables)


@pytest.mark.wheel
def test_end_of_python_with_daemon_threads_inside_calls(placement_variables):
    script = """
    import threading
    from host import MIDDLING, check
    check(MIDDLING)
    busy = threading.Barrier(9)

    def work():
        busy.wait()
        while True:
            check(MIDDLING)

    for _ in range(8):
        threading.Thread(target=work, daemon=True).start()
    busy.wait()
    check(MIDDLING)
    """
    run_silently(script, **placement_variables)


@pytest.mark.wheel
@pytest.mark.parametrize(
    "way", ["sys.exit(0)", "os._exit(0)", "threading.Thread(target=work).start()"]
)
def test_exit_with_handles_alive(placement_variables, way):
    """Streams, events, device memory and registered arrays, with work in flight."""
    script = f"""
    import ctypes, os, sys, threading
    import numpy as np
    from bindings import lib

    array = np.ones(300_000, np.float32)
    # It must outlive the work: Python is not to free it when it ends.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(array))
    assert lib.gpuvec_host_register(array.ctypes.data, array.nbytes) == 0
    memory = lib.gpuvec_device_alloc(array.nbytes, 0)
    stream, event = lib.gpuvec_stream_create(0), lib.gpuvec_event_create()
    assert memory and stream and event

    def work():
        for _ in range(50):
            assert lib.gpuvec_copy(memory, array.ctypes.data, array.nbytes, stream) == 0
            assert lib.gpuvec_add_f32(memory, memory, memory, array.size, stream) == 0
        assert lib.gpuvec_event_record(event, stream) == 0

    work()
    {way}
    """
    run_silently(script, **placement_variables)
