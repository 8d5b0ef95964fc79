"""A handle of CUDA's per-thread default stream is one queue for all threads.

The driver has one such stream for each thread. Work of several threads through one handle is done
in the order in which it was queued, and a wait with the handle is for all of it.
"""

import textwrap

import on_fake_driver
import pytest

pytestmark = on_fake_driver.needs_fake_driver

# The beginning of all scripts: `own` is the handle; `slow_queue` puts a long row of additions into
# a stream, after which `counter` holds STEPS.
PRELUDE = """
from streams import Resources

STEPS, N, PER_THREAD = 50, 1000, 2
lib.gpuvec_set_placement(Place.GPU)
fake_driver, resources = FakeDriver(), Resources()
assert why_cpu() == ""
fake_driver.hold_context()
context = fake_driver.context()

def adopted(native):
    handle = lib.gpuvec_stream_from_native(native)
    assert handle, last_error()
    resources.callback(lambda: ok(lib.gpuvec_stream_destroy(handle)))
    return handle

def array(values):
    made = pinned_empty(values.size, values.dtype)
    made[:] = values
    return made

own = adopted(PER_THREAD)
ones, counter, seen = (array(np.full(N, value, np.int32)) for value in (1, 0, 7))
event = resources.event()

def add(a, b, out, stream):
    ok(lib.gpuvec_add_i32(a.ctypes.data, b.ctypes.data, out.ctypes.data, out.size, stream))

def slow_queue(stream):
    for _ in range(STEPS):
        add(counter, ones, counter, stream)

def copy_counter(stream):
    ok(lib.gpuvec_copy(seen.ctypes.data, counter.ctypes.data, seen.nbytes, stream))

# The kernels are loaded before anything is held.
add(counter, ones, seen, own)
ok(lib.gpuvec_stream_synchronize(own))
"""

EPILOGUE = """
ok(lib.gpuvec_stream_synchronize(own))
resources.close()
fake_driver.drain()
"""


def run(script: str, **settings: object) -> None:
    """Runs a script on the fake driver."""
    on_fake_driver.run(PRELUDE + textwrap.dedent(script) + EPILOGUE, **settings)


def test_reductions_of_many_threads_with_one_handle():
    """Concurrent reductions use different scratch buffers."""
    run(
        """
        LENGTHS = (1, 4097, 30_000, 300_001)

        def work(number):
            rng = np.random.default_rng(number)
            for _ in range(3):
                expected, results = [], []
                for n in LENGTHS:
                    a, b = (array(rng.integers(-1000, 1000, n, np.int64)) for _ in range(2))
                    product, total, of_both = (array(np.full(size, 7)) for size in (n, 1, 1))
                    at = [x.ctypes.data for x in (a, b, product, total, of_both)]
                    ok(lib.gpuvec_mul_i64(at[0], at[1], at[2], n, own))
                    ok(lib.gpuvec_sum_i64(at[2], at[3], n, own))
                    ok(lib.gpuvec_dot_i64(at[0], at[1], at[4], n, own))
                    expected.append([a * b, [np.dot(a, b)], [np.dot(a, b)]])
                    results.append([product, total, of_both, a, b])
                ok(lib.gpuvec_stream_synchronize(own))
                for found, right in zip(results, expected):
                    for values, result in zip(found, right):
                        assert np.array_equal(values, result), (number, values, result)

        threads = [Started(work, number) for number in range(8)]
        for thread in threads:
            thread.get()
        """,
        DELAY=1000,
    )


def test_work_of_another_thread_comes_first():
    """A thread reads another thread's earlier results, although neither waited for the stream."""
    run(
        """
        with fake_driver.held():
            Started(slow_queue, own).get()
            Started(copy_counter, own).get()
        ok(lib.gpuvec_stream_synchronize(own))
        assert (seen == STEPS).all(), seen
        """,
        DELAY=1000,
    )


def test_the_last_work_of_another_thread_is_waited_for():
    """A write is done after another thread's earlier reads."""
    run(
        """
        with fake_driver.held():
            Started(lambda: [add(counter, ones, seen, own) for _ in range(STEPS)]).get()
            Started(add, ones, ones, counter, own).get()
        ok(lib.gpuvec_stream_synchronize(own))
        assert (seen == 1).all() and (counter == 2).all(), (seen, counter)
        """,
        DELAY=1000,
    )


WAITS = {
    "synchronize": """
        ok(lib.gpuvec_stream_synchronize(own))
    """,
    "query": """
        while (status := lib.gpuvec_stream_query(own)) == Status.NOT_READY:
            os.sched_yield()
        ok(status)
    """,
    "event": """
        ok(lib.gpuvec_event_record(event, own))
        ok(lib.gpuvec_event_synchronize(event))
    """,
    "another stream's wait": """
        other = resources.stream()
        ok(lib.gpuvec_event_record(event, own))
        ok(lib.gpuvec_stream_wait(other, event))
        copy_counter(other)
        ok(lib.gpuvec_stream_synchronize(other))
        assert (seen == STEPS).all(), seen
    """,
    "a call with a pageable array": """
        pageable = np.full(N, 7, np.int32)
        at = counter.ctypes.data, ones.ctypes.data, pageable.ctypes.data
        ok(lib.gpuvec_sub_i32(*at, N, own))
        assert (pageable == STEPS - 1).all(), pageable
    """,
}


@pytest.mark.parametrize("wait", WAITS)
def test_a_wait_is_for_the_work_of_all_threads(wait):
    """A wait includes the work of a thread that has ended."""
    body = textwrap.indent(textwrap.dedent(WAITS[wait]), " " * 4)
    run(
        f"""
def wait():
{body}
    assert (counter == STEPS).all(), counter

with fake_driver.held():
    Started(slow_queue, own).get()
Started(wait).get()
""",
        DELAY=1000,
    )


def test_a_query_sees_the_work_of_another_thread():
    run(
        """
        with fake_driver.held():
            Started(slow_queue, own).get()
            assert lib.gpuvec_stream_query(own) == Status.NOT_READY
            assert Started(lib.gpuvec_stream_query, own).get() == Status.NOT_READY
        ok(lib.gpuvec_stream_synchronize(own))
        assert lib.gpuvec_stream_query(own) == Status.OK and (counter == STEPS).all()
        """
    )


def test_a_wait_for_an_event_holds_back_all_threads():
    """One thread lets the handle wait for an event, and another one queues what needs it."""
    run(
        """
        slow = resources.stream()
        with fake_driver.held():
            slow_queue(slow)
            ok(lib.gpuvec_event_record(event, slow))
            Started(lambda: ok(lib.gpuvec_stream_wait(own, event))).get()
            Started(copy_counter, own).get()
        ok(lib.gpuvec_stream_synchronize(own))
        assert (seen == STEPS).all(), seen
        """,
        DELAY=1000,
    )


def test_two_handles_of_one_thread():
    """Both handles are of the calling thread's stream, whose work is done in one order."""
    run(
        """
        second = adopted(PER_THREAD)
        with fake_driver.held():
            slow_queue(own)
            copy_counter(second)
        ok(lib.gpuvec_stream_synchronize(second))
        assert (seen == STEPS).all(), seen
        """,
        DELAY=1000,
    )


def test_it_works_after_the_adopting_thread_has_ended():
    run(
        """
        def adopt():
            assert fake_driver.driver.cuCtxSetCurrent(c_void_p(context)) == 0
            return adopted(PER_THREAD)

        handle = Started(adopt).get()
        with fake_driver.held():
            slow_queue(handle)
            Started(copy_counter, handle).get()
        ok(lib.gpuvec_stream_synchronize(handle))
        assert (seen == STEPS).all(), seen
        """,
        DELAY=1000,
    )


@pytest.mark.parametrize("length", [1000, 3_000_001])
def test_a_reduction_on_a_stream_that_is_captured_is_an_error(length):
    """Every launch of the graph would use the scratch memory, so nothing is queued."""
    run(
        f"""
        from cuda_driver import Driver

        native = Driver().new_stream().value
        stream = adopted(native)
        a, b = (array(np.arange({length}, dtype=np.int64)) for _ in range(2))
        total = array(np.full(1, 7))
        at = a.ctypes.data, b.ctypes.data, total.ctypes.data

        def reductions():
            yield lib.gpuvec_sum_i64(at[0], at[2], {length}, stream)
            yield lib.gpuvec_dot_i64(*at, {length}, stream)

        for _ in range(2):
            held = fake_driver.ledger()
            with fake_driver.captured(native):
                fake_driver.plan("")
                for status in reductions():
                    assert status == Status.ERROR_VALUE, Status(status).name
                    assert "captured" in last_error(), last_error()
                queued = {{"cuLaunchKernel", "cuMemcpyAsync", "cuMemAlloc_v2"}}
                assert not queued & set(fake_driver.calls()), fake_driver.calls()
                assert fake_driver.ledger() == held
                add(counter, ones, counter, stream)
            ok(lib.gpuvec_stream_synchronize(stream))
            assert (counter == 1).all() and total[0] == 7
            for status in reductions():
                ok(status)
                ok(lib.gpuvec_stream_synchronize(stream))
            assert total[0] == np.dot(a, b)
            counter[:], total[:] = 0, 7
        """
    )


def test_calls_that_wait_leave_a_capture():
    """They are errors, too: to wait for the stream would end the capture."""
    run(
        """
        from cuda_driver import Driver
        from formulas import Compiled

        native = Driver().new_stream().value
        stream, total = adopted(native), array(np.full(1, 7.0))
        a, b, out = np.ones(1000), np.ones(1000), np.full(1000, 7.0)
        state = lib.gpuvec_accumulator_create(3)
        of_no_array, of_one = Compiled("sum(0.5)", {}), Compiled("a + 1", {"a": "f8"})
        at, to = a.ctypes.data, out.ctypes.data

        def calls():
            yield of_no_array.run([], total.ctypes.data, 10**15, stream)
            yield lib.gpuvec_sum_f64(at, total.ctypes.data, 1000, stream)
            yield lib.gpuvec_accumulator_add(state, at, None, 1000, stream)
            yield of_one.run([at], to, 1000, stream)
            yield lib.gpuvec_add_f64(at, b.ctypes.data, to, 1000, stream)
            yield lib.gpuvec_copy(to, at, 8000, stream)

        with fake_driver.captured(native):
            fake_driver.plan("")
            for status in calls():
                assert status == Status.ERROR_VALUE, Status(status).name
                assert "captured" in last_error(), last_error()
            for ask in (lib.gpuvec_stream_synchronize, lib.gpuvec_stream_query):
                assert ask(stream) == Status.ERROR_VALUE and "captured" in last_error()
            assert "cuStreamSynchronize" not in fake_driver.calls(), fake_driver.calls()
        assert total[0] == 7 and (out == 7).all()
        for status in calls():
            ok(status)
        assert total[0] == 1000 and (out == 1).all()
        """
    )


@pytest.mark.parametrize("native", ["Driver().new_stream().value", "PER_THREAD"])
def test_events_of_a_capture_cannot_be_asked(native):
    """Only the graph waits for them: a query is an error, and the capture goes on."""
    run(
        f"""
        from cuda_driver import Driver

        native, before = {native}, resources.event()
        stream, later = adopted(native), resources.event()
        ok(lib.gpuvec_event_record(before, stream))
        ok(lib.gpuvec_stream_synchronize(stream))
        milliseconds = ctypes.c_float(7)
        with fake_driver.captured(native):
            for _ in range(2):
                add(counter, ones, counter, stream)
                ok(lib.gpuvec_event_record(event, stream))
                ok(lib.gpuvec_stream_wait(stream, event))
            ok(lib.gpuvec_event_query(before))
            ok(lib.gpuvec_event_synchronize(before))
            for status in (
                lib.gpuvec_event_query(event),
                lib.gpuvec_event_synchronize(event),
                lib.gpuvec_event_elapsed(before, event, ctypes.byref(milliseconds)),
                lib.gpuvec_event_elapsed(event, before, ctypes.byref(milliseconds)),
            ):
                assert status == Status.ERROR_VALUE and "graph" in last_error(), last_error()
        assert lib.gpuvec_event_query(event) == Status.ERROR_VALUE
        assert milliseconds.value == 7
        add(counter, ones, counter, stream)
        ok(lib.gpuvec_event_record(event, stream))
        ok(lib.gpuvec_event_synchronize(event))
        assert (counter == 3).all()
        """
    )
