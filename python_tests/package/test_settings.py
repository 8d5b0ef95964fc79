"""Placement, threads, the last run, errors, and the report of `python -m gpuvec`."""

import os
import pickle
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import gpuvec
import numpy as np
import pytest
from bindings import LIBRARY, Place, last_error, lib
from fork import in_child
from programs import library_environment, run, run_python

pytestmark = pytest.mark.wheel

PLACEMENTS = ("auto", "gpu", "cpu", "all")


@pytest.fixture
def process_placement():
    """Restores the process's placement after the test."""
    before = gpuvec.get_placement()
    yield
    gpuvec.set_placement(before)


def test_a_placement_holds_in_its_block():
    """For all users of the library in the thread, and no longer, also after an exception."""
    before = gpuvec.get_placement()
    for name in PLACEMENTS:
        with gpuvec.placement(name):
            assert gpuvec.get_placement() == name
            assert lib.gpuvec_get_placement() == Place[name.upper()]
            with pytest.raises(KeyError), gpuvec.placement("cpu"):
                raise KeyError
            assert gpuvec.get_placement() == name
    assert gpuvec.get_placement() == before
    assert lib.gpuvec_get_thread_placement() == -1


def test_a_placement_is_its_thread_s(process_placement):
    """Blocks of several threads hold at once, and other threads follow the process's placement."""
    gpuvec.set_placement("all")
    inside = threading.Barrier(len(PLACEMENTS) + 1)

    def in_block(name: str) -> None:
        assert gpuvec.get_placement() == "all"
        with gpuvec.placement(name):
            inside.wait()
            assert gpuvec.get_placement() == name
            inside.wait()
        assert gpuvec.get_placement() == "all"

    with ThreadPoolExecutor(len(PLACEMENTS)) as pool:
        blocks = [pool.submit(in_block, name) for name in PLACEMENTS]
        inside.wait()
        assert gpuvec.get_placement() == "all"
        inside.wait()
        for block in blocks:
            block.result()


def test_a_placement_set_in_a_block_is_the_process_s(process_placement):
    """It holds at once in other threads, and in this one after the block."""
    gpuvec.set_placement("auto")
    with ThreadPoolExecutor(1) as other:
        with gpuvec.placement("cpu"):
            gpuvec.set_placement("all")
            assert gpuvec.get_placement() == "cpu"
            assert other.submit(gpuvec.get_placement).result() == "all"
            gpuvec.sum(np.ones(10))
            assert gpuvec.last_run().backend == "cpu"
        assert gpuvec.get_placement() == "all"


def test_a_forked_child_has_its_thread_s_placement():
    """It is that of the thread which forks."""
    with gpuvec.placement("cpu"):
        in_child(check_placement_is_cpu)


def check_placement_is_cpu() -> None:
    """Fails unless placement cpu is in force."""
    assert gpuvec.get_placement() == "cpu"


@pytest.mark.parametrize("wrong", [4, -2, 2**31 - 1])
def test_wrong_placements_of_a_thread(wrong):
    """The C function refuses them, and nothing is changed."""
    with gpuvec.placement("cpu"):
        assert lib.gpuvec_set_thread_placement(wrong) == gpuvec.Status.ERROR_VALUE
        assert f"placement is {wrong}: pass " in last_error()
        assert lib.gpuvec_get_thread_placement() == Place.CPU


@pytest.mark.parametrize("name", ["GPU", "", None, 1])
def test_wrong_placements(name):
    """The error lists the placements."""
    with pytest.raises(ValueError, match="placement is .*: pass one of auto, gpu, cpu, all"):
        gpuvec.set_placement(name)


@pytest.fixture
def number_of_threads():
    """Restores the environment's number after the test."""
    gpuvec.set_num_threads(0)
    yield gpuvec.get_num_threads()
    gpuvec.set_num_threads(0)


def test_the_number_of_threads(number_of_threads):
    """Bounds the threads of calls, takes any integer type, and is the environment's after 0."""
    array = np.ones(2_000_003)
    for number in (1, np.int64(3), 2):
        gpuvec.set_num_threads(number)
        assert gpuvec.get_num_threads() == lib.gpuvec_get_num_threads() == number
        with gpuvec.placement("cpu"):
            gpuvec.add(array, array)
        assert gpuvec.last_run().threads <= number
    for large in (257, 2**32 + 1, 10**30):
        gpuvec.set_num_threads(large)
        assert gpuvec.get_num_threads() == 256
    gpuvec.set_num_threads(0)
    assert gpuvec.get_num_threads() == number_of_threads


@pytest.mark.parametrize("wrong", [-1, -(2**40), 1.5, "2", None])
def test_wrong_numbers_of_threads(wrong, number_of_threads):
    """Raise, and leave the number as it was."""
    gpuvec.set_num_threads(3)
    with pytest.raises((ValueError, TypeError)) as raised:
        gpuvec.set_num_threads(wrong)
    assert not isinstance(wrong, int) or f"threads is {wrong}: pass " in str(raised.value)
    assert gpuvec.get_num_threads() == 3


def test_the_last_run(placement):
    """Tells where an operation ran; nothing to do is run nowhere."""
    gpuvec.add(np.ones(1000), np.ones(1000))
    ran = gpuvec.last_run()
    assert ran.backend == ("gpu" if placement == Place.GPU else "cpu")
    assert ran.path and ran.chunks >= 1 and ran.threads >= 1
    assert ran.devices == ((0,) if ran.backend == "gpu" else ())
    expected = {Place.GPU: "gpu", Place.CPU: "calling core"}.get(placement, ran.choice)
    assert ran.choice == expected != "none"
    assert ran.reason == ("fastest" if placement == Place.AUTO else "asked for")
    assert ran.time is None or ran.time > 0
    gpuvec.add(np.ones(0), np.ones(0))
    assert gpuvec.last_run() == ("none", (), (), 0, 0, 0, "none", "none", None, {})


def test_the_last_run_reads_well(placement):
    """Its text names the choice, the reason and the path, and the times where they are known."""
    gpuvec.add(np.ones(1000), np.ones(1000))
    ran = gpuvec.last_run()._replace(time=None, predicted={})
    first, *rest = str(ran).splitlines()
    assert first == f"{ran.choice} ({ran.reason})" and len(rest) == 2
    assert ", ".join(ran.path) in rest[0] and f"threads: {ran.threads}" in rest[1]
    timed = ran._replace(time=0.02134, predicted={"calling core": 0.0801, "gpu": 0.403})
    assert str(timed).splitlines()[3:] == [
        "  time: 0.0213 ms",
        "  predicted: calling core 0.0801 ms, gpu 0.403 ms",
    ]
    gpuvec.add(np.ones(0), np.ones(0))
    assert str(gpuvec.last_run()) == "nothing was run"


def test_devices(placement):
    """Their number, their names, and why none is usable."""
    names = [gpuvec.device_name(device) for device in range(gpuvec.device_count())]
    assert all(names)
    with pytest.raises(gpuvec.Error) as raised:
        gpuvec.device_name(len(names))
    assert raised.value.status != gpuvec.Status.OK
    with gpuvec.placement("cpu"):
        assert "cpu" in gpuvec.why_cpu()
    gpuvec.init()


@pytest.mark.parametrize("status", gpuvec.Status)
def test_each_status_has_its_exception(status):
    """An exception of its class, with a builtin's, which is the same after pickling."""
    if status < 100:
        pytest.skip("not an error")
    wanted = {
        1: (gpuvec.ArgumentError, ValueError),
        2: (gpuvec.UnavailableError, RuntimeError),
        3: (gpuvec.OutOfMemoryError, MemoryError),
        4: (gpuvec.DeviceError, RuntimeError),
        9: (gpuvec.InternalError, RuntimeError),
    }[status // 100]
    error = gpuvec._errors.failure(status)
    assert isinstance(error, (gpuvec.Error,)) and all(isinstance(error, kind) for kind in wanted)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.status, str(again)) == (type(error), status, str(error))


def test_a_status_of_a_later_version():
    """Is a number, with the library's text."""
    error = gpuvec._errors.failure(999)
    assert error.status == 999 and isinstance(error, gpuvec.InternalError)


def test_without_a_gpu_placement_gpu_is_unavailable(broken_driver):
    """The error tells why, for results, memory and streams alike."""
    script = """
    import gpuvec, numpy as np
    for make in (lambda: gpuvec.add(np.ones(3), np.ones(3)), lambda: gpuvec.pinned_empty(3),
                 lambda: gpuvec.DeviceArray(3), gpuvec.Stream):
        try:
            make()
        except gpuvec.UnavailableError as error:
            assert error.status == gpuvec.Status.ERROR_NO_GPU, error.status
            assert "no CUDA driver" in str(error), error
        else:
            raise AssertionError
    """
    run_python(script, GPUVEC_PLACEMENT="gpu", LD_LIBRARY_PATH=str(broken_driver))


def test_a_wrong_environment_is_told():
    """The package can be imported; what needs the placement raises."""
    script = """
    import gpuvec, numpy as np
    for make in (lambda: gpuvec.sum(np.ones(3)), lambda: gpuvec.pinned_empty(3), gpuvec.Event,
                 gpuvec.get_placement):
        try:
            make()
        except gpuvec.UnavailableError as error:
            assert error.status == gpuvec.Status.ERROR_ENVIRONMENT, error.status
            assert "GPUVEC_PLACEMENT is 'nowhere'" in str(error), error
        else:
            raise AssertionError(make)
    """
    run_python(script, GPUVEC_PLACEMENT="nowhere")


def test_a_wrong_number_of_threads_is_told():
    """Asking for the number raises with the variable's name and value, until a number is set."""
    script = """
    import gpuvec
    try:
        gpuvec.get_num_threads()
    except gpuvec.UnavailableError as error:
        assert error.status == gpuvec.Status.ERROR_ENVIRONMENT, error.status
        assert "GPUVEC_NUM_THREADS is 'two'" in str(error), error
    else:
        raise AssertionError
    gpuvec.set_num_threads(2)
    assert gpuvec.get_num_threads() == 2
    """
    run_python(script, GPUVEC_NUM_THREADS="two")


@pytest.mark.parametrize("name", ["auto", "cpu", "nowhere"])
def test_the_report(name, tmp_path):
    """Prints the information for a bug report, from any folder and with any environment."""
    environment = library_environment(GPUVEC_PLACEMENT=name, OMP_NUM_THREADS="2,1")
    report = run([sys.executable, "-m", "gpuvec"], cwd=tmp_path, env=environment)
    facts = dict(re.findall(r"^([\w, ]+): +(\S.*)$", report, flags=re.MULTILINE))
    assert facts["gpuvec"].startswith(gpuvec.__version__)
    assert facts["library"] == str(LIBRARY)
    assert facts["NumPy"] == np.__version__
    assert name in facts["placement"]
    assert f"GPUVEC_PLACEMENT={name}" in facts["environment"]
    assert "OMP_NUM_THREADS=2,1" in facts["environment"] and facts["threads"] == "2"
    for fact in ("GPUs", "why CPU", "driver", "device", "memory", "Python", "system", "CPU"):
        assert facts[fact]
    assert facts["CPUs"].startswith(f"{len(os.sched_getaffinity(0))} of {os.cpu_count()} by")
    if name in PLACEMENTS:
        assert "GB/s" in facts["add 10,000"] and "pinned" in facts["memory"]
