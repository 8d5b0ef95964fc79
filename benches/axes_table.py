"""Times the programs of docs/howto/arrays_of_several_axes.md beside other libraries.

    GPUVEC_LIB=target/gpu/libgpuvec.so python3 benches/axes_table.py

Prints milliseconds, beside NumPy, numexpr, CuPy and PyTorch: on arrays in host memory on all cores,
and on arrays in device memory if there is a GPU. Each is the median of some calls by the clock.
Measures the contenders that are installed.
"""

import importlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any, Optional

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
import gpuvec
import numpy as np

ROUNDS, SECONDS = 7, 0.4
Call = Callable[[], Any]


def installed(name: str) -> Optional[ModuleType]:
    """Imports a module, if it is installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


cupy, torch, numexpr = map(installed, ("cupy", "torch", "numexpr"))


def milliseconds(call: Call, wait: Call = lambda: None) -> Optional[float]:
    """Returns the median time of a call; None if gpuvec refuses it."""
    try:
        call()
    except gpuvec.Error:
        return None
    wait()
    times = []
    end = time.perf_counter() + SECONDS
    while len(times) < ROUNDS or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        wait()
        times.append(time.perf_counter() - start)
    return 1e3 * median(times)


class Task:
    """A program: its arrays, by names, and how each contender does it."""

    def __init__(self, name: str, arrays: dict[str, np.ndarray], ours: Callable, eager: Callable):
        self.name, self.arrays, self.ours, self.eager = name, arrays, ours, eager
        self.numexpr: Optional[str] = None

    def row(self) -> list[Optional[float]]:
        """Measures all contenders."""
        figures = [
            milliseconds(lambda: self.ours(**self.arrays)),
            milliseconds(lambda: self.eager(np, **self.arrays)),
            None,
        ]
        if numexpr and self.numexpr:
            views = dict(self.arrays)
            figures[2] = milliseconds(lambda: numexpr.evaluate(self.numexpr, views))
        return figures + self.on_device()

    def on_device(self) -> list[Optional[float]]:
        """Measures those that compute in device memory."""
        if not (cupy and cupy.cuda.is_available()):
            return [None] * 3
        device = {name: cupy.asarray(array) for name, array in self.arrays.items()}
        wait = cupy.cuda.Device().synchronize
        figures = [milliseconds(lambda: self.ours(**device))]
        figures.append(milliseconds(lambda: self.eager(cupy, **device), wait))
        if torch is None:
            return [*figures, None]
        tensors = {name: torch.as_tensor(array, device="cuda") for name, array in device.items()}
        eager = milliseconds(lambda: self.eager(torch, **tensors), torch.cuda.synchronize)
        return [*figures, eager]


def standardise(x: Any) -> Any:
    """Subtracts each column's mean, and divides by its deviation."""
    mean = gpuvec.evaluate("mean(x)", x=x, axis=0)
    variance = gpuvec.evaluate("mean((x - m) * (x - m))", x=x, m=mean, axis=0)
    return gpuvec.evaluate("(x - m) / sqrt(v)", x=x, m=mean, v=variance)


def standardise_eagerly(xp: Any, x: Any) -> Any:
    """The same with a library of arrays."""
    centered = x - x.mean(0)
    return centered / xp.sqrt((centered * centered).mean(0))


def distances(p: Any) -> Any:
    """The squares of the distances between all points."""
    return gpuvec.evaluate("sum((a - b) * (a - b))", a=p[:, None, :], b=p[None], axis=-1)


def stencil(u: Any, v: Any) -> Any:
    """The mean of four neighbours, in the inner part of another array."""
    inner = v[1:-1, 1:-1]
    gpuvec.evaluate(
        "0.25 * (n + s + w + e)",
        n=u[:-2, 1:-1],
        s=u[2:, 1:-1],
        w=u[1:-1, :-2],
        e=u[1:-1, 2:],
        out=inner,
    )


def stencil_eagerly(_: Any, u: Any, v: Any) -> Any:
    """The same with a library of arrays."""
    v[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])


def channels_last(x: Any, bias: Any, out: Any) -> Any:
    """Moves the channels to the end, and adds one number to each."""
    gpuvec.evaluate("x + bias", x=moved(x), bias=bias, out=out)


def channels_last_eagerly(_: Any, x: Any, bias: Any, out: Any) -> Any:
    """The same with a library of arrays."""
    out[...] = moved(x) + bias


def moved(x: Any) -> Any:
    """Returns a view with the axis of channels at the end."""
    return (
        x.permute(0, 2, 3, 1) if torch and isinstance(x, torch.Tensor) else x.transpose(0, 2, 3, 1)
    )


def tasks() -> list[Task]:
    """Makes the programs' arrays."""
    random = np.random.default_rng(1)

    def normal(*shape: int) -> np.ndarray:
        return random.standard_normal(shape, np.float32)

    u, images = normal(4096, 4096), normal(32, 64, 56, 56)
    last = np.empty((32, 56, 56, 64), np.float32)
    found = [
        Task(
            "standardise 1,000,000 × 16",
            {"x": normal(1_000_000, 16)},
            standardise,
            standardise_eagerly,
        ),
        Task(
            "distances of 2,000 points",
            {"p": normal(2000, 16)},
            distances,
            lambda _, p: ((p[:, None, :] - p[None]) ** 2).sum(-1),
        ),
        Task("stencil, 4096 × 4096", {"u": u, "v": u.copy()}, stencil, stencil_eagerly),
        Task(
            "NCHW to NHWC + bias",
            {"x": images, "bias": normal(64), "out": last},
            channels_last,
            channels_last_eagerly,
        ),
        Task(
            "sums of 16,384 rows",
            {"x": normal(16384, 4096)},
            lambda x: gpuvec.evaluate("sum(x)", x=x, axis=1),
            lambda _, x: x.sum(1),
        ),
        Task(
            "sums of 4,096 columns",
            {"x": normal(16384, 4096)},
            lambda x: gpuvec.evaluate("sum(x)", x=x, axis=0),
            lambda _, x: x.sum(0),
        ),
    ]
    found[4].numexpr, found[5].numexpr = "sum(x, axis=1)", "sum(x, axis=0)"
    return found


def main() -> None:
    """Prints the table."""
    heads = ["gpuvec", "NumPy", "numexpr", "gpuvec, device", "CuPy", "PyTorch"]
    print("| ms | " + " | ".join(heads) + " |")
    print("|---" * (1 + len(heads)) + "|")
    for task in tasks():
        cells = ("–" if ms is None else f"{ms:.3g}" for ms in task.row())
        print(f"| {task.name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
