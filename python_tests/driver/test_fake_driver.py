"""The fake driver answers as the CUDA driver API's reference says.

What gpuvec does with streams, events and page-locked memory is tested on it; this tests it.
"""

import textwrap

import pytest
from on_fake_driver import environment, needs_fake_driver
from programs import run_python

pytestmark = needs_fake_driver

# The beginning of all scripts: `code` calls a function of the driver, `made` gives what it made;
# `on_device` makes a device's context current; `memory` gives an address and its bytes.
PRELUDE = """
import ctypes
import mmap
import os
import re
from ctypes import byref, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
import numpy as np
from bindings import ROOT
from cuda_driver import Driver
from fake_driver import FakeDriver

OK, INVALID_VALUE, INVALID_CONTEXT, INVALID_HANDLE, NOT_READY = 0, 1, 201, 400, 600
OUT_OF_MEMORY = 2
ILLEGAL_ADDRESS, ALREADY_REGISTERED, NOT_REGISTERED = 700, 712, 713
DISABLE_TIMING = 2
PAGE = mmap.PAGESIZE

driver, fake_driver = Driver(), FakeDriver()

def code(name, *arguments):
    arguments = (c_uint64(word) if isinstance(word, int) else word for word in arguments)
    return getattr(driver.driver, name)(*arguments)

def made(name, *arguments):
    to = c_uint64()
    assert code(name, byref(to), *arguments) == OK
    return to.value

def on_device(number):
    assert code("cuCtxSetCurrent", made("cuDevicePrimaryCtxRetain", number)) == OK

def stream():
    return made("cuStreamCreateWithPriority", 1, 0)

def bytes_at(address, size):
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))

mapped = []

def pages(count):
    mapped.append(mmap.mmap(-1, count * PAGE))
    return np.frombuffer(mapped[-1], np.uint8).ctypes.data

def memory(kind, size):
    if kind == "pinned":
        address = made("cuMemHostAlloc", size, 0)
    elif kind == "registered":
        address = pages(-(-size // PAGE))
        assert code("cuMemHostRegister_v2", address, size, 0) == OK
    else:
        return fake_driver.memory(kind, size)
    return address, bytes_at(address, size)

def elapsed(start, end):
    ms = c_float(-1)
    return code("cuEventElapsedTime", byref(ms), start, end), ms.value
"""

CLEAN = """
assert fake_driver.violation() == ""
assert fake_driver.count("pending") == 0
"""


def run(script: str, epilogue: str = CLEAN, **settings: object) -> None:
    """Runs a script on the fake driver with its settings (FAKE_DRIVER_...)."""
    run_python(PRELUDE + textwrap.dedent(script) + epilogue, **environment(**settings))


def run_alone(script: str, **settings: object) -> None:
    """Runs a script that has loaded the driver but has not called it."""
    prelude = 'import ctypes\ndriver = ctypes.CDLL("libcuda.so.1")\n'
    run_python(prelude + textwrap.dedent(script), **environment(**settings))


def test_copies_between_all_kinds_of_memory():
    """Two devices', managed, pinned and registered memory, at any byte."""
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


def test_streams_and_events_report_unfinished_work():
    run(
        """
        on_device(0)
        (to, there), (source, here) = memory("device", 8), memory("pinned", 8)
        here[:], there[:] = 7, 0
        queue, event = stream(), made("cuEventCreate", 0)
        assert code("cuStreamQuery", queue) == OK
        with fake_driver.held():
            assert code("cuMemcpyAsync", to, source, 8, queue) == OK
            assert code("cuEventRecord", event, queue) == OK
            assert code("cuStreamQuery", queue) == code("cuEventQuery", event) == NOT_READY
            assert elapsed(event, event)[0] == NOT_READY
            assert fake_driver.count("pending") == 2 and not there.any()
        assert code("cuEventSynchronize", event) == OK and (there == 7).all()
        assert code("cuEventQuery", event) == OK
        assert code("cuStreamSynchronize", queue) == code("cuStreamQuery", queue) == OK
        """
    )


def test_events():
    """Events without a record are done; times need records; destroying ends a handle."""
    run(
        """
        assert code("cuEventCreate", byref(c_uint64()), 0) == INVALID_CONTEXT
        on_device(0)
        first, last = made("cuEventCreate", 0), made("cuEventCreate", 1)
        queue, plain = stream(), made("cuEventCreate", DISABLE_TIMING)
        assert fake_driver.ledger()["events"] == 3
        assert code("cuEventQuery", first) == code("cuEventSynchronize", first) == OK
        assert code("cuStreamWaitEvent", queue, first, 0) == OK
        assert elapsed(first, last)[0] == INVALID_HANDLE
        for event in (first, plain, last):
            assert code("cuEventRecord", event, queue) == OK
        assert code("cuEventSynchronize", last) == OK
        (_, there), (_, back) = elapsed(first, last), elapsed(last, first)
        assert there > 0 and back == -there
        assert elapsed(first, first) == (OK, 0)
        assert elapsed(first, plain)[0] == elapsed(plain, last)[0] == INVALID_HANDLE
        with fake_driver.held():
            assert code("cuEventRecord", last, queue) == OK
            assert code("cuStreamWaitEvent", queue, last, 0) == OK
            assert code("cuEventDestroy_v2", last) == OK
            assert code("cuEventDestroy_v2", last) == INVALID_HANDLE
            assert code("cuEventQuery", last) == INVALID_HANDLE
        assert code("cuStreamSynchronize", queue) == OK
        assert fake_driver.ledger()["events"] == 2
        """
    )


def test_events_belong_to_a_context():
    """Events are recorded in streams of their context and timed against its events."""
    run(
        """
        on_device(0)
        here, event = stream(), made("cuEventCreate", 0)
        on_device(1)
        there, other = stream(), made("cuEventCreate", 0)
        assert code("cuEventRecord", event, there) == INVALID_HANDLE
        assert code("cuEventRecord", event, 0) == INVALID_HANDLE
        assert code("cuEventRecord", event, here) == code("cuEventRecord", other, there) == OK
        assert code("cuEventSynchronize", event) == code("cuEventSynchronize", other) == OK
        assert elapsed(event, other)[0] == INVALID_HANDLE
        """,
        DEVICES=2,
    )


def test_a_stream_waits_for_an_event_of_another_device():
    """The stream waits however late the event comes, and not for later records of the event."""
    run(
        """
        size = 64
        on_device(0)
        (first, _), before, event = memory("device", size), stream(), made("cuEventCreate", 0)
        on_device(1)
        (last, at_last), after = memory("device", size), stream()
        source, values = memory("pinned", size)
        for number in range(1, 31):
            values[:] = number
            with fake_driver.held():
                assert code("cuMemcpyAsync", first, source, size, before) == OK
                assert code("cuEventRecord", event, before) == OK
                assert code("cuStreamWaitEvent", after, event, 0) == OK
                assert code("cuMemcpyAsync", last, first, size, after) == OK
                # This would be a circle if the stream waited for the event's last record.
                done = made("cuEventCreate", 0)
                assert code("cuEventRecord", done, after) == OK
                assert code("cuStreamWaitEvent", before, done, 0) == OK
                assert code("cuEventRecord", event, before) == OK
            assert code("cuStreamSynchronize", before) == OK
            assert (at_last == number).all()
            assert code("cuEventDestroy_v2", done) == OK
        """,
        DEVICES=2,
        DELAY=2000,
    )


def test_nothing_hangs_on_a_lost_context():
    """A lost context drops its work, completes its events, and answers with its error code."""
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


def test_a_wait_that_fails_has_waited():
    """Memory is at rest after a wait for an event, even if the plan makes the wait fail."""
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


@pytest.mark.parametrize(
    "kind, last", [("registered", "cuMemHostUnregister"), ("device", "cuMemFree_v2")]
)
def test_memory_is_at_rest_when_it_is_given_back(kind, last):
    """Work that was queued on a stream before it was destroyed is still done."""
    run(
        f"""
        on_device(0)
        given_back, _ = memory("{kind}", 50)
        (source, here), (to, copied) = memory("device", 50), memory("device", 50)
        here[:] = np.arange(50)
        queue, event = stream(), made("cuEventCreate", 0)
        with fake_driver.held():
            for i in range(50):
                assert code("cuMemcpyAsync", given_back + i, source + i, 1, queue) == OK
            assert code("cuMemcpyAsync", to, given_back, 50, queue) == OK
            assert code("cuEventRecord", event, queue) == OK
            assert code("cuStreamDestroy_v2", queue) == OK
            assert code("cuStreamDestroy_v2", queue) == INVALID_HANDLE
            assert code("cuMemcpyAsync", given_back, source, 1, queue) == INVALID_HANDLE
            assert fake_driver.count("streams") == 0 and fake_driver.count("pending") == 52
        assert code("{last}", given_back) == OK
        assert (copied == here).all() and code("cuEventQuery", event) == OK
        """
    )


def test_a_copy_from_host_to_host_is_done_when_the_call_returns():
    """The driver, too, then has finished everything queued before the copy."""
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


@pytest.mark.parametrize("default", [0, 1])
def test_default_streams(default):
    """Default streams come after earlier and before later work of the current context's streams."""
    run(
        f"""
        assert code("cuStreamSynchronize", {default}) == INVALID_CONTEXT
        assert code("cuStreamGetCtx", {default}, byref(c_uint64())) == INVALID_CONTEXT
        assert code("cuCtxGetDevice", byref(c_int())) == INVALID_CONTEXT
        on_device(1)
        device, context, of_default = c_int(), c_uint64(), c_uint64()
        assert code("cuCtxGetDevice", byref(device)) == OK and device.value == 1
        assert code("cuCtxGetCurrent", byref(context)) == OK
        assert code("cuStreamGetCtx", {default}, byref(of_default)) == OK
        assert of_default.value == context.value != 0

        (to, there), (source, here) = memory("device", 75), memory("pinned", 50)
        here[:] = np.arange(50)
        queue, free = made("cuStreamCreateWithPriority", 0, 0), stream()
        event, end = made("cuEventCreate", 0), made("cuEventCreate", 0)
        assert code("cuEventRecord", event, queue) == OK
        for i in range(25):
            assert code("cuMemcpyAsync", to + i, source + i, 1, queue) == OK
        assert code("cuStreamWaitEvent", {default}, event, 0) == OK
        assert code("cuMemcpyAsync", to + 25, to, 25, {default}) == OK
        assert code("cuMemcpyAsync", to + 50, to + 25, 25, queue) == OK
        assert code("cuStreamSynchronize", queue) == OK
        assert (there == np.tile(np.arange(25), 3)).all()
        with fake_driver.held():
            assert code("cuMemcpyAsync", to, source, 25, free) == OK
            assert code("cuMemcpyAsync", to, source, 25, {default}) == OK
            assert code("cuStreamQuery", free) == code("cuStreamQuery", {default}) == NOT_READY
        fake_driver.drain()
        assert code("cuEventRecord", end, {default}) == code("cuEventSynchronize", end) == OK
        assert elapsed(event, end)[1] > 0
        assert code("cuStreamQuery", {default}) == code("cuStreamSynchronize", {default}) == OK
        assert code("cuStreamDestroy_v2", {default}) == INVALID_HANDLE

        on_device(0)
        of_stream = c_uint64()
        assert code("cuStreamGetCtx", queue, byref(of_stream)) == OK
        assert of_stream.value == context.value
        _, elsewhere = memory("device", 8)
        elsewhere[:] = 1
        """,
        DEVICES=2,
        DELAY=1000,
    )


def test_a_threads_own_default_stream():
    """A thread's default stream is ordered with the context's, and not with another thread's."""
    run(
        """
        from concurrent.futures import ThreadPoolExecutor

        OWN = 2
        assert code("cuStreamSynchronize", OWN) == INVALID_CONTEXT
        assert code("cuStreamGetCtx", OWN, byref(c_uint64())) == INVALID_CONTEXT
        on_device(0)
        (to, there), (source, here) = memory("device", 60), memory("pinned", 20)
        here[:] = np.arange(20)
        event, context, of_own = made("cuEventCreate", 0), c_uint64(), c_uint64()
        assert code("cuCtxGetCurrent", byref(context)) == OK

        def in_thread(function, *arguments):
            def work():
                assert code("cuCtxSetCurrent", context) == OK
                return function(*arguments)
            return pool.submit(work).result()

        with ThreadPoolExecutor(1) as pool:
            with fake_driver.held():
                assert code("cuMemcpyAsync", to, source, 20, OWN) == OK
                assert code("cuStreamQuery", OWN) == NOT_READY
                assert in_thread(code, "cuStreamQuery", OWN) == OK
                assert in_thread(code, "cuStreamSynchronize", OWN) == OK
                assert in_thread(code, "cuMemcpyAsync", to + 20, source, 20, OWN) == OK
                assert in_thread(code, "cuStreamQuery", OWN) == NOT_READY
                # The context's default stream, after both.
                assert code("cuMemcpyAsync", to + 40, to + 20, 20, 0) == OK
                # Each thread's own, after that.
                assert in_thread(code, "cuMemcpyAsync", to, to + 40, 20, OWN) == OK
                assert in_thread(code, "cuEventRecord", event, OWN) == OK
                assert code("cuEventQuery", event) == NOT_READY
                assert code("cuStreamWaitEvent", OWN, event, 0) == OK
                assert code("cuMemcpyAsync", to + 20, to, 20, OWN) == OK
            assert code("cuStreamSynchronize", OWN) == code("cuEventQuery", event) == OK
            assert (there == np.tile(here, 3)).all()
            assert code("cuStreamGetCtx", OWN, byref(of_own)) == OK
            assert of_own.value == context.value
            assert code("cuStreamDestroy_v2", OWN) == INVALID_HANDLE
            assert in_thread(code, "cuStreamSynchronize", 0) == OK
        """,
        DELAY=1000,
    )


def test_destructors_of_threads_and_handlers_at_exit_may_call_it():
    """Destructors and handlers may call the driver when a thread's other memory is gone."""
    run(
        """
        import threading

        libc = ctypes.CDLL(None)
        on_device(0)
        context = c_uint64()
        assert code("cuCtxGetCurrent", byref(context)) == OK

        # The driver's own functions as destructors: they get the address to write to, or a handle.
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
        # The thread is gone from Python's view before its destructors have run.
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


def test_a_forked_child_is_known():
    """Calls detect a forked child without process ids; children of an unused driver may call."""
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


def test_names_of_errors():
    """Names are those of CUDA 13's cuda.h, where 35 is no code; other numbers give NULL."""
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


def test_captured_streams():
    """Captured streams are reported as such, and can be neither queried nor waited for."""
    run(
        """
        CAPTURE_UNSUPPORTED = 900
        on_device(0)
        queue, status = stream(), c_int(7)

        def status_of(handle):
            status = c_int(7)
            assert code("cuStreamIsCapturing", handle, byref(status)) == OK
            return status.value

        with fake_driver.captured(queue):
            statuses = [status_of(handle) for handle in (queue, stream(), 0, 2)]
            assert statuses == [1, 0, 0, 0]
            for call in ("Synchronize", "Query"):
                assert code(f"cuStream{call}", queue) == CAPTURE_UNSUPPORTED
        with fake_driver.captured(2):
            assert (status_of(queue), status_of(2)) == (0, 1)
        assert status_of(2) == 0
        assert code("cuStreamSynchronize", queue) == OK
        assert code("cuStreamIsCapturing", 12345, byref(status)) == INVALID_HANDLE
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
            # The page's beginning, before the array; its end, inside it.
            for start in (base + i * PAGE, base + (i + 1) * PAGE - 1):
                assert register(c_void_p(start), c_size_t(1), 0) == ALREADY_REGISTERED
        for i in order.tolist():
            assert unregister(c_void_p(base + i * PAGE + 8)) == OK
        assert fake_driver.count("registered") == 0
        """
    )


@pytest.mark.parametrize("kind", ["device", "managed", "pinned"])
def test_kernels_of_another_device(kind):
    """Kernels reach managed and host memory; another device's own memory is a violation."""
    run(
        f"""
        ptx = (ROOT / "kernels/ptx/add_f32.ptx").read_text()
        name = re.search(r"\\.entry (\\w*add\\w*)\\(", ptx)[1]
        on_device(0)
        address, values = memory("{kind}", 400)
        values.view(np.uint32)[:] = 0
        on_device(1)
        module = made("cuModuleLoadData", ctypes.c_char_p(ptx.encode()))
        function = made("cuModuleGetFunction", module, ctypes.c_char_p(name.encode()))
        words = [c_uint64(word) for word in (address, address, address, 100, 0)]
        parameters = (c_void_p * 5)(*[ctypes.addressof(word) for word in words])
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
