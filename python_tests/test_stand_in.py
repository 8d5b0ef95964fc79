"""Machines that are hard to come by: several GPUs, little memory, slow or old ones.

The stand-in driver plays them, each in a process of its own.
"""

import subprocess
import sys
import textwrap

import pytest
from programs import HERE, before, library_environment, run_python
from stand_in_driver import STAND_IN

pytestmark = pytest.mark.skipif(
    not (STAND_IN / "libcuda.so.1").exists(), reason="the stand-in is not built: make stand-in"
)

# What all scripts begin with: `attempt` calls an operation, checks what it wrote, and gives the
# status and the error's text; `backends` says where all operations ran, which must succeed.
PRELUDE = """
import ctypes
import numpy as np
from arrays import assert_same_bits, call, filled, guarded
from bindings import Backend, Place, Status, last_error, last_run, lib, why_cpu
from fork import in_child
from operations import FOR_A_GPU, OPERATIONS, repeated
from stand_in_driver import StandIn

stand_in = StandIn()

def attempt(operation, n, kind="pinned"):
    a, b = (filled(kind, values) for values in repeated(operation, n))
    out = guarded(kind, operation.dtype, operation.outputs(n))
    status, text = call(operation, a.array, b.array, out.array), last_error()
    if status == Status.OK:
        assert_same_bits(out.array, operation.oracle(*repeated(operation, n)))
    assert a.guards_are_intact() and b.guards_are_intact() and out.guards_are_intact()
    return status, text

def backends(*sizes, kind="pinned"):
    for operation in OPERATIONS:
        for n in sizes:
            assert attempt(operation, n, kind) == (Status.OK, "")
            yield Backend(last_run().backend)
"""

EPILOGUE = """
assert stand_in.violation() == ""
assert stand_in.count("pending") == 0
"""


def run(script: str, **settings: object) -> str:
    """Runs a script on the stand-in with its settings (STAND_IN_...); what it printed."""
    variables = {f"STAND_IN_{name}": str(value) for name, value in settings.items()}
    path = before("LD_LIBRARY_PATH", STAND_IN)
    return run_python(
        PRELUDE + textwrap.dedent(script) + EPILOGUE, LD_LIBRARY_PATH=path, **variables
    )


def test_several_devices():
    """All are counted and named, and the first one is used."""
    run(
        """
        assert lib.gpuvec_device_count() == 3
        names = [lib.gpuvec_device_name(device) for device in range(3)]
        assert all(names) and len(set(names)) == 3
        assert lib.gpuvec_device_name(3) is None and "device is 3" in last_error()
        lib.gpuvec_set_placement(Place.GPU)
        assert set(backends(1000, 300_001)) == {Backend.GPU} and last_run().devices == 1
        """,
        DEVICES=3,
    )


def test_a_device_that_does_not_open_is_passed_over():
    """The next one computes, and gpuvec_init tries the first again."""
    opening = run(
        'assert why_cpu() == ""\nprint(stand_in.calls().index("cuDevicePrimaryCtxRetain"))',
        DEVICES=3,
    )
    run(
        """
        lib.gpuvec_set_placement(Place.GPU)
        assert set(backends(1000, 300_001)) == {Backend.GPU} and last_run().devices == 2
        assert lib.gpuvec_init() == 0
        assert set(backends(1000, 300_001)) == {Backend.GPU} and last_run().devices == 1
        """,
        DEVICES=3,
        FAULTS=f"{int(opening) + 1}=2",
    )


def test_a_lost_device_is_passed_over():
    """The call in which it is lost fails if it must not run elsewhere; later ones do."""
    run(
        """
        lib.gpuvec_set_placement(Place.GPU)
        assert set(backends(300_001, kind="pageable")) == {Backend.GPU}
        assert last_run().devices == 1
        stand_in.plan("")
        attempt(OPERATIONS[0], 300_001, "pageable")
        launch = stand_in.calls().index("cuLaunchKernel") + 1
        stand_in.plan(f"{launch}=700~")
        status, text = attempt(OPERATIONS[0], 300_001, "pageable")
        assert status == Status.ERROR_DEVICE_LOST and "device 0" in text, text
        stand_in.plan("")
        assert set(backends(1000, 300_001, kind="pageable")) == {Backend.GPU}
        assert last_run().devices == 2
        """,
        DEVICES=3,
    )


def test_work_runs_where_the_arrays_are():
    """Arrays of one device are used by it; those of two in one call are an error that says so."""
    run(
        """
        from ctypes import byref, c_void_p
        from cuda_driver import DeviceArray, Driver
        driver = Driver()

        def on_device(number, values):
            context = c_void_p()
            driver.call("cuDevicePrimaryCtxRetain", byref(context), number)
            driver.set_current(context)
            return DeviceArray(driver, values)

        for operation in OPERATIONS:
            a, b = repeated(operation, 1000)
            result = operation.oracle(a, b)
            here, there = on_device(0, a), on_device(2, b)
            function = getattr(lib, operation.name)
            out = on_device(2, np.zeros_like(result))
            assert function(there.address, there.address, out.address, 1000) == 0, last_error()
            assert last_run().devices == 1 << 2
            assert_same_bits(out.values(), operation.oracle(b, b))
            status = function(here.address, there.address, out.address, 1000)
            assert status == Status.ERROR_PLACEMENT, last_error()
            assert "device 0" in last_error() and "device 2" in last_error()
        """,
        DEVICES=3,
    )


def test_little_device_memory():
    """Where a device has no room for buffers, the CPU answers; small arrays need none."""
    run(
        """
        assert why_cpu() == ""
        assert set(backends(530_003, FOR_A_GPU)) == {Backend.CPU}
        assert set(backends(FOR_A_GPU, kind="pageable")) == {Backend.CPU}
        lib.gpuvec_set_placement(Place.GPU)
        for operation in OPERATIONS:
            status, text = attempt(operation, 530_003)
            assert status == Status.ERROR_OUT_OF_MEMORY
            assert "cuMemAlloc failed with CUDA_ERROR_OUT_OF_MEMORY" in text
        assert set(backends(1, 100_001)) == {Backend.GPU}
        """,
        MEMORY=1 << 20,
    )


def test_slow_queues_and_many_threads():
    """However late queued work is done, every thread's results are right."""
    run(
        """
        import random
        from concurrent.futures import ThreadPoolExecutor
        from arrays import KINDS
        lib.gpuvec_set_placement(Place.GPU)

        def work(number):
            chance = random.Random(number)
            for _ in range(6):
                n = chance.choice([1, 1000, 100_001, 300_001])
                operation, kind = chance.choice(OPERATIONS), chance.choice(sorted(KINDS))
                assert attempt(operation, n, kind) == (Status.OK, "")

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(work, range(16)))
        assert 1 <= stand_in.count("streams") <= 4
        """,
        DELAY=300,
    )


def test_an_old_driver():
    """A driver from before the kernels' PTX is named, and the CPU answers."""
    run(
        """
        assert "CUDA 11.4" in why_cpu() and "525" in why_cpu(), why_cpu()
        assert set(backends(1000, FOR_A_GPU)) == {Backend.CPU}
        lib.gpuvec_set_placement(Place.GPU)
        status, text = attempt(OPERATIONS[0], 1000, "pageable")
        assert status == Status.ERROR_NO_GPU and "CUDA 11.4" in text, text
        """,
        DRIVER_VERSION=11040,
    )


def test_a_forked_child_leaves_the_driver_alone():
    """It computes on the CPU with the same bits, and makes no call; the parent goes on."""
    run(
        """
        assert set(backends(FOR_A_GPU)) == {Backend.GPU}
        calls = stand_in.calls()

        def child():
            assert set(backends(1000, FOR_A_GPU, kind="pageable")) == {Backend.CPU}
            assert set(backends(300_001)) == {Backend.CPU}
            lib.gpuvec_set_placement(Place.GPU)
            assert attempt(OPERATIONS[0], 1000, "pageable")[0] == Status.ERROR_FORKED
            assert stand_in.calls() == calls and stand_in.violation() == ""

        in_child(child)
        assert set(backends(FOR_A_GPU)) == {Backend.GPU}
        """
    )


def test_a_thousand_calls_hold_no_more_than_a_few():
    """Lanes are made once, and everything else is given back."""
    run(
        """
        lib.gpuvec_set_placement(Place.GPU)
        sizes = [1, 5000, 300_001, 530_003]
        arrays = {
            (operation, n): [filled(kind, values) for kind in ("pageable", "pinned")
                             for values in repeated(operation, n)]
            for operation in OPERATIONS for n in sizes
        }

        def calls(count):
            for number in range(count):
                operation, n = list(arrays)[number % len(arrays)]
                a, _, _, b = arrays[operation, n]
                out = np.zeros(operation.outputs(n), operation.dtype)
                assert call(operation, a.array, b.array, out) == 0, last_error()
                memory = lib.pinned_alloc(5000)
                assert memory and lib.pinned_free(memory) == 0

        calls(100)
        held = stand_in.ledger()
        calls(1000)
        assert stand_in.ledger() == held and held["contexts"] == 1
        """
    )


def torture(only: str, *plan: str) -> subprocess.CompletedProcess:
    """A part of the fault torture."""
    command = [sys.executable, HERE / "torture.py", "--only", only, *plan]
    environment = library_environment()
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)


def test_torture_tells_what_holds_from_what_does_not():
    """A fault that a scenario survives passes; a plan that never comes to bear is a failure."""
    scenario = "vector_add of 270003 pageable pageable pageable, gpu, later"
    survived = torture(scenario, "--plan", "9=700~")
    assert survived.returncode == 0 and "1  ERROR_DEVICE_LOST" in survived.stdout, survived
    failed = torture(scenario, "--plan", "1000=2")
    assert failed.returncode == 1 and "1  broken promise" in failed.stdout, failed
    assert f"--only '{scenario}' --plan 1000=2" in failed.stdout
