"""The functions of accumulators: statuses, texts, and what an error leaves as it was."""

import ctypes
from ctypes import c_char_p

import numpy as np
import pytest
from bindings import Backend, Status, last_error, last_run, lib
from corpus import KINDS
from fork import in_child
from header import enumeration
from streams import ok

NUMBERS = {
    name.removeprefix("GPUVEC_ACCUMULATOR_").lower(): number
    for name, number in enumeration("gpuvec_accumulator_kind").items()
}
each_kind = pytest.mark.parametrize("kind", [pytest.param(kind, id=str(kind)) for kind in KINDS])
BYTES = {"sum_f32": 152, "dot_f32": 224, "sum_f64": 608, "dot_f64": 1136}


@pytest.fixture
def create():
    """Makes accumulators that are destroyed after the test."""
    made = []

    def create(kind) -> int:
        made.append(lib.gpuvec_accumulator_create(NUMBERS[kind.name]))
        assert made[-1], last_error()
        return made[-1]

    yield create
    for handle in made:
        lib.gpuvec_accumulator_destroy(handle)


def ones(kind, n: int = 5) -> tuple:
    """Returns an array of ones, as the arguments `a` and `b`, with what keeps it alive."""
    array = np.ones(n, kind.dtype)
    return array.ctypes.data, array.ctypes.data if kind.is_dot else None, array


def value(kind, handle: int) -> float:
    """Returns the value."""
    out = np.empty(1, kind.dtype)
    ok(lib.gpuvec_accumulator_value(handle, out.ctypes.data))
    return out[0]


@each_kind
def test_a_piece_is_added_and_reported(placement, create, kind):
    handle = create(kind)
    a, b, _ = ones(kind, 100_000)
    ok(lib.gpuvec_accumulator_add(handle, a, b, 100_000, None))
    assert last_run().backend != Backend.NONE and last_run().chunks > 0
    assert value(kind, handle) == 100_000


@each_kind
def test_nothing_to_add(placement, create, kind):
    """Then the arrays may be anything."""
    handle = create(kind)
    ok(lib.gpuvec_accumulator_add(handle, 1, 1 if kind.is_dot else None, 0, None))
    assert value(kind, handle) == 0
    assert last_run().backend == Backend.NONE


@each_kind
def test_wrong_arrays_are_refused(placement, create, kind):
    """The text names the argument; nothing is added."""
    handle = create(kind)
    a, b, _ = ones(kind)
    odd = b + 1 if b else None
    cases = [
        (Status.ERROR_NULL, "a is NULL", (None, b, 5)),
        (Status.ERROR_MISALIGNED, "a is ", (a + 1, b, 5)),
        (Status.ERROR_SIZE, "n is", (a, b, 2**62)),
    ]
    if kind.is_dot:
        cases.append((Status.ERROR_NULL, "b is NULL", (a, None, 5)))
        cases.append((Status.ERROR_MISALIGNED, "b is ", (a, odd, 5)))
    else:
        cases.append((Status.ERROR_VALUE, "b is ", (a, a, 5)))
    for status, text, arguments in cases:
        assert lib.gpuvec_accumulator_add(handle, *arguments, None) == status, text
        assert last_error().startswith(text)
        assert last_run().backend == Backend.NONE
    assert lib.gpuvec_accumulator_add(handle, a, b, 5, 3) == Status.ERROR_HANDLE
    assert "stream" in last_error()
    assert value(kind, handle) == 0


@each_kind
def test_handles_that_are_none(create, kind):
    """NULL, a destroyed accumulator, another object and any number; NULL may be destroyed."""
    live, destroyed, event = create(kind), create(kind), lib.gpuvec_event_create()
    ok(lib.gpuvec_accumulator_destroy(destroyed))
    ok(lib.gpuvec_accumulator_destroy(None))
    a, b, _ = ones(kind)
    memory = ctypes.create_string_buffer(2000)
    room = ctypes.addressof(memory)
    for handle in (None, destroyed, event, 7):
        status = Status.ERROR_NULL if handle is None else Status.ERROR_HANDLE
        for result, argument in [
            (lambda h: lib.gpuvec_accumulator_add(h, a, b, 5, None), "accumulator"),
            (lambda h: lib.gpuvec_accumulator_value(h, room), "accumulator"),
            (lambda h: lib.gpuvec_accumulator_serialize(h, room, BYTES[kind.name]), "accumulator"),
            (lambda h: lib.gpuvec_accumulator_merge(h, live), "accumulator"),
            (lambda h: lib.gpuvec_accumulator_merge(live, h), "other"),
        ]:
            assert result(handle) == status
            assert last_error().startswith(f"{argument} is ")
        if handle:
            assert lib.gpuvec_accumulator_destroy(handle) == Status.ERROR_HANDLE
    assert memory.raw == bytes(2000)
    assert value(kind, live) == 0
    ok(lib.gpuvec_event_destroy(event))


@pytest.mark.parametrize("number", [0, 5, -1, 2**31 - 1])
def test_kinds_that_do_not_exist(number):
    assert lib.gpuvec_accumulator_create(number) is None
    assert f"kind is {number}" in last_error()
    assert lib.gpuvec_last_status() == Status.ERROR_VALUE
    assert lib.gpuvec_accumulator_bytes(number) == 0


@each_kind
def test_results_need_room(create, kind):
    handle = create(kind)
    memory = ctypes.create_string_buffer(2000)
    assert lib.gpuvec_accumulator_bytes(NUMBERS[kind.name]) == BYTES[kind.name]
    assert lib.gpuvec_accumulator_value(handle, None) == Status.ERROR_NULL
    assert lib.gpuvec_accumulator_serialize(handle, None, 2000) == Status.ERROR_NULL
    for size in (0, BYTES[kind.name] - 1, BYTES[kind.name] + 1, 2000):
        room = ctypes.addressof(memory)
        assert lib.gpuvec_accumulator_serialize(handle, room, size) == Status.ERROR_VALUE
        assert f"size is {size}" in last_error() and str(BYTES[kind.name]) in last_error()
    assert memory.raw == bytes(2000)


def test_a_value_may_be_at_any_address(create):
    """Also between two elements, in the bytes of a message, say."""
    handle = create(KINDS[1])
    a, b, _ = ones(KINDS[1], 3)
    ok(lib.gpuvec_accumulator_add(handle, a, b, 3, None))
    message = ctypes.create_string_buffer(16)
    ok(lib.gpuvec_accumulator_value(handle, ctypes.addressof(message) + 1))
    assert message.raw == b"\0" + np.float32(3).tobytes() + bytes(11)


@each_kind
def test_states_that_are_none(create, kind):
    """Bytes that are damaged, of other lengths, or NULL do not make an accumulator."""
    handle, size = create(kind), BYTES[kind.name]
    a, b, _ = ones(kind)
    ok(lib.gpuvec_accumulator_add(handle, a, b, 5, None))
    state = ctypes.create_string_buffer(size)
    ok(lib.gpuvec_accumulator_serialize(handle, ctypes.addressof(state), size))
    again = lib.gpuvec_accumulator_deserialize(ctypes.addressof(state), size)
    assert value(kind, again) == 5
    ok(lib.gpuvec_accumulator_destroy(again))
    for content in (state.raw[:-8], state.raw[:16], b"", state.raw[:-1] + b"\x55", b"x" * size):
        assert lib.gpuvec_accumulator_deserialize(c_char_p(content), len(content)) is None
        assert lib.gpuvec_last_status() == Status.ERROR_STATE
        assert last_error().startswith("bytes does not hold an accumulator state: ")
    assert lib.gpuvec_accumulator_deserialize(c_char_p(b"\0" * 8), 8) is None
    assert "it has 8 bytes, but a state has 152, 224, 608 or 1136" in last_error()
    assert lib.gpuvec_accumulator_deserialize(None, size) is None
    assert lib.gpuvec_last_status() == Status.ERROR_NULL
    for size in 2**64 - 1, 2**63, 2**63 - 1:
        assert lib.gpuvec_accumulator_deserialize(ctypes.addressof(state), size) is None
        assert lib.gpuvec_last_status() == Status.ERROR_SIZE
        assert last_error() == f"size is {size}: more than the address space holds"


def test_accumulators_of_two_kinds_do_not_merge(create):
    for kind in KINDS:
        for other in KINDS:
            status = lib.gpuvec_accumulator_merge(create(kind), create(other))
            assert status == (Status.OK if kind is other else Status.ERROR_VALUE)
            assert ("merge accumulators of one kind" in last_error()) == (kind is not other)


def test_a_forked_child_goes_on_with_its_own(create):
    """The child's additions are not the parent's."""
    kind = KINDS[3]
    handle = create(kind)
    array = np.ones(1000)
    ok(lib.gpuvec_accumulator_add(handle, array.ctypes.data, None, 1000, None))

    def child():
        ok(lib.gpuvec_accumulator_add(handle, array.ctypes.data, None, 1000, None))
        assert value(kind, handle) == 2000

    in_child(child)
    assert value(kind, handle) == 1000
