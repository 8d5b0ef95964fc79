"""An array that reaches out of the library's memory is an error, with and without a GPU."""

from contextlib import ExitStack

import numpy as np
import pytest
from accumulators import NUMBERS
from bindings import Status, last_error, lib
from formulas import Compiled
from streams import KINDS, ok

N = 1000
# The number of floats that memory for N may have: pinned memory is whole pages.
ROOM = {"device": N, "pinned": 1024}
KIND = NUMBERS["sum_f32"]


@pytest.fixture(params=ROOM)
def memory(request, placement, resources):
    """Makes memory for N floats; returns it, an address in longer memory, and the room."""
    room = ROOM[request.param]
    short = resources.array(request.param, np.arange(N, dtype=np.float32))
    other = resources.array(request.param, np.ones(4 * room, np.float32))
    # Allocations may be neighbours: an array that leaves the first must not overlap the other.
    return short, other.address + 4 * room, room


def calls(stack: ExitStack, address: int, n: int, other: int) -> dict[str, tuple]:
    """Returns each kind of call on n floats at an address, and the name of the array there."""
    out = np.zeros(n, np.float32)
    # The array lives as long as the stack.
    stack.callback(lambda: out)
    here = out.ctypes.data
    negated = stack.enter_context(Compiled("-x", {"x": "f4"}))
    total = stack.enter_context(Compiled("sum(x)", {"x": "f4"}))
    accumulator = lib.gpuvec_accumulator_create(KIND)
    stack.callback(lambda: ok(lib.gpuvec_accumulator_destroy(accumulator)))
    every_second, columns = [(address, (8,))], [(address, (4 * n // 2, 4))]
    return {
        "sum": (lambda: lib.gpuvec_sum_f32(address, here, n, None), "a"),
        "dot": (lambda: lib.gpuvec_dot_f32(here, address, here, n, None), "b"),
        "scale": (lambda: lib.gpuvec_scale_f32(2, address, here, n, None), "a"),
        "scale into": (lambda: lib.gpuvec_scale_f32(2, other, address, n, None), "out"),
        "copy": (lambda: lib.gpuvec_copy(here, address, 4 * n, None), "src"),
        "copy into": (lambda: lib.gpuvec_copy(address, here, 4 * n, None), "dst"),
        "run": (lambda: negated.run([address], here, n), "inputs[0]"),
        "run into": (lambda: negated.run([other], address, n), "out"),
        "reduce": (lambda: total.run([address], here, n), "inputs[0]"),
        "strided": (lambda: negated.run_nd((n // 2,), every_second, here), "inputs[0]"),
        "reduce axes": (lambda: total.run_nd((2, n // 2), columns, here, 1), "inputs[0]"),
        "add": (lambda: lib.gpuvec_accumulator_add(accumulator, address, None, n, None), "a"),
    }


with ExitStack() as names:
    CALLS = list(calls(names, 0, 0, 0))


@pytest.mark.parametrize("name", CALLS)
def test_an_array_beyond_the_end(memory, name):
    """The error has the argument and both sizes, nothing is written, and the whole can be used."""
    short, other, room = memory
    with ExitStack() as stack:
        call, argument = calls(stack, short.address, room + 2, other)[name]
        assert call() == Status.ERROR_OUT_OF_BOUNDS
        assert last_error().startswith(f"{argument} would have "), last_error()
        assert f"ends after {4 * room}" in last_error()
        assert np.array_equal(short.get(np.float32)[:N], np.arange(N, dtype=np.float32))
        call, _ = calls(stack, short.address, room, other)[name]
        ok(call())


def test_an_array_before_the_beginning(memory):
    """Negative strides may not lead out of the memory either."""
    short, _, room = memory
    out = np.zeros(room + 2, np.float32)
    with Compiled("-x", {"x": "f4"}) as negated:
        last = short.address + 4 * (N - 1)
        assert (
            negated.run_nd((N + 1,), [(last, (-4,))], out.ctypes.data) == Status.ERROR_OUT_OF_BOUNDS
        )
        assert last_error().startswith("inputs[0] would have ")
        ok(negated.run_nd((N,), [(last, (-4,))], out.ctypes.data))
    assert np.array_equal(out[:N], -np.arange(N, dtype=np.float32)[::-1])


@pytest.mark.parametrize("kind", KINDS)
def test_memory_beside_allocations(placement, resources, kind):
    """Arrays of any kind are used to their ends while memory is allocated around them."""
    around = [resources.array(kind, np.ones(N, np.float32)) for kind in ROOM]
    array = resources.array(kind, np.ones(N, np.float32))
    for _ in range(3):
        around.append(resources.array("device", np.ones(N, np.float32)))
        for memory in (array, *around):
            ok(lib.gpuvec_scale_f32(2, memory.address, memory.address, N, None))
            assert (memory.get(np.float32)[:N] > 1).all()
