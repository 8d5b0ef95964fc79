"""Times contenders in batches, in a new random order each round.

A batch is a sequence of back-to-back calls that takes about BATCH_SECONDS; its figure is the mean
time of a call. A pause and a single timed call precede each batch: that call finds threads asleep
and caches that other contenders have used since.
"""

import random
import time
from math import ceil
from statistics import median, quantiles
from typing import Callable, NamedTuple

BATCH_SECONDS = 2e-3
MOST_CALLS = 20_000
MOST_ROUNDS = 200

# Calls longer than this are not timed after a pause: their arrays exceed every cache.
LONG_SECONDS = 5e-3

# The pause between batches, in which spinning worker threads of other contenders go to sleep.
PAUSE_SECONDS = 2e-3


class Contender(NamedTuple):
    """A named `batch`, which makes a number of calls and returns their time in seconds."""

    name: str
    batch: Callable[[int], float]


def of_python(call: Callable[[], object]) -> Callable[[int], float]:
    """Makes a batch of calls from Python."""

    def batch(calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            call()
        return time.perf_counter() - start

    return batch


def summary(seconds: list[float]) -> dict:
    """Returns the median, quartiles and extremes, in microseconds."""
    us = sorted(1e6 * second for second in seconds)
    low, high = (quantiles(us, n=4)[::2]) if len(us) > 1 else (us[0], us[0])
    return {
        "median_us": median(us),
        "min_us": us[0],
        "low_us": max(low, us[0]),
        "high_us": min(high, us[-1]),
        "max_us": us[-1],
        "batches": len(us),
    }


class Timing:
    """The measurements of one contender."""

    def __init__(self, contender: Contender) -> None:
        self.contender = contender
        # The first call may compile a kernel.
        self.one = min(contender.batch(1) for _ in range(2))
        if self.one < LONG_SECONDS:
            self.one = min(contender.batch(1) for _ in range(3))
        self.calls = max(1, min(MOST_CALLS, ceil(BATCH_SECONDS / max(self.one, 1e-9))))
        self.seconds: list[float] = []
        self.after_pause: list[float] = []

    def once_more(self) -> None:
        """Times one more batch."""
        time.sleep(PAUSE_SECONDS)
        if self.one < LONG_SECONDS:
            self.after_pause.append(self.contender.batch(1))
        self.seconds.append(self.contender.batch(self.calls) / self.calls)

    def summary(self) -> dict:
        """Returns the contender's figures."""
        figures = {**summary(self.seconds), "calls": self.calls}
        if self.after_pause:
            figures["after_pause_us"] = 1e6 * median(self.after_pause)
        return figures


def measure(contenders: list[Contender], seconds: float, rounds: int) -> dict[str, dict]:
    """Returns each contender's figures, after about `seconds` and at least `rounds` rounds."""
    order = random.Random(0)
    end = time.perf_counter() + seconds
    timings = [Timing(contender) for contender in contenders]
    for done in range(MOST_ROUNDS):
        if done >= rounds and time.perf_counter() > end:
            break
        for timing in order.sample(timings, len(timings)):
            timing.once_more()
    return {timing.contender.name: timing.summary() for timing in timings}
