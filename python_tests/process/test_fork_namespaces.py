"""A forked child whose process id is its parent's, in a namespace of its own."""

import subprocess
import sys
from functools import cache

import on_fake_driver
import pytest
from programs import TIMEOUT

# The script is the first process of a new namespace of process ids.
AS_ROOT = ("unshare", "--pid", "--fork", "--kill-child")
AS_USER = (*AS_ROOT, "--user", "--map-root-user")


@cache
def first_process() -> tuple:
    """Returns the words that make a command a namespace's first process; none if not permitted."""
    for command in (AS_USER, AS_ROOT):
        try:
            test = [*command, sys.executable, "-c", "import os; print(os.getpid())"]
            done = subprocess.run(test, capture_output=True, text=True, timeout=TIMEOUT)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0 and done.stdout.strip() == "1":
            return command
    return ()


pytestmark = [
    on_fake_driver.needs_fake_driver,
    pytest.mark.skipif(
        sys.platform != "linux" or not first_process(),
        reason="namespaces of process ids are not permitted here",
    ),
]

# The beginning of all scripts: `in_namespace` forks a child that is the first process of another
# namespace.
PRELUDE = """
from fork import in_child

CLONE_NEWPID = 0x20000000
fake_driver = FakeDriver()
libc = ctypes.CDLL(None, use_errno=True)
assert os.getpid() == 1

def add(n):
    a = np.arange(n, dtype=np.float32)
    status = lib.vector_add(a.ctypes.data, a.ctypes.data, a.ctypes.data, n)
    assert status != Status.OK or (a == 2 * np.arange(n)).all()
    return status

def in_namespace(function):
    assert libc.unshare(CLONE_NEWPID) == 0, os.strerror(ctypes.get_errno())
    in_child(lambda: first(function))

def first(function):
    assert os.getpid() == 1
    function()
    assert fake_driver.violation() == "", fake_driver.violation()

lib.gpuvec_set_placement(Place.GPU)
"""


def run(script: str) -> None:
    """Runs a script as the first process of a namespace, on the fake driver."""
    command = (*first_process(), sys.executable)
    on_fake_driver.run(PRELUDE + script, command=command)


def test_the_child_of_a_process_that_used_the_gpu():
    """The child leaves the driver alone, computes on the cores, and reports why it has no GPU."""
    run(
        """
for n in (1000, 300_001):
    ok(add(n))
calls = fake_driver.calls()

def child():
    for n in (1000, 300_001):
        assert add(n) == Status.ERROR_FORKED, last_error()
    lib.gpuvec_set_placement(Place.AUTO)
    for n in (1000, 300_001, 6_000_001):
        ok(add(n))
        assert last_run().backend == Backend.CPU
    address = lib.pinned_alloc(4096)
    assert not address or lib.pinned_free(address) == Status.OK
    assert fake_driver.calls() == calls

in_namespace(child)
ok(add(300_001))
assert last_run().backend == Backend.GPU
"""
    )


def test_the_childs_own_threads():
    """The parent's threads are missing in the child: a long call on the cores starts new ones."""
    run(
        """
lib.gpuvec_set_placement(Place.CPU)
ok(add(6_000_001))

def child():
    ok(add(6_000_001))
    assert last_run().backend == Backend.CPU

in_namespace(child)
ok(add(6_000_001))
"""
    )


def test_handles_and_memory_of_the_parent():
    """The child uses the parent's streams, events and pinned memory without the driver."""
    run(
        """
from bindings import pinned_empty

stream, event = lib.gpuvec_stream_create(0), lib.gpuvec_event_create()
pinned = pinned_empty(1000, np.float32)
at = pinned.ctypes.data
ok(lib.gpuvec_add_f32(at, at, at, 1000, stream))
ok(lib.gpuvec_event_record(event, stream))
ok(lib.gpuvec_stream_synchronize(stream))

def child():
    for status in (
        lib.gpuvec_add_f32(at, at, at, 1000, stream),
        lib.gpuvec_stream_synchronize(stream),
        lib.gpuvec_event_record(event, stream),
        lib.gpuvec_event_synchronize(event),
    ):
        assert status == Status.ERROR_FORKED, last_error()
    ok(lib.gpuvec_event_destroy(event))
    ok(lib.gpuvec_stream_destroy(stream))

in_namespace(child)
ok(lib.gpuvec_event_destroy(event))
ok(lib.gpuvec_stream_destroy(stream))
"""
    )


def test_the_fake_driver_knows_the_child():
    """The fake driver refuses the child's calls and counts them as violations."""
    run(
        """
ok(add(1000))

def child():
    assert fake_driver.driver.cuCtxGetCurrent(byref(c_uint64())) == 3
    assert "in a forked child" in fake_driver.violation()

assert libc.unshare(CLONE_NEWPID) == 0, os.strerror(ctypes.get_errno())
in_child(child)
assert fake_driver.violation() == ""
"""
    )


def test_a_process_without_calls_of_the_driver():
    """The child of a process that has not opened the GPU may use it."""
    run(
        """
def child():
    ok(add(300_001))
    assert last_run().backend == Backend.GPU

in_namespace(child)
"""
    )
