"""Watches a signal that arrives in blocks: a running mean and variance, and alarms, on the device.

    PYTHONPATH=python python python_examples/signal_pipeline.py

Each block of samples of 16 bits is copied to device memory, where three formulas run on a stream,
each in one pass: the deviation from the running mean, the new mean and the new variance. A fourth
counts the samples that are out of the ordinary. The same steps in NumPy give the same bits.
"""

import sys
import time

import gpuvec
import numpy as np

N = 250_000
BLOCKS = 10
RATE = 0.125
LIMIT = 16.0

DEVIATION = gpuvec.Expression("f32(x) / 256 - mean", x=np.int16, mean=np.float32)
MEAN = gpuvec.Expression("mean + rate*d", mean=np.float32, d=np.float32, rate=float)
VARIANCE = gpuvec.Expression(
    "(1 - rate) * (variance + rate*d*d)", variance=np.float32, d=np.float32, rate=float
)
ALARMS = gpuvec.Expression(
    "count(d*d > limit*variance + 1)", d=np.float32, variance=np.float32, limit=float
)


def block(number: int) -> np.ndarray:
    """Returns the samples of a block, with a burst in every fifth."""
    random = np.random.default_rng(number)
    samples = random.normal(0, 500, N)
    if number % 5 == 4:
        samples[1000 * number : 1000 * number + 200] += 20_000
    return samples.astype(np.int16)


def before() -> tuple:
    """Returns the mean and the variance at the beginning."""
    return np.zeros(N, np.float32), np.full(N, 4, np.float32)


def on_device(blocks: list) -> list:
    """Runs the formulas on device arrays, or on the host's if there is no GPU."""
    x = gpuvec.DeviceArray(N, np.int16)
    start = (np.empty(N, np.float32), *before())
    d, mean, variance = (gpuvec.to_device(values) for values in start)
    alarms = gpuvec.pinned_zeros(BLOCKS, np.int64)
    with gpuvec.Stream() as stream:
        for number, samples in enumerate(blocks):
            gpuvec.copy(x, samples, stream=stream)
            DEVIATION(x=x, mean=mean, out=d, stream=stream)
            ALARMS(d=d, variance=variance, limit=LIMIT, out=alarms[number:][:1], stream=stream)
            MEAN(mean=mean, d=d, rate=RATE, out=mean, stream=stream)
            VARIANCE(variance=variance, d=d, rate=RATE, out=variance, stream=stream)
    return [alarms.copy(), mean.to_host(), variance.to_host()]


def in_numpy(blocks: list) -> list:
    """Computes the same with NumPy, which allocates an array for each operation."""
    mean, variance = before()
    rate, limit = np.float32(RATE), np.float32(LIMIT)
    alarms = np.zeros(BLOCKS, np.int64)
    for number, samples in enumerate(blocks):
        d = samples.astype(np.float32) / np.float32(256) - mean
        alarms[number] = np.count_nonzero(d * d > limit * variance + np.float32(1))
        mean = mean + rate * d
        variance = (np.float32(1) - rate) * (variance + rate * d * d)
    return [alarms, mean, variance]


def timed(name: str, call, *arguments):
    """Makes a call, prints its time and returns its result."""
    start = time.perf_counter()
    result = call(*arguments)
    print(f"{name:8} {1000 * (time.perf_counter() - start):8.2f} ms")
    return result


def main() -> None:
    """Watches the signal in both ways, and compares the results."""
    gpuvec.init()
    for formula in (DEVIATION, MEAN, VARIANCE, ALARMS):
        formula.prepare()
    blocks = [block(number) for number in range(BLOCKS)]
    found, right = timed("gpuvec", on_device, blocks), timed("NumPy", in_numpy, blocks)
    print(f"the last call: {gpuvec.last_run()}")
    if not all(np.array_equal(one, other) for one, other in zip(found, right)):
        sys.exit("the results differ")
    print(f"{BLOCKS} blocks of {N:,} samples: the same bits; alarms: {found[0]}")


if __name__ == "__main__":
    main()
