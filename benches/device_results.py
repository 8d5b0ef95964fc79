"""Times calls on arrays in device memory, beside CuPy and PyTorch.

    GPUVEC_LIB=target/gpu/libgpuvec.so python3 benches/device_results.py

Prints milliseconds by the clock, the medians of calls that take turns: sums of rows and
standardised columns, which are new arrays, and images whose channels move to the end, in an array
of the caller's. gpuvec computes on its own arrays, and on those of the libraries that are
installed. Then what new memory alone costs, by its size.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
import gpuvec
import numpy as np
from axes_table import cupy, moved, standardise, standardise_eagerly, torch

ROUNDS = 50
SIZES = [(16_384, 4096), (1_000_000, 16), (32, 64, 56, 56)]

Call = Callable[[], Any]


def milliseconds(contenders: dict[str, Call], wait: Call) -> dict[str, float]:
    """Returns the median time of each call; in each round all take a turn."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for call in contenders.values():
        call()
    wait()
    for _ in range(ROUNDS):
        for name, call in contenders.items():
            start = time.perf_counter()
            call()
            wait()
            times[name].append(1e3 * (time.perf_counter() - start))
    return {name: median(found) for name, found in times.items()}


def show(title: str, times: dict[str, float]) -> None:
    """Prints a line."""
    print(f"{title:26}", *(f"{name} {value:8.4f}  " for name, value in times.items()))


def makers() -> dict[str, Callable[[np.ndarray], Any]]:
    """Returns for each library what copies an array to the device."""
    found: dict[str, Callable[[np.ndarray], Any]] = {"gpuvec": gpuvec.to_device}
    if cupy:
        found["CuPy"] = cupy.asarray
    if torch:
        found["PyTorch"] = lambda array: torch.as_tensor(array, device="cuda")
    return found


def tasks() -> dict[str, dict[str, Call]]:
    """Returns each task's calls: gpuvec's on the arrays of each library, and the library's."""
    rng = np.random.default_rng(7)
    rows, columns, images = (rng.standard_normal(size, np.float32) for size in SIZES)
    bias = rng.standard_normal(SIZES[2][1], np.float32)
    last = np.empty(moved(images).shape, np.float32)
    found: dict[str, dict[str, Call]] = {name: {} for name in ("sums", "standardise", "channels")}
    for name, made in makers().items():
        add(found, name, *map(made, (rows, columns, images, bias, last)))
    return found


def add(
    found: dict[str, dict[str, Call]], name: str, rows: Any, columns: Any, images: Any, *others: Any
) -> None:
    """Adds the calls on arrays of one library."""
    bias, last = others
    ours = name if name == "gpuvec" else f"gpuvec on {name}"
    found["sums"][ours] = lambda: gpuvec.evaluate("sum(x)", x=rows, axis=1)
    found["standardise"][ours] = lambda: standardise(columns)
    found["channels"][ours] = lambda: gpuvec.evaluate(
        "x + bias", x=moved(images), bias=bias, out=last
    )
    if ours == name:
        return

    def move() -> None:
        last[...] = moved(images) + bias

    module = torch if name == "PyTorch" else cupy
    found["sums"][name] = lambda: rows.sum(1)
    found["standardise"][name] = lambda: standardise_eagerly(module, columns)
    found["channels"][name] = move


def main() -> None:
    """Prints the tables."""
    if not gpuvec.device_count():
        sys.exit(f"there is no GPU: {gpuvec.why_cpu()}")
    print(f"{gpuvec.device_name(0)}, ms")
    wait = torch.cuda.synchronize if torch else cupy.cuda.Device().synchronize if cupy else int
    for title, contenders in tasks().items():
        show(title, milliseconds(contenders, wait))
    for size in (4096, 1 << 16, 1 << 20, 1 << 26, 1 << 28, 1 << 30):
        new = {"gpuvec": lambda size=size: gpuvec.DeviceArray(size, np.uint8)}
        show(f"new memory, {size:,} bytes", milliseconds(new, int))


if __name__ == "__main__":
    main()
