"""The fake driver in threads and processes: contexts, initialisation, forks, destructors."""

from driver_scripts import run, run_alone
from on_fake_driver import needs_fake_driver

pytestmark = needs_fake_driver


def test_destructors_of_threads_and_handlers_at_exit_may_call_it():
    """Destructors and handlers may call the driver after a thread's other memory is freed."""
    run(
        """
        import threading

        libc = ctypes.CDLL(None)
        on_device(0)
        context = c_uint64()
        assert code("cuCtxGetCurrent", byref(context)) == OK

        # The driver's functions are the destructors: they get a handle, or an address for a result.
        def at_thread_end(name):
            key = c_uint()
            assert libc.pthread_key_create(byref(key), getattr(driver.driver, name)) == 0
            return key.value

        found = (c_uint64 * 3)(7, 7, 7)
        functions = ("cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2",
                     "cuStreamSynchronize", "cuStreamQuery")
        destructors = [at_thread_end(name) for name in functions]
        values = (ctypes.addressof(found), context, ctypes.addressof(found) + 8, 1, 2)

        def work():
            assert code("cuCtxSetCurrent", context) == OK
            for key, value in zip(destructors, values):
                value = value if isinstance(value, int) else value.value
                assert libc.pthread_setspecific(key, c_void_p(value)) == 0

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        # For Python the thread has ended before its destructors have run.
        while found[1] == 7:
            os.sched_yield()
        assert found[0] == found[1] == context.value
        libc.malloc.restype = c_void_p
        for name in functions:
            is_answered = name in ("cuCtxGetCurrent", "cuCtxPopCurrent_v2")
            value = c_void_p(libc.malloc(8) if is_answered else context.value)
            assert getattr(libc, "__cxa_atexit")(getattr(driver.driver, name), value, None) == 0
        """
    )


def test_a_threads_stack_of_contexts_is_bounded():
    run(
        """
        on_device(0)
        context, pushed = c_uint64(), 0
        assert code("cuCtxGetCurrent", byref(context)) == OK
        while code("cuCtxPushCurrent_v2", context) == OK:
            pushed += 1
        assert pushed > 30 and code("cuCtxPushCurrent_v2", context) == OUT_OF_MEMORY
        assert code("cuCtxCreate_v2", byref(c_uint64()), 0, 0) == OUT_OF_MEMORY
        for _ in range(pushed + 1):
            assert made("cuCtxPopCurrent_v2") == context.value
        assert code("cuCtxPopCurrent_v2", byref(c_uint64())) == INVALID_CONTEXT
        """
    )


def test_the_bounded_stack_forgets_a_context_that_is_destroyed():
    run(
        """
        on_device(0)
        first, second = made("cuCtxCreate_v2", 0, 0), made("cuCtxCreate_v2", 0, 0)
        assert code("cuCtxPushCurrent_v2", first) == OK
        assert code("cuCtxDestroy_v2", first) == OK
        assert made("cuCtxPopCurrent_v2") == second
        assert made("cuCtxGetCurrent") not in (0, first, second)
        """
    )


def test_a_forked_child_is_detected():
    """Calls detect a forked child without process ids; a child may call an unused driver."""
    run(
        """
        import os

        def status_of(child):
            process = os.fork()
            if process == 0:
                os._exit(child())
            return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])

        def child():
            ok = code("cuCtxGetCurrent", byref(c_uint64())) == 3
            return 0 if ok and "in a forked child" in fake_driver.violation() else 1

        assert status_of(child) == 0
        assert code("cuCtxGetCurrent", byref(c_uint64())) == OK
        """
    )
    run_alone(
        """
        import os
        process = os.fork()
        if process == 0:
            os._exit(driver.cuInit(0))
        assert os.waitpid(process, 0)[1] == 0
        assert driver.cuInit(0) == 0
        """
    )


def test_nothing_but_cuinit_works_before_it():
    run_alone(
        """
        to = ctypes.c_uint64()
        codes = [
            driver.cuCtxGetCurrent(ctypes.byref(to)),
            driver.cuCtxSetCurrent(None),
            driver.cuDeviceGetCount(ctypes.byref(to)),
            driver.cuStreamSynchronize(None),
            driver.cuStreamIsCapturing(None, ctypes.byref(to)),
            driver.cuMemHostUnregister(None),
        ]
        assert codes == [3] * 6, codes
        assert driver.cuDriverGetVersion(ctypes.byref(to)) == 0 and to.value > 12000
        assert driver.cuGetErrorName(3, ctypes.byref(to)) == 0
        assert ctypes.string_at(to.value) == b"CUDA_ERROR_NOT_INITIALIZED"
        assert driver.cuInit(0) == 0 and driver.cuCtxGetCurrent(ctypes.byref(to)) == 0
        """
    )
    run_alone(
        """
        assert driver.cuInit(0) == 100
        assert driver.cuCtxSetCurrent(None) == 3
        """,
        DEVICES=0,
    )


def test_held_calls():
    """Held calls wait inside the driver, without a lock."""
    run(
        """
        from concurrent.futures import ThreadPoolExecutor

        on_device(0)
        context = made("cuCtxGetCurrent")
        register, first, last = "cuMemHostRegister_v2", pages(1), pages(1)

        def registered(address):
            assert code("cuCtxSetCurrent", context) == OK
            return code(register, address, PAGE, 0)

        with ThreadPoolExecutor(2) as pool:
            with fake_driver.call_held(register):
                results = [pool.submit(registered, address) for address in (first, last)]
                fake_driver.wait_for_held_calls(2)
                memory("device", 100), memory("pinned", 100)
                assert code("cuStreamSynchronize", stream()) == OK
                assert fake_driver.count("registered") == 0
                assert code("cuMemHostUnregister", first) == NOT_REGISTERED
                assert not any(result.done() for result in results)
            assert [result.result() for result in results] == [OK, OK]
        assert fake_driver.count("held_calls") == 0 and fake_driver.count("registered") == 2
        assert registered(pages(1)) == OK
        """
    )
