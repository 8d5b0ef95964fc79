"""The fake driver's memory: copies, registration, and accesses of kernels."""

import pytest
from driver_scripts import run
from on_fake_driver import needs_fake_driver

pytestmark = needs_fake_driver


def test_copies_between_all_kinds_of_memory():
    """Copies connect two devices, managed, pinned and registered memory, at any byte."""
    run(
        """
        places = []
        for device in range(2):
            on_device(device)
            places += [memory(kind, 5000) for kind in ("device", "managed", "pinned", "registered")]
        queue, chance = stream(), np.random.default_rng(1)
        for to, there in places:
            for source, here in places:
                if to != source:
                    here[:] = chance.integers(256, size=5000, dtype=np.uint8)
                    there[:] = 0
                    assert code("cuMemcpyAsync", to + 3, source + 1001, 3001, queue) == OK
                    assert code("cuStreamSynchronize", queue) == OK
                    assert (there[3:3004] == here[1001:4002]).all()
                    assert not there[:3].any() and not there[3004:].any()
        """,
        DEVICES=2,
    )


@pytest.mark.parametrize("end", ["to", "from"])
def test_copies_of_pageable_memory_are_violations(end):
    run(
        f"""
        on_device(0)
        ends = [memory("device", 100)[0], pages(1)]
        to, source = ends if {end == "from"} else reversed(ends)
        assert code("cuMemcpyAsync", to, source, 100, stream()) == INVALID_VALUE
        """,
        'assert "pageable" in fake_driver.violation()',
    )


def test_a_copy_from_host_to_host_is_done_when_the_call_returns():
    """Like the driver, the call also waits for everything that was queued before."""
    run(
        """
        on_device(0)
        n, queue = 1000, stream()
        (source, here), (between, _), (to, copied) = (
            memory(kind, n) for kind in ("pinned", "device", "registered")
        )
        here[:] = np.arange(n) % 251
        assert code("cuMemcpyAsync", between, source, n, queue) == OK
        assert code("cuMemcpyAsync", source, between, n, queue) == OK
        assert code("cuMemcpyAsync", to, source, n, queue) == OK
        assert fake_driver.count("pending") == 0 and (copied == here).all()
        """
    )


def test_registered_memory():
    """Registration locks whole pages once and is undone by the first address."""
    run(
        """
        def found(address):
            kind, start, size = c_uint(9), c_uint64(), c_size_t()
            pointers = [ctypes.addressof(value) for value in (kind, start, size)]
            attributes = (c_uint * 3)(2, 11, 12), (c_void_p * 3)(*pointers)
            assert code("cuPointerGetAttributes", 3, *attributes, address) == OK
            return kind.value, start.value, size.value

        register, unregister = "cuMemHostRegister_v2", "cuMemHostUnregister"
        base = pages(8)
        array = base + 100
        assert code(register, array, 5000, 0) == INVALID_CONTEXT
        on_device(0)
        assert code(register, array, 5000, 0) == OK
        held = fake_driver.ledger()
        assert (held["registered"], held["registered_bytes"]) == (1, 5000)
        assert held["host_allocations"] == 0
        assert found(array) == found(array + 4999) == (1, array, 5000)
        assert found(base + 3 * PAGE) == (0, 0, 0)
        for start in (array, base, base + 2 * PAGE - 1):
            assert code(register, start, 1, 0) == ALREADY_REGISTERED
        assert code(register, base + 2 * PAGE, 1, 0) == OK
        for start in (base, array + 1, base + 3 * PAGE):
            assert code(unregister, start) == NOT_REGISTERED
        assert code("cuMemFreeHost", c_void_p(array)) == INVALID_VALUE
        assert code("cuMemFree_v2", array) == INVALID_VALUE
        assert code(unregister, array) == code(unregister, base + 2 * PAGE) == OK
        assert code(unregister, array) == NOT_REGISTERED and found(array) == (0, 0, 0)
        assert code(register, base, 8 * PAGE, 0) == code(unregister, base) == OK

        pinned, device = made("cuMemHostAlloc", 100, 0), memory("device", 100)[0]
        assert code(register, pinned + 99, 1, 0) == INVALID_VALUE
        assert code(unregister, pinned) == NOT_REGISTERED
        for start, size in [(device, 100), (base, 0), (8, 100), (base, 2**64 - 1)]:
            assert code(register, start, size, 0) == INVALID_VALUE
        assert fake_driver.count("registered") == 0
        """
    )


def test_a_hundred_thousand_registrations():
    """The pages of a range are registered in any order; ranges with a locked page are refused."""
    run(
        """
        on_device(0)
        count = 100_000
        base = pages(count)
        order = np.random.default_rng(1).permutation(count)
        register, unregister = driver.driver.cuMemHostRegister_v2, driver.driver.cuMemHostUnregister
        for i in order.tolist():
            assert register(c_void_p(base + i * PAGE + 8), c_size_t(PAGE - 8), 0) == OK
        assert fake_driver.count("registered") == count
        for i in order[:1000].tolist():
            # The beginning of the page, before the array, and its end, inside the array.
            for start in (base + i * PAGE, base + (i + 1) * PAGE - 1):
                assert register(c_void_p(start), c_size_t(1), 0) == ALREADY_REGISTERED
        for i in order.tolist():
            assert unregister(c_void_p(base + i * PAGE + 8)) == OK
        assert fake_driver.count("registered") == 0
        """
    )


@pytest.mark.parametrize(
    "kind, last", [("registered", "cuMemHostUnregister"), ("device", "cuMemFree_v2")]
)
def test_memory_is_unused_once_it_is_released(kind, last):
    """Work that was queued on a stream before it was destroyed is still done."""
    run(
        f"""
        on_device(0)
        released, _ = memory("{kind}", 50)
        (source, here), (to, copied) = memory("device", 50), memory("device", 50)
        here[:] = np.arange(50)
        queue, event = stream(), made("cuEventCreate", 0)
        with fake_driver.held():
            for i in range(50):
                assert code("cuMemcpyAsync", released + i, source + i, 1, queue) == OK
            assert code("cuMemcpyAsync", to, released, 50, queue) == OK
            assert code("cuEventRecord", event, queue) == OK
            assert code("cuStreamDestroy_v2", queue) == OK
            assert code("cuStreamDestroy_v2", queue) == INVALID_HANDLE
            assert code("cuMemcpyAsync", released, source, 1, queue) == INVALID_HANDLE
            assert fake_driver.count("streams") == 0 and fake_driver.count("pending") == 52
        assert code("{last}", released) == OK
        assert (copied == here).all() and code("cuEventQuery", event) == OK
        """
    )


@pytest.mark.parametrize("kind", ["device", "managed", "pinned"])
def test_kernels_of_another_device(kind):
    """Kernels access managed and host memory; access to another device's memory is a violation."""
    run(
        f"""
        ptx = (ROOT / "kernels/ptx/copy_bytes.ptx").read_text()
        on_device(0)
        address, values = memory("{kind}", 400)
        values.view(np.uint32)[:] = 0
        on_device(1)
        module = made("cuModuleLoadData", ctypes.c_char_p(ptx.encode()))
        function = made("cuModuleGetFunction", module, ctypes.c_char_p(b"copy_bytes"))
        words = [c_uint64(word) for word in (address, address, 400, 0)]
        parameters = (c_void_p * 4)(*[ctypes.addressof(word) for word in words])
        queue = stream()
        grid = (c_uint(1), c_uint(1), c_uint(1), c_uint(128), c_uint(1), c_uint(1), c_uint(0))
        assert code("cuLaunchKernel", c_uint64(function), *grid, queue, parameters, None) == OK
        status = code("cuStreamSynchronize", queue)
        """,
        """
violation = fake_driver.violation()
is_foreign = "device 1 accessed" in violation and "device 0's" in violation
assert status == ILLEGAL_ADDRESS and is_foreign, (status, violation)
"""
        if kind == "device"
        else "assert status == OK and fake_driver.violation() == ''",
        DEVICES=2,
    )
