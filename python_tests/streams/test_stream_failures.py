"""Streams of two GPUs, slow streams, and streams whose work fails.

Each test runs on the fake driver, in a process of its own.
"""

import textwrap

import on_fake_driver
import pytest

pytestmark = on_fake_driver.needs_fake_driver

PRELUDE = """
from bindings import placed, PathBit
from stream_programs import Program
from streams import *

lib.gpuvec_set_placement(Place.GPU)
resources = Resources()

def lose(stream):
    "Loses the stream's device by queued work that fails between calls."
    chain = Chain(resources, "pinned", 1000)
    # The first one loads the kernel.
    chain.queue(1, stream)
    fake_driver.plan("")
    chain.queue(1, stream)
    launch = fake_driver.calls().index("cuLaunchKernel") + 1
    ok(lib.gpuvec_stream_synchronize(stream))
    fake_driver.plan(f"{launch}=700~")
    with fake_driver.held():
        chain.queue(1, stream)
    fake_driver.drain()
    fake_driver.plan("")
"""

EPILOGUE = """
resources.close()
"""


def run(script: str, **settings: object) -> str:
    """Runs a script on the fake driver with its settings (FAKE_DRIVER_...); returns its output."""
    return on_fake_driver.run(PRELUDE + textwrap.dedent(script) + EPILOGUE, **settings)


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("seed", range(2))
def test_any_program_on_slow_queues(devices, seed):
    """Results are right, however late queued work is done."""
    run(
        f"""
        for number in range(8):
            with Resources() as some:
                Program(some, 100 * {seed} + number).run(60)
        """,
        DEVICES=devices,
        DELAY=400,
    )


def test_programs_of_many_threads_on_slow_queues():
    """Each thread has streams of its own, on two devices."""
    run(
        """
        from threads import in_threads

        def work(number):
            with Resources() as some:
                Program(some, number).run(30)

        in_threads(work)
        """,
        DEVICES=2,
        DELAY=300,
    )


def test_a_chain_from_device_to_device():
    """Streams of two devices wait for each other's events, without the caller."""
    run(
        """
        n = 100_003
        streams = [resources.stream(device) for device in range(2)]
        here = [resources.array("device", np.arange(n, dtype=np.int32)) for _ in range(2)]
        there = resources.device_memory(4 * n, 1)
        bridge, result = resources.memory("pinned", 4 * n), resources.memory("pinned", 4 * n)
        events = [resources.event() for _ in range(2)]

        def queue():
            for _ in range(5):
                x, y = (array.address for array in here)
                ok(lib.gpuvec_add_i32(x, y, x, n, streams[0]))
                ok(lib.gpuvec_copy(bridge.address, x, 4 * n, streams[0]))
                ok(lib.gpuvec_event_record(events[0], streams[0]))
                ok(lib.gpuvec_stream_wait(streams[1], events[0]))
                ok(lib.gpuvec_copy(there.address, bridge.address, 4 * n, streams[1]))
                ok(lib.gpuvec_add_i32(there.address, there.address, there.address, n, streams[1]))
                ok(lib.gpuvec_copy(bridge.address, there.address, 4 * n, streams[1]))
                ok(lib.gpuvec_event_record(events[1], streams[1]))
                ok(lib.gpuvec_stream_wait(streams[0], events[1]))
                ok(lib.gpuvec_copy(x, bridge.address, 4 * n, streams[0]))
            ok(lib.gpuvec_copy(result.address, x, 4 * n, streams[0]))

        def expected(values):
            for _ in range(5):
                values = 2 * (values + np.arange(n, dtype=np.int32))
            return values

        queue()
        ok(lib.gpuvec_stream_synchronize(streams[0]))
        first = expected(np.arange(n, dtype=np.int32))
        assert np.array_equal(result.view(np.int32), first)
        with holding() as hold:
            ok(lib.gpuvec_stream_wait(streams[0], hold.event))
            queue()
            assert lib.gpuvec_stream_query(streams[1]) == Status.NOT_READY
            assert last_error() == "" and np.array_equal(result.view(np.int32), first)
        ok(lib.gpuvec_stream_synchronize(streams[0]))
        assert np.array_equal(result.view(np.int32), expected(first))
        """,
        DEVICES=2,
        DELAY=200,
    )


def test_operands_of_several_devices():
    """The call runs on its output's device and copies other inputs there, on a stream as well."""
    run(
        """
        for n in (1, 1000, 3_000_001):
            values = [np.arange(n, dtype=np.int32) * factor for factor in (1, 3)]
            on = [[resources.device_memory(4 * n, device) for device in (0, 1)] for _ in range(3)]
            for stream in (None, resources.stream(0), resources.stream(1)):
                for of_a, of_b, of_out in np.ndindex(2, 2, 2):
                    a, b, out = on[0][of_a], on[1][of_b], on[2][of_out]
                    a.put(values[0])
                    b.put(values[1])
                    ok(lib.gpuvec_sub_i32(a.address, b.address, out.address, n, stream))
                    run = last_run()
                    ok(lib.gpuvec_stream_synchronize(stream))
                    assert np.array_equal(out.get(np.int32), values[0] - values[1])
                    assert run.backend == Backend.GPU and run.devices == 1 << of_out
                    apart = len({of_a, of_b, of_out}) > 1
                    assert bool(run.path & PathBit.DMA) == apart, (of_a, of_b, of_out, run.path)
        """,
        DEVICES=2,
    )


def test_a_stream_belongs_to_a_device():
    """Work on the second device's stream runs there, at once if its arrays are there."""
    run(
        """
        stream = resources.stream(1)
        arrays = [resources.device_memory(4000, 1) for _ in range(2)]
        a, out = (array.address for array in arrays)
        arrays[0].put(np.arange(1000, dtype=np.int32))
        ok(lib.gpuvec_add_i32(a, a, out, 1000, stream))
        ok(lib.gpuvec_stream_synchronize(stream))
        assert last_run().devices == 2
        with holding(1) as hold:
            ok(lib.gpuvec_stream_wait(stream, hold.event))
            ok(lib.gpuvec_add_i32(out, a, out, 1000, stream))
            assert last_run().devices == 2 and lib.gpuvec_stream_query(stream) == Status.NOT_READY
        ok(lib.gpuvec_stream_synchronize(stream))
        assert np.array_equal(arrays[1].get(np.int32), 3 * np.arange(1000))
        pinned = resources.array("pinned", np.arange(1000, dtype=np.int32)).address
        ok(lib.gpuvec_add_i32(pinned, pinned, pinned, 1000, stream))
        ok(lib.gpuvec_stream_synchronize(stream))
        assert last_run().devices == 2 and last_run().bytes_staged == 0
        assert lib.gpuvec_stream_create(2) is None and "device is 2" in last_error()
        """,
        DEVICES=2,
    )


NEXT_CALLS = {
    "query": "lib.gpuvec_stream_query(stream)",
    "synchronize": "lib.gpuvec_stream_synchronize(stream)",
    "an operation": "lib.gpuvec_add_i32(x, x, x, 1000, stream)",
    "a copy": "lib.gpuvec_copy(chain.result.address, x, 4000, stream)",
    "an event": "lib.gpuvec_event_record(event, stream)",
}


@pytest.mark.parametrize("call", NEXT_CALLS)
def test_an_error_of_queued_work_comes_back_from_the_next_call(call):
    """The call that queued the work succeeded; later ones on the stream report the loss."""
    run(
        f"""
        stream, event = resources.stream(), resources.event()
        chain = Chain(resources, "device", 1000)
        chain.queue(3, stream)
        chain.finish(stream)
        x = chain.arrays[0].address
        lose(stream)
        for _ in range(2):
            assert {NEXT_CALLS[call]} == Status.ERROR_DEVICE_LOST, last_error()
            assert "device 0" in last_error(), last_error()
        assert lib.gpuvec_stream_synchronize(stream) == Status.ERROR_DEVICE_LOST
        resources.pop_all()
        with placed(Place.AUTO):
            a = np.arange(1000, dtype=np.int32)
            ok(lib.gpuvec_add_i32(a.ctypes.data, a.ctypes.data, a.ctypes.data, 1000, None))
            assert (a == 2 * np.arange(1000)).all()
        """
    )


def test_streams_of_another_device_outlive_one_that_is_lost():
    """Streams of the other device go on, and new ones can be made there."""
    run(
        """
        lost, other = resources.stream(0), resources.stream(1)
        chain = Chain(resources, "pinned", 1000)
        lose(lost)
        assert lib.gpuvec_stream_synchronize(lost) == Status.ERROR_DEVICE_LOST
        for stream in (other, resources.stream(1)):
            chain.queue(3, stream)
            chain.finish(stream)
        assert lib.gpuvec_stream_query(lost) == Status.ERROR_DEVICE_LOST
        resources.pop_all()
        """,
        DEVICES=2,
    )


RELEASING = {
    "pinned_free": "lib.pinned_alloc(4096)",
    "gpuvec_device_free": "lib.gpuvec_device_alloc(4096, 0)",
    "gpuvec_host_unregister": "registered()",
}


@pytest.mark.parametrize("release", RELEASING)
def test_memory_of_a_lost_device_is_not_freed_on_another(release):
    """The memory is forgotten once, and the driver's error about it loses no other device."""
    run(
        f"""
        array = np.empty(8192, np.uint8)

        def registered():
            ok(lib.gpuvec_host_register(array.ctypes.data, array.nbytes))
            return array.ctypes.data

        lost, other = resources.stream(0), resources.stream(1)
        address = {RELEASING[release]}
        lose(lost)
        assert lib.gpuvec_stream_query(lost) == Status.ERROR_DEVICE_LOST
        fake_driver.plan("1=700+")
        assert lib.{release}(address) == Status.ERROR_DEVICE_LOST
        assert "device 0" in last_error(), last_error()
        assert lib.{release}(address) == Status.ERROR_POINTER
        assert fake_driver.calls() == []
        fake_driver.plan("")
        chain = Chain(resources, "pinned", 1000)
        chain.queue(3, other)
        ok(lib.gpuvec_stream_synchronize(other))
        resources.pop_all()
        """,
        DEVICES=2,
    )


def test_an_event_of_a_lost_device_does_not_lose_another():
    """A stream does not wait for an event of a lost device and goes on."""
    run(
        """
        lost, other, event = resources.stream(0), resources.stream(1), resources.event()
        ok(lib.gpuvec_event_record(event, lost))
        lose(lost)
        assert lib.gpuvec_event_query(event) == Status.ERROR_DEVICE_LOST
        fake_driver.plan("1=700+")
        assert lib.gpuvec_stream_wait(other, event) == Status.ERROR_DEVICE_LOST
        assert "device 0" in last_error(), last_error()
        fake_driver.plan("")
        ok(lib.gpuvec_stream_synchronize(other))
        resources.pop_all()
        """,
        DEVICES=2,
    )


def test_streams_and_memory_leave_nothing_with_the_driver():
    """The driver's counts do not grow with hundreds of streams, some destroyed with work queued."""
    run(
        """
        def rounds(count):
            for number in range(count):
                with Resources() as some:
                    stream, event = lib.gpuvec_stream_create(number % 2), some.event()
                    array = some.device_memory(40_000, number % 2)
                    array.put(np.arange(10_000, dtype=np.int32))
                    registered = some.memory("registered", 40_000)
                    at = array.address
                    ok(lib.gpuvec_add_i32(at, at, at, 10_000, stream))
                    ok(lib.gpuvec_sum_i64(at, at, 5_000, stream))
                    ok(lib.gpuvec_copy(registered.address, at, 40_000, stream))
                    ok(lib.gpuvec_event_record(event, stream))
                    ok(lib.gpuvec_stream_destroy(stream))
                    ok(lib.gpuvec_event_synchronize(event))

        rounds(20)
        fake_driver.drain()
        held = fake_driver.ledger()
        rounds(300)
        fake_driver.drain()
        assert fake_driver.ledger() == held
        """,
        DEVICES=2,
        DELAY=50,
    )


def test_a_full_device():
    """A full device gives OUT_OF_MEMORY, and memory that is freed can be allocated again."""
    run(
        """
        held = []
        while address := lib.gpuvec_device_alloc(1 << 20, 0):
            held.append(address)
        assert "CUDA_ERROR_OUT_OF_MEMORY" in last_error()
        assert 16 <= len(held) <= 64
        for address in held:
            ok(lib.gpuvec_device_free(address))
        ok(lib.gpuvec_device_free(lib.gpuvec_device_alloc(16 << 20, 0)))
        """,
        MEMORY=64 << 20,
    )
