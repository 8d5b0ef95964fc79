"""Placement cpu while another library in the process uses CUDA.

gpuvec does not initialise the driver, but detects the other library's memory: the driver copies
device memory, which no core touches, and the library's queued work is done before a core reads its
results.
"""

import textwrap

import on_fake_driver
import pytest
from bindings import lib, why_cpu
from programs import run_python

N = 50_000

# The beginning of all scripts. `other_library` loads and initialises the driver and makes a context
# current; `calls_of_gpuvec` computes on the cores, also before the driver is loaded.
PRELUDE = f"""
N = {N}
values = [np.arange(N, dtype=np.int32) * factor for factor in (1, 3)]

def add(a, b, out):
    return lib.add_arrays(a, b, out, N)

def calls_of_gpuvec():
    a, b = values
    out = np.zeros(N, np.int32)
    ok(add(a.ctypes.data, b.ctypes.data, out.ctypes.data))
    assert (out == a + b).all() and last_run().backend == Backend.CPU
    ok(lib.gpuvec_copy(out.ctypes.data, a.ctypes.data, a.nbytes, None))
    assert (out == a).all()
    pinned = pinned_empty(N, np.int32)
    pinned[:] = a
    ok(add(pinned.ctypes.data, b.ctypes.data, out.ctypes.data))
    assert (out == a + b).all()
    ok(lib.gpuvec_host_register(out.ctypes.data, out.nbytes))
    ok(lib.gpuvec_host_unregister(out.ctypes.data))

def is_loaded():
    with open("/proc/self/maps") as maps:
        return "libcuda.so.1" in maps.read()

assert not is_loaded()

def other_library(is_primary=True):
    from cuda_driver import Driver
    driver = Driver()
    if is_primary:
        driver.set_current(driver.context)
    else:
        driver.context = driver.new_context()
    return driver

def device_arrays(driver):
    from cuda_driver import DeviceArray
    return [DeviceArray(driver, array) for array in values]

def check_copies(driver, arrays, managed):
    "To, from and between the other library's arrays, at any byte."
    from cuda_driver import DeviceArray
    there = DeviceArray(driver, np.zeros(N, np.int32), managed)
    for array, expected in zip(arrays, values):
        host = np.full(N, 7, np.int32)
        ok(lib.gpuvec_copy(host.ctypes.data, array.address, host.nbytes, None))
        assert (host == expected).all()
        ok(lib.gpuvec_copy(there.address, array.address, host.nbytes, None))
        assert (there.values() == expected).all()
        back = expected[::-1].copy()
        host[:] = back
        ok(lib.gpuvec_copy(there.address, host.ctypes.data, host.nbytes, None))
        assert (there.values() == back).all()
        ok(lib.gpuvec_copy(host.ctypes.data + 3, there.address + 8, 1001, None))
        assert (host.view(np.uint8)[3:1004] == back.view(np.uint8)[8:1009]).all()
    there.free()

def check_refusals(arrays):
    "No core touches a device's memory, in whichever place of a call it is."
    a, b = arrays
    host = np.full(N, 7, np.int32)
    at = host.ctypes.data
    cases = [(a.address, at, at), (at, a.address, at), (at, at, a.address),
             (a.address, b.address, a.address), (at, b.address, b.address)]
    for addresses in cases:
        for call in (lib.vector_add, lib.add_arrays):
            assert call(*addresses, N) == Status.ERROR_PLACEMENT, last_error()
            assert "device memory" in last_error(), last_error()
    total = np.full(1, 7, np.float32)
    assert lib.dot_product(a.address, at, total.ctypes.data, N) == Status.ERROR_PLACEMENT
    assert (host == 7).all() and total == 7
    for array, expected in zip(arrays, values):
        assert (array.values() == expected).all()

def check_managed(driver):
    "The cores reach managed memory."
    from cuda_driver import DeviceArray
    there = DeviceArray(driver, values[0], managed=True)
    out = np.zeros(N, np.int32)
    ok(add(there.address, there.address, out.ctypes.data))
    assert (out == 2 * values[0]).all()
    there.free()

def check_filling(driver):
    "What is still being written is not read before."
    address, size = c_void_p(), c_size_t(4 * N)
    driver.call("cuMemHostAlloc", byref(address), size, c_uint(0))
    pinned = np.ctypeslib.as_array((c_int * N).from_address(address.value))
    for number in range(1, 9):
        out, whole = np.zeros(N, np.int32), np.zeros(N, np.int32)
        pinned[:] = 0
        driver.fill_later(address.value, number, N)
        if number % 2:
            ok(add(address.value, values[0].ctypes.data, out.ctypes.data))
            out -= values[0]
        else:
            ok(lib.gpuvec_copy(out.ctypes.data, address.value, 4 * N, None))
        assert (out == number).all(), (number, out)
    driver.call("cuMemFreeHost", address)

def check_all(driver):
    arrays = device_arrays(driver)
    calls_of_gpuvec()
    check_refusals(arrays)
    for managed in (False, True):
        check_copies(driver, arrays, managed)
    check_managed(driver)
    check_filling(driver)
    check_refusals(arrays)
    calls_of_gpuvec()
"""


def run(script: str, **settings: object) -> None:
    """Runs a script on the fake driver, with placement cpu from the environment."""
    text = PRELUDE + textwrap.dedent(script)
    on_fake_driver.run(text, variables={"GPUVEC_PLACEMENT": "cpu"}, **settings)


BEFORE = {"the other library is first": "", "gpuvec is first": "calls_of_gpuvec()"}


@on_fake_driver.needs_fake_driver
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("is_primary", [True, False], ids=["primary context", "its own context"])
def test_its_memory_is_detected(before, is_primary):
    run(
        f"""
        {BEFORE[before]}
        assert not is_loaded()
        check_all(other_library({is_primary}))
        """,
        DELAY=20_000,
    )


@on_fake_driver.needs_fake_driver
@pytest.mark.parametrize("part", ["check_refusals", "check_copies", "check_filling"])
def test_each_use_of_its_memory(part):
    """Each check is the first to meet such memory in its process."""
    arguments = {
        "check_refusals": "arrays",
        "check_copies": "driver, arrays, False",
        "check_filling": "driver",
    }[part]
    run(
        f"""
        driver = other_library()
        arrays = device_arrays(driver)
        {part}({arguments})
        """,
        DELAY=20_000,
    )


@on_fake_driver.needs_fake_driver
@pytest.mark.parametrize("mode", ["RTLD_LOCAL", "RTLD_GLOBAL"])
def test_any_way_of_loading_the_driver(mode):
    """gpuvec finds the driver by its soname, whether or not its symbols are global."""
    run(
        f"""
        calls_of_gpuvec()
        loaded = ctypes.CDLL("libcuda.so.1", mode=ctypes.{mode})
        check_all(other_library())
        """,
        DELAY=20_000,
    )


@on_fake_driver.needs_fake_driver
def test_a_driver_that_is_loaded_and_not_initialised():
    """gpuvec does not initialise the driver; once the other library has, its memory is known."""
    run(
        """
        calls_of_gpuvec()
        fake_driver = FakeDriver()
        calls_of_gpuvec()
        threads = [Started(calls_of_gpuvec) for _ in range(4)]
        for thread in threads:
            thread.get()
        assert "cuInit" not in fake_driver.calls(), fake_driver.calls()
        assert fake_driver.driver.cuCtxGetCurrent(byref(c_uint64())) == 3
        driver = other_library()
        fake_driver.plan("")
        check_all(driver)
        assert "cuInit" not in fake_driver.calls()
        # The other library has retained the primary context, and gpuvec for its copies too.
        assert fake_driver.count("contexts") == 2
        """
    )


@on_fake_driver.needs_fake_driver
def test_it_initialises_the_driver_while_gpuvec_works():
    """Calls in several threads go on meanwhile, and then detect its memory."""
    run(
        """
        stop = threading.Event()

        def work():
            while not stop.is_set():
                calls_of_gpuvec()

        threads = [Started(work) for _ in range(3)]
        driver = other_library()
        check_all(driver)
        stop.set()
        for thread in threads:
            thread.get()
        """
    )


@on_fake_driver.needs_fake_driver
def test_placement_gpu_works_afterwards():
    run(
        """
        driver = other_library()
        arrays = device_arrays(driver)
        check_refusals(arrays)
        assert lib.gpuvec_set_placement(Place.GPU) == Status.OK
        for _ in range(2):
            ok(add(arrays[0].address, arrays[1].address, arrays[1].address))
            assert (arrays[1].values() == values[0] + values[1]).all()
            arrays[1].fill(values[1])
        assert lib.gpuvec_set_placement(Place.CPU) == Status.OK
        check_all(driver)
        """,
        DELAY=2000,
    )


@on_fake_driver.needs_fake_driver
def test_a_forked_child_makes_no_call():
    """The driver is not initialised in the child, and its parent's memory is out of reach."""
    run(
        """
        from fork import in_child
        driver = other_library()
        arrays = device_arrays(driver)
        calls_of_gpuvec()
        fake_driver = FakeDriver()

        def child():
            calls_of_gpuvec()
            host = np.zeros(N, np.int32)
            at = host.ctypes.data
            status = lib.add_arrays(at, arrays[0].address, at, N)
            assert status in (Status.ERROR_FORKED, Status.ERROR_PLACEMENT), last_error()
            status = lib.gpuvec_copy(at, arrays[0].address, host.nbytes, None)
            assert status in (Status.ERROR_FORKED, Status.ERROR_PLACEMENT), last_error()
            assert fake_driver.violation() == "", fake_driver.violation()

        in_child(child)
        check_all(driver)
        """
    )


@pytest.mark.skipif(lib.gpuvec_device_count() == 0, reason=why_cpu() or "no GPU")
def test_placement_cpu_on_the_drivers_own_gpu():
    """Memory that another library allocated is detected, even with placement cpu."""
    run_python(
        on_fake_driver.PRELUDE.format(limit=60)
        + PRELUDE
        + "calls_of_gpuvec()\ncheck_all(other_library())\n",
        GPUVEC_PLACEMENT="cpu",
    )
