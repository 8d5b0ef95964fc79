"""The fake driver's emulated times: work takes at least as long as the environment asks for."""

import pytest
from driver_scripts import run
from on_fake_driver import environment, needs_fake_driver
from programs import run_python

pytestmark = needs_fake_driver

# `took` returns the milliseconds of a function.
CLOCK = """
import time

def took(work):
    start = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - start)
"""


@pytest.mark.parametrize("is_queued", [True, False])
@pytest.mark.parametrize("name", ["HtoD", "DtoH"])
def test_copies_take_the_time_of_the_bus(name, is_queued):
    """A million bytes at 50 bytes per microsecond: 20 ms, in either direction."""
    run(
        CLOCK
        + f"""
on_device(0)
n = 1_000_000
(device, there), (host, here) = memory("device", n), memory("pinned", n)
here[:], there[:] = 3, 4
queue = stream()
ends = (device, host) if "{name}" == "HtoD" else (host, device)

def copy():
    if {is_queued}:
        assert code("cuMemcpy{name}Async_v2", *ends, n, queue) == OK
    else:
        assert code("cuMemcpy{name}_v2", *ends, n) == OK
    assert code("cuStreamSynchronize", queue) == OK

assert took(copy) >= 20
assert (here == there).all()
""",
        BUS=50,
    )


def test_streams_share_a_direction_of_the_bus():
    """Two streams in one direction take twice the time of one; the order does not matter."""
    run(
        CLOCK
        + """
on_device(0)
n, streams = 500_000, [stream(), stream()]
pairs = [(memory("device", n)[0], memory("pinned", n)[0]) for _ in streams]

def copies():
    for queue, (device, host) in zip(streams, pairs):
        assert code("cuMemcpyHtoDAsync_v2", device, host, n, queue) == OK
    for queue in streams:
        assert code("cuStreamSynchronize", queue) == OK

assert took(copies) >= 20
""",
        BUS=50,
    )


def test_copies_on_a_device_do_not_use_the_bus_and_each_has_its_latency():
    """Ten copies of 2 ms each. Across the bus they would take longer than a process may."""
    run(
        CLOCK
        + """
on_device(0)
n, queue = 32_000_000, stream()
one, other = (memory("device", n)[0] for _ in range(2))

def copies():
    for _ in range(10):
        assert code("cuMemcpyAsync", one, other, n, queue) == OK
    assert code("cuStreamSynchronize", queue) == OK

assert took(copies) >= 20
""",
        BUS=1,
        LATENCY=2000,
    )


def test_events_and_waits_see_the_emulated_time():
    """An event behind a copy is recorded when the copy's time has passed."""
    run(
        """
        on_device(0)
        n, queue = 500_000, stream()
        (device, _), (host, _) = memory("device", n), memory("pinned", n)
        start, end = (made("cuEventCreate", 0) for _ in range(2))
        assert code("cuEventRecord", start, queue) == OK
        assert code("cuMemcpyHtoDAsync_v2", device, host, n, queue) == OK
        assert code("cuEventRecord", end, queue) == OK
        assert code("cuEventSynchronize", end) == OK
        status, ms = elapsed(start, end)
        assert status == OK and ms >= 9.999, ms
        """,
        BUS=50,
    )


# Calls of the library on pinned arrays of 10,000 floats. `second` returns the milliseconds of the
# second call: the first opens the device.
CALLS = (
    CLOCK
    + """
import numpy as np
import gpuvec
a, b, out = (gpuvec.pinned_empty(10_000, "f4") for _ in range(3))
a[:], b[:] = 1, 2

def second(work):
    work()
    return took(work)
"""
)


@pytest.mark.parametrize(
    ("call", "bytes_"),
    [
        ("gpuvec.add(a, b, out=out)", 80_000),
        ("gpuvec.sum(a)", 40_000),
        ("formula(a=a, b=b, out=out)", 80_000),
        ("gpuvec.scale(2, a, out=out)", 40_000),
    ],
)
def test_kernels_that_read_host_memory_use_the_bus(call, bytes_):
    """A kernel takes the time of what it reads; what it writes goes the other way meanwhile."""
    run_python(
        CALLS
        + f"""
formula = gpuvec.Expression("a + b", a=np.float32, b=np.float32)
assert second(lambda: {call}) >= {bytes_ / 4 / 1e3}
assert gpuvec.last_run().path == ("mapped",)
""",
        GPUVEC_PLACEMENT="gpu",
        **environment(BUS=4),
    )


def test_kernels_have_their_latency():
    """Also where all arrays are on the device."""
    run_python(
        CALLS
        + """
a, b, out = map(gpuvec.to_device, (a, b, out))
assert second(lambda: gpuvec.add(a, b, out=out)) >= 7
assert gpuvec.last_run().path == ("resident",)
""",
        **environment(LATENCY=7000, BUS=1),
    )


def test_the_compiler_takes_its_time():
    """Once for an expression, and not for the library's own kernels."""
    run_python(
        CALLS
        + """
gpuvec.add(a, b, out=out)
formula = gpuvec.Expression("a * b + 3", a=np.float32, b=np.float32)
assert took(formula.prepare) >= 300
assert (formula(a=a, b=b) == 5).all()
""",
        GPUVEC_PLACEMENT="gpu",
        **environment(COMPILE=300_000),
    )
