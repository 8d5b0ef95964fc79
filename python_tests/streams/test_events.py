"""Events: streams and callers wait for them, and they measure times."""

import threading
from ctypes import byref, c_float

import numpy as np
import pytest
from bindings import Status, last_error, lib, why_cpu
from streams import KINDS, Chain, holding, ok

needs_gpu = pytest.mark.skipif(lib.gpuvec_device_count() == 0, reason=why_cpu() or "no GPU")


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_waits_for_the_event_of_another_stream(placement, resources, kind):
    """A chain goes from stream to stream, and back."""
    streams, event = [resources.stream() for _ in range(3)], resources.event()
    chain = Chain(resources, kind, 200_003)
    for number in range(12):
        stream, following = streams[number % 3], streams[(number + 1) % 3]
        chain.queue(5, stream)
        ok(lib.gpuvec_event_record(event, stream))
        ok(lib.gpuvec_stream_wait(following, event))
    chain.finish(following)


@needs_gpu
def test_a_stream_that_waits_is_not_done(resources, on_gpu):
    """A stream that waits for another one is not done before it; independent streams are."""
    first, second = resources.stream(), resources.stream()
    events = [resources.event() for _ in range(2)]
    with holding() as hold:
        ok(lib.gpuvec_stream_wait(first, hold.event))
        ok(lib.gpuvec_event_record(events[0], first))
        ok(lib.gpuvec_stream_wait(second, events[0]))
        ok(lib.gpuvec_event_record(events[1], second))
        for stream, event in zip((first, second), events):
            assert lib.gpuvec_stream_query(stream) == Status.NOT_READY
            assert lib.gpuvec_event_query(event) == Status.NOT_READY
        hold.let_go()
        ok(lib.gpuvec_event_synchronize(events[1]))
        ok(lib.gpuvec_event_query(events[0]))


@needs_gpu
@pytest.mark.parametrize("how", ["stream_synchronize", "event_synchronize", "stream_wait"])
def test_the_caller_waits(resources, on_gpu, how):
    """The caller waits until another thread releases the work and it is done."""
    stream, event = resources.stream(), resources.event()
    chain = Chain(resources, "device", 1_000_003)
    chain.queue(1, stream)
    ok(lib.gpuvec_stream_synchronize(stream))
    with holding() as hold:
        ok(lib.gpuvec_stream_wait(stream, hold.event))
        chain.queue(30, stream)
        chain.queue_copy(stream)
        ok(lib.gpuvec_event_record(event, stream))
        waits = threading.Event()

        def let_go():
            assert waits.wait(60)
            np.sort(np.random.default_rng(1).random(1_000_000))
            hold.let_go()

        thread = threading.Thread(target=let_go)
        thread.start()
        waits.set()
        if how == "stream_synchronize":
            ok(lib.gpuvec_stream_synchronize(stream))
        elif how == "event_synchronize":
            ok(lib.gpuvec_event_synchronize(event))
        else:
            ok(lib.gpuvec_stream_wait(None, event))
        chain.check()
        thread.join()


def test_without_a_stream_an_event_is_done(placement, resources):
    """Without a stream an event is done when it is recorded."""
    event = resources.event()
    ok(lib.gpuvec_stream_synchronize(None))
    ok(lib.gpuvec_stream_query(None))
    ok(lib.gpuvec_stream_destroy(None))
    ok(lib.gpuvec_event_destroy(None))
    ok(lib.gpuvec_event_record(event, None))
    ok(lib.gpuvec_event_query(event))
    ok(lib.gpuvec_event_synchronize(event))
    stream = resources.stream()
    ok(lib.gpuvec_stream_wait(stream, event))
    ok(lib.gpuvec_stream_wait(None, event))
    ok(lib.gpuvec_stream_synchronize(stream))


def test_an_event_that_was_never_recorded_is_done(placement, resources):
    event, stream = resources.event(), resources.stream()
    ok(lib.gpuvec_event_query(event))
    ok(lib.gpuvec_event_synchronize(event))
    ok(lib.gpuvec_stream_wait(stream, event))
    ok(lib.gpuvec_stream_wait(None, event))
    ok(lib.gpuvec_stream_synchronize(stream))


def elapsed(start: int, end: int) -> float:
    """Returns the milliseconds between two events."""
    ms = c_float(-1)
    ok(lib.gpuvec_event_elapsed(start, end, byref(ms)))
    return ms.value


@pytest.mark.parametrize("n", [1000, 1_000_003])
def test_elapsed_times_follow_the_order_of_the_work(placement, resources, n):
    """Times are not negative and grow with the distance between events."""
    stream = resources.stream()
    chain = Chain(resources, "device", n)
    events = [resources.event() for _ in range(5)]
    for event in events:
        ok(lib.gpuvec_event_record(event, stream))
        chain.queue(9, stream)
    ok(lib.gpuvec_stream_synchronize(stream))
    times = [elapsed(events[0], event) for event in events]
    assert times == sorted(times) and times[0] == 0
    assert elapsed(events[3], events[4]) <= elapsed(events[2], events[4])
    assert 0 < times[-1] < 60_000


def test_an_event_may_be_recorded_again(placement, resources):
    """An event stands for its last record, on any stream."""
    streams = [resources.stream() for _ in range(2)]
    first, again = resources.event(), resources.event()
    for round_ in range(3):
        for stream in streams:
            chain = Chain(resources, "device", 100_003, round_)
            ok(lib.gpuvec_event_record(first, stream))
            chain.queue(10, stream)
            chain.queue_copy(stream)
            ok(lib.gpuvec_event_record(again, stream))
            ok(lib.gpuvec_event_synchronize(again))
            chain.check()
            assert elapsed(first, again) > 0


def test_no_time_has_elapsed_without_records(placement, resources):
    """The error names the event without a record, and nothing is written."""
    stream, recorded, new = resources.stream(), resources.event(), resources.event()
    ok(lib.gpuvec_event_record(recorded, stream))
    ok(lib.gpuvec_event_synchronize(recorded))
    ms = c_float(-1)
    for start, end, name in [(new, recorded, "start"), (recorded, new, "end"), (new, new, "start")]:
        assert lib.gpuvec_event_elapsed(start, end, byref(ms)) == Status.ERROR_VALUE
        assert last_error().startswith(name)
    assert lib.gpuvec_event_elapsed(recorded, recorded, None) == Status.ERROR_NULL
    assert "ms is NULL" in last_error()
    assert ms.value == -1


@needs_gpu
def test_no_time_has_elapsed_between_two_clocks(resources, on_gpu):
    """Events of the host and of a device have different clocks."""
    stream, here, there = resources.stream(), resources.event(), resources.event()
    ok(lib.gpuvec_event_record(here, None))
    ok(lib.gpuvec_event_record(there, stream))
    ok(lib.gpuvec_event_synchronize(there))
    ms = c_float(-1)
    for start, end in [(here, there), (there, here)]:
        assert lib.gpuvec_event_elapsed(start, end, byref(ms)) == Status.ERROR_VALUE
        assert "clock" in last_error() and ms.value == -1
    ok(lib.gpuvec_event_record(here, stream))
    ok(lib.gpuvec_event_synchronize(here))
    assert elapsed(there, here) >= 0


@needs_gpu
def test_no_time_has_elapsed_before_the_end(resources, on_gpu):
    stream, start, end = resources.stream(), resources.event(), resources.event()
    ms = c_float(-1)
    with holding() as hold:
        ok(lib.gpuvec_event_record(start, stream))
        ok(lib.gpuvec_stream_wait(stream, hold.event))
        ok(lib.gpuvec_event_record(end, stream))
        assert lib.gpuvec_event_elapsed(start, end, byref(ms)) == Status.NOT_READY
        assert last_error() == "" and ms.value == -1
    ok(lib.gpuvec_event_synchronize(end))
    assert elapsed(start, end) > 0


@needs_gpu
def test_an_event_is_destroyed_while_a_stream_waits_for_it(resources, on_gpu):
    """The stream still waits for an event that is destroyed meanwhile."""
    first, second = resources.stream(), resources.stream()
    chain = Chain(resources, "device", 300_001)
    chain.queue(1, second)
    ok(lib.gpuvec_stream_synchronize(second))
    with holding() as hold:
        event = lib.gpuvec_event_create()
        ok(lib.gpuvec_stream_wait(first, hold.event))
        chain.queue(20, first)
        ok(lib.gpuvec_event_record(event, first))
        ok(lib.gpuvec_stream_wait(second, event))
        ok(lib.gpuvec_event_destroy(event))
        chain.queue(1, second)
        chain.queue_copy(second)
        assert lib.gpuvec_stream_query(second) == Status.NOT_READY
    ok(lib.gpuvec_stream_synchronize(second))
    chain.check()
