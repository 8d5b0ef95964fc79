"""The fake driver's faults: calls and work that fail as planned, lost contexts, error codes."""

from driver_scripts import run
from on_fake_driver import needs_fake_driver

pytestmark = needs_fake_driver


def test_faults_of_one_function():
    """All calls of the function fail until another plan is set; other functions work."""
    run(
        """
        for _ in range(3):
            assert code("cuCtxGetCurrent", byref(c_uint64())) == OUT_OF_MEMORY
            assert code("cuDeviceGetCount", byref(c_int())) == OK
        assert fake_driver.count("faults") == 3
        fake_driver.plan("")
        assert code("cuCtxGetCurrent", byref(c_uint64())) == OK
        """,
        FAULTS="cuCtxGetCurrent=2",
    )


def test_random_faults():
    """The same calls fail with the same seed, about as often as asked, with the plan's codes."""
    run(
        """
        from concurrent.futures import ThreadPoolExecutor

        on_device(0)

        def codes(seed, per_10000=1000):
            fake_driver.plan_random(seed, per_10000, [2, 801, 12345])
            found = [code("cuCtxGetCurrent", byref(c_uint64())) for _ in range(5000)]
            assert fake_driver.count("faults") == 5000 - found.count(OK)
            return found

        first = codes(1)
        assert set(first) == {OK, 2, 801, 12345} and 400 < 5000 - first.count(OK) < 600
        assert codes(1) == first != codes(2)
        assert set(codes(3, 0)) == {OK} and OK not in codes(3, 10_000)

        def in_threads(_):
            return code("cuCtxGetCurrent", byref(c_uint64()))

        fake_driver.plan_random(1, 1000, [2, 801, 12345])
        with ThreadPoolExecutor(8) as pool:
            assert sorted(pool.map(in_threads, range(5000))) == sorted(first)
        fake_driver.plan("")
        """
    )


def test_a_wait_that_fails_has_waited():
    """After a wait for an event the work is done, even if the plan makes the wait fail."""
    run(
        """
        on_device(0)
        (to, there), (source, here) = memory("device", 8), memory("pinned", 8)
        here[:] = 7
        queue, event = stream(), made("cuEventCreate", 0)
        fake_driver.plan("3=999")
        assert code("cuMemcpyAsync", to, source, 8, queue) == OK
        assert code("cuEventRecord", event, queue) == OK
        assert code("cuEventSynchronize", event) == 999 and (there == 7).all()
        assert code("cuStreamSynchronize", queue) == OK
        """,
        DELAY=2000,
    )


def test_nothing_hangs_on_a_lost_context():
    """A lost context drops its work, completes its events, and returns its error code."""
    run(
        """
        on_device(0)
        (to, there), (source, here) = memory("device", 8), memory("pinned", 8)
        here[:], there[:] = 7, 0
        queue, event, late = stream(), made("cuEventCreate", 0), made("cuEventCreate", 0)
        on_device(1)
        other, (target, at_target) = stream(), memory("device", 8)
        on_device(0)
        fake_driver.plan("1=700~")
        with fake_driver.held():
            assert code("cuMemcpyAsync", to, source, 8, queue) == OK
            assert code("cuMemcpyAsync", to, source, 8, queue) == OK
            assert code("cuEventRecord", event, queue) == OK
            assert code("cuStreamWaitEvent", other, event, 0) == OK
            assert code("cuMemcpyAsync", target, source, 8, other) == OK
        for wait in ("Synchronize", "Query"):
            assert code(f"cuEvent{wait}", event) == ILLEGAL_ADDRESS
            assert code(f"cuStream{wait}", queue) == ILLEGAL_ADDRESS
        assert code("cuEventRecord", late, queue) == ILLEGAL_ADDRESS
        assert not there.any()
        on_device(1)
        assert code("cuEventSynchronize", event) == ILLEGAL_ADDRESS
        assert code("cuStreamSynchronize", other) == OK and (at_target == 7).all()
        fake_driver.drain()
        """,
        DEVICES=2,
    )


def test_a_push_that_fails_loses_the_pushed_context():
    """No other context is lost, not the first device's either, and none stays pushed."""
    run(
        """
        contexts = [made("cuDevicePrimaryCtxRetain", number) for number in range(3)]
        fake_driver.plan("1=700")
        assert code("cuCtxPushCurrent_v2", contexts[1]) == ILLEGAL_ADDRESS
        assert not fake_driver.context()
        for context, is_lost in zip(contexts, (False, True, False)):
            assert code("cuCtxPushCurrent_v2", context) == OK
            status = code("cuStreamSynchronize", 0)
            assert status == (ILLEGAL_ADDRESS if is_lost else OK), contexts.index(context)
            assert code("cuCtxPopCurrent_v2", byref(c_uint64())) == OK
        """,
        DEVICES=3,
    )


def test_names_of_errors():
    """Codes have their names in CUDA 13's cuda.h, which lacks 35; other numbers return NULL."""
    run(
        """
        def name(number):
            text = ctypes.c_char_p()
            status = code("cuGetErrorName", c_uint(number), byref(text))
            return text.value.decode() if status == OK else status

        known = {
            0: "CUDA_SUCCESS", 4: "CUDA_ERROR_DEINITIALIZED", 34: "CUDA_ERROR_STUB_LIBRARY",
            36: "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER", 46: "CUDA_ERROR_DEVICE_UNAVAILABLE",
            226: "CUDA_ERROR_CONTAINED", 401: "CUDA_ERROR_ILLEGAL_STATE",
            709: "CUDA_ERROR_CONTEXT_IS_DESTROYED", 721: "CUDA_ERROR_TENSOR_MEMORY_LEAK",
            805: "CUDA_ERROR_MPS_CONNECTION_FAILED", 810: "CUDA_ERROR_MPS_CLIENT_TERMINATED",
            900: "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", 906: "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
            999: "CUDA_ERROR_UNKNOWN", 35: INVALID_VALUE, 12345: INVALID_VALUE,
        }
        assert {number: name(number) for number in known} == known
        """
    )
