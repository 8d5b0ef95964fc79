"""Calls while a thread or the process ends: from destructors, and from handlers of exit."""

import os
import shutil

import pytest
from bindings import LIBRARY, ROOT
from on_fake_driver import IS_BUILT, NOT_BUILT
from on_fake_driver import environment as on_fake_driver
from programs import HERE, run, run_program

# Bounds a hang; the programs themselves run for less than a second.
SECONDS = 10
SMALL, FOR_THREADS, FOR_SEVERAL_GPUS = 10, 300_000, 6_000_001
CXX = os.environ.get("CXX", "c++")

each_length = pytest.mark.parametrize("n", [SMALL, FOR_THREADS, FOR_SEVERAL_GPUS])


@pytest.fixture(params=["cpu", "gpu"])
def place(request) -> dict:
    """The environment that puts calls on the cores, or on two GPUs of the fake driver."""
    if request.param == "cpu":
        return {"GPUVEC_PLACEMENT": "cpu", "GPUVEC_NUM_THREADS": "4"}
    if not IS_BUILT:
        pytest.skip(NOT_BUILT)
    return {"GPUVEC_PLACEMENT": "gpu", **on_fake_driver(DEVICES=2)}


@pytest.fixture(scope="module")
def cpp_program(tmp_path_factory):
    """The C++ program; it is C++'s runtime that calls the destructors of its objects."""
    if not shutil.which(CXX):
        pytest.skip("there is no C++ compiler")
    built = tmp_path_factory.mktemp("farewell_cpp") / "farewell"
    strict = ["-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", ROOT / "include"]
    link = [LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}", "-pthread"]
    run([CXX, *strict, HERE / "farewell.cpp", "-o", built, *link])
    return built


@each_length
@pytest.mark.parametrize("before_it", ["", "-called", "-called-before-key"])
@pytest.mark.parametrize("end", ["thread", "main", "exit"])
def test_calls_at_the_end_of_a_thread_or_process(program, place, end, before_it, n):
    """Destructors of thread-specific data and handlers of exit may call, also as the first call."""
    program("farewell", end + before_it, n, timeout=SECONDS, **place)


@each_length
@pytest.mark.parametrize("what", ["thread", "main", "global"])
def test_calls_from_destructors_of_objects(cpp_program, place, what, n):
    """Destructors of C++'s thread-local and global objects may call, also as the first call."""
    assert run_program(cpp_program, what, n, timeout=SECONDS, **place) == ""
