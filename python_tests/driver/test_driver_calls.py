"""Calls of the driver: none with placement cpu, and no more than needed after a failure."""

import json
import os
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest
from on_fake_driver import environment, needs_fake_driver
from programs import compile_program, library_environment, run, run_python

pytestmark = needs_fake_driver

# Calls on small and large arrays in all memory that a program may use.
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


REPORT = """
import json
from fake_driver import FakeDriver
print(json.dumps(FakeDriver().calls()))
"""


def calls(script: str, variables: dict[str, str] | None = None, **settings: object) -> list[str]:
    """Runs a script on the fake driver and returns the names of the functions that it called."""
    text = textwrap.dedent(script) + REPORT
    return json.loads(run_python(text, **environment(**settings), **(variables or {})))


@pytest.mark.parametrize("how", ["by call", "by environment"])
def test_placement_cpu_makes_no_driver_call(how):
    """Work on the cores leaves the driver alone."""
    variables = {"GPUVEC_PLACEMENT": "cpu"} if how == "by environment" else {}
    choose = "lib.gpuvec_set_placement(2)\n" if how == "by call" else ""
    assert calls(WORK + choose + "lib.gpuvec_init()\nwork()\n", variables) == []


each_failure = pytest.mark.parametrize(
    "function, code", [("cuInit", 999), ("cuDeviceGetCount", 999), ("cuDevicePrimaryCtxRetain", 2)]
)


@each_failure
def test_a_failed_driver_is_not_retried(function, code):
    """Only gpuvec_init tries a failed driver again."""
    made = calls(WORK + "work()\nwork()\n", FAULTS=f"{function}={code}")
    assert made.count(function) == 1


def test_a_driver_without_devices_is_not_retried():
    """A driver without devices is treated as one that fails."""
    assert calls(WORK + "work()\nwork()\n", DEVICES=0).count("cuInit") == 1


@each_failure
def test_init_tries_again(function, code):
    """If the driver has recovered by then, later calls use it."""
    script = f"""
    from bindings import lib, why_cpu
    from fake_driver import FakeDriver
    driver = FakeDriver()
    assert why_cpu() and why_cpu()
    assert lib.gpuvec_init() == 0 and why_cpu()
    assert driver.calls().count("{function}") == 2
    driver.plan("")
    assert why_cpu()
    assert lib.gpuvec_init() == 0 and why_cpu() == ""
    assert lib.gpuvec_init() == 0 and lib.gpuvec_device_count() == 1
    """
    assert calls(script, FAULTS=f"{function}={code}").count(function) == 1


@pytest.mark.long
def test_a_lost_device_is_left_alone():
    """A device that is lost gets no more work in this process."""
    script = f"""
{WORK}
from fake_driver import FakeDriver
driver = FakeDriver()
for _ in range(50):
    work()
    if "cuLaunchKernel" in driver.calls():
        break
work()
lib.gpuvec_init()
work()
"""
    made = calls(script, {"GPUVEC_NUM_THREADS": "1"}, FAULTS="cuLaunchKernel=719")
    assert made.count("cuLaunchKernel") == 1


def test_fork_while_the_driver_is_being_opened(tmp_path):
    """A child that is forked while another thread opens the driver does not wait for it."""
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
    with open(os.environ["FAKE_DRIVER_LOAD_GATE"], "w"):
        in_child(child)
    opener.join()
    assert lib.gpuvec_device_count() == 1
    """
    calls(WORK + textwrap.dedent(script), LOAD_GATE=gate)


def can_trace() -> bool:
    """Returns whether strace is installed and may trace programs."""
    if not shutil.which("strace"):
        return False
    return subprocess.run(["strace", "-qq", "-o", os.devnull, "true"]).returncode == 0


@pytest.fixture
def tiny_calls(tmp_path):
    """Builds a program that makes a number of small calls of the library."""
    built = tmp_path / "tiny_calls"
    compile_program(Path(__file__).with_name("tiny_calls.c"), built)
    return built


@pytest.fixture
def system_calls(tiny_calls, tmp_path):
    """Counts the system calls of a process that makes a number of small calls of the library."""
    if not can_trace():
        pytest.skip("strace is missing, or may not trace programs")
    trace = tmp_path / "trace"

    def count(calls: int, variables: dict[str, str]) -> int:
        variables = library_environment(**variables)
        run(["strace", "-f", "-qq", "-o", trace, tiny_calls, calls], env=variables)
        return len(trace.read_text().splitlines())

    return count


@pytest.mark.parametrize("settings", [{"FAULTS": "cuInit=999"}, {"DEVICES": 0}], ids=str)
def test_small_calls_without_a_usable_gpu_make_no_system_calls(system_calls, settings):
    """Small calls are as fast with a driver that finds no GPU as without a driver."""
    variables = environment(**settings)
    assert system_calls(1_100, variables) == system_calls(100, variables)


def test_small_calls_with_placement_cpu_make_no_system_calls(system_calls):
    """After the first call, small calls on the cores make no system calls."""
    variables = {**environment(), "GPUVEC_PLACEMENT": "cpu"}
    assert system_calls(1_100, variables) == system_calls(100, variables)


def test_functions_of_a_driver_that_is_not_open_are_looked_up_once(tiny_calls, tmp_path):
    """Small calls stay fast where another library has loaded the driver and not initialised it."""
    driver = {**environment(), "LD_PRELOAD": "libcuda.so.1"}
    log = {"LD_DEBUG": "symbols", "LD_DEBUG_OUTPUT": str(tmp_path / "lookups")}
    run([tiny_calls, 1_000], env=library_environment(**driver, **log))
    lookups = "".join(path.read_text() for path in tmp_path.glob("lookups.*"))
    assert lookups.count("symbol=cuInit;  lookup in file=") == 1, "the library, in one file"
