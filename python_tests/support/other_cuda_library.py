"""Another library in the process, which loses a GPU's primary context or takes its memory."""

from contextlib import contextmanager
from ctypes import byref, c_char_p, c_size_t, c_uint64, c_void_p

from cuda_driver import Driver

LAUNCH_FAILED = 719
OUT_OF_MEMORY = 2

TRAP = b"""
.version 8.0
.target sm_60
.address_size 64
.visible .entry stop()
{
    trap;
    ret;
}
"""


def other_library() -> Driver:
    """Makes the primary context current, as another library does, and returns the driver."""
    driver = Driver()
    driver.set_current(driver.context)
    return driver


def lose_the_context(driver: Driver) -> None:
    """Lets a kernel of another library trap; on the fake driver, lets a call fail instead."""
    if hasattr(driver.driver, "fake_driver_faults"):
        driver.driver.fake_driver_faults(f"1={LAUNCH_FAILED}".encode())
        assert driver.driver.cuMemGetInfo_v2(byref(c_size_t()), byref(c_size_t())) == LAUNCH_FAILED
        return
    module, function = c_void_p(), c_void_p()
    driver.call("cuModuleLoadData", byref(module), c_char_p(TRAP))
    driver.call("cuModuleGetFunction", byref(function), module, c_char_p(b"stop"))
    nothing = c_void_p()
    driver.call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, nothing, nothing, nothing)
    assert driver.driver.cuCtxSynchronize() != 0


@contextmanager
def memory_taken(driver: Driver, left: int):
    """Holds all memory of the device but about `left` bytes during the block."""
    taken = []
    size = 1 << 34
    while size >= 1 << 20:
        address = c_uint64()
        fits = driver.free_bytes() >= left + size
        if fits and driver.driver.cuMemAlloc_v2(byref(address), c_size_t(size)) == 0:
            taken.append(address)
        else:
            size //= 2
    yield
    for address in taken:
        driver.call("cuMemFree_v2", address)
