"""Times contenders in turn, in batches of calls: the harness of all suites.

A batch is a sequence of back-to-back calls that takes about BATCH_SECONDS; its figure is the mean
time of a call. In each round all contenders take a turn, in a new random order. A pause and a
single timed call precede each batch: that call finds threads asleep and caches that other
contenders have used since.
"""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from math import ceil
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple, Optional

ROOT = Path(__file__).resolve().parents[1]

BATCH_SECONDS = 2e-3
MOST_CALLS = 20_000
MOST_ROUNDS = 200
# A longer call is not timed after a pause: its arrays exceed every cache.
LONG_SECONDS = 5e-3
# The pause between batches, in which spinning worker threads of other contenders go to sleep.
PAUSE_SECONDS = 2e-3

Row = dict[str, Any]
Call = Callable[[], object]
Batch = Callable[[int], float]


class Contender(NamedTuple):
    """A named `batch`, which makes a number of calls and returns their time in seconds.

    A contender elsewhere writes to the arrays of another process.
    """

    name: str
    batch: Batch
    is_elsewhere: bool = False


def batch_of(call: Call, wait: Call = lambda: None) -> Batch:
    """Makes a batch of calls from Python, which ends when `wait` returns."""

    def batch(calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            call()
        wait()
        return time.perf_counter() - start

    return batch


class Timing:
    """The measurements of one contender."""

    def __init__(self, contender: Contender) -> None:
        self.contender = contender
        # The first call may compile a kernel.
        self.one = min(contender.batch(1) for _ in range(2))
        if self.one < LONG_SECONDS:
            self.one = min(contender.batch(1) for _ in range(3))
        self.calls = max(1, min(MOST_CALLS, ceil(BATCH_SECONDS / max(self.one, 1e-9))))
        self.us: list[float] = []
        self.after_pause: list[float] = []

    def once_more(self) -> None:
        """Times one more batch."""
        time.sleep(PAUSE_SECONDS)
        if self.one < LONG_SECONDS:
            self.after_pause.append(1e6 * self.contender.batch(1))
        self.us.append(1e6 * self.contender.batch(self.calls) / self.calls)


def spread_of(figures: list[float]) -> list[float]:
    """Returns the least figure, the quartiles and the greatest figure."""
    low, high = quantiles(figures, n=4)[::2] if len(figures) > 1 else figures * 2
    least, most = min(figures), max(figures)
    return [least, max(low, least), min(high, most), most]


def measure(contenders: Iterable[Contender], seconds: float, rounds: int) -> Row:
    """Times contenders for about `seconds` and at least `rounds` rounds.

    Returns the fields of a row: the medians in microseconds by the contender's name, their spread,
    and the medians of the calls after a pause.
    """
    order = random.Random(0)
    end = time.perf_counter() + seconds
    timings = [Timing(contender) for contender in contenders]
    for done in range(MOST_ROUNDS):
        if done >= rounds and time.perf_counter() > end:
            break
        for timing in order.sample(timings, len(timings)):
            timing.once_more()
    paused = {one.contender.name: one.after_pause for one in timings if one.after_pause}
    return {
        "us": {one.contender.name: median(one.us) for one in timings},
        "spread": {one.contender.name: spread_of(one.us) for one in timings},
        "after_pause_us": {name: median(us) for name, us in paused.items()},
    }


def rates(amount: float, work: Call, rounds: int) -> list[float]:
    """Returns `amount` per second for each round, after a warm-up round."""
    work()
    return [amount / batch_of(work)(1) for _ in range(rounds)]


class OtherProcess:
    """A process with its own environment, which makes calls for this one (`serve`)."""

    def __init__(self, module: str, **environment: str) -> None:
        command = [sys.executable, str(ROOT / "benches/bench.py"), "--serve", module]
        self.process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, *question: object) -> Any:
        """Sends a line of JSON and returns the answer."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the other process ended with {self.process.wait()}")
        return json.loads(line)

    def contender(self, name: str, *question: object) -> Contender:
        """Returns calls in that process as a contender."""
        return Contender(name, lambda calls: float(self.ask(*question, calls)), is_elsewhere=True)

    def close(self) -> None:
        """Ends the process."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def serve(answer: Callable[..., object]) -> None:
    """Answers the questions of another process."""
    for line in sys.stdin:
        print(json.dumps(answer(*json.loads(line))), flush=True)


def cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def threads() -> int:
    """Returns the number of threads that gpuvec and its peers use."""
    return int(os.environ.get("GPUVEC_NUM_THREADS") or cores())


def us(row: Optional[Row], name: str) -> Optional[float]:
    """Returns a contender's median in microseconds, if it was measured."""
    return row["us"].get(name) if row else None


def is_peer(name: str) -> bool:
    """True for a contender that is another library."""
    return not name.startswith(("gpuvec", "again"))


def best(row: Row, names: Optional[Iterable[str]] = None) -> Optional[tuple[float, str]]:
    """Returns the time and the name of the fastest of some contenders, or of all peers."""
    among = filter(is_peer, row["us"]) if names is None else names
    return min(((row["us"][name], name) for name in among if name in row["us"]), default=None)
