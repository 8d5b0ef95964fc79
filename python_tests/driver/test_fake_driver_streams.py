"""The fake driver's streams and events: their order, and their reports of unfinished work."""

import pytest
from driver_scripts import run
from on_fake_driver import needs_fake_driver

pytestmark = needs_fake_driver


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
    """Events without a record are done; times need records; destroyed handles are invalid."""
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


def test_an_event_is_over_when_its_stream_is():
    """No thread sees the one without the other: nothing is pending after the wait for an event."""
    run(
        """
        on_device(0)
        here, event = stream(), made("cuEventCreate", 0)
        for _ in range(5000):
            assert code("cuEventRecord", event, here) == code("cuEventSynchronize", event) == OK
            assert fake_driver.count("pending") == 0
            assert code("cuEventRecord", event, here) == code("cuStreamSynchronize", here) == OK
            assert code("cuEventQuery", event) == OK
        """
    )


def test_a_stream_waits_for_an_event_of_another_device():
    """The stream waits as long as the event takes, and not for later records of the event."""
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
                # This would be a deadlock if the stream waited for the event's last record.
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


@pytest.mark.parametrize("default", [0, 1])
def test_default_streams(default):
    """Default streams follow earlier and precede later work of the current context's streams."""
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
        assert code("cuStreamSynchronize", {default}) == code("cuStreamQuery", {default}) == OK
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
                # The context's default stream follows both.
                assert code("cuMemcpyAsync", to + 40, to + 20, 20, 0) == OK
                # Each thread's own default stream follows that.
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


def test_captured_streams():
    """Captured streams, and events recorded in them, can be neither queried nor waited for.

    To try it invalidates the capture.
    """
    run(
        """
        CAPTURE_UNSUPPORTED, CAPTURED_EVENT = 900, 907
        on_device(0)
        queue, event, status = stream(), made("cuEventCreate", 0), c_int(7)

        def status_of(handle):
            status = c_int(7)
            assert code("cuStreamIsCapturing", handle, byref(status)) == OK
            return status.value

        with fake_driver.captured(queue):
            statuses = [status_of(handle) for handle in (queue, stream(), 0, 2)]
            assert statuses == [1, 0, 0, 0]
        def invalidates(call, handle, expected):
            fake_driver.driver.fake_driver_begin_capture(queue)
            assert code("cuEventRecord", event, queue) == OK
            assert code(call, handle) == expected and status_of(queue) == 2
            assert not fake_driver.driver.fake_driver_end_capture(queue)

        for call in ("Synchronize", "Query"):
            invalidates(f"cuStream{call}", queue, CAPTURE_UNSUPPORTED)
            invalidates(f"cuEvent{call}", event, CAPTURED_EVENT)
            assert code(f"cuEvent{call}", event) == CAPTURED_EVENT
        assert code("cuEventRecord", event, queue) == code("cuEventSynchronize", event) == OK
        with fake_driver.captured(2):
            assert (status_of(queue), status_of(2)) == (0, 1)
        assert status_of(2) == 0
        assert code("cuStreamSynchronize", queue) == OK
        assert code("cuStreamIsCapturing", 12345, byref(status)) == INVALID_HANDLE
        """
    )
