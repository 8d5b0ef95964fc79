"""Streams and events of the package, and the arrays that queued work needs."""

import gpuvec
import numpy as np
import pytest
from on_fake_driver import needs_fake_driver, run
from threads import in_threads

N = 1000


def test_work_is_done_in_order(placement):
    """Queued operations and copies see the results of those before."""
    x, total = gpuvec.to_device(np.zeros(N, np.float32)), gpuvec.pinned_zeros(())
    ones = gpuvec.pinned_empty(N)
    ones[:] = 1
    with gpuvec.Stream() as stream:
        gpuvec.copy(x, ones, stream=stream)
        for _ in range(10):
            gpuvec.axpy(0.5, x, x, out=x, stream=stream)
        gpuvec.sum(x, out=total, stream=stream)
    assert total == np.float32(N * 1.5**10)
    assert stream.is_done()


def test_results_of_queued_reductions_without_out(placement):
    """A scalar is available when the function returns."""
    x, stream = gpuvec.to_device(np.ones(N)), gpuvec.Stream()
    assert gpuvec.sum(gpuvec.add(x, x, stream=stream), stream=stream) == 2 * N


def test_host_arrays_on_a_stream(placement):
    """A call with an array in pageable memory returns when its work is done."""
    a, out, stream = np.ones(N), np.zeros(N), gpuvec.Stream()
    gpuvec.add(a, a, out=out, stream=stream)
    assert (out == 2).all()


def test_streams_wait_for_events(placement):
    """An event orders the work of two streams."""
    first, second, event = gpuvec.Stream(), gpuvec.Stream(), gpuvec.Event()
    x, out = gpuvec.to_device(np.zeros(N)), gpuvec.pinned_zeros(N, np.float64)
    one = gpuvec.to_device(np.ones(N))
    for _ in range(20):
        gpuvec.add(x, one, out=x, stream=first)
    event.record(first)
    second.wait(event)
    gpuvec.add(x, one, out=out, stream=second)
    second.synchronize()
    assert (out == 21).all()
    assert event.is_done()


def test_events_measure_time(placement):
    """In milliseconds, when the work between them is done."""
    stream, start, end = gpuvec.Stream(), gpuvec.Event(), gpuvec.Event()
    x = gpuvec.to_device(np.zeros(N))
    assert start.is_done()
    start.record(stream)
    gpuvec.add(x, x, out=x, stream=stream)
    end.record(stream)
    assert start.elapsed(end) >= 0 >= end.elapsed(start)
    with pytest.raises(gpuvec.ArgumentError) as raised:
        start.elapsed(gpuvec.Event())
    assert raised.value.status is gpuvec.Status.ERROR_VALUE


def test_streams_in_threads(placement):
    """Each thread its own stream, and all threads one."""
    shared = gpuvec.Stream()
    one = gpuvec.to_device(np.ones(N))

    def work(number: int) -> None:
        for stream in (gpuvec.Stream(), shared):
            x = gpuvec.to_device(np.full(N, number, np.float64))
            for _ in range(10):
                gpuvec.add(x, one, out=x, stream=stream)
            assert (x.to_host() == number + 10).all()

    in_threads(work, 4)


def test_native_streams_are_numbers_or_objects(placement):
    """Anything else is refused; without a GPU there are no native streams."""
    with pytest.raises((TypeError, ValueError)):
        gpuvec.Stream.from_native("stream")
    if gpuvec.device_count() == 0:
        with pytest.raises(gpuvec.Error):
            gpuvec.Stream.from_native(1)
    else:

        class Native:
            def __cuda_stream__(self):
                return (0, 1)

        for native in (0, 1, 2, Native()):
            with gpuvec.Stream.from_native(native) as stream:
                x = gpuvec.to_device(np.ones(N))
                gpuvec.add(x, x, out=x, stream=stream)
            assert (x.to_host() == 2).all()


ON_GPU = """
import gc
import gpuvec
gpuvec.set_placement("gpu")
stream = gpuvec.Stream()
one = gpuvec.to_device(np.ones(1000, np.float32))
"""


@needs_fake_driver
def test_queued_work_keeps_its_arrays():
    """Arrays that the program drops stay allocated until the stream is done with them."""
    script = """
before = fake_driver.count("host_allocations")
with fake_driver.held():
    for _ in range(3):
        pinned = gpuvec.pinned_zeros(1000)
        gpuvec.add(pinned, one, out=pinned, stream=stream)
        assert not stream.is_done()
    del pinned
    gc.collect()
    assert fake_driver.count("host_allocations") == before + 3
stream.synchronize()
gc.collect()
assert fake_driver.count("host_allocations") == before
"""
    run(ON_GPU + script)


@needs_fake_driver
def test_a_dropped_stream_does_its_work_first():
    """And its arrays stay allocated until then."""
    script = """
out = gpuvec.pinned_zeros(1000)
view = out[:]
with fake_driver.held():
    for _ in range(3):
        gpuvec.add(view, one, out=view, stream=stream)
    gpuvec.add(gpuvec.pinned_zeros(1000), one, out=gpuvec.pinned_zeros(1000), stream=stream)
del stream
gc.collect()
assert (out == 3).all()
assert fake_driver.count("pending") == 0
"""
    run(ON_GPU + script, DELAY=100)


@needs_fake_driver
def test_a_long_loop_holds_few_arrays():
    """Arrays of work that is done are released by the calls that follow, without a wait."""
    script = """
before = fake_driver.count("host_allocations")
most = 0
for _ in range(200):
    pinned = gpuvec.pinned_zeros(1000)
    gpuvec.add(pinned, one, out=pinned, stream=stream)
    fake_driver.drain()
    most = max(most, fake_driver.count("host_allocations") - before)
assert most <= 3, most
"""
    run(ON_GPU + script)


@needs_fake_driver
def test_an_array_used_on_many_streams_keeps_few_events():
    """Streams that are gone leave nothing behind in the arrays of their work."""
    script = """
before = fake_driver.count("events")
x = gpuvec.to_device(np.ones(1000, np.float32))
for _ in range(200):
    with gpuvec.Stream() as own:
        gpuvec.add(x, x, out=x, stream=own)
assert fake_driver.count("events") - before < 20, fake_driver.count("events")
"""
    run(ON_GPU + script)


@needs_fake_driver
def test_a_failure_on_a_stream_has_its_status():
    """A lost device is a DeviceError, here and in calls that follow."""
    script = """
fake_driver.plan("1=719+")
try:
    for _ in range(3):
        gpuvec.add(one, one, out=one, stream=stream)
    stream.synchronize()
except gpuvec.DeviceError as error:
    assert error.status == gpuvec.Status.ERROR_DEVICE_LOST, error
    assert str(error)
else:
    raise AssertionError("no error")
fake_driver.plan("")
"""
    run(ON_GPU + script)


@needs_fake_driver
def test_a_child_drops_its_parent_s_objects():
    """At once: no wait for work that is its parent's, and the parent's work is as it was."""
    script = """
out = gpuvec.pinned_zeros(1000)
with fake_driver.held():
    gpuvec.add(one, one, out=out, stream=stream)

    def child():
        global stream, one
        try:
            gpuvec.add(one, one, out=one, stream=stream)
        except gpuvec.UnavailableError as error:
            assert error.status == gpuvec.Status.ERROR_FORKED
        else:
            raise AssertionError("the child used the driver")
        del stream, one
        gc.collect()
        with gpuvec.placement("cpu"):
            assert gpuvec.sum(np.ones(10)) == 10

    in_child(child)
    assert not stream.is_done()
stream.synchronize()
assert (out == 2).all()
"""
    run(ON_GPU + script)


@needs_fake_driver
def test_calls_in_a_captured_graph():
    """A graph may capture several calls; its arrays are kept until the stream is synchronized."""
    run(
        """
import gc, gpuvec
from cuda_driver import Driver
gpuvec.set_placement("gpu")
driver = Driver()
with driver.entered():
    native = driver.new_stream().value
stream, x = gpuvec.Stream.from_native(native), gpuvec.to_device(np.zeros(1000))
double = gpuvec.Expression("2*x", x=x)
gpuvec.add(x, x, out=x, stream=stream)
double(x=x, out=x, stream=stream)
stream.synchronize()
kept = gpuvec.to_device(np.ones(1000))
held = fake_driver.count("device_bytes")
with fake_driver.captured(native):
    for _ in range(3):
        gpuvec.add(x, kept, out=x, stream=stream)
    double(x=x, out=x, stream=stream)
    fake_driver.drain()
    assert (x.to_host() == 6).all()
del kept
gpuvec.add(x, x, out=x, stream=stream)
assert (x.to_host() == 12).all()
gc.collect()
assert fake_driver.count("device_bytes") == held
stream.synchronize()
gc.collect()
assert fake_driver.count("device_bytes") == held - 8000
"""
    )
