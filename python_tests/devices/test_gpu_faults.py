"""GPUs that another library loses, fills or shares, GPUs that are hidden, and forked processes.

Each case runs in a process of its own, on a GPU or the fake driver.
"""

import pytest
from bindings import lib, why_cpu
from on_gpu import run_silently

pytestmark = pytest.mark.skipif(lib.gpuvec_device_count() == 0, reason=why_cpu() or "no GPU")

MIB = 1 << 20


@pytest.mark.parametrize("placement", ["AUTO", "GPU", "CPU"])
@pytest.mark.parametrize("before", ["small", "large", "pinned"])
def test_a_context_that_another_library_loses_is_lost_at_once(before, placement):
    """Placement gpu reports the loss; with the other placements the cores do the work."""
    script = f"""
    place(Place.GPU)
    pinned = [pinned_empty(LARGE, np.float32) for _ in range(3)]
    for array in pinned:
        array[:] = 4
    {{"small": lambda: check(SMALL), "large": lambda: check(*SIZES), "pinned": check_memory}}[
        "{before}"]()
    lose_the_context(other_library())

    def lost():
        assert answers(Place.GPU, Status.ERROR_DEVICE_LOST) == {{Status.ERROR_DEVICE_LOST}}
        assert "CUDA_ERROR" in last_error() or "is lost" in last_error(), last_error()

    def in_pinned_memory():
        assert call(OPERATIONS[0], *pinned) == Status.OK, last_error()
        assert (pinned[2] == 8).all()

    place(Place.{placement})
    first = Place.{placement} == Place.GPU and lost
    for _ in range(2):
        lost() if first else answers(Place.{placement})
    for other in (Place.CPU, Place.AUTO):
        answers(other)
        check_in_place(LARGE)
        in_pinned_memory()
    lost()
    assert why_cpu() != ""
    for other in (Place.AUTO, Place.CPU):
        place(other)
        check_memory()
    assert lib.gpuvec_init() == Status.OK
    answers(Place.AUTO)
    """
    run_silently(script)


@pytest.mark.skipif(lib.gpuvec_device_count() < 2, reason="needs two GPUs")
@pytest.mark.parametrize("placement", ["AUTO", "GPU"])
def test_one_of_several_devices_dies(placement):
    """With placement gpu the call that meets the fault fails, and later calls use another device.

    The driver may instead refuse all work in this process, on every device.
    """
    script = f"""
    from ctypes import byref, c_size_t, c_uint64

    def works(number):
        address = c_uint64()
        try:
            other = Driver(number)
            with other.entered():
                other.call("cuMemAlloc_v2", byref(address), c_size_t(4096))
                other.fill_later(address.value, 0, 1024)
                other.call("cuStreamSynchronize", None)
        except AssertionError:
            return False
        return True

    place(Place.{placement})
    check(SMALL, MIDDLING)
    assert last_run().devices == 1 or Place.{placement} == Place.AUTO
    check(LARGE)
    lose_the_context(other_library())
    fine = [Status.ERROR_DEVICE_LOST] if Place.{placement} == Place.GPU else []
    answers(Place.{placement}, *fine)
    if works(1):
        for _ in range(2):
            check(*SIZES)
            check_in_place(LARGE)
            assert last_run().backend == Backend.GPU and last_run().devices == 2
        check_memory()
        assert why_cpu() == ""
    else:
        lost = {{Status.OK if Place.{placement} == Place.AUTO else Status.ERROR_DEVICE_LOST}}
        assert answers(Place.{placement}, *fine) == lost
        answers(Place.AUTO)
    """
    run_silently(script)


def test_a_context_that_was_lost_before_the_first_call():
    script = """
    lose_the_context(other_library())
    answers(Place.AUTO)
    place(Place.AUTO)
    check_memory()
    unusable = {Status.ERROR_DEVICE_LOST, Status.ERROR_NO_GPU}
    assert answers(Place.GPU, *unusable) <= unusable
    assert why_cpu() != ""
    answers(Place.CPU)
    """
    run_silently(script)


@pytest.mark.parametrize(
    "first", ["answers(Place.AUTO)", "check_in_place(LARGE)"], ids=["apart", "in place"]
)
@pytest.mark.parametrize("left", [2 * MIB, 20 * MIB, 40 * MIB], ids="{:,}".format)
def test_a_device_whose_memory_is_taken(left, first):
    """Placement auto is right, in place too, and uses the device again once memory is free."""
    script = f"""
    driver = other_library()
    with memory_taken(driver, {left}):
        driver.set_current(None)
        {first}
        answers(Place.AUTO)
        check_in_place(LARGE)
        check_memory()
        answers(Place.GPU, Status.ERROR_OUT_OF_MEMORY, Status.ERROR_NO_GPU)
        answers(Place.CPU)
        driver.set_current(driver.context)
    driver.set_current(None)
    place(Place.GPU)
    assert lib.gpuvec_init() == Status.OK, last_error()
    assert why_cpu() == ""
    check_all()
    check_in_place(LARGE)
    """
    run_silently(script)


def test_memory_that_is_taken_later():
    """Another library takes the memory after the first calls, when gpuvec has its buffers."""
    script = f"""
    place(Place.GPU)
    check(SMALL)
    driver = other_library()
    with memory_taken(driver, {2 * MIB}):
        answers(Place.AUTO)
        check_in_place(LARGE)
        answers(Place.GPU, Status.ERROR_OUT_OF_MEMORY)
    check_all()
    """
    run_silently(script)


@pytest.mark.parametrize("placement", ["AUTO", "GPU"])
def test_contexts_of_other_kinds(placement):
    """Calls keep the thread's context: none, a foreign one, a destroyed one or the primary."""
    script = f"""
    import threading
    place(Place.{placement})
    driver = Driver()

    def unchanged():
        before = driver.current()
        check(*SIZES)
        check_memory()
        assert driver.current() == before

    unchanged()
    other = driver.new_context()
    unchanged()
    in_thread = threading.Thread(target=unchanged)
    in_thread.start()
    in_thread.join()
    driver.call("cuCtxDestroy_v2", other)
    unchanged()
    driver.set_current(driver.context)
    unchanged()
    """
    run_silently(script)


def test_a_context_that_is_destroyed_while_it_is_current_elsewhere():
    """The context's owner has to recover from that; the library's own context still works."""
    script = """
    import threading
    place(Place.AUTO)
    driver = Driver()
    made, gone = threading.Event(), threading.Event()
    failures = []

    def work():
        driver.set_current(context)
        made.set()
        assert gone.wait(60)
        try:
            check(*SIZES)
        except AssertionError as error:
            failures.append(error)

    context = driver.new_context()
    driver.set_current(None)
    thread = threading.Thread(target=work)
    thread.start()
    assert made.wait(60)
    driver.call("cuCtxDestroy_v2", context)
    gone.set()
    thread.join()
    assert not failures, failures
    place(Place.GPU)
    check(*SIZES)
    """
    run_silently(script)


def test_threads_without_a_context():
    """A thread without a context has none after its first call either."""
    script = """
    from concurrent.futures import ThreadPoolExecutor
    import threading
    place(Place.GPU)
    driver = Driver()
    start = threading.Barrier(32, timeout=60)

    def work():
        start.wait()
        assert driver.current() is None
        check(*SIZES)
        assert driver.current() is None

    for n in SIZES:
        cases(n)
    with ThreadPoolExecutor(32) as pool:
        for future in [pool.submit(work) for _ in range(32)]:
            future.result()
    """
    run_silently(script)


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_child_processes_after_use_of_the_gpu(method):
    """A forked child computes on the CPU; other child processes use the GPU, like the parent."""
    child = "answers_on_the_cpu" if method == "fork" else "answers_on_the_gpu"
    script = f"""
    import multiprocessing
    import on_gpu
    place(Place.GPU)
    check(*SIZES)
    context = multiprocessing.get_context("{method}")
    children = [context.Process(target=on_gpu.{child}) for _ in range(3)]
    for process in children:
        process.start()
    check(*SIZES)
    for process in children:
        process.join(60)
    assert [process.exitcode for process in children] == [0, 0, 0]
    check_all()
    """
    run_silently(script)


@pytest.mark.parametrize("devices", ["", "99", "nonsense", "-1", "GPU-00000000"])
def test_devices_that_are_hidden(devices):
    """CUDA_VISIBLE_DEVICES names no device."""
    script = """
    assert lib.gpuvec_device_count() == 0
    assert why_cpu() != ""
    answers(Place.AUTO)
    assert answers(Place.GPU, Status.ERROR_NO_GPU) == {Status.ERROR_NO_GPU}
    place(Place.AUTO)
    check_memory()
    """
    run_silently(script, CUDA_VISIBLE_DEVICES=devices)
