"""Which calls of the driver are made, and when: none at load, none with placement cpu."""

import os
import shutil
import subprocess
import textwrap

import pytest
from programs import before, compile_program, library_environment, run, run_python

# All that a program does with arrays and memory, small and large.
WORK = """
import numpy as np
from arrays import compute
from bindings import lib, pinned_empty
from operations import CLASSIC, FOR_A_GPU, OPERATIONS, repeated

def work():
    for n, operations in ((10, OPERATIONS), (FOR_A_GPU, CLASSIC)):
        for operation in operations:
            a, b = repeated(operation, n)
            assert compute(operation, a, b).tobytes() == operation.oracle(a, b).tobytes()
    pinned_empty(10_000, np.float32)[:] = 1
    lib.gpuvec_why_cpu(), lib.gpuvec_get_placement(), lib.gpuvec_last_error()
"""


@pytest.fixture
def calls(failing_driver, tmp_path):
    """Runs a script on the failing driver; the names of the driver's functions it called."""
    log = tmp_path / "calls"

    def run(script: str, **environment: str) -> list:
        path = before("LD_LIBRARY_PATH", failing_driver)
        run_python(script, LD_LIBRARY_PATH=path, CALL_LOG=str(log), **environment)
        return log.read_text().split() if log.exists() else []

    return run


def test_loading_makes_none(calls):
    """Nor does anything that only answers a question about the library."""
    script = """
    from bindings import last_run, lib
    lib.gpuvec_version(), lib.gpuvec_abi_version(), lib.gpuvec_status_string(0)
    lib.gpuvec_last_error(), lib.gpuvec_get_placement(), last_run()
    """
    assert calls(script) == []


@pytest.mark.parametrize("how", ["by call", "by environment"])
def test_placement_cpu_makes_none(calls, how):
    """Whatever a program does, the driver is not woken."""
    environment = {"GPUVEC_PLACEMENT": "cpu"} if how == "by environment" else {}
    choose = "lib.gpuvec_set_placement(2)\n" if how == "by call" else ""
    assert calls(WORK + choose + "lib.gpuvec_init()\nwork()\n", **environment) == []


@pytest.mark.parametrize(
    "function, environment",
    [
        ("cuInit", {"FAIL_cuInit": "999"}),
        ("cuDeviceGetCount", {"DEVICES": "0"}),
        ("cuDevicePrimaryCtxRetain", {"FAIL_cuDevicePrimaryCtxRetain": "2"}),
    ],
)
def test_a_failure_is_asked_about_once(calls, function, environment):
    """A driver that failed is not tried again at every call, but by gpuvec_init."""
    assert calls(WORK + "work()\nwork()\n", **environment).count(function) == 1


@pytest.mark.parametrize(
    "function, variable, value",
    [
        ("cuInit", "FAIL_cuInit", "999"),
        ("cuDeviceGetCount", "DEVICES", "0"),
        ("cuDevicePrimaryCtxRetain", "FAIL_cuDevicePrimaryCtxRetain", "2"),
    ],
)
def test_init_tries_again(calls, function, variable, value):
    """A driver that works by then is in use from then on."""
    script = f"""
    import os
    from bindings import lib, why_cpu
    assert why_cpu() and why_cpu()
    assert lib.gpuvec_init() == 0 and why_cpu()
    del os.environ["{variable}"]
    assert why_cpu()
    assert lib.gpuvec_init() == 0 and why_cpu() == ""
    assert lib.gpuvec_init() == 0 and lib.gpuvec_device_count() == 1
    """
    assert calls(script, **{variable: value}).count(function) == 3


def test_a_lost_device_is_left_alone(calls):
    """After a fault that only a new process mends no more work is given to the device."""
    script = WORK + "work()\nwork()\nlib.gpuvec_init()\nwork()\n"
    made = calls(script, FAIL_cuLaunchKernel="719", GPUVEC_NUM_THREADS="1")
    assert made.count("cuLaunchKernel") == 1


def test_fork_while_the_driver_is_being_opened(calls, tmp_path):
    """A child that was made while another thread waited for the driver does not wait for it."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    script = """
    import os, threading
    from fork import in_child
    cases = [(row, repeated(row, n)) for row in CLASSIC for n in (10, FOR_A_GPU)]
    expected = [row.oracle(*inputs).tobytes() for row, inputs in cases]
    def child():
        assert [compute(row, *inputs).tobytes() for row, inputs in cases] == expected
        pinned_empty(10_000, np.float32)[:] = 1
    opener = threading.Thread(target=lib.gpuvec_why_cpu)
    opener.start()
    with open(os.environ["LOAD_GATE"], "w"):
        in_child(child)
    opener.join()
    assert lib.gpuvec_device_count() == 1
    """
    calls(WORK + textwrap.dedent(script), LOAD_GATE=str(gate))


def test_a_forked_child_makes_none(calls):
    """A child never touches the driver that its parent opened."""
    script = """
    import os
    from fork import in_child
    work()
    pinned = pinned_empty(10_000, np.float32)
    log = os.environ["CALL_LOG"]
    before = open(log).read()
    def child():
        work()
        assert lib.gpuvec_init() == 0 and lib.gpuvec_device_count() == 0
        lib.gpuvec_set_placement(1)
        assert lib.vector_add(*[pinned.ctypes.data] * 3, 1) == 202
    in_child(child)
    assert before and open(log).read() == before
    """
    calls(WORK + textwrap.dedent(script))


def can_trace() -> bool:
    """Whether strace is there and may trace programs."""
    if not shutil.which("strace"):
        return False
    return subprocess.run(["strace", "-qq", "-o", os.devnull, "true"]).returncode == 0


@pytest.fixture
def system_calls(failing_driver, tmp_path):
    """Counts the system calls of a process that makes a number of small calls of the library."""
    if not can_trace():
        pytest.skip("strace is missing, or may not trace programs")
    built, trace = tmp_path / "tiny_calls", tmp_path / "trace"
    compile_program("tiny_calls.c", built)
    path = before("LD_LIBRARY_PATH", failing_driver)

    def count(calls: int, **environment: str) -> int:
        variables = library_environment(LD_LIBRARY_PATH=path, **environment)
        run(["strace", "-f", "-qq", "-o", trace, built, calls], env=variables)
        return len(trace.read_text().splitlines())

    return count


@pytest.mark.parametrize(
    "trouble",
    [{"FAIL_cuInit": "999"}, {"FAIL_cuInit": "100"}, {"DEVICES": "0"}],
    ids=["cuInit 999", "cuInit 100", "no devices"],
)
def test_small_calls_without_a_usable_gpu_make_no_system_calls(system_calls, trouble):
    """Where a driver gives no GPU, small calls are as cheap as where there is no driver."""
    assert system_calls(1_100, **trouble) == system_calls(100, **trouble)


def test_small_calls_with_placement_cpu_make_no_system_calls(system_calls):
    """Small calls of the cores ask the system for nothing, after the first one."""
    placement = {"GPUVEC_PLACEMENT": "cpu"}
    assert system_calls(1_100, **placement) == system_calls(100, **placement)
