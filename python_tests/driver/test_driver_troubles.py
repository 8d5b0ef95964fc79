"""A driver that is missing, old or failing: the CPU answers, and gpuvec says why."""

import json
import sys
from pathlib import Path

import pytest
from bindings import Status
from on_fake_driver import environment, needs_fake_driver
from on_fake_driver import run as run_on_fake_driver
from operations import CLASSIC, FOR_A_GPU
from programs import before, compile_c, library_environment, run

pytestmark = needs_fake_driver

PROBE = Path(__file__).with_name("driver_probe.py")

CUINIT = {
    100: "CUDA_ERROR_NO_DEVICE",
    3: "CUDA_ERROR_NOT_INITIALIZED",
    802: "CUDA_ERROR_SYSTEM_NOT_READY",
    803: "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    999: "CUDA_ERROR_UNKNOWN",
    4242: "an error without a name",
}
REFUSED = {
    222: "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
    218: "CUDA_ERROR_INVALID_PTX",
    209: "CUDA_ERROR_NO_BINARY_FOR_GPU",
}


def probe_with(**variables: str) -> dict:
    """Returns the report of driver_probe.py with these environment variables."""
    command = [sys.executable, PROBE]
    return json.loads(run(command, env=library_environment(**variables)))


def probe(faults: str = "", **settings: object) -> dict:
    """Returns the report with the fake driver, some of whose calls fail."""
    return probe_with(**environment(FAULTS=faults, **settings))


def probe_in(folder) -> dict:
    """Returns the report with the driver in a folder."""
    return probe_with(LD_LIBRARY_PATH=before("LD_LIBRARY_PATH", folder))


def check(report: dict, *reasons: str, devices: int = 0) -> None:
    """Checks the promises to a program without a usable GPU, and the reasons in why_cpu."""
    assert report["init"] == Status.OK
    assert report["devices"] == devices
    for reason in reasons:
        assert reason in report["why_cpu"]
    assert report["why_cpu"]
    for results in (report["results"], report["results afterwards"]):
        assert all(found == [True, True] for found in results.values()), results
    assert report["pinned memory"] == "works"
    for status, text, untouched in report["demands"].values():
        assert status == Status.ERROR_NO_GPU
        assert report["why_cpu"] in text
        assert untouched
    assert report["init on demand"][0] == Status.ERROR_NO_GPU
    assert report["pinned on demand"][0] is None
    assert report["why_cpu"] in report["pinned on demand"][1]


def test_no_driver(broken_driver):
    """No library of the driver's name can be loaded."""
    check(probe_in(broken_driver), "no CUDA driver", "libcuda.so.1")


def test_no_visible_device():
    """CUDA_VISIBLE_DEVICES hides all devices of the machine's own driver, if it has one."""
    check(probe_with(CUDA_VISIBLE_DEVICES=""))


@pytest.mark.parametrize("code", CUINIT)
def test_driver_that_does_not_start(code):
    """cuInit fails with known and unknown codes."""
    check(probe(f"cuInit={code}"), f"cuInit failed with {CUINIT[code]} ({code})")


def test_driver_without_devices():
    """The driver has no device."""
    check(probe(DEVICES=0), "cuInit failed with CUDA_ERROR_NO_DEVICE (100)")


def test_devices_cannot_be_counted():
    """Counting fails."""
    report = probe("cuDeviceGetCount=999")
    check(report, "cuDeviceGetCount failed with CUDA_ERROR_UNKNOWN (999)")


@pytest.mark.parametrize("function", ["cuDeviceGet", "cuDeviceGetName"])
def test_device_that_cannot_be_queried(function):
    """A device exists, but its calls fail."""
    check(probe(f"{function}=101"), f"{function} failed with CUDA_ERROR_INVALID_DEVICE (101)")


@pytest.mark.long
@pytest.mark.parametrize(
    "function, code, name",
    [
        ("cuDevicePrimaryCtxRetain", 2, "CUDA_ERROR_OUT_OF_MEMORY"),
        ("cuDevicePrimaryCtxRetain", 999, "CUDA_ERROR_UNKNOWN"),
        ("cuCtxPushCurrent_v2", 3, "CUDA_ERROR_NOT_INITIALIZED"),
        ("cuModuleGetFunction", 500, "CUDA_ERROR_NOT_FOUND"),
    ],
)
def test_device_that_does_not_open(function, code, name):
    """A device exists, but cannot be used."""
    report = probe(f"{function}={code}")
    call = function.replace("_v2", "")
    check(report, "Fake device 0", f"{call} failed with {name} ({code})", devices=1)


@pytest.mark.long
@pytest.mark.parametrize("code", REFUSED)
def test_kernels_are_refused(code):
    """The driver refuses the kernels."""
    report = probe(f"cuModuleLoadDataEx={code},cuModuleLoadData={code}")
    reason = f"cuModuleLoadData failed with {REFUSED[code]} ({code})"
    check(report, "Fake device 0", reason, devices=1)


def test_driver_too_old_for_the_kernels():
    """The text names the driver's version and the one that is needed."""
    check(probe(CUDA_VERSION=11_040), "CUDA 11.4", "12.0", "driver 525", devices=1)


def test_driver_without_functions(tmp_path):
    """A driver that has nothing but cuInit does no harm."""
    source = tmp_path / "driver.c"
    source.write_text(
        "int cuInit(unsigned flags);\nint cuInit(unsigned flags) { return flags != 0; }\n"
    )
    compile_c(source, tmp_path / "libcuda.so.1", "-shared", "-fPIC")
    check(probe_in(tmp_path), "the CUDA driver lacks cuCtxGetCurrent")


@pytest.mark.long
@pytest.mark.parametrize(
    "function, code, status, text",
    [
        (
            "cuStreamCreateWithPriority",
            2,
            Status.ERROR_OUT_OF_MEMORY,
            "cuStreamCreateWithPriority failed",
        ),
        ("cuMemHostAlloc", 2, Status.ERROR_OUT_OF_MEMORY, "cuMemHostAlloc failed"),
        ("cuLaunchKernel", 701, Status.ERROR_DRIVER, "cuLaunchKernel failed"),
        ("cuLaunchKernel", 719, Status.ERROR_DEVICE_LOST, "device 0 is lost"),
    ],
)
def test_device_that_fails_at_work(function, code, status, text):
    """The device opens, but a call on it fails: the CPU answers, unless the GPU is demanded."""
    report = probe(f"{function}={code}")
    assert report["why_cpu"] == ""
    assert all(found == [True, True] for found in report["results"].values())
    for operation in CLASSIC:
        found = report["demands"][f"{operation} of {FOR_A_GPU}"]
        assert found[0] == status and text in found[1]
    assert all(found == [True, True] for found in report["results afterwards"].values())


def test_device_pointers_where_the_driver_fails():
    """Calls on another library's device pointers fail with the driver's reason, others do not."""
    run_on_fake_driver(
        """
        from cuda_driver import DeviceArray, Driver
        driver = Driver()
        driver.set_current(driver.context)
        a, b = repeated(OPERATIONS[0], 1000)
        there = DeviceArray(driver, a)
        fake_driver.plan("1=999+")
        status = lib.vector_add(there.address, b.ctypes.data, b.ctypes.data, 1000)
        assert status != Status.OK and "failed with CUDA_ERROR_UNKNOWN" in last_error()
        assert lib.vector_add(a.ctypes.data, b.ctypes.data, b.ctypes.data, 1000) == Status.OK
        """
    )


# A caller whose context is none, the primary one of another device, or one of its own.
CONTEXTS = """
from cuda_driver import Driver
caller = Driver(1)
lib.gpuvec_set_placement(Place.GPU)
ok(lib.gpuvec_init())

def contexts():
    caller.set_current(None)
    yield None
    caller.set_current(caller.context)
    yield caller.context.value
    yield caller.new_context().value
"""


@pytest.mark.parametrize("code", [1, 201, 999])
def test_a_context_that_cannot_be_popped_is_replaced(code):
    """The caller's context is current after each call, and so is the stack of contexts below."""
    run_on_fake_driver(
        CONTEXTS
        + f"""
for context in contexts():
    fake_driver.plan("cuCtxPopCurrent_v2={code}")
    for operation in SAMPLE:
        assert attempt(operation, 1000)[0] == Status.OK, last_error()
        assert caller.current() == context
    stream = lib.gpuvec_stream_create(0)
    ok(lib.gpuvec_stream_synchronize(stream))
    ok(lib.gpuvec_stream_destroy(stream))
    assert caller.current() == context
    fake_driver.plan("")
caller.call("cuCtxPopCurrent_v2", byref(c_void_p()))
assert caller.current() == caller.context.value
caller.call("cuCtxPopCurrent_v2", byref(c_void_p()))
assert caller.current() is None
""",
        DEVICES=2,
    )
