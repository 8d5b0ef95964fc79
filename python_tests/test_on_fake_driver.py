"""Machines that are hard to come by: several GPUs, little memory, slow or old ones.

The fake driver plays them, each in a process of its own.
"""

import subprocess
import sys
import textwrap

import pytest
from on_fake_driver import environment, needs_fake_driver
from programs import HERE, library_environment, run_python

pytestmark = needs_fake_driver

# What all scripts begin with: `attempt` calls an operation, checks what it wrote, and gives the
# status and the error's text; `backends` says where the sample ran, which must succeed.
PRELUDE = """
import ctypes
import numpy as np
from arrays import assert_same_bits, call, call_at, filled, output
from bindings import Backend, Place, Status, last_error, last_run, lib, why_cpu
from fork import in_child
from operations import FOR_A_GPU, OPERATIONS, SAMPLE, repeated
from fake_driver import FakeDriver

fake_driver = FakeDriver()

def attempt(operation, n, kind="pinned"):
    a, b = (filled(kind, values) for values in repeated(operation, n))
    out = output(operation, kind, n)
    status, text = call(operation, a.array, b.array, out.array), last_error()
    if status == Status.OK:
        assert_same_bits(out.array, operation.oracle(*repeated(operation, n)))
    assert a.guards_are_intact() and b.guards_are_intact() and out.guards_are_intact()
    return status, text

def backends(*sizes, kind="pinned"):
    for operation in SAMPLE:
        for n in sizes:
            assert attempt(operation, n, kind) == (Status.OK, "")
            yield Backend(last_run().backend)
"""

EPILOGUE = """
assert fake_driver.violation() == ""
assert fake_driver.count("pending") == 0
"""


def run(script: str, threads: int | None = None, **settings: object) -> str:
    """Runs a script on the fake driver with its settings (FAKE_DRIVER_...); what it printed.

    With one of the library's threads, equal calls ask the driver for the same, one after the other:
    no kernel is seen to end before its stream is waited for.
    """
    variables = environment(**settings)
    if threads:
        variables |= {"GPUVEC_NUM_THREADS": str(threads), "FAKE_DRIVER_FLAGS": "0"}
    return run_python(PRELUDE + textwrap.dedent(script) + EPILOGUE, **variables)


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
        'assert why_cpu() == ""\nprint(fake_driver.calls().index("cuDevicePrimaryCtxRetain"))',
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


@pytest.mark.parametrize("host_pointers", [1, 0])
def test_where_a_device_finds_page_locked_memory(host_pointers):
    """The device is asked for each array, unless it says that addresses are the host's."""
    run(
        f"""
        lib.gpuvec_set_placement(Place.GPU)
        for operation in SAMPLE:
            assert attempt(operation, 1000) == (Status.OK, "")
            fake_driver.plan("")
            assert attempt(operation, 1000) == (Status.OK, "")
            asked = fake_driver.calls().count("cuPointerGetAttribute")
            arrays = operation.shape.arity + (operation.kind == "elementwise")
            assert asked == (0 if {host_pointers} else arrays), asked
        """,
        HOST_POINTERS=host_pointers,
    )


def test_page_locked_memory_begins_with_a_page():
    """Where the driver's own does not: it lies beside other small allocations."""
    run(
        """
        for operation in SAMPLE:
            assert attempt(operation, 1000) == (Status.OK, "")
        held = fake_driver.ledger()
        for size in (0, 1, 4096, 70_001):
            address = lib.pinned_alloc(size)
            assert address % 4096 == 0, last_error()
            assert fake_driver.count("host_allocations") == held["host_allocations"] + 1
            ctypes.memset(address, 7, max(4096, -(-size // 4096) * 4096))
            assert lib.pinned_free(address) == 0, last_error()
            assert fake_driver.ledger() == held
        """,
        HOST_OFFSET=512,
    )


def test_a_lost_device_is_passed_over():
    """The call in which it is lost fails if it must not run elsewhere; later ones do."""
    run(
        """
        lib.gpuvec_set_placement(Place.GPU)
        assert set(backends(300_001, kind="pageable")) == {Backend.GPU}
        assert last_run().devices == 1
        fake_driver.plan("")
        attempt(OPERATIONS[0], 300_001, "pageable")
        launch = fake_driver.calls().index("cuLaunchKernel") + 1
        fake_driver.plan(f"{launch}=700~")
        status, text = attempt(OPERATIONS[0], 300_001, "pageable")
        assert status == Status.ERROR_DEVICE_LOST and "device 0" in text, text
        fake_driver.plan("")
        assert set(backends(1000, 300_001, kind="pageable")) == {Backend.GPU}
        assert last_run().devices == 2
        """,
        threads=1,
        DEVICES=3,
    )


# An elementwise operation and a reduction on arrays that all devices take together, and which
# devices did.
FOR_ALL = """
LONG = 5_000_003
PAIR = [OPERATIONS[0], OPERATIONS[2]]

def devices(kind="pinned", n=LONG):
    found = []
    for operation in PAIR:
        status, text = attempt(operation, n, kind)
        assert status == Status.OK, text
        found.append(last_run().devices)
    return found

def check_staging(kind):
    for operation in PAIR:
        assert attempt(operation, LONG, kind) == (Status.OK, "")
        staged = operation.staged_bytes(LONG).values() if "pageable" in kind else [0]
        assert last_run().bytes_staged == sum(staged)

def check_in_place(kind):
    a, b = (filled(kind, values) for values in repeated(PAIR[0], LONG))
    assert call(PAIR[0], a.array, b.array, a.array) == 0
    assert_same_bits(a.array, PAIR[0].oracle(*repeated(PAIR[0], LONG)))
    assert a.guards_are_intact() and b.guards_are_intact()
"""


@pytest.mark.parametrize("kind", ["pinned", "pinned+3", "pageable+7"])
@pytest.mark.parametrize("place", ["GPU", "AUTO"])
def test_all_devices_take_part_in_long_calls(place, kind):
    """The bits are the same, in place as well; each copies what is not pinned, once."""
    run(
        FOR_ALL
        + f"""
lib.gpuvec_set_placement(Place.{place})
assert why_cpu() == ""
found = [bits for _ in range(5) for bits in devices("{kind}")]
assert 7 in found and set(found) <= set(range(1, 8)), found
check_staging("{kind}")
check_in_place("{kind}")
lib.gpuvec_set_placement(Place.GPU)
assert devices("{kind}", 300_001) == [1, 1]
""",
        DEVICES=3,
        DELAY=300,
    )


@pytest.mark.parametrize("place", ["GPU", "AUTO", "CPU"])
@pytest.mark.parametrize("n", [1000, 5_000_003])
def test_what_another_device_is_about_to_write_is_waited_for(place, n):
    """What the caller queued on its own device's default stream, whichever devices compute."""
    run(
        FOR_ALL
        + f"""
from cuda_driver import Driver

lib.gpuvec_set_placement(Place.GPU)
assert devices()[0]
ones, array, out = (filled("pinned", np.ones({n}, np.int32)) for _ in range(3))
lib.gpuvec_set_placement(Place.{place})
for number in (2, 0, 1):
    caller = Driver(number)
    with caller.entered():
        caller.fill_later(array.address, 7 + number, {n})
        assert lib.add_arrays(array.address, ones.address, out.address, {n}) == 0, last_error()
    assert (out.array == 8 + number).all(), number
""",
        DEVICES=3,
        DELAY=20_000,
    )


@pytest.mark.parametrize("place", ["GPU", "AUTO"])
def test_a_device_is_lost_in_a_call_of_all(place):
    """The call fails, or runs on the cores; later ones take the others. No sum is a part of one."""
    run(
        FOR_ALL
        + f"""
AMID = {{"cuLaunchKernel", "cuMemcpyAsync", "cuStreamSynchronize"}}
lib.gpuvec_set_placement(Place.{place})
assert why_cpu() == ""

def arrays_of(operation):
    inputs = [filled("pinned", values).array for values in repeated(operation, LONG)]
    return *inputs, output(operation, "pinned", LONG).array

arrays = [arrays_of(operation) for operation in PAIR]

def status_of(operation, plan=""):
    fake_driver.plan(plan)
    status = call(operation, *arrays[PAIR.index(operation)])
    if status == Status.OK:
        expected = operation.oracle(*repeated(operation, LONG))
        assert_same_bits(arrays[PAIR.index(operation)][2], expected)
    return status

for operation in PAIR:
    while status_of(operation) != Status.OK:
        assert Place.{place} == Place.GPU
    amid = fake_driver.calls().index("cuLaunchKernel") + 15
    status = status_of(operation, f"{{amid}}=700")
    # Another thread may be anywhere: a device that fails before it takes a part is not missed.
    if AMID & set(fake_driver.calls()[amid - 1 : amid]) and Place.{place} == Place.GPU:
        assert status == Status.ERROR_DEVICE_LOST
    elif Place.{place} == Place.AUTO:
        assert status == Status.OK
fake_driver.plan("")
while status_of(PAIR[0]) != Status.OK:
    assert Place.{place} == Place.GPU
for operation in 5 * PAIR:
    assert status_of(operation) == Status.OK
    backend, devices = last_run().backend, last_run().devices
    assert backend == Backend.GPU and 0 < devices < 7, (backend, devices)
""",
        DEVICES=3,
    )


def test_a_device_without_memory_leaves_its_part_to_others():
    """It has room for nothing; the others do all of it."""
    run(
        FOR_ALL
        + """
from ctypes import byref, c_size_t, c_uint64
from cuda_driver import Driver

lib.gpuvec_set_placement(Place.GPU)
other = Driver(1)
with other.entered():
    other.call("cuMemAlloc_v2", byref(c_uint64()), c_size_t(other.free_bytes()))
for _ in range(5):
    bits = devices()[1]
    assert bits & 1 and not bits & 2, bits
""",
        DEVICES=3,
    )


def test_work_runs_where_the_arrays_are():
    """The output's device computes; what is on others is copied to it."""
    run(
        """
        import itertools
        from ctypes import byref, c_void_p
        from bindings import PathBit
        from cuda_driver import DeviceArray, Driver
        driver = Driver()

        def on_device(number, values):
            context = c_void_p()
            driver.call("cuDevicePrimaryCtxRetain", byref(context), number)
            driver.set_current(context)
            return DeviceArray(driver, values)

        for operation in OPERATIONS:
            n = 300_001 if operation in SAMPLE else 1000
            values = repeated(operation, n)
            result = operation.oracle(*values)
            inputs = [[on_device(number, array) for number in range(3)] for array in values]
            outputs = [on_device(number, np.zeros_like(result)) for number in range(3)]
            for places in itertools.product(range(3), repeat=3):
                a, b, out = (of[place] for of, place in zip([*inputs, outputs], places))
                assert call_at(operation, a.address, b.address, out.address, n) == 0, last_error()
                assert_same_bits(out.values(), result)
                run, far = last_run(), set(places[: operation.shape.arity]) - {places[2]}
                assert (run.devices, run.bytes_staged) == (1 << places[2], 0)
                assert run.path & ~PathBit.RESIDENT == (PathBit.DMA if far else 0)
                out.fill(np.zeros_like(result))
            for array in [*inputs[0], *inputs[1], *outputs]:
                array.free()
        """,
        DEVICES=3,
    )


def test_little_device_memory():
    """Where a device has no room for buffers, the CPU answers; few calls need them."""
    run(
        """
        assert why_cpu() == ""
        assert set(backends(FOR_A_GPU)) == {Backend.CPU}
        assert set(backends(FOR_A_GPU, kind="pageable")) == {Backend.GPU}
        lib.gpuvec_set_placement(Place.GPU)
        for operation in SAMPLE:
            status, text = attempt(operation, FOR_A_GPU)
            assert status == Status.ERROR_OUT_OF_MEMORY
            assert "cuMemAlloc failed with CUDA_ERROR_OUT_OF_MEMORY" in text
        assert set(backends(1, 50_001, 500_003)) == {Backend.GPU}
        """,
        MEMORY=1 << 20,
    )


@pytest.mark.parametrize("call", ["cuStreamCreateWithPriority", "cuMemHostAlloc"])
def test_a_call_goes_on_with_the_lanes_that_it_has(call):
    """Where no more of them can be made, also in the middle of its work."""
    script = """
    import os
    os.environ["GPUVEC_NUM_THREADS"] = "1"
    a, b = (filled("pageable", values) for values in repeated(OPERATIONS[0], FOR_A_GPU))
    assert call(OPERATIONS[0], a.array, b.array, a.array) == Status.OK, last_error()
    assert last_run().backend == Backend.GPU
    assert_same_bits(a.array, OPERATIONS[0].oracle(*repeated(OPERATIONS[0], FOR_A_GPU)))
    """
    show = f"\nprint(*[i for i, name in enumerate(fake_driver.calls(), 1) if name == '{call}'])"
    made = run(textwrap.dedent(script) + show).split()
    assert len(made) > 2
    for number in made[1:3]:
        run(script, FAULTS=f"{number}=2")


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
        assert 1 <= fake_driver.count("streams") <= 18
        """,
        DELAY=300,
    )


def test_a_forked_child_leaves_the_driver_alone():
    """It computes on the CPU with the same bits, and makes no call; the parent goes on."""
    run(
        """
        assert set(backends(FOR_A_GPU)) == {Backend.GPU}
        calls = fake_driver.calls()

        def child():
            assert set(backends(1000, FOR_A_GPU, kind="pageable")) == {Backend.CPU}
            assert set(backends(300_001)) == {Backend.CPU}
            lib.gpuvec_set_placement(Place.GPU)
            assert attempt(OPERATIONS[0], 1000, "pageable")[0] == Status.ERROR_FORKED
            assert fake_driver.calls() == calls and fake_driver.violation() == ""

        in_child(child)
        assert set(backends(FOR_A_GPU)) == {Backend.GPU}
        """
    )


def test_a_forked_child_does_not_follow_device_pointers():
    """It cannot ask what they are; that they are not the host's is seen without a fault."""
    run(
        """
        from cuda_driver import DeviceArray, Driver
        driver = Driver()
        driver.set_current(driver.context)
        assert why_cpu() == ""
        for operation in OPERATIONS:
            a, b = repeated(operation, 1000)
            there, out = DeviceArray(driver, a), np.empty_like(operation.oracle(a, b))
            arguments = [(there.address, b.ctypes.data, out.ctypes.data),
                         (a.ctypes.data, b.ctypes.data, there.address)]

            def child():
                for placement, expected in [(Place.AUTO, Status.ERROR_FORKED),
                                            (Place.GPU, Status.ERROR_FORKED),
                                            (Place.CPU, Status.ERROR_PLACEMENT)]:
                    lib.gpuvec_set_placement(placement)
                    for addresses in arguments:
                        status = call_at(operation, *addresses, 1000)
                        assert status == expected, last_error()

            in_child(child)
        """
    )


def test_device_pointers_where_the_driver_does_not_open():
    """Another library has them, although the driver refuses us: an error that says why."""
    run(
        """
        from cuda_driver import DeviceArray, Driver
        driver = Driver()
        driver.set_current(driver.context)
        a, b = repeated(OPERATIONS[0], 1000)
        there = DeviceArray(driver, a)
        fake_driver.plan("1=999+")
        status = lib.vector_add(there.address, b.ctypes.data, b.ctypes.data, 1000)
        assert status == Status.ERROR_NO_GPU and "cuInit" in last_error(), last_error()
        assert lib.vector_add(a.ctypes.data, b.ctypes.data, b.ctypes.data, 1000) == Status.OK
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
            for operation in SAMPLE for n in sizes
        }

        def calls(count):
            for number in range(count):
                operation, n = list(arrays)[number % len(arrays)]
                a, _, _, b = arrays[operation, n]
                out = np.zeros(operation.outputs(n), operation.out_dtype)
                assert call(operation, a.array, b.array, out) == 0, last_error()
                memory = lib.pinned_alloc(5000)
                assert memory and lib.pinned_free(memory) == 0

        calls(100)
        held = fake_driver.ledger()
        calls(1000)
        assert fake_driver.ledger() == held and held["contexts"] == 1
        """,
        threads=1,
    )


def inject_faults(only: str, *plan: str) -> subprocess.CompletedProcess:
    """Runs a part of fault injection."""
    command = [sys.executable, HERE / "fault_injection.py", "--only", only, *plan]
    environment = library_environment()
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)


@pytest.mark.parametrize(
    ("scenario", "plan"),
    [
        ("vector_add of 270003 pageable pageable pageable, gpu, later", "6=700+"),
        ("two streams, pinned, by synchronize, gpu, later", "6=700+"),
    ],
)
def test_fault_injection_tells_kept_promises_from_broken_ones(scenario, plan):
    """A fault that a scenario survives passes; a plan that never comes to bear is a failure."""
    survived = inject_faults(scenario, "--plan", plan)
    assert survived.returncode == 0 and "1  ERROR_DEVICE_LOST" in survived.stdout, survived
    failed = inject_faults(scenario, "--plan", "1000=2")
    assert failed.returncode == 1 and "1  broken promise" in failed.stdout, failed
    assert f"--only '{scenario}' --plan 1000=2" in failed.stdout


# Work on streams that breaks a promise, mostly when a call fails, and the report of it.
BROKEN = {
    "keeps a stream": (
        """
        try:
            super().steps(handles)
        except CallFailed:
            lib.gpuvec_stream_create(0)
            raise
        """,
        "more is held than without a fault",
    ),
    "hides an error": (
        """
        try:
            super().steps(handles)
        except CallFailed:
            pass
        """,
        "c after right",
    ),
    "goes too far": (
        """
        super().steps(handles)
        self.arrays["c"].block[0] += 1
        """,
        "something around c was written",
    ),
    "gives another error": (
        """
        try:
            super().steps(handles)
        except CallFailed as failed:
            failed.outcome = "ERROR_SIZE"
            raise
        """,
        "ERROR_SIZE: cu",
    ),
}


@pytest.mark.parametrize("breach", BROKEN)
def test_fault_injection_reports_a_broken_promise(breach):
    """Whichever promise it is that work on streams breaks."""
    steps, said = BROKEN[breach]
    run(
        f"""
        from scenarios import Scenario
        from scenarios_streams import CallFailed, Chain
        from fault_injection import Options, inject_faults

        class Broken(Chain):
            def steps(self, handles):
{textwrap.indent(textwrap.dedent(steps), " " * 16)}

        def failures(work):
            scenario = Scenario(work(("device",)), Place.GPU, 1)
            return inject_faults(scenario, Options("", 25, None))[1]

        assert failures(Chain) == []
        assert any({said!r} in text for text, _, _ in failures(Broken)), failures(Broken)
        """
    )
