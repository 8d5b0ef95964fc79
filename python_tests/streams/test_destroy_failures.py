"""Streams and events whose destruction fails in the driver at first.

Destroying always returns OK. An object that the driver refused to destroy is released later, when
another object of the device is created or destroyed.
"""

import textwrap

import on_fake_driver
import pytest

pytestmark = on_fake_driver.needs_fake_driver

# The beginning of all scripts. `cycle` makes a stream and an event, uses both, and destroys them.
PRELUDE = """
lib.gpuvec_set_placement(Place.GPU)
fake_driver = FakeDriver()
array, total = pinned_empty(1000, np.int64), pinned_empty(1, np.int64)
array[:] = np.arange(1000)

def made():
    stream, event = lib.gpuvec_stream_create(0), lib.gpuvec_event_create()
    assert stream and event, last_error()
    total[0] = 7
    ok(lib.gpuvec_sum_i64(array.ctypes.data, total.ctypes.data, array.size, stream))
    ok(lib.gpuvec_event_record(event, stream))
    ok(lib.gpuvec_event_synchronize(event))
    assert total[0] == array.sum()
    return stream, event

def destroy(stream, event):
    ok(lib.gpuvec_event_destroy(event))
    ok(lib.gpuvec_stream_destroy(stream))
    assert lib.gpuvec_event_destroy(event) == Status.ERROR_HANDLE
    assert lib.gpuvec_stream_destroy(stream) == Status.ERROR_HANDLE

def cycle():
    destroy(*made())

def destroyed_with(call, code):
    "Destroys a stream and an event while a call of the driver fails once."
    handles = made()
    fake_driver.plan(f"{numbers[call]}={code}")
    destroy(*handles)
    assert fake_driver.count("faults") == 1 and fake_driver.calls()[numbers[call] - 1] == call
    fake_driver.plan("")

for _ in range(3):
    cycle()
base = fake_driver.ledger()
handles = made()
fake_driver.plan("")
destroy(*handles)
calls = fake_driver.calls()
numbers = {name: calls.index(name) + 1 for name in calls}
assert fake_driver.ledger() == base
"""

EPILOGUE = """
fake_driver.drain()
"""

CALLS = ("cuStreamDestroy_v2", "cuEventDestroy_v2", "cuMemFree_v2")

# Later calls: each of them may release the object.
LATER = {
    "create": "handles.append(made())",
    "destroy": "destroy(*handles.pop())",
    "both": "cycle()",
}


def run(script: str) -> None:
    """Runs a script on the fake driver."""
    settings = {"GPUVEC_NUM_THREADS": "1"}
    text = PRELUDE + textwrap.dedent(script) + EPILOGUE
    on_fake_driver.run(text, variables=settings, FLAGS=0)


@pytest.mark.long
@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize("code", [2, 801, 900])
@pytest.mark.parametrize("call", CALLS)
def test_an_object_that_could_not_be_destroyed_is_destroyed_later(call, code, later):
    run(
        f"""
        handles = [made()]
        with_one = fake_driver.ledger()
        destroyed_with("{call}", {code})
        {LATER[later]}
        expected = with_one if handles else base
        if len(handles) == 2:
            destroy(*handles.pop())
        assert fake_driver.ledger() == expected, (fake_driver.ledger(), expected)
        for pair in handles:
            destroy(*pair)
        assert fake_driver.ledger() == base, (fake_driver.ledger(), base)
        """
    )


@pytest.mark.parametrize("code", [2, 801])
@pytest.mark.parametrize("call", CALLS)
def test_many_objects_that_could_not_be_destroyed(call, code):
    """All of them are released in the end, and nothing accumulates."""
    run(
        f"""
        for _ in range(20):
            destroyed_with("{call}", {code})
        for _ in range(3):
            cycle()
        assert fake_driver.ledger() == base, (fake_driver.ledger(), base)
        """
    )


@pytest.mark.parametrize("code", [2, 801])
def test_nothing_can_be_destroyed_for_a_while(code):
    """Every call of the driver fails while ten pairs are destroyed."""
    run(
        f"""
        handles = [made() for _ in range(10)]
        fake_driver.plan("1={code}+")
        for pair in handles:
            destroy(*pair)
        fake_driver.plan("")
        for _ in range(3):
            cycle()
        assert fake_driver.ledger() == base, (fake_driver.ledger(), base)
        """
    )


@pytest.mark.parametrize("call", CALLS)
def test_a_device_that_is_lost_takes_its_objects_with_it(call):
    """Destroying objects of a lost device is OK, and never releases them on another device."""
    run(
        f"""
        other = made()
        destroyed_with("{call}", 719)
        destroy(*other)
        assert not lib.gpuvec_stream_create(0)
        assert "lost" in last_error() or "719" in last_error(), last_error()
        """
    )
