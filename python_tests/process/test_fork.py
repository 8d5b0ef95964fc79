"""After a fork the child computes on threads of its own, and the parent is not affected."""

import ctypes
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from arrays import compute
from bindings import Place, Status, last_error, last_run, lib, pinned_empty, why_cpu
from fork import in_child, in_process
from host import LARGE, MIDDLING, SMALL, check, check_all, check_memory
from on_fake_driver import needs_fake_driver
from on_fake_driver import run as run_on_fake_driver
from operations import OPERATIONS
from programs import compile_c

HISTORIES = {
    "nothing": lambda: None,
    "small calls": lambda: check(SMALL),
    "large calls": lambda: check(LARGE),
    "init": lib.gpuvec_init,
    "an error": lambda: lib.vector_add(None, None, None, 1),
    "freed memory": lambda: lib.pinned_free(lib.pinned_alloc(1 << 20)),
}

each_way = pytest.mark.parametrize("fork", [in_child, in_process], ids=["os", "multiprocessing"])


@each_way
@pytest.mark.parametrize("history", HISTORIES)
def test_child_and_parent_compute(placement, fork, history):
    """A child works like any process, whatever its parent did before; so does the parent."""

    def child():
        lib.gpuvec_set_placement(Place.AUTO)
        check_all()

    HISTORIES[history]()
    fork(child)
    check_all()


@each_way
def test_child_uses_threads_of_its_own(on_cpu, fork):
    """Threads do not survive a fork: the child starts threads of its own."""
    check_on_several_threads()
    fork(check_on_several_threads)
    check_on_several_threads()


def check_on_several_threads() -> None:
    """Checks calls until one has several threads: each has as many as it needs to be fastest."""
    several = min(lib.gpuvec_get_num_threads(), 2)
    for _ in range(1000):
        check(LARGE)
        if last_run().threads >= several:
            return
    raise AssertionError("no call has several threads")


@each_way
def test_pinned_memory_that_is_alive(placement, fork):
    """The parent's memory keeps its contents, whatever the child does with it and its own."""
    array = pinned_empty(LARGE, np.float32)
    array[:] = 5
    address = lib.pinned_alloc(1 << 20)

    def child():
        lib.gpuvec_set_placement(Place.AUTO)
        check_all()
        assert lib.pinned_free(address) == Status.OK
        assert lib.pinned_free(address) == Status.ERROR_POINTER
        check_all()

    fork(child)
    assert (array == 5).all()
    assert (compute(OPERATIONS[0], array, array) == 10).all()
    ctypes.memset(address, 1, 1 << 20)
    assert lib.pinned_free(address) == Status.OK


@each_way
def test_child_of_a_process_that_used_the_gpu(placement, fork):
    """The child gets FORKED; without a GPU a child is like any process."""
    check(LARGE)
    had_gpu = lib.gpuvec_device_count() > 0

    def child():
        lib.gpuvec_set_placement(Place.GPU)
        a = np.ones(10, np.float32)
        out = np.full(10, 7, np.float32)
        status = lib.vector_add(a.ctypes.data, a.ctypes.data, out.ctypes.data, 10)
        assert status == (Status.ERROR_FORKED if had_gpu else Status.ERROR_NO_GPU)
        assert ("forked" if had_gpu else "no usable GPU") in last_error()
        assert (out == 7).all()
        assert lib.pinned_alloc(4096) is None
        assert lib.gpuvec_device_count() == 0
        assert why_cpu() != ""

    fork(child)
    check(SMALL)


def test_grandchild(placement):
    """A child's child computes like a child."""

    def child():
        lib.gpuvec_set_placement(Place.AUTO)
        check_all()
        in_child(check_all)
        check_all()

    check_all()
    in_child(child)


def test_fork_while_threads_share_work(placement):
    """The library's own threads may be at work for another thread at the fork."""
    stop = threading.Event()

    def work():
        while not stop.is_set():
            check(MIDDLING)

    fork_repeatedly(20, work, stop.set)
    check(MIDDLING)


def test_fork_while_threads_call(placement, tmp_path):
    """No lock of the library stays locked in a child, whichever calls the fork interrupts."""
    library = tmp_path / "busy.so"
    compile_c(Path(__file__).with_name("busy.c"), library, "-shared", "-fPIC")
    stay_busy = ctypes.CDLL(str(library)).stay_busy
    stop = ctypes.c_int32(0)
    functions = [lib.vector_add, lib.pinned_alloc, lib.pinned_free]
    addresses = [ctypes.cast(function, ctypes.c_void_p) for function in functions]

    def work():
        assert stay_busy(ctypes.byref(stop), *addresses) == 0

    def end():
        stop.value = 1

    fork_repeatedly(50, work, end)


def fork_repeatedly(times: int, work, end) -> None:
    """Forks while threads do `work`, until `end` is called; the children compute."""

    def child():
        lib.gpuvec_set_placement(Place.AUTO)
        check(MIDDLING)
        check_memory()

    check(MIDDLING)
    with ThreadPoolExecutor(4) as pool:
        workers = [pool.submit(work) for _ in range(4)]
        try:
            for _ in range(times):
                in_child(child)
        finally:
            end()
        for worker in workers:
            worker.result()


@needs_fake_driver
def test_a_forked_child_leaves_the_driver_alone():
    """The child computes the same bits without a call of the driver, and the parent goes on."""
    run_on_fake_driver(
        """
        lib.gpuvec_set_placement(Place.GPU)
        assert set(backends(FOR_A_GPU)) == {Backend.GPU}
        calls = fake_driver.calls()

        def child():
            lib.gpuvec_set_placement(Place.AUTO)
            assert set(backends(1000, FOR_A_GPU, kind="pageable")) == {Backend.CPU}
            assert set(backends(300_001)) == {Backend.CPU}
            lib.gpuvec_set_placement(Place.GPU)
            assert attempt(OPERATIONS[0], 1000, "pageable")[0] == Status.ERROR_FORKED
            assert fake_driver.calls() == calls and fake_driver.violation() == ""

        in_child(child)
        assert set(backends(FOR_A_GPU)) == {Backend.GPU}
        """
    )


@needs_fake_driver
def test_a_forked_child_does_not_follow_device_pointers():
    """A child without the driver still detects that device pointers are not host memory."""
    run_on_fake_driver(
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
