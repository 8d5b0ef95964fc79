"""A driver that is missing, old or failing: the CPU answers, and gpuvec says why."""

import json
import sys

import pytest
from bindings import Status
from operations import CLASSIC, FOR_A_GPU
from programs import HERE, before, library_environment, run

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


def probe(folder=None, **environment) -> dict:
    """What driver_probe.py finds with the driver in the folder, else the machine's own."""
    if folder:
        environment["LD_LIBRARY_PATH"] = before("LD_LIBRARY_PATH", folder)
    variables = library_environment(**environment)
    return json.loads(run([sys.executable, HERE / "driver_probe.py"], env=variables))


def check(report: dict, *reasons: str, devices: int = 0) -> None:
    """The promises to a program without a usable GPU, whose reasons why_cpu gives."""
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
    """There is nothing by the driver's name that loads."""
    check(probe(broken_driver), "no CUDA driver", "libcuda.so.1")


def test_no_visible_device():
    """CUDA_VISIBLE_DEVICES hides all devices of the machine's own driver, if it has one."""
    check(probe(CUDA_VISIBLE_DEVICES=""))


@pytest.mark.parametrize("code", CUINIT)
def test_driver_that_does_not_start(failing_driver, code):
    """cuInit fails, in ways known and unknown."""
    report = probe(failing_driver, FAIL_cuInit=str(code))
    check(report, f"cuInit failed with {CUINIT[code]} ({code})")


def test_driver_without_devices(failing_driver):
    """The driver counts no device."""
    check(probe(failing_driver, DEVICES="0"), "no device")


def test_devices_cannot_be_counted(failing_driver):
    """Counting fails."""
    report = probe(failing_driver, FAIL_cuDeviceGetCount="999")
    check(report, "cuDeviceGetCount failed with CUDA_ERROR_UNKNOWN (999)")


@pytest.mark.parametrize("function", ["cuDeviceGet", "cuDeviceGetName"])
def test_device_that_cannot_be_asked(failing_driver, function):
    """A device is there, but does not answer."""
    report = probe(failing_driver, **{f"FAIL_{function}": "101"})
    check(report, f"{function} failed with CUDA_ERROR_INVALID_DEVICE (101)")


@pytest.mark.parametrize(
    "function, code, name",
    [
        ("cuDevicePrimaryCtxRetain", 2, "CUDA_ERROR_OUT_OF_MEMORY"),
        ("cuDevicePrimaryCtxRetain", 999, "CUDA_ERROR_UNKNOWN"),
        ("cuCtxPushCurrent_v2", 3, "CUDA_ERROR_NOT_INITIALIZED"),
        ("cuModuleGetFunction", 500, ""),
    ],
)
def test_device_that_does_not_open(failing_driver, function, code, name):
    """A device is there, but cannot be used."""
    report = probe(failing_driver, **{f"FAIL_{function}": str(code)})
    call = function.replace("_v2", "")
    check(report, "Failing device 0", f"{call} failed with {name}", f"({code})", devices=1)


@pytest.mark.parametrize("code", REFUSED)
def test_kernels_are_refused(failing_driver, code):
    """The driver does not take the kernels."""
    failures = {"FAIL_cuModuleLoadDataEx": str(code), "FAIL_cuModuleLoadData": str(code)}
    report = probe(failing_driver, **failures)
    reason = f"cuModuleLoadData failed with {REFUSED[code]} ({code})"
    check(report, "Failing device 0", reason, devices=1)


def test_driver_too_old_for_the_kernels(failing_driver):
    """What is said is which driver is there and which is needed."""
    failures = {"FAIL_cuModuleLoadDataEx": "222", "FAIL_cuModuleLoadData": "222"}
    report = probe(failing_driver, DRIVER_VERSION="11040", **failures)
    check(report, "CUDA 11.4", "12.0", "driver 525", devices=1)


def test_driver_without_functions(driver_without_functions):
    """A driver that has cuInit and nothing else, as none is: still no crash."""
    check(probe(driver_without_functions), "the CUDA driver lacks cuCtxGetCurrent")


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
def test_device_that_fails_at_work(failing_driver, function, code, status, text):
    """The device opens, but a call on it fails: the CPU answers, unless the GPU is demanded."""
    report = probe(failing_driver, **{f"FAIL_{function}": str(code)})
    assert report["why_cpu"] == ""
    assert all(found == [True, True] for found in report["results"].values())
    for operation in CLASSIC:
        found = report["demands"][f"{operation} of {FOR_A_GPU}"]
        assert found[0] == status and text in found[1]
    assert all(found == [True, True] for found in report["results afterwards"].values())
