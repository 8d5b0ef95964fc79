"""Measures the kernels of exact sums beside plain loops, by the data.

    python3 benches/exact_rates.py

Each figure is the share of the plain loop's rate, on the same arrays in device memory. A second
table is for integers alone, as on GPUs with few units for f64. Takes about a minute.
"""

import argparse
import sys
from pathlib import Path
from statistics import median
from typing import Callable

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python_tests/support"))
from ceilings import IMAGE, LAUNCHES, rates
from corpus import KINDS, Kind
from device import Device
from exact_kernels import BY_INTEGERS, BY_THE_DATA, ExactKernel

# Elements that are made on the host, and repeated on the device.
MADE = 1 << 22
BLOCKS = 8

Rng = np.random.Generator


def scaled(values: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """Multiplies by powers of two."""
    return np.ldexp(values, exponents.astype(np.int32))


def every(step: int, exponent: int) -> Callable[[Rng, int], np.ndarray]:
    """Makes normal data in which each `step`-th element is scaled by 2^exponent."""

    def make(rng: Rng, top: int) -> np.ndarray:
        return scaled(rng.standard_normal(MADE), (np.arange(MADE) % step == 0) * (exponent * top))

    return make


def spread(part: float) -> Callable[[Rng, int], np.ndarray]:
    """Makes normal data scaled by 2^-e to 2^e, for a part of the type's exponents."""

    def make(rng: Rng, top: int) -> np.ndarray:
        most = int(part * top)
        return scaled(rng.standard_normal(MADE), rng.integers(-most, most + 1, MADE))

    return make


# Data by name; no term exceeds 2^top by much.
ORDINARY = {
    "normal": lambda rng, top: rng.standard_normal(MADE),
    "uniform": lambda rng, top: rng.random(MADE),
    "integers": lambda rng, top: rng.integers(-99, 100, MADE).astype(float),
    "half zeros": lambda rng, top: rng.standard_normal(MADE) * (np.arange(MADE) % 2),
    "sorted": lambda rng, top: np.sort(rng.standard_normal(MADE)),
}
OTHER = {
    "spread over half of the exponents": spread(0.5),
    "spread over most exponents": spread(0.95),
    "an outlier in 512": every(512, 0.75),
    "two scales by element": every(2, 0.75),
    "another scale every 4,096": lambda rng, top: scaled(
        rng.standard_normal(MADE), np.arange(MADE) // 4096 % 2 * (top // 2)
    ),
}


def subnormal(kind: Kind, rng: Rng) -> np.ndarray:
    """Makes subnormal data."""
    return scaled(rng.standard_normal(MADE), np.full(MADE, kind.least + kind.precision - 4))


class Rates:
    """A kind's kernel and its plain loop, on two arrays."""

    def __init__(self, device: Device, kind: Kind, n: int, rounds: int) -> None:
        self.device, self.kind, self.n, self.rounds = device, kind, n, rounds
        self.arrays = [device.memory(n, kind.dtype) for _ in range(1 + kind.is_dot)]
        self.sum = device.memory(1, kind.dtype)
        self.kernel = ExactKernel(device, kind)
        name = f"fma_{kind.name}" if kind.is_dot else f"plain_{kind.name}"
        self.plain = device.kernel(IMAGE, name)

    def fill(self, values: np.ndarray) -> None:
        """Repeats values in the arrays; in the second one backwards."""
        values = values.astype(self.kind.dtype)
        for array, source in zip(self.arrays, (values, values[::-1].copy())):
            for start in range(0, self.n, MADE):
                self.device.put(array.address + start * source.itemsize, source)

    def seconds(self, launch: Callable[[], None]) -> float:
        """Returns the median time of a launch."""

        def work() -> None:
            for _ in range(LAUNCHES):
                launch()
            self.device.synchronize(None)

        return 1 / median(rates(LAUNCHES, work, self.rounds))

    def shares(self) -> tuple[float, dict[int, float]]:
        """Returns the plain loop's rate in GB/s, and the kernel's share of it by each method."""
        places = [array.address for array in self.arrays]
        a, b = places[0], places[-1]

        def plain(waves: int) -> Callable[[], None]:
            grid = (self.device.multiprocessors * waves, 512)
            return lambda: self.device.launch(self.plain, grid, (a, b, self.sum.address), self.n)

        def exact(method: int) -> Callable[[], None]:
            blocks = BLOCKS * self.device.multiprocessors
            return lambda: self.kernel.launch(a, b, self.n, blocks, method, finish=True)

        best = min(self.seconds(plain(waves)) for waves in (1, 4, 16))
        size = len(places) * self.n * np.dtype(self.kind.dtype).itemsize
        methods = (BY_THE_DATA, BY_INTEGERS)
        return size / best / 1e9, {by: best / self.seconds(exact(by)) for by in methods}

    def close(self) -> None:
        """Frees the memory."""
        self.kernel.free()
        for array in (*self.arrays, self.sum):
            self.device.free(array)


def column(device: Device, kind: Kind, size: int, rounds: int) -> dict[str, tuple]:
    """Measures a kind on each data."""
    rng, top = np.random.default_rng(1), kind.top - 1
    made = {**ORDINARY, **OTHER, "subnormal": lambda rng, _: subnormal(kind, rng)}
    elements = size // np.dtype(kind.dtype).itemsize // MADE * MADE
    of = Rates(device, kind, elements, rounds)
    # In products, each factor has half of the exponents.
    scale = top // 2 if kind.is_dot else top
    shares = {}
    for name, make in made.items():
        with np.errstate(all="ignore"):
            of.fill(make(rng, scale))
        shares[name] = of.shares()
    of.close()
    return shares


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bytes", type=float, default=2**30, help="size of an array")
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    device = Device()
    columns = {str(kind): column(device, kind, int(chosen.bytes), chosen.rounds) for kind in KINDS}
    for method, title in ((BY_THE_DATA, "windows and integers"), (BY_INTEGERS, "integers alone")):
        print(f"\n| {title}, {device.name()} | " + " | ".join(columns) + " |")
        print("|---" * (1 + len(columns)) + "|")
        for name in next(iter(columns.values())):
            cells = (f"{shares[name][1][method]:.3f}" for shares in columns.values())
            print(f"| {name} | " + " | ".join(cells) + " |")
    plain = (f"{median(gb for gb, _ in shares.values()):,.0f}" for shares in columns.values())
    print("| the plain loop, GB/s | " + " | ".join(plain) + " |")


if __name__ == "__main__":
    main()
