"""Streams and threads: many threads on one stream, each on its own, and random programs."""

import random

import numpy as np
import pytest
from bindings import Status, last_error, lib, pinned_empty, why_cpu
from stream_programs import Program
from streams import KINDS, Chain, ok
from threads import THREADS, in_threads


@pytest.mark.parametrize("streams", [1, THREADS])
def test_many_threads(placement, resources, streams):
    """Each thread has a chain of its own, all on one stream or each on its own."""
    shared = [resources.stream() for _ in range(streams)]
    chains = [Chain(resources, kind, 50_021, i) for i, kind in zip(range(THREADS), 4 * KINDS)]

    def work(number):
        stream, chain = shared[number % streams], chains[number]
        for _ in range(8):
            chain.queue(6, stream)
            chain.finish(stream)

    in_threads(work)


def test_a_stream_destroyed_during_calls_of_other_threads(placement, resources):
    """Each call is right, or reports that the stream or the event does not exist."""
    chains = [Chain(resources, "pinned", 1000, number) for number in range(THREADS)]
    for _ in range(10):
        destroy_between_calls(chains)


def destroy_between_calls(chains: list[Chain]) -> None:
    """One thread destroys a stream and an event that all other threads use."""
    stream, event = lib.gpuvec_stream_create(0), lib.gpuvec_event_create()

    def work(number):
        if number == 0:
            ok(lib.gpuvec_stream_destroy(stream))
            ok(lib.gpuvec_event_destroy(event))
            return
        to, source = chains[number].result.address, chains[number].arrays[0].address
        calls = [
            (lib.gpuvec_copy, (to, source, 4000, stream)),
            (lib.gpuvec_add_i32, (source, source, to, 1000, stream)),
            (lib.gpuvec_stream_synchronize, (stream,)),
            (lib.gpuvec_stream_query, (stream,)),
            (lib.gpuvec_event_record, (event, stream)),
            (lib.gpuvec_stream_wait, (stream, event)),
            (lib.gpuvec_event_query, (event,)),
            (lib.gpuvec_event_synchronize, (event,)),
        ]
        for function, arguments in random.Random(number).choices(calls, k=30):
            status = function(*arguments)
            assert status in (Status.OK, Status.NOT_READY, Status.ERROR_HANDLE), last_error()
            assert (last_error() == "") == (status != Status.ERROR_HANDLE)

    in_threads(work)


@pytest.mark.parametrize("seed", range(12))
def test_any_program(placement, resources, seed):
    """Random work on several streams, ordered by events or waits, has the results of its order."""
    Program(resources, seed).run(60)


# CUDA's per-thread default stream (CU_STREAM_PER_THREAD): another stream in each thread.
PER_THREAD = 2
# One block of a kernel, and several.
LENGTHS = (1000, 50_021, 300_007)
CALLERS, REDUCTIONS = 8, 300


def test_reductions_of_many_threads_on_one_per_thread_stream(on_gpu, resources):
    """Every sum is right, as one handle is one queue in all threads."""
    if lib.gpuvec_device_count() == 0:
        pytest.skip(why_cpu())
    stream = lib.gpuvec_stream_from_native(PER_THREAD)
    assert stream, last_error()
    rows = [pinned_empty(max(LENGTHS), np.int32) for _ in range(CALLERS)]
    results = [pinned_empty(REDUCTIONS, np.int64) for _ in range(CALLERS)]
    for number, row in enumerate(rows):
        row[:] = np.arange(row.size) % (number + 2)

    def work(number):
        row, result = rows[number], results[number]
        for i in range(REDUCTIONS):
            n = LENGTHS[i % len(LENGTHS)]
            out = result.ctypes.data + i * result.itemsize
            ok(lib.gpuvec_sum_i32(row.ctypes.data, out, n, stream))
        ok(lib.gpuvec_stream_synchronize(stream))

    in_threads(work, CALLERS)
    wrong = 0
    for row, result in zip(rows, results):
        expected = [row[: LENGTHS[i % len(LENGTHS)]].sum() for i in range(len(LENGTHS))]
        wrong += np.count_nonzero(result != np.resize(expected, REDUCTIONS))
    ok(lib.gpuvec_stream_destroy(stream))
    assert wrong == 0, f"{wrong} of {CALLERS * REDUCTIONS} sums are wrong"
