"""Handles of streams and events: invalid ones are refused, and none leaks.

Also covers foreign streams and forked children.
"""

from ctypes import byref, c_float, c_size_t, c_uint64, c_void_p

import numpy as np
import pytest
from bindings import FUNCTIONS, Place, Status, last_error, lib, placed, why_cpu
from fork import in_child
from host import MARGIN, resident_bytes
from streams import Chain, Resources, driver_of, has_gpu, ok

needs_gpu = pytest.mark.skipif(lib.gpuvec_device_count() == 0, reason=why_cpu() or "no GPU")

OPERATIONS = [
    name for name in FUNCTIONS if name.startswith("gpuvec_") and name.endswith(("32", "64"))
]


@pytest.fixture
def values():
    """Memory for the arguments of calls that must not touch it."""
    return np.full(1000, 7.0)


def calls_with_a_stream(values: np.ndarray, event: int) -> dict:
    """Each function that takes a stream, as a function of the stream alone."""
    at = values.ctypes.data
    calls = {
        "gpuvec_copy": lambda stream: lib.gpuvec_copy(at, at + 800, 800, stream),
        "gpuvec_stream_wait": lambda stream: lib.gpuvec_stream_wait(stream, event),
        "gpuvec_event_record": lambda stream: lib.gpuvec_event_record(event, stream),
    }
    for name in ("synchronize", "query", "destroy"):
        calls[f"gpuvec_stream_{name}"] = getattr(lib, f"gpuvec_stream_{name}")
    for name in OPERATIONS:
        calls[name] = operation_on(name, at)
    return calls


def operation_on(name: str, at: int):
    """An operation on ten elements at an address, as a function of the stream."""
    arguments = [at if given is c_void_p else 10 for given in FUNCTIONS[name][1][:-1]]
    if name in ("gpuvec_dot_i32", "gpuvec_sum_i32"):
        # Never in place.
        arguments[-2] += 40
    return lambda stream: getattr(lib, name)(*arguments, stream)


def calls_with_an_event(stream: int, other: int) -> dict:
    """Each function that takes an event, as a function of the event, by the argument's name."""
    ms = c_float()
    calls = {
        "gpuvec_stream_wait event": lambda event: lib.gpuvec_stream_wait(stream, event),
        "gpuvec_event_record event": lambda event: lib.gpuvec_event_record(event, stream),
        "gpuvec_event_elapsed start": lambda e: lib.gpuvec_event_elapsed(e, other, byref(ms)),
        "gpuvec_event_elapsed end": lambda e: lib.gpuvec_event_elapsed(other, e, byref(ms)),
    }
    for name in ("query", "synchronize", "destroy"):
        calls[f"gpuvec_event_{name} event"] = getattr(lib, f"gpuvec_event_{name}")
    return calls


def wrong_handles(live: int, values: np.ndarray) -> list[int]:
    """Numbers that are not handles, some of them close to a valid one."""
    near = [live + 1, live - 1, live ^ (1 << 20), live ^ (1 << 33), live ^ (1 << 62)]
    return [1, 2, 7, 0xDEADBEEF, 2**32, 2**63, 2**64 - 1, values.ctypes.data, *near]


def test_all_operations_are_tried():
    assert len(OPERATIONS) == 34


def test_streams_that_do_not_exist(placement, resources, values):
    """Destroyed handles, handles of events and other numbers are errors, and nothing is done."""
    stream, event = resources.stream(), resources.event()
    ok(lib.gpuvec_event_record(event, stream))
    gone = lib.gpuvec_stream_create(0)
    ok(lib.gpuvec_stream_destroy(gone))
    for handle in (gone, event, *wrong_handles(stream, values)):
        for name, call in calls_with_a_stream(values, event).items():
            assert call(handle) == Status.ERROR_HANDLE, (name, hex(handle), last_error())
            assert "stream" in last_error() and f"{handle:#x}" in last_error(), name
    assert (values == 7).all()
    ok(lib.gpuvec_stream_synchronize(stream))


def test_events_that_do_not_exist(placement, resources, values):
    stream, event = resources.stream(), resources.event()
    ok(lib.gpuvec_event_record(event, stream))
    gone = lib.gpuvec_event_create()
    ok(lib.gpuvec_event_record(gone, stream))
    ok(lib.gpuvec_event_destroy(gone))
    for handle in (gone, stream, *wrong_handles(event, values)):
        for name, call in calls_with_an_event(stream, event).items():
            assert call(handle) == Status.ERROR_HANDLE, (name, hex(handle), last_error())
            argument = name.split()[1]
            assert argument in last_error() and f"{handle:#x}" in last_error(), name
    ok(lib.gpuvec_event_synchronize(event))


def test_null_is_no_event(placement, resources):
    """NULL may be destroyed, and is otherwise an error."""
    stream, event = resources.stream(), resources.event()
    for name, call in calls_with_an_event(stream, event).items():
        if name != "gpuvec_event_destroy event":
            assert call(None) == Status.ERROR_NULL, (name, last_error())
            assert f"{name.split()[1]} is NULL" in last_error()


def test_stale_handles_stay_stale(placement, resources):
    """No handle is used again after any number of creations."""
    for create, query, destroy in [
        (lambda: lib.gpuvec_stream_create(0), lib.gpuvec_stream_query, lib.gpuvec_stream_destroy),
        (lib.gpuvec_event_create, lib.gpuvec_event_query, lib.gpuvec_event_destroy),
    ]:
        stale = []
        for number in range(2000):
            some = [create() for _ in range(1 + number % 3)]
            assert len(set(some)) == len(some) and None not in some
            for handle in some:
                ok(query(handle))
                ok(destroy(handle))
            stale += some
        assert len(set(stale)) == len(stale)
        alive = [create() for _ in range(3)]
        for handle in stale:
            assert query(handle) == destroy(handle) == Status.ERROR_HANDLE
        for handle in alive:
            ok(query(handle))
            ok(destroy(handle))


def test_100_000_handles_leave_nothing(placement):
    """100,000 streams and events are created, used and destroyed without a leak."""

    def rounds(count):
        for _ in range(count):
            stream, event = lib.gpuvec_stream_create(0), lib.gpuvec_event_create()
            assert lib.gpuvec_event_record(event, stream) == Status.OK
            assert lib.gpuvec_stream_wait(stream, event) == Status.OK
            assert lib.gpuvec_stream_destroy(stream) == Status.OK
            assert lib.gpuvec_event_destroy(event) == Status.OK

    rounds(1000)
    before = resident_bytes()
    rounds(50_000)
    assert resident_bytes() - before <= MARGIN


@pytest.mark.parametrize("device", [-1, "count", 2**31 - 1])
def test_a_stream_of_a_device_that_does_not_exist(placement, device):
    device = max(lib.gpuvec_device_count(), 1) if device == "count" else device
    assert lib.gpuvec_stream_create(device) is None
    assert f"device is {device}" in last_error()


def test_streams_with_placement_gpu_need_one():
    if has_gpu():
        pytest.skip("there is a GPU")
    with placed(Place.GPU):
        assert lib.gpuvec_stream_create(0) is None
        assert "no usable GPU" in last_error()


def test_foreign_streams_need_a_gpu():
    if has_gpu():
        pytest.skip("there is a GPU")
    assert lib.gpuvec_stream_from_native(None) is None
    assert why_cpu() in last_error()


NATIVE = {"legacy": 0, "legacy by its number": 1, "per thread": 2, "its own": None}


@needs_gpu
@pytest.mark.parametrize("name", NATIVE)
@pytest.mark.parametrize("place", [Place.AUTO, Place.GPU])
def test_foreign_streams_are_adopted(resources, place, name):
    """Work that this and another library queue on one stream is done in order."""
    n = 1_000_003
    driver, number = driver_of(0), NATIVE[name]
    there, back = resources.memory("device", 4 * n), resources.memory("pinned", 4 * n)
    values = resources.array("pinned", np.arange(n, dtype=np.int32))
    with placed(place), driver.entered():
        native = driver.new_stream() if number is None else c_void_p(number)
        stream = lib.gpuvec_stream_from_native(native)
        assert stream, last_error()
        at, bytes_ = c_uint64(there.address), c_size_t(4 * n)
        source, to = c_void_p(values.address), c_void_p(back.address)
        for _ in range(5):
            driver.call("cuMemcpyHtoDAsync_v2", at, source, bytes_, native)
            for _ in range(3):
                array = there.address
                ok(lib.gpuvec_add_i32(array, array, array, n, stream))
            driver.call("cuMemcpyDtoHAsync_v2", to, at, bytes_, native)
            driver.call("cuStreamSynchronize", native)
            assert np.array_equal(back.view(np.int32), np.arange(n) * 8)
            ok(lib.gpuvec_copy(there.address, values.address, 4 * n, stream))
            driver.call("cuMemcpyDtoHAsync_v2", to, at, bytes_, native)
            ok(lib.gpuvec_stream_synchronize(stream))
            assert np.array_equal(back.view(np.int32), np.arange(n))
        ok(lib.gpuvec_stream_destroy(stream))
        assert lib.gpuvec_stream_query(stream) == Status.ERROR_HANDLE
        # The stream belongs to the other library, and must not be destroyed here.
        driver.call("cuMemcpyHtoDAsync_v2", at, to, bytes_, native)
        driver.call("cuStreamSynchronize", native)
        if number is None:
            driver.call("cuStreamDestroy_v2", native)


@needs_gpu
def test_a_stream_is_adopted_more_than_once(resources, on_gpu):
    """Each adoption gives a handle of its own."""
    driver = driver_of(0)
    with driver.entered():
        native = driver.new_stream()
    handles = [lib.gpuvec_stream_from_native(native) for _ in range(3)]
    assert len(set(handles)) == 3 and None not in handles
    chain = Chain(resources, "device", 10_007)
    for handle in handles:
        for other in handles[handles.index(handle) :]:
            chain.queue(2, other)
        ok(lib.gpuvec_stream_destroy(handle))
    with driver.entered():
        driver.call("cuStreamSynchronize", native)
        driver.call("cuStreamDestroy_v2", native)
    chain.queue_copy(None)
    chain.check()


@needs_gpu
@pytest.mark.parametrize("place", [Place.AUTO, Place.GPU])
def test_a_stream_of_another_context_is_refused(place):
    """Streams of other contexts than the primary one are refused."""
    driver = driver_of(0)
    found = driver.current()
    driver.set_current(None)
    other = driver.new_context()
    native = driver.new_stream()
    with placed(place):
        assert lib.gpuvec_stream_from_native(native) is None
        assert "context" in last_error()
    assert driver.current() == other.value
    driver.call("cuStreamDestroy_v2", native)
    driver.call("cuCtxDestroy_v2", other)
    driver.set_current(found)


@needs_gpu
def test_a_forked_child_has_no_streams_of_its_parents(resources, on_gpu, values):
    """Every call on a parent's stream gives FORKED; the child's own streams work."""
    stream, event = resources.stream(), resources.event()
    chain = Chain(resources, "device", 1000)
    chain.queue(3, stream)
    ok(lib.gpuvec_event_record(event, stream))

    def child():
        for name, call in calls_with_a_stream(values, event).items():
            if name != "gpuvec_stream_destroy":
                assert call(stream) == Status.ERROR_FORKED, (name, last_error())
                assert "forked" in last_error()
        for name, call in calls_with_an_event(stream, event).items():
            if name != "gpuvec_event_destroy event":
                assert call(event) == Status.ERROR_FORKED, (name, last_error())
        assert (values == 7).all()
        with placed(Place.AUTO):
            check_streams()

    in_child(child)
    chain.queue(3, stream)
    chain.finish(stream)


@needs_gpu
def test_a_forked_child_forgets_its_parents_streams(resources, on_gpu):
    """The child destroys the parent's streams and records their events again without the driver."""
    stream, event = resources.stream(), resources.event()
    ok(lib.gpuvec_event_record(event, stream))

    def child():
        ok(lib.gpuvec_event_record(event, None))
        ok(lib.gpuvec_event_query(event))
        ok(lib.gpuvec_event_destroy(event))
        ok(lib.gpuvec_stream_destroy(stream))
        assert lib.gpuvec_stream_query(stream) == Status.ERROR_HANDLE
        assert lib.gpuvec_event_query(event) == Status.ERROR_HANDLE

    in_child(child)
    ok(lib.gpuvec_event_synchronize(event))
    ok(lib.gpuvec_stream_query(stream))


def check_streams() -> None:
    """A stream and an event can be made, used and destroyed."""
    with Resources() as resources:
        stream, event = resources.stream(), resources.event()
        chain = Chain(resources, "device", 1000)
        chain.queue(3, stream)
        chain.queue_copy(stream)
        ok(lib.gpuvec_event_record(event, stream))
        ok(lib.gpuvec_event_synchronize(event))
        chain.check()


def test_a_forked_child_goes_on_with_the_hosts_streams(resources, on_cpu):
    """Streams of the host work in the child as in the parent."""
    stream, event = resources.stream(), resources.event()
    chain = Chain(resources, "pageable", 300_001)
    chain.queue(3, stream)
    ok(lib.gpuvec_event_record(event, stream))

    def child():
        chain.queue(3, stream)
        chain.queue_copy(stream)
        chain.check()
        ok(lib.gpuvec_event_query(event))
        ok(lib.gpuvec_event_record(event, stream))
        ok(lib.gpuvec_stream_wait(stream, event))
        ok(lib.gpuvec_event_destroy(event))
        ok(lib.gpuvec_stream_destroy(stream))
        assert lib.gpuvec_stream_query(stream) == Status.ERROR_HANDLE
        check_streams()

    in_child(child)
    chain.queue(3, stream)
    chain.queue_copy(stream)
    chain.check()
    ok(lib.gpuvec_event_query(event))
