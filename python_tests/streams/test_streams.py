"""Streams and events: work is done in its order, calls return at once, and results are the same.

Without a GPU, or with placement cpu, streams are the host's: calls return when their work is done.
"""

import ctypes
from ctypes import byref, c_float

import numpy as np
import pytest
from bindings import (
    Backend,
    Choice,
    PathBit,
    Place,
    Status,
    last_error,
    last_run,
    lib,
    placed,
    why_cpu,
)
from streams import (
    KINDS,
    QUEUED_KINDS,
    Chain,
    Resources,
    driver_of,
    has_gpu,
    holding,
    ok,
)

needs_gpu = pytest.mark.skipif(lib.gpuvec_device_count() == 0, reason=why_cpu() or "no GPU")

THREADS = 16


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 1000, 300_001])
def test_work_is_done_in_its_order(placement, resources, kind, n):
    """Each call uses the previous call's result; the last result is there after synchronising."""
    stream = resources.stream()
    chain = Chain(resources, kind, n)
    for steps in (1, 2, 40):
        chain.queue(steps, stream)
        chain.finish(stream)


def test_streams_are_independent(placement, resources):
    """Each stream runs a chain of its own."""
    chains = [Chain(resources, kind, 100_003, seed) for seed, kind in enumerate(QUEUED_KINDS)]
    streams = [resources.stream() for _ in chains]
    for _ in range(20):
        for chain, stream in zip(chains, streams):
            chain.queue(3, stream)
    for chain, stream in zip(chains, streams):
        chain.queue_copy(stream)
    for chain, stream in reversed(list(zip(chains, streams))):
        ok(lib.gpuvec_stream_synchronize(stream))
        chain.check()


@needs_gpu
@pytest.mark.parametrize("kind", QUEUED_KINDS)
@pytest.mark.parametrize("n", [1, 1000, 300_001, 3_000_001])
def test_calls_return_at_once(resources, on_gpu, kind, n):
    """Calls return before their work can be done; queries report NOT_READY, not an error."""
    stream, event = resources.stream(), resources.event()
    chain = Chain(resources, kind, n)
    result = resources.memory("pinned", 8)
    total = result.view(np.int64)

    def queue():
        chain.queue(7, stream)
        ok(lib.gpuvec_sum_i32(chain.arrays[1].address, result.address, n, stream))
        chain.queue_copy(stream)
        ok(lib.gpuvec_event_record(event, stream))

    # The first calls make all objects that the library keeps.
    queue()
    ok(lib.gpuvec_stream_synchronize(stream))
    with holding() as hold:
        ok(lib.gpuvec_stream_wait(stream, hold.event))
        total[0] = -1
        chain.result.view(np.int32)[:] = 7
        queue()
        for _ in range(3):
            assert lib.gpuvec_stream_query(stream) == Status.NOT_READY
            assert lib.gpuvec_event_query(event) == Status.NOT_READY
            assert lib.gpuvec_event_query(hold.event) == Status.NOT_READY
            assert last_error() == ""
        assert total[0] == -1 and (chain.result.view(np.int32) == 7).all()
        hold.let_go()
        ok(lib.gpuvec_event_synchronize(event))
        chain.check()
        assert total[0] == chain.values[1].sum(dtype=np.int64)
        ok(lib.gpuvec_event_query(event))
    ok(lib.gpuvec_stream_synchronize(stream))
    ok(lib.gpuvec_stream_query(stream))


@pytest.mark.parametrize("n", [1000, 3_000_001])
def test_the_hosts_streams_are_done_when_a_call_returns(resources, on_cpu, n):
    """Queries of the host's streams always report OK."""
    stream, event = resources.stream(), resources.event()
    chain = Chain(resources, "device", n)
    for steps in range(1, 5):
        chain.queue(steps, stream)
        chain.queue_copy(stream)
        chain.check()
        ok(lib.gpuvec_stream_query(stream))
        ok(lib.gpuvec_event_record(event, stream))
        ok(lib.gpuvec_event_query(event))


@pytest.mark.parametrize("which", ["a", "b", "out", "dst", "src"])
@pytest.mark.parametrize("n", [1, 1000, 300_001, 1_500_007])
def test_a_call_with_pageable_memory_is_done_when_it_returns(placement, resources, which, n):
    """The call comes after the stream's earlier work, and its arrays may change at once."""
    stream = resources.stream()
    chain = Chain(resources, "device", n)
    pageable = np.empty(n, np.int32)
    at = pageable.ctypes.data
    for _ in range(3):
        chain.queue(10, stream)
        x, y = (array.address for array in chain.arrays)
        if which in ("out", "dst"):
            if which == "out":
                ok(lib.gpuvec_sub_i32(x, y, at, n, stream))
            else:
                ok(lib.gpuvec_copy(at, x, 4 * n, stream))
            expected = chain.values[0] - chain.values[1] if which == "out" else chain.values[0]
            assert np.array_equal(pageable, expected)
            continue
        pageable[:] = chain.values[1] + 3
        kept = pageable.copy()
        if which == "src":
            ok(lib.gpuvec_copy(x, at, 4 * n, stream))
            chain.values[0] = kept
        else:
            inputs = (at, x) if which == "a" else (x, at)
            ok(lib.gpuvec_sub_i32(*inputs, x, n, stream))
            a, b = (kept, chain.values[0]) if which == "a" else (chain.values[0], kept)
            chain.values[0] = a - b
        pageable[:] = 77
    chain.finish(stream)


@pytest.mark.parametrize("kind", ["pageable", *QUEUED_KINDS])
@pytest.mark.parametrize("n", [1000, 6_000_001])
def test_last_run_covers_calls_on_streams(placement, resources, kind, n):
    """Arrays that a GPU can access are not staged, whatever their length."""
    stream = resources.stream()
    chain = Chain(resources, kind, n)
    chain.queue(1, stream)
    run = last_run()
    ok(lib.gpuvec_stream_synchronize(stream))
    assert run.chunks > 0 and run.threads > 0
    if not has_gpu():
        assert (run.backend, run.bytes_staged) == (Backend.CPU, 0)
        return
    if kind == "pageable":
        staged = 3 * 4 * n if run.backend == Backend.GPU else 0
        if run.choice == Choice.CORES_AND_GPUS:
            # Cores compute a part of the elements where they are.
            assert 0 < run.bytes_staged < staged
        else:
            assert run.bytes_staged == staged
        return
    assert run.backend == Backend.GPU and run.devices == 1
    assert run.bytes_staged == 0 and not run.path & PathBit.STAGED
    if kind in ("device", "managed"):
        assert run.path == PathBit.RESIDENT


@needs_gpu
def test_a_stream_is_destroyed_with_work_in_flight(resources, on_gpu):
    """The handle is invalid at once, and the stream's events complete."""
    event = resources.event()
    chain = Chain(resources, "device", 300_001)
    for held in (False, True):
        stream = lib.gpuvec_stream_create(0)
        with holding() as hold:
            if held:
                ok(lib.gpuvec_stream_wait(stream, hold.event))
            chain.queue(50, stream)
            chain.queue_copy(stream)
            ok(lib.gpuvec_event_record(event, stream))
            ok(lib.gpuvec_stream_destroy(stream))
            if held:
                assert lib.gpuvec_event_query(event) == Status.NOT_READY
            hold.let_go()
            ok(lib.gpuvec_event_synchronize(event))
            chain.check()


SUMS_OF = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64}
# The numbers of elements from which a reduction uses another warp, and another block.
WARP, BLOCK = 4096, 8 * 4096


@pytest.mark.parametrize("of", SUMS_OF)
@pytest.mark.parametrize("op", ["sum", "dot"])
@pytest.mark.parametrize("n", [1, WARP - 1, WARP, WARP + 1, BLOCK + 1, 1_000_003])
def test_reductions_on_streams_have_the_same_bits(placement, resources, op, of, n):
    check_reduction(resources, op, of, n, ["device", "pinned"])


@pytest.mark.parametrize("of", SUMS_OF)
@pytest.mark.parametrize("op", ["sum", "dot"])
def test_long_reductions_on_streams_have_the_same_bits(placement, resources, op, of):
    check_reduction(resources, op, of, 20_000_003, ["device"], ["device"])


OUT_KINDS = ("device", "pinned", "pageable", "managed")


def check_reduction(
    resources: Resources, op: str, of: str, n: int, kinds: list, out_kinds: list = OUT_KINDS
) -> None:
    """A reduction's result on a stream, of inputs and into outputs of some kinds."""
    function, dtype = getattr(lib, f"gpuvec_{op}_{of}"), SUMS_OF[of]
    floats = np.random.default_rng(n).standard_normal(100_003) * 1e3
    values = np.resize(floats.astype(dtype) if of in ("f32", "f64") else floats.view(dtype), n)
    inputs = 2 if op == "dot" else 1
    result = np.zeros(1, dtype if of in ("f32", "f64") else np.int64)
    ok(function(*[values.ctypes.data] * inputs, result.ctypes.data, n, None))
    if result.dtype == np.int64:
        wide = values.astype(np.int64)
        assert result[0] == (wide * wide if op == "dot" else wide).sum()
    stream, back = resources.stream(), resources.memory("pinned", 8)
    for kind in kinds:
        array = resources.array(kind, values)
        for out_kind in out_kinds:
            out = resources.array(out_kind, np.full(8, 0xA5, np.uint8))
            ok(function(*[array.address] * inputs, out.address, n, stream))
            ok(lib.gpuvec_copy(back.address, out.address, result.nbytes, stream))
            ok(lib.gpuvec_stream_synchronize(stream))
            assert back.get()[: result.nbytes].tobytes() == result.tobytes(), out_kind
            assert (out.get()[result.nbytes :] == 0xA5).all()


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_to_do(placement, resources, kind):
    """Without elements operations and copies do nothing, and sums write zero in stream order."""
    stream = resources.stream()
    ok(lib.gpuvec_add_i32(None, None, None, 0, stream))
    ok(lib.gpuvec_copy(None, None, 0, stream))
    assert lib.gpuvec_sum_i32(None, None, 0, stream) == Status.ERROR_NULL
    chain = Chain(resources, kind, 2)
    chain.queue(30, stream)
    ok(lib.gpuvec_sum_i32(None, chain.arrays[0].address, 0, stream))
    chain.values[0] = np.zeros(2, np.int32)
    chain.queue(7, stream)
    chain.finish(stream)


def test_wrong_arguments_are_errors_at_once(placement, resources):
    """Errors are those of a call without a stream; the stream's other work is not affected."""
    stream = resources.stream()
    chain = Chain(resources, "device", 1000)
    at = chain.arrays[0].address
    chain.queue(5, stream)
    wrong = [
        (Status.ERROR_NULL, (at, None, at, 5)),
        (Status.ERROR_MISALIGNED, (at, at + 1, at, 5)),
        (Status.ERROR_SIZE, (at, at, at, 2**62)),
        (Status.ERROR_OVERLAP, (at, at, at + 4, 5)),
        (Status.ERROR_OUT_OF_BOUNDS, (at, at, at, 1001)),
    ]
    for status, arguments in wrong:
        assert lib.gpuvec_add_i32(*arguments, stream) == status
        assert last_error() != ""
    chain.queue(5, stream)
    chain.finish(stream)


@needs_gpu
def test_placement_cpu_computes_on_the_cores_after_the_streams_work(resources, on_gpu):
    """The cores wait for a GPU's stream; its later work comes after theirs."""
    stream = resources.stream()
    chain = Chain(resources, "pinned", 300_001)
    for _ in range(3):
        chain.queue(20, stream)
        assert last_run().backend == Backend.GPU
        with placed(Place.CPU):
            chain.queue(2, stream)
            assert last_run().backend == Backend.CPU
            assert np.array_equal(chain.arrays[0].get(np.int32), chain.values[0])
            assert np.array_equal(chain.arrays[1].get(np.int32), chain.values[1])
    chain.queue(2, stream)
    chain.finish(stream)


@needs_gpu
def test_the_hosts_streams_go_on_with_another_placement(resources):
    """A stream made with placement cpu stays a stream of the host."""
    with placed(Place.CPU):
        stream, event = resources.stream(), resources.event()
        chain = Chain(resources, "pinned", 300_001)
        chain.queue(3, stream)
    with placed(Place.AUTO):
        chain.queue(3, stream)
        chain.queue_copy(stream)
        chain.check()
        ok(lib.gpuvec_event_record(event, stream))
        ok(lib.gpuvec_event_query(event))
        ok(lib.gpuvec_stream_wait(resources.stream(), event))


@needs_gpu
@pytest.mark.parametrize("before", ["no context", "another", "the primary one"])
def test_the_callers_context_stays_current(on_gpu, before):
    """Every function of streams, events and memory leaves the context alone."""
    driver = driver_of(0)
    with driver.entered():
        native = driver.new_stream()
    found = driver.current()
    driver.set_current(driver.context if before == "the primary one" else None)
    other = driver.new_context() if before == "another" else None
    current = driver.current()
    for name, call in 2 * every_call(native):
        call()
        assert driver.current() == current, name
    if other:
        driver.call("cuCtxDestroy_v2", other)
    driver.set_current(found)
    with driver.entered():
        driver.call("cuStreamDestroy_v2", native)


def every_call(native: ctypes.c_void_p) -> list:
    """Calls about streams, events and memory, in an order in which they succeed."""
    values = np.ones(100_000, np.int32)
    made, ms = {}, c_float()

    def make(name, function, *arguments):
        made[name] = function(*arguments)
        assert made[name], last_error()

    def use(function, *names):
        arguments = [made[name] if isinstance(name, str) else name for name in names]
        ok(function(*arguments))

    at, bytes_ = values.ctypes.data, values.nbytes
    steps = [
        (make, "stream", lib.gpuvec_stream_create, 0),
        (make, "native", lib.gpuvec_stream_from_native, native),
        (make, "event", lib.gpuvec_event_create),
        (make, "memory", lib.gpuvec_device_alloc, bytes_, 0),
        (use, lib.gpuvec_host_register, at, bytes_),
        (use, lib.gpuvec_copy, "memory", at, bytes_, "stream"),
        (use, lib.gpuvec_add_i32, "memory", at, "memory", values.size, "stream"),
        (use, lib.gpuvec_event_record, "event", "stream"),
        (use, lib.gpuvec_stream_wait, "native", "event"),
        (use, lib.gpuvec_sum_i64, "memory", "memory", values.size // 2, "native"),
        (use, lib.gpuvec_event_synchronize, "event"),
        (use, lib.gpuvec_event_query, "event"),
        (use, lib.gpuvec_event_elapsed, "event", "event", byref(ms)),
        (use, lib.gpuvec_stream_synchronize, "native"),
        (use, lib.gpuvec_stream_synchronize, "stream"),
        (use, lib.gpuvec_stream_query, "stream"),
        (use, lib.gpuvec_stream_destroy, "native"),
        (use, lib.gpuvec_stream_destroy, "stream"),
        (use, lib.gpuvec_event_destroy, "event"),
        (use, lib.gpuvec_host_unregister, at),
        (use, lib.gpuvec_device_free, "memory"),
    ]
    return [(str(step[1:3]), lambda step=step: step[0](*step[1:])) for step in steps]
