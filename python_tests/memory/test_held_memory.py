"""gpuvec_memory and gpuvec_trim: what the library holds, and gives back."""

import ctypes

import gpuvec
import numpy as np
import pytest
from bindings import Status, lib
from on_fake_driver import needs_fake_driver, run
from programs import run_python

# Calls that make the library hold memory of every kind, and checks of what it holds.
WORK = """
import gpuvec

def check_held():
    "Returns what is held, which the fake driver counts, too."
    held, ledger = gpuvec.memory(), fake_driver.ledger()
    assert held.pinned == ledger["host_bytes"]
    assert held.device == ledger["device_bytes"]
    assert held.registered == ledger["registered_bytes"]
    assert held.modules == ledger["modules"]
    each = [gpuvec.memory(device) for device in range(gpuvec.device_count())]
    assert tuple(map(sum, zip(*each))) == held
    return held

def check_trimmed():
    "Returns what is held when all that is not in use was given back."
    before = check_held()
    freed = gpuvec.trim()
    held = check_held()
    assert freed == before.pinned - held.pinned + before.device - held.device
    assert held.pinned == held.pinned_allocated and held.device == held.device_allocated
    assert held.device_kept == 0 and held.registered == before.registered
    return held

def work(n=300_001):
    "Calls with every transfer, which stage, copy, map and reduce."
    ones = np.ones(n, "f8")
    assert (gpuvec.add(ones, ones) == 2).all()
    assert gpuvec.sum(ones) == gpuvec.dot(ones, ones) == n
    assert gpuvec.evaluate("sum(a*a + 1)", a=ones) == 2 * n
    table = ones[: n // 3 * 3].reshape(-1, 3)
    assert (gpuvec.evaluate("sum(a)", a=table, axis=0) == n // 3).all()
    pinned = gpuvec.pinned_empty(n, "f8")
    pinned[:] = 1
    assert (gpuvec.sub(pinned, ones) == 0).all()
    array = gpuvec.to_device(ones)
    assert gpuvec.sum(array) == n
    stream = gpuvec.Stream()
    gpuvec.sum(array, out=pinned[:1], stream=stream)
    stream.synchronize()
    assert pinned[0] == n
"""


def held(device: int = -1, size: int = 56) -> tuple[int, bytes]:
    """Calls the C function; returns its status, and what it stored in memory full of 0x55."""
    memory = ctypes.create_string_buffer(b"\x55" * 64, 64)
    return lib.gpuvec_memory(device, ctypes.addressof(memory), size), memory.raw


def test_no_more_is_stored_than_there_is_room_for():
    """A program with an older structure, or a newer one, keeps working."""
    for size in (0, 8, 16, 56, 64):
        status, stored = held(size=size)
        assert status == Status.OK
        assert stored[56:size] == bytes(max(size - 56, 0))
        assert stored[size:] == b"\x55" * (64 - size)


def test_wrong_arguments():
    """They are errors, and nothing is stored."""
    assert lib.gpuvec_memory(0, None, 56) == Status.ERROR_NULL
    for device in (-2, -(2**31)):
        assert held(device) == (Status.ERROR_VALUE, b"\x55" * 64)
    with pytest.raises(gpuvec.ArgumentError, match="device is -2"):
        gpuvec.memory(-2)
    assert lib.gpuvec_trim(None) == Status.OK


def test_callers_memory_is_in_use(placement):
    """It is counted where it is the driver's, and stays."""
    array, pinned = gpuvec.to_device(np.arange(1000.0)), gpuvec.pinned_empty(1000)
    before = gpuvec.memory()
    gpuvec.trim()
    after = gpuvec.memory()
    assert after[1] == before[1] and after[3] == before[3]
    assert gpuvec.sum(array) == 499_500
    pinned[:] = 1
    assert gpuvec.sum(pinned) == 1000


def test_without_a_driver_nothing_is_held_or_opened():
    """Nor does a call open the driver to find out."""
    script = """
    import gpuvec, numpy as np
    pinned = gpuvec.pinned_empty(100)
    gpuvec.add(np.ones(10), np.ones(10))
    assert gpuvec.memory() == gpuvec.memory(0) == gpuvec.memory(99) == (0,) * 7
    assert gpuvec.trim() == 0
    assert "libcuda" not in open("/proc/self/maps").read()
    """
    assert run_python(script, GPUVEC_PLACEMENT="cpu") == ""


@needs_fake_driver
@pytest.mark.parametrize("placement", ["gpu", "all"])
def test_the_driver_counts_the_same(placement):
    """After calls of every kind, also on several devices, and after each trim."""
    run(
        WORK
        + f"""
gpuvec.set_placement("{placement}")
assert gpuvec.memory() == (0,) * 7
for _ in range(2):
    work()
    kept = check_held()
    assert kept.device_kept == 2_400_008 and kept.pinned_allocated == 0
    has_kernels_of_expressions = kept.modules > check_trimmed().modules
    assert has_kernels_of_expressions == ("{placement}" == "gpu")
array, pinned = gpuvec.to_device(np.ones(1000)), gpuvec.pinned_empty(1000)
registered = np.ones(5000)
ok(lib.gpuvec_host_register(registered.ctypes.data, registered.nbytes))
work()
held = check_trimmed()
assert held.device_allocated == 8000 and held.pinned_allocated == 4096
assert held.registered >= 40_000
ok(lib.gpuvec_host_unregister(registered.ctypes.data))
del array, pinned
held = check_trimmed()
assert held[:6] == (0,) * 6
assert fake_driver.count("streams") == fake_driver.count("events") == 0
""",
        DEVICES=2,
    )


@needs_fake_driver
def test_modules_of_expressions_that_are_in_use_stay():
    """A handle keeps its kernel; a text that only the cache holds does not."""
    run(
        WORK
        + """
gpuvec.set_placement("gpu")
ones = np.ones(100)
kept = gpuvec.Expression("a + 1", a="f8")
assert kept(a=ones).sum() == 200
before = check_trimmed().modules
gpuvec.evaluate("a + 2", a=ones)
assert check_held().modules == before + 1
assert check_trimmed().modules == before
fake_driver.plan("")
assert kept(a=ones).sum() == 200
assert "cuModuleLoadData" not in fake_driver.calls()
del kept
assert check_trimmed().modules == before - 1
"""
    )


@needs_fake_driver
def test_what_streams_use_stays():
    """The scratch memory of a stream is freed with the stream."""
    run(
        WORK
        + """
gpuvec.set_placement("gpu")
array, stream = gpuvec.to_device(np.ones(300_001)), gpuvec.Stream()
total = gpuvec.pinned_empty(1, "f8")
for _ in range(2):
    gpuvec.sum(array, out=total, stream=stream)
    stream.synchronize()
    gpuvec.trim()
    held = check_held()
    assert held.device > held.device_allocated and held.pinned == held.pinned_allocated
del stream
check_trimmed()
"""
    )


@needs_fake_driver
@pytest.mark.parametrize("devices", [1, 2])
def test_calls_go_on_meanwhile(devices):
    """Threads compute, allocate and free while others trim: all are right, and nothing leaks."""
    run(
        WORK
        + """
gpuvec.set_placement("gpu")
left = threading.Semaphore(0)
def calls():
    for _ in range(4):
        work(100_003)
    left.release()
def trims():
    while not over.is_set():
        gpuvec.trim()
        held = gpuvec.memory()
        assert max(held[:6]) < 1 << 32
over = threading.Event()
workers = [Started(calls) for _ in range(3)]
trimmers = [Started(trims) for _ in range(2)]
[worker.get() for worker in workers]
over.set()
[trimmer.get() for trimmer in trimmers]
assert check_trimmed()[:6] == (0,) * 6
""",
        DEVICES=devices,
    )


@needs_fake_driver
def test_a_driver_that_refuses_to_free():
    """The call succeeds, what is refused stays counted, and the next call frees it."""
    run(
        WORK
        + """
gpuvec.set_placement("gpu")
work()
fake_driver.plan("")
gpuvec.trim()
freeing = {"cuMemFree_v2", "cuMemFreeHost", "cuStreamDestroy_v2", "cuModuleUnload"}
calls = fake_driver.calls()
assert freeing <= set(calls)
for name in sorted(freeing):
    work()
    before = check_held()
    fake_driver.plan(f"{calls.index(name) + 1}=801")
    gpuvec.trim()
    assert fake_driver.count("faults") >= 1
    fake_driver.plan("")
    left = check_held()
    check_trimmed()
assert check_trimmed()[:6] == (0,) * 6
""",
        threads=1,
    )


@needs_fake_driver
def test_a_device_that_is_lost_keeps_what_it_has():
    """It cannot give back anything, and the call still succeeds."""
    run(
        WORK
        + """
gpuvec.set_placement("gpu")
work()
fake_driver.plan("")
attempt(OPERATIONS[0], 300_001, "pageable")
launch = fake_driver.calls().index("cuLaunchKernel") + 1
fake_driver.plan(f"{launch}=700~")
assert attempt(OPERATIONS[0], 300_001, "pageable")[0] == Status.ERROR_DEVICE_LOST
assert gpuvec.trim() == 0
assert gpuvec.memory().pinned > 0
""",
        threads=1,
    )


@needs_fake_driver
def test_a_forked_child_holds_nothing():
    """It has none of its parent's memory, and gives back none of it."""
    run(
        WORK
        + """
gpuvec.set_placement("gpu")
work()
before = check_held()
def in_the_child():
    gpuvec.set_placement("auto")
    assert gpuvec.memory() == (0,) * 7 and gpuvec.trim() == 0
    assert gpuvec.sum(np.ones(10)) == 10
in_child(in_the_child)
assert check_held() == before
check_trimmed()
"""
    )


@needs_fake_driver
def test_a_capture_of_another_thread_goes_on():
    """The driver forbids to free memory while a stream is captured; an exempt thread may."""
    run(
        WORK
        + """
gpuvec.set_placement("gpu")
work()
from cuda_driver import Driver
driver = Driver()
with driver.entered():
    stream = driver.new_stream()
with fake_driver.captured(stream.value):
    assert gpuvec.trim() > 0
"""
    )
