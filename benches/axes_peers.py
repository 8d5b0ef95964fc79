"""Times calls on device arrays of several axes beside PyTorch and CuPy, as shares of a copy's rate.

    GPUVEC_LIB=target/gpu/libgpuvec.so python3 benches/axes_peers.py [sums] [small] [elements]

Runs on a GPU machine with both libraries, on the same arrays. The contenders take turns, in batches
of calls that are queued back to back, or of calls that are each waited for. A share is the rate of
the bytes that a call must read and write over that of gpuvec's copy of contiguous arrays. The last
column is the time of the better peer over gpuvec's. gpuvec's sums are exact, theirs are not.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
sys.path.append(str(Path(__file__).resolve().parents[1] / "python_tests" / "support"))
import gpuvec
from axes_table import cupy, torch
from streams import Resources
from strided_cases import CASES, StridedCase
from strided_rates import copy_rate, distinct_bytes
from timing import Contender, measure

SECONDS, ROUNDS, TIMES = 0.25, 5, 4
COPIED, ELEMENTS = 1 << 30, 1 << 27
LARGE = [
    (16_384, 4096),
    (4096, 16_384),
    (16_384, 16_384),
    (4_194_304, 64),
    (64, 4_194_304),
    (16_777_216, 16),
    (67_108_864, 4),
    (89_478_485, 3),
]
# The shapes on which other reductions than sums are timed, too.
OF_ALL = {(16_384, 16_384), (4_194_304, 64)}
SMALL = [(100, 100), (1000, 16), (1000, 1000), (16, 100_000), (4096, 4096), (16_384, 4096)]
TORCH_NAMES = {"min": "amin", "max": "amax"}

Call = Callable[[], Any]


class Peers:
    """The contenders: gpuvec's stream, how each library waits for its work, and a copy's rate."""

    def __init__(self, copy: float) -> None:
        self.copy = copy
        self.stream = gpuvec.Stream()
        self.waits: dict[str, Call] = {
            "gpuvec": self.stream.synchronize,
            "PyTorch": torch.cuda.synchronize,
            "CuPy": cupy.cuda.Device().synchronize,
        }

    def queued(self, name: str, size: int, calls: dict[str, Call]) -> None:
        """Times calls that are queued one behind the other, and waits for the last one."""
        self.show(name, size, {of: batch(call, int, self.waits[of]) for of, call in calls.items()})

    def waited_for(self, name: str, size: int, calls: dict[str, Call]) -> None:
        """Times calls that are each waited for: gpuvec's return when the result is there."""
        waits = {**self.waits, "gpuvec": int}
        self.show(name, size, {of: batch(call, waits[of], int) for of, call in calls.items()})

    def show(self, name: str, size: int, batches: dict[str, Callable[[int], float]]) -> None:
        """Times batches of calls that read and write `size` bytes, and prints a line."""
        # The first calls load kernels.
        for run in batches.values():
            run(2)
        contenders = [Contender(*of) for of in batches.items()]
        figures = measure(contenders, SECONDS, ROUNDS)
        times = {of: figures[of]["median_us"] if of in figures else np.nan for of in self.waits}
        shares = [f"{1e6 * size / time / self.copy:7.3f}" for time in times.values()]
        best = np.nanmin([times["PyTorch"], times["CuPy"]])
        cells = [f"{time:9.1f}" for time in times.values()]
        print(f"{name:34}", *cells, *shares, f"{best / times['gpuvec']:6.2f}", flush=True)


def batch(call: Call, wait: Call, wait_for_all: Call) -> Callable[[int], float]:
    """Makes a batch of calls; several for one if more than one is asked for."""

    def run(calls: int) -> float:
        several = TIMES if calls > 1 else 1
        start = time.perf_counter()
        for _ in range(several * calls):
            call()
            wait()
        wait_for_all()
        return (time.perf_counter() - start) / several

    return run


def reductions(x: Any, name: str, axis: int, stream: Optional[gpuvec.Stream]) -> dict[str, Call]:
    """Returns the calls that reduce a tensor: queued on a stream, or into new arrays."""
    theirs = getattr(torch, TORCH_NAMES.get(name, name)), getattr(cupy, name)
    of_cupy = cupy.from_dlpack(x)
    calls = {"PyTorch": lambda: theirs[0](x, axis), "CuPy": lambda: theirs[1](of_cupy, axis)}
    formula = gpuvec.Expression(f"{name}(x)", {"x": "f4"})
    if stream is None:
        return {"gpuvec": lambda: formula(x=x, axis=axis), **calls}
    ours, out = gpuvec.from_dlpack(x), gpuvec.DeviceArray(x.shape[1 - axis], "f4")
    return {"gpuvec": lambda: formula(x=ours, axis=axis, out=out, stream=stream), **calls}


def show_sums(peers: Peers) -> None:
    """Times reductions of large arrays."""
    heading("queued, µs")
    for shape in LARGE:
        x = torch.randn(shape, device="cuda")
        for name in ("sum", "mean", "min", "max") if shape in OF_ALL else ("sum",):
            for axis in (1, 0):
                title = f"{name}, {shape[0]} × {shape[1]}, {'rows' if axis else 'columns'}"
                calls = reductions(x, name, axis, peers.stream)
                peers.queued(title, x.nbytes + 4 * shape[1 - axis], calls)


def show_small(peers: Peers) -> None:
    """Times whole calls that return new arrays."""
    heading("waited for, µs")
    for shape in SMALL:
        x = torch.randn(shape, device="cuda")
        for name in ("sum", "max"):
            for axis in (1, 0):
                title = f"{name}, {shape[0]} × {shape[1]}, {'rows' if axis else 'columns'}"
                peers.waited_for(title, x.nbytes, reductions(x, name, axis, None))


def views_of(array: Any, pairs: list[list[np.ndarray]]) -> list[Any]:
    """Returns CuPy's views of the same shapes and strides as the others."""
    found = []
    for parent, view in pairs:
        memory = cupy.asarray(array(parent.shape, "f4"))
        offset = view.ctypes.data - parent.ctypes.data
        pointer = memory.data + offset
        found.append(cupy.ndarray(view.shape, "f4", pointer, strides=view.strides))
    return found


def elementwise(case: StridedCase, stream: gpuvec.Stream) -> tuple[int, dict[str, Call]]:
    """Returns the bytes of a case's distinct elements, and its calls."""
    pairs = case.views(ELEMENTS)
    size = sum(distinct_bytes(view) for _, view in pairs)
    views = views_of(cupy.ones, pairs)
    *inputs, out = views
    formula = gpuvec.Expression(case.text, case.inputs())
    names = dict(zip(case.inputs(), inputs))
    *of_gpuvec, result = map(gpuvec.from_dlpack, views)
    ours = dict(zip(case.inputs(), of_gpuvec))
    calls = {
        "gpuvec": lambda: formula(ours, out=result, stream=stream),
        "CuPy": eager(case.text, cupy, names, out),
    }
    *of_torch, to = map(torch.from_dlpack, views)
    calls["PyTorch"] = eager(case.text, torch, dict(zip(case.inputs(), of_torch)), to)
    return size, calls


def eager(text: str, library: Any, names: dict[str, Any], out: Any) -> Call:
    """Returns a library's own way to compute a case."""
    if text == "a + b":
        return lambda: library.add(names["a"], names["b"], out=out)
    if text == "a + 0":
        return lambda: out.__setitem__(..., names["a"])
    code = compile(text, text, "eval")
    return lambda: eval(code, {}, names)


def show_elements(peers: Peers) -> None:
    """Times elementwise formulas."""
    heading("queued, µs")
    # CuPy's DLPack exports no reversed arrays.
    for case in (case for case in CASES if "[::-1]" not in case.name):
        size, calls = elementwise(case, peers.stream)
        peers.queued(case.name, size, calls)


def heading(unit: str) -> None:
    """Prints a table's heading."""
    names = ("gpuvec", "PyTorch", "CuPy")
    columns = [*(f"{name:>9}" for name in names), *(f"{name:>7}" for name in names)]
    print(f"\n{unit:34}", *columns, f"{'ratio':>6}")


def main() -> None:
    """Prints the tables."""
    if not (torch and cupy and torch.cuda.is_available()):
        sys.exit("this program compares with PyTorch and CuPy on a GPU")
    gpuvec.set_placement("gpu")
    tables = {"sums": show_sums, "small": show_small, "elements": show_elements}
    with Resources() as resources:
        driver, own = copy_rate(resources.stream(), COPIED)
    print(f"{gpuvec.device_name(0)}: copies, the driver's {driver / 1e9:.0f} GB/s,", end=" ")
    print(f"gpuvec's {own / 1e9:.0f} GB/s")
    peers = Peers(own)
    for name in sys.argv[1:] or tables:
        tables[name](peers)


if __name__ == "__main__":
    main()
