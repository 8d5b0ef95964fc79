"""Registrations while the driver is slow or fails, and thousands of registrations.

Locking the pages of a large array takes seconds. Only calls that need those pages wait for it.
"""

import textwrap

import on_fake_driver
import pytest

pytestmark = on_fake_driver.needs_fake_driver

# The beginning of all scripts: `pages` gives the address of pages of their own, `register` and
# `unregister` take an address and a length, `in_flight` holds a registration inside the driver.
PRELUDE = """
import mmap
from contextlib import contextmanager
from fork import in_child

PAGE, REGISTER = mmap.PAGESIZE, "cuMemHostRegister_v2"
fake_driver, mapped = FakeDriver(), []
lib.gpuvec_set_placement(Place.GPU)
assert why_cpu() == ""

def pages(count):
    mapped.append(mmap.mmap(-1, count * PAGE))
    return np.frombuffer(mapped[-1], np.uint8).ctypes.data

def register(address, size):
    return lib.gpuvec_host_register(address, size)

def unregister(address):
    return lib.gpuvec_host_unregister(address)

def words(address, count):
    return np.ctypeslib.as_array((ctypes.c_int32 * count).from_address(address))

def bytes_staged(address, count):
    "What an addition to an array copies through the library's buffers; the result is right."
    array = words(address, count)
    array[:] = np.arange(count)
    ok(lib.gpuvec_add_i32(address, address, address, count, None))
    assert (array == 2 * np.arange(count)).all(), array
    return last_run().bytes_staged

@contextmanager
def in_flight(address, size):
    with fake_driver.call_held(REGISTER):
        started = Started(register, address, size)
        fake_driver.wait_for_held_calls()
        fake_driver.hold_no_more_calls()
        yield started

def without_a_gpu(function):
    "In a child it has the placement that needs none."
    lib.gpuvec_set_placement(Place.AUTO)
    function()

pinned = pinned_empty(1000, np.int32)
at_pinned = pinned.ctypes.data
first, second, third = (pages(8) for _ in range(3))
# Kernels and buffers are there, and something has been registered, before anything is held.
for address in (first, at_pinned):
    bytes_staged(address, 1000)
ok(register(first, PAGE))
ok(unregister(first))
ok(register(third, PAGE))
"""

EPILOGUE = """
ok(unregister(third))
assert fake_driver.count("registered") == 0
assert bytes_staged(first, 1000) > 0 and bytes_staged(at_pinned, 1000) == 0
"""


def run(script: str, **settings: object) -> None:
    """Runs a script on the fake driver."""
    on_fake_driver.run(PRELUDE + textwrap.dedent(script) + EPILOGUE, **settings)


MEANWHILE = {
    "a call on pinned memory": "assert bytes_staged(at_pinned, 1000) == 0",
    "a call on pageable memory": "assert bytes_staged(second, 1000) > 0",
    "a call on registered memory": "assert bytes_staged(third, 1000) == 0",
    "pinned_alloc": "ok(lib.pinned_free(lib.pinned_alloc(5000)))",
    "an event": """
        event = lib.gpuvec_event_create()
        assert event, last_error()
        ok(lib.gpuvec_event_destroy(event))
    """,
    "a stream": """
        stream = lib.gpuvec_stream_create(0)
        assert stream, last_error()
        ok(lib.gpuvec_add_i32(at_pinned, at_pinned, at_pinned, 1000, stream))
        ok(lib.gpuvec_stream_synchronize(stream))
        ok(lib.gpuvec_stream_destroy(stream))
    """,
    "another registration": """
        ok(register(second, 3 * PAGE))
        assert bytes_staged(second, 1000) == 0
        ok(unregister(second))
        assert bytes_staged(second, 1000) > 0
    """,
    "the end of an earlier registration": """
        ok(unregister(third))
        ok(register(third, PAGE))
    """,
    "the end of a registration that there is not": """
        assert unregister(second) == Status.ERROR_POINTER
    """,
    "a fork": """
        def compute():
            a = np.arange(100_000, dtype=np.int32)
            ok(lib.gpuvec_add_i32(a.ctypes.data, a.ctypes.data, a.ctypes.data, a.size, None))
            assert (a == 2 * np.arange(a.size)).all()
            ok(register(second, 3 * PAGE))
            ok(unregister(second))
            assert unregister(second) == Status.ERROR_POINTER

        in_child(lambda: without_a_gpu(compute))
    """,
    "a fork whose child ends registrations of its parent's": """
        def give_back():
            for address in (third, first):
                status = unregister(address)
                assert status in (Status.OK, Status.ERROR_POINTER), last_error()
            ok(register(first, 3 * PAGE))
            ok(unregister(first))

        in_child(lambda: without_a_gpu(give_back))
    """,
}


@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_calls_go_on_while_pages_are_being_locked(meanwhile):
    """Calls that do not need these pages do not wait for them."""
    body = textwrap.indent(textwrap.dedent(MEANWHILE[meanwhile]), " " * 4)
    run(
        f"""
with in_flight(first, 3 * PAGE) as registration:
{body}
    assert registration.is_alive()
ok(registration.get())
assert bytes_staged(first, 1000) == 0
ok(unregister(first))
"""
    )


@pytest.mark.parametrize("meanwhile", ["a call on pinned memory", "a fork", "another registration"])
def test_calls_go_on_while_pages_are_being_unlocked(meanwhile):
    body = textwrap.indent(textwrap.dedent(MEANWHILE[meanwhile]), " " * 4)
    run(
        f"""
ok(register(first, 3 * PAGE))
with fake_driver.call_held("cuMemHostUnregister"):
    end = Started(unregister, first)
    fake_driver.wait_for_held_calls()
    fake_driver.hold_no_more_calls()
{body}
    assert end.is_alive()
ok(end.get())
"""
    )


SECOND = {
    "the same array": "first, 3 * PAGE",
    "an array inside": "first + PAGE + 8, 100",
    "its last page and more": "first + 2 * PAGE + 8, 4 * PAGE",
    "more on both sides": "first - PAGE, 6 * PAGE",
}


@pytest.mark.parametrize("other", SECOND)
def test_two_registrations_that_share_pages(other):
    """Both hold while one of them is in flight, and a page is locked until both have ended."""
    run(
        f"""
        first += 2 * PAGE
        for order in (1, -1):
            with in_flight(first, 3 * PAGE) as registration:
                both = [registration, Started(register, {SECOND[other]})]
            for registration in both:
                ok(registration.get())
            addresses = [first, ({SECOND[other]})[0]][::order]
            assert bytes_staged(first, 700) == bytes_staged(first + PAGE + 8, 25) == 0
            ok(unregister(addresses[0]))
            left = addresses[1]
            assert bytes_staged(left, 25) == 0
            ok(unregister(left))
            assert unregister(left) == Status.ERROR_POINTER
            assert fake_driver.count("registered") == 1
        first -= 2 * PAGE
        """
    )


@pytest.mark.parametrize("code", [2, 801, 1])
@pytest.mark.parametrize("comes", ["before", "meanwhile"])
def test_a_failed_registration_leaves_the_others(comes, code):
    """If the driver refuses one, an overlapping one of another thread stays registered."""
    run(
        f"""
        fake_driver.plan("")
        ok(register(first, 3 * PAGE))
        number = fake_driver.calls().index(REGISTER) + 1
        ok(unregister(first))
        refused, held = (first, 3 * PAGE), (first + 2 * PAGE + 8, 3 * PAGE)
        if "{comes}" == "before":
            ok(register(*held))
        fake_driver.plan(f"{{number}}={code}")
        with in_flight(*refused) as registration:
            if "{comes}" == "meanwhile":
                other = Started(register, *held)
        status = registration.get()
        assert status == (Status.ERROR_OUT_OF_MEMORY if {code} == 2 else Status.ERROR_DRIVER)
        if "{comes}" == "meanwhile":
            ok(other.get())
        assert fake_driver.count("faults") == 1
        fake_driver.plan("")
        assert unregister(first) == Status.ERROR_POINTER
        assert bytes_staged(held[0], 3000) == 0
        assert bytes_staged(first, 1000) > 0
        ok(register(*refused))
        ok(unregister(held[0]))
        assert bytes_staged(first, 3000) == 0
        ok(unregister(first))
        """,
        FLAGS=0,
    )


@pytest.mark.parametrize("delay", [0, 200])
def test_random_overlapping_ranges_of_many_threads(delay):
    """Each registration holds until its end, and nothing is locked in the end.

    Each thread has a few bytes of every page. It computes on them while other threads lock and
    unlock the page: on those in the array that it has registered itself, and on those beside all
    registered arrays, which are pageable.
    """
    run(
        """
        import random

        COUNT, STRIPE, ROUNDS = 24, 256, 60
        base, halves = pages(COUNT), pages(COUNT)

        def work(number):
            chance = random.Random(number)
            for _ in range(ROUNDS):
                # Registers 64 bytes of a page's first half; no thread registers any of the second.
                half = halves + chance.randrange(COUNT) * PAGE + 64 * number
                ok(register(half, 64))
                beside = halves + chance.randrange(COUNT) * PAGE + PAGE // 2 + number * STRIPE
                assert bytes_staged(beside, STRIPE // 4) > 0
                ok(unregister(half))
                start = chance.randrange(COUNT * PAGE - 8)
                size = chance.randrange(1, min(6 * PAGE, COUNT * PAGE - start) + 1)
                # Another thread may have registered the same address with another length.
                start += (number - start) % 8
                size = max(min(size, COUNT * PAGE - start), 1)
                ok(register(start + base, size))
                for _ in range(chance.randrange(3)):
                    page = chance.randrange(start // PAGE, (start + size) // PAGE + 1)
                    stripe = page * PAGE + number * STRIPE
                    if start <= stripe and stripe + STRIPE <= start + size:
                        assert bytes_staged(base + stripe, STRIPE // 4) == 0
                ok(unregister(start + base))

        threads = [Started(work, number) for number in range(8)]
        for thread in threads:
            thread.get()
        assert fake_driver.count("registered") == 1
        assert bytes_staged(base, COUNT * PAGE // 4) > 0
        """,
        DELAY=delay,
    )


def test_an_array_beside_registered_ones_is_pageable():
    """An array in locked pages is pageable, since they may be unlocked while it is in use."""
    run(
        """
        array = first + PAGE - 400
        for start, size in ((first, 3000), (first + PAGE + 3000, 1000)):
            ok(register(start, size))
        assert fake_driver.count("registered") == 3
        assert bytes_staged(array, 200) > 0
        ok(register(array, 800))
        assert bytes_staged(array, 200) == 0
        for start in (array, first, first + PAGE + 3000):
            ok(unregister(start))
        """
    )


def test_driver_calls_do_not_grow_with_registrations():
    run(
        """
        def calls_of(address):
            for _ in range(2):
                fake_driver.plan("")
                assert bytes_staged(address, 1000) == 0
            return fake_driver.calls()

        COUNT = 2000
        base = pages(2 * COUNT)
        ok(register(base, PAGE))
        before = calls_of(at_pinned), calls_of(base)
        for number in range(1, COUNT):
            ok(register(base + 2 * number * PAGE, PAGE))
        assert fake_driver.count("registered") == COUNT + 1
        assert calls_of(at_pinned) == before[0]
        for number in (0, COUNT // 2, COUNT - 1):
            assert calls_of(base + 2 * number * PAGE) == before[1]
        for number in range(COUNT):
            ok(unregister(base + 2 * number * PAGE))
        """,
        FLAGS=0,
    )


def test_a_registration_adds_no_driver_calls():
    """A call makes the same driver calls with and without registered arrays."""
    script = """
        lib.gpuvec_set_placement(Place.GPU)
        fake_driver, registered = FakeDriver(), np.zeros(100_000, np.int32)
        pinned = pinned_empty(1000, np.int32)

        def calls():
            for _ in range(2):
                fake_driver.plan("")
                at = pinned.ctypes.data
                ok(lib.gpuvec_add_i32(at, at, at, 1000, None))
            return fake_driver.calls()

        none = calls()
        at = registered.ctypes.data
        ok(lib.gpuvec_host_register(at, registered.nbytes))
        assert calls() == none, (calls(), none)
        ok(lib.gpuvec_host_unregister(at))
        assert calls() == none, (calls(), none)
    """
    on_fake_driver.run(script, FLAGS=0)
