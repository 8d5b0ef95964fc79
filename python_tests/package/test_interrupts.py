"""Ctrl-C at any time during calls of the package: arrays, streams and memory stay right."""

from concurrent.futures import ThreadPoolExecutor

import gpuvec
import interrupts
import numpy as np
import pytest
from on_fake_driver import needs_fake_driver, run

pytestmark = pytest.mark.any_driver

CALLS = interrupts.QUEUED + interrupts.OTHERS


@pytest.mark.long
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_interrupts_at_every_bytecode(placement, call):
    """Arrays have their elements from before or after the call, and no object is lost."""
    assert interrupts.check(call) > 10


def test_finalizers_leave_the_error_of_a_creation():
    """They run between bytecodes, and their calls succeed."""
    words = gpuvec.Accumulator("sum", np.float64).to_words()
    words[0] = -1
    with pytest.raises(gpuvec.ArgumentError) as alone:
        gpuvec.Accumulator.from_words(words)
    finalizers = interrupts.BetweenBytecodes(lambda: gpuvec.Accumulator("sum", np.float64))
    with pytest.raises(gpuvec.ArgumentError) as beside:
        finalizers.call(lambda: gpuvec.Accumulator.from_words(words))
    assert finalizers.count > 10
    assert beside.value.args == alone.value.args


@pytest.mark.long
@needs_fake_driver
def test_interrupts_while_work_is_queued():
    """Queued work is waited for, and keeps its memory, wherever the interrupt came.

    The calls' processes, which wait for the fake driver's queues, run side by side.
    """
    script = """
import gpuvec
import interrupts
gpuvec.set_placement("gpu")
assert interrupts.check(interrupts.{}, fake_driver) > 10
"""
    with ThreadPoolExecutor(max_workers=5) as pool:
        running = [pool.submit(run, script.format(call.__name__), DELAY=2000) for call in CALLS]
        for one in running:
            one.result()


@needs_fake_driver
def test_an_interrupted_call_holds_its_arrays_no_longer_than_its_work():
    """Later calls on the stream release them."""
    run("""
import gc
import gpuvec
from interrupts import Interrupt, State, add
gpuvec.set_placement("gpu")
state = State()
count = fake_driver.count("host_allocations")
interrupt, number = Interrupt(1), 1
while interrupt.came or number == 1:
    interrupt = Interrupt(number)
    interrupt.call(lambda: add(state))
    state.y = gpuvec.pinned_zeros(1000)
    for _ in range(2):
        gpuvec.add(state.x, state.x, out=state.x, stream=state.stream)
        fake_driver.drain()
    gpuvec.add(state.x, state.x, out=state.x, stream=state.stream)
    assert fake_driver.count("host_allocations") == count, number
    number += 1
state.stream.synchronize()
""")
