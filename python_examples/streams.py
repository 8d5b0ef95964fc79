"""Double buffering: two streams alternate on the chunks of a large NumPy array.

    PYTHONPATH=python python python_examples/streams.py

While one stream computes on a chunk, the other's chunk crosses the bus. gpuvec.pinned page-locks
the NumPy arrays: copies of pageable arrays would not be queued.
"""

import sys

import gpuvec
import numpy as np

N = 8_000_000
CHUNK = 1_000_000


class Slot:
    """A stream and the device memory for one chunk."""

    def __init__(self):
        self.stream = gpuvec.Stream()
        self.chunk = gpuvec.DeviceArray(CHUNK, np.float32)

    def queue(self, signal: np.ndarray, background: gpuvec.DeviceArray, out: np.ndarray) -> None:
        """Queues the work on a chunk: copy in, subtract the background, copy out."""
        gpuvec.copy(self.chunk, signal, stream=self.stream)
        gpuvec.sub(self.chunk, background, out=self.chunk, stream=self.stream)
        gpuvec.copy(out, self.chunk, stream=self.stream)


def process(
    signal: np.ndarray, background: gpuvec.DeviceArray, out: np.ndarray, slots: list
) -> float:
    """Processes all chunks in the slots alternately, and returns the time in milliseconds.

    A slot's memory needs no event: its next chunk is queued behind the previous one.
    """
    start, end, first = gpuvec.Event(), gpuvec.Event(), slots[0].stream
    start.record(first)
    for number, at in enumerate(range(0, signal.size, CHUNK)):
        chunk = slice(at, at + CHUNK)
        slots[number % len(slots)].queue(signal[chunk], background, out[chunk])
    for slot in slots[1:]:
        done = gpuvec.Event()
        done.record(slot.stream)
        first.wait(done)
    end.record(first)
    return start.elapsed(end)


def main() -> None:
    """Processes with one stream, then with two, and checks both results."""
    random = np.random.default_rng(1)
    signal = random.random(N, np.float32)
    background = random.random(CHUNK, np.float32)
    expected = (signal.reshape(-1, CHUNK) - background).reshape(-1)
    out = np.empty_like(signal)
    slots, there = [Slot(), Slot()], gpuvec.to_device(background)
    with gpuvec.pinned(signal), gpuvec.pinned(out):
        for count in (1, 2):
            out[:] = 0
            ms = process(signal, there, out, slots[:count])
            if not np.array_equal(out, expected):
                sys.exit(f"the result with {count} streams is wrong")
            rate = 2 * signal.nbytes / 1e6 / ms
            print(
                f"{count} stream(s): {N:,} elements there and back in {ms:.2f} ms, {rate:.1f} GB/s"
            )


if __name__ == "__main__":
    main()
