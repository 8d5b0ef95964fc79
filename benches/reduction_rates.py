"""Times exact sums of f32 on a GPU beside plain loops, and norms beside additions.

    python3 benches/reduction_rates.py

On device arrays of 2^24 to 2^30 normally distributed elements, by the medians of whole calls. A
plain loop is launched and waited for in each call, on its fastest grid. Prints rates as shares of
the plain loop's; the norm's in bytes a second, as a share of the addition's. Takes a minute.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python_tests/support"))
from bindings import Place, Status, lib
from ceilings import IMAGE, THREADS
from device import Device
from formulas import TYPES, Compiled
from timing import Contender, measure, of_python

POWERS = range(30, 23, -1)
MADE = 1 << 24
WAVES = (1, 4, 16)
SECONDS, ROUNDS = 1.0, 15


class Contenders:
    """The calls on two inputs and an output."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.arrays = [device.memory(1 << max(POWERS), np.float32) for _ in range(3)]
        self.addresses = tuple(array.address for array in self.arrays)
        for address in self.addresses[:2]:
            values = np.random.default_rng(address).standard_normal(MADE, np.float32)
            for start in range(0, 1 << max(POWERS), MADE):
                device.put(address + 4 * start, values)

    def plain(self, name: str, n: int, waves: int) -> Contender:
        """A plain loop's launches, each waited for."""
        kernel, grid = self.device.kernel(IMAGE, name), self.device.multiprocessors * waves

        def call() -> None:
            self.device.launch(kernel, (grid, THREADS), self.addresses, n)
            self.device.synchronize(None)

        return Contender(f"{name} {waves}", of_python(call))

    def ours(self, text: str, n: int) -> Contender:
        """The library's calls."""
        a, b, out = self.addresses
        inputs = {"a": a, "b": b} if "b" in text else {"a": a}
        expression = Compiled(text, dict.fromkeys(inputs, TYPES["GPUVEC_F32"]))

        def call() -> None:
            assert expression.run([*inputs.values()], out, n) == Status.OK

        return Contender(text, of_python(call))

    def row(self, n: int) -> str:
        """Measures one length."""
        loops = [(name, w) for name in ("fma_dot_f32", "plain_sum_f32") for w in WAVES]
        contenders = [self.plain(name, n, waves) for name, waves in loops]
        contenders += [self.ours(text, n) for text in ("dot(a, b)", "sum(a)", "norm(a)", "a + b")]
        found = measure(contenders, SECONDS, ROUNDS)
        times = {name: figures["median_us"] for name, figures in found.items()}
        dot, sum_ = (
            min(times[f"{name} {waves}"] for waves in WAVES)
            for name in ("fma_dot_f32", "plain_sum_f32")
        )
        shares = (
            dot / times["dot(a, b)"],
            sum_ / times["sum(a)"],
            times["a + b"] / (3 * times["norm(a)"]),
        )
        of_plain = "".join(f"{share:8.3f}" for share in shares)
        return f"2^{n.bit_length() - 1}{of_plain}{dot:12.1f} µs{sum_:12.1f} µs"


def main() -> None:
    """Prints a line for each length."""
    lib.gpuvec_set_placement(Place.GPU)
    contenders = Contenders(Device())
    print(f"{'':4}{'dot':>8}{'sum':>8}{'norm':>8}{'plain dot':>15}{'sum':>15}")
    for power in POWERS:
        print(contenders.row(1 << power), flush=True)


if __name__ == "__main__":
    main()
