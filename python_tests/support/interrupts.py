"""Raises KeyboardInterrupt at each bytecode of the package that a call executes, one after another.

Python runs signal handlers between bytecodes, so these are all the places where Ctrl-C may come.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import gpuvec
import numpy as np
from fake_driver import FakeDriver

PACKAGE = str(Path(gpuvec.__file__).parent)
N = 1000
ONES = np.ones(N, np.float32)
VALUES = np.arange(N, dtype=np.float32)
PLUS = gpuvec.Expression("x + y", x=np.float32, y=np.float32)


class BetweenBytecodes:
    """Does something before each bytecode of the package that a call executes, and counts these."""

    def __init__(self, work: Callable[[], Any]):
        self.work, self.count = work, 0

    def call(self, function: Callable[[], Any]) -> Any:
        """Calls a function, and returns its result."""
        # CPython 3.12 reports bytecodes only if a frame asked for them before tracing began.
        sys._getframe().f_trace_opcodes = True
        sys.settrace(self._entered)
        try:
            return function()
        finally:
            sys.settrace(None)

    def _entered(self, frame: Any, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._traced

    def _traced(self, frame: Any, event: str, argument: Any) -> Any:
        if event == "opcode":
            self.count += 1
            self.work()
        return self._traced


class Interrupt(BetweenBytecodes):
    """An interrupt before one bytecode of the package; also tells whether the call got there."""

    def __init__(self, number: int):
        super().__init__(self._interrupt)
        self.number = number

    @property
    def came(self) -> bool:
        """True if the bytecode was reached."""
        return self.count >= self.number

    def call(self, function: Callable[[], Any]) -> Any:
        """Calls a function, and returns its result; None if it was interrupted."""
        try:
            return super().call(function)
        except KeyboardInterrupt:
            assert self.came
            return None

    def _interrupt(self) -> None:
        if self.count == self.number:
            raise KeyboardInterrupt


def pinned(values: np.ndarray) -> np.ndarray:
    """Copies an array to pinned memory."""
    array = gpuvec.pinned_like(values)
    array[:] = values
    return array


@cache
def long_work() -> tuple[Any, ...]:
    """Returns arrays: a copy of them keeps a GPU busy for some milliseconds. None without a GPU."""
    if gpuvec.why_cpu() or hasattr(ctypes.CDLL("libcuda.so.1"), "fake_driver_calls"):
        return ()
    return gpuvec.pinned_zeros(2**25), gpuvec.pinned_zeros(2**25)


class State:
    """The objects of a call: a stream, an array with known results, and an operand."""

    def __init__(self) -> None:
        self.stream = gpuvec.Stream()
        if long_work():
            gpuvec.copy(*long_work(), stream=self.stream)
        self.x = gpuvec.to_device(VALUES)
        self.y: Any = pinned(ONES)
        self.event = gpuvec.Event()
        self.total = gpuvec.Accumulator("sum", np.float32)
        self.let_go: Callable[[], Any] = lambda: None


def add(state: State) -> Any:
    """Adds into an input."""
    gpuvec.add(state.x, state.y, out=state.x, stream=state.stream)


def evaluate(state: State) -> Any:
    """Evaluates an expression."""
    inputs = {"x": state.x, "y": state.y}
    gpuvec.evaluate("x + y", **inputs, out=state.x, stream=state.stream)


def call_expression(state: State) -> Any:
    """Calls a compiled expression."""
    PLUS(x=state.x, y=state.y, out=state.x, stream=state.stream)


def copy(state: State) -> Any:
    """Copies an array in pinned memory."""
    state.y += VALUES
    gpuvec.copy(state.x, state.y, stream=state.stream)


# Calls that wait for nothing.
QUEUED = (add, evaluate, call_expression, copy)


def add_to_new(state: State) -> Any:
    """Adds into a new array."""
    return gpuvec.add(state.x, state.y, stream=state.stream)


def to_device(state: State) -> Any:
    """Copies an array to new device memory."""
    state.y += VALUES
    return gpuvec.to_device(state.y, stream=state.stream)


def events(state: State) -> Any:
    """Records an event, and makes another stream's work wait for it."""
    state.event.record(state.stream)
    other = gpuvec.Stream()
    other.wait(state.event)
    gpuvec.add(state.x, state.y, out=state.x, stream=other)


def to_host(state: State) -> Any:
    """Copies a queued result to the host."""
    add(state)
    return state.x.to_host()


def add_at_once(state: State) -> Any:
    """Adds without a stream what was queued before."""
    add(state)
    return gpuvec.add(state.x, gpuvec.to_device(0 * ONES))


def accumulate(state: State) -> Any:
    """Adds the elements to an exact sum, or does not."""
    state.total.add(state.x, stream=state.stream)
    assert state.total.count in (0, N)


def synchronize(state: State) -> Any:
    """Waits for a stream."""
    with state.stream:
        add(state)


def drop_stream(state: State) -> Any:
    """Drops a stream with queued work, and the array that the work uses."""
    add(state)
    state.let_go()
    state.y = state.stream = None


def drop_everything(state: State) -> Any:
    """Drops all objects of a call that was queued."""
    gpuvec.add(gpuvec.to_device(ONES), pinned(ONES), stream=gpuvec.Stream())


def create(state: State) -> Any:
    """Makes an object of each kind."""
    gpuvec.DeviceArray(N), gpuvec.pinned_zeros(N), gpuvec.Event(), gpuvec.Stream()
    gpuvec.Accumulator.from_bytes(gpuvec.Accumulator("dot", np.float64).to_bytes())
    gpuvec.Accumulator.from_words(gpuvec.Accumulator("sum", np.float32, 2).to_words())
    gpuvec.Expression("x + 1", x=np.float32)


def lock(state: State) -> Any:
    """Page-locks an array for a block."""
    with gpuvec.pinned(VALUES.copy()) as array:
        gpuvec.add(array, array, out=array)


OTHERS = (
    add_to_new,
    to_device,
    events,
    to_host,
    add_at_once,
    accumulate,
    synchronize,
    drop_stream,
    drop_everything,
    create,
    lock,
)


@contextmanager
def silent() -> Iterator[None]:
    """Keeps interrupts from being printed that come in callbacks of the interpreter."""
    before, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        yield
    finally:
        sys.unraisablehook = before


def values_of(array: Any) -> np.ndarray:
    """Returns the elements of an array in any memory."""
    return array.to_host() if isinstance(array, gpuvec.DeviceArray) else array


def check(call: Callable[[State], Any], fake_driver: FakeDriver | None = None) -> int:
    """Interrupts a call at each bytecode in turn, and returns the number of bytecodes.

    The array has its elements from before or after the call, and no object is lost. On the fake
    driver, queued work waits until what it uses was dropped, and all memory is accounted for.
    """
    with silent():
        check_once(call, Interrupt(0), fake_driver)
        # Cycles that earlier tests left would be collected at some bytecode, and counted as gone.
        gc.collect()
        before = ledger(fake_driver)
        number = 0
        while True:
            number += 1
            interrupt = Interrupt(number)
            check_once(call, interrupt, fake_driver)
            gpuvec.Stream()
            if ledger(fake_driver) != before:
                # A traced frame may be part of a cycle.
                gc.collect()
            left = ledger(fake_driver)
            assert left == before, f"bytecode {number}: {left}, not {before}"
            if not interrupt.came:
                return number


def check_once(
    call: Callable[[State], Any], interrupt: Interrupt, fake_driver: FakeDriver | None
) -> None:
    """Interrupts a call at one bytecode, and checks the remaining objects."""
    state = State()
    if fake_driver is not None:
        fake_driver.plan("")
    held: Any = nullcontext()
    if fake_driver is not None and call in (*QUEUED, drop_stream):
        held = fake_driver.held()
        state.let_go = lambda: fake_driver.driver.fake_driver_hold(False)
    allocations = ledger(fake_driver)
    with held:
        result = interrupt.call(lambda: call(state))
        if call is drop_stream:
            state.let_go()
        state.y = None
        if fake_driver is not None and call in QUEUED and fake_driver.count("pending"):
            for kind, before in allocations.items():
                assert ledger(fake_driver)[kind] >= before, f"{kind} were freed in use"
    after = VALUES + ONES
    found = values_of(state.x)
    assert (found == VALUES).all() or (found == after).all()
    if result is not None:
        assert (values_of(result) == after).all()
    if call is drop_stream and fake_driver is not None:
        check_order(fake_driver.calls())
    if state.stream is not None:
        state.stream.synchronize()
    if fake_driver is not None:
        fake_driver.drain()
    assert (values_of(state.x) == found).all(), "the work was not waited for"


def check_order(calls: list[str]) -> None:
    """Fails if memory is freed after work was queued and before it was waited for."""
    is_busy = False
    for name in calls:
        is_busy |= name.startswith("cuLaunchKernel")
        is_busy &= name not in ("cuEventSynchronize", "cuStreamSynchronize")
        assert not (is_busy and name.startswith("cuMemFree")), calls


def ledger(fake_driver: FakeDriver | None) -> dict[str, int]:
    """Counts the objects that exist."""
    counts = {"owned": len(gpuvec._owned._releases), "streams of the package": 0}
    counts["streams of the package"] = len(gpuvec._streams._streams)
    if fake_driver is not None:
        kinds = ("device_allocations", "host_allocations", "registered", "streams")
        counts.update({kind: fake_driver.count(kind) for kind in kinds})
    return counts
