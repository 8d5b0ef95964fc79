"""Times calls on device arrays of several axes beside PyTorch and CuPy, as shares of a copy's rate.

    GPUVEC_LIB=target/gpu/libgpuvec.so python3 benches/axes_peers.py [sums] [elements] [calls]

Runs on a GPU machine with both libraries, on the same arrays. Calls are queued back to back, by
gpuvec's C interface; in the part `calls` they are from Python, with new results, and each is waited
for. A share is the rate of the bytes that a call must read and write over that of gpuvec's copy of
contiguous arrays. The last column is the time of the better peer over gpuvec's. gpuvec's sums are
exact, theirs are not.
"""

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
sys.path.append(str(Path(__file__).resolve().parents[1] / "python_tests" / "support"))
import gpuvec
from axes_table import cupy, torch
from bindings import Place, Status, last_error, lib
from formulas import Compiled
from streams import Resources, ok
from strided_cases import CASES, StridedCase
from strided_rates import CALLS, ROUNDS, copy_rate, distinct_bytes

# A call that takes longer is not repeated.
LONG_SECONDS = 20e-3
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
LIBRARIES = ("gpuvec", "PyTorch", "CuPy")

Call = Callable[[], Any]


def seconds(call: Call, wait: Call, wait_for_all: Call) -> float:
    """Returns the time of a call, the median of some rounds."""

    def round_of(calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            call()
            wait()
        wait_for_all()
        return (time.perf_counter() - start) / calls

    # The first call loads kernels.
    round_of(1)
    is_long = round_of(1) > LONG_SECONDS
    return median([round_of(1 if is_long else CALLS) for _ in range(2 if is_long else ROUNDS)])


def row(copy: float, name: str, size: int, times: dict[str, float]) -> None:
    """Prints the times of calls that read and write `size` bytes."""
    found = [times.get(library, np.nan) for library in LIBRARIES]
    cells = [f"{1e6 * time:9.1f}" for time in found]
    shares = [f"{size / time / copy:7.3f}" for time in found]
    print(f"{name:34}", *cells, *shares, f"{np.nanmin(found[1:]) / found[0]:6.2f}", flush=True)


def heading(unit: str) -> None:
    """Prints a table's heading."""
    columns = [*(f"{name:>9}" for name in LIBRARIES), *(f"{name:>7}" for name in LIBRARIES)]
    print(f"\n{unit:34}", *columns, f"{'ratio':>6}")


def queued(stream: int, calls: dict[str, Call]) -> dict[str, float]:
    """Times calls that are queued one behind the other."""
    waits: dict[str, Call] = {
        "gpuvec": lambda: ok(lib.gpuvec_stream_synchronize(stream)),
        "PyTorch": torch.cuda.synchronize,
        "CuPy": cupy.cuda.Device().synchronize,
    }
    return {library: seconds(call, int, waits[library]) for library, call in calls.items()}


def title(name: str, shape: tuple[int, int], axis: int) -> str:
    """Names a reduction."""
    return f"{name}, {shape[0]} × {shape[1]}, {'rows' if axis else 'columns'}"


def theirs(name: str, x: Any, axis: int) -> dict[str, Call]:
    """Returns the peers' calls that reduce a tensor."""
    of_torch, of_cupy = getattr(torch, TORCH_NAMES.get(name, name)), getattr(cupy, name)
    same = cupy.from_dlpack(x)
    return {"PyTorch": lambda: of_torch(x, axis), "CuPy": lambda: of_cupy(same, axis)}


def show_sums(copy: float, stream: int) -> None:
    """Times reductions of large arrays."""
    heading("queued, µs")
    for shape in LARGE:
        x = torch.randn(shape, device="cuda")
        for name in ("sum", "mean", "min", "max") if shape in OF_ALL else ("sum",):
            for axis in (1, 0):
                out = torch.empty(shape[1 - axis], device="cuda")
                places = (x.data_ptr(), (4 * shape[1], 4)), (out.data_ptr(), (4, 4))
                with Compiled(f"{name}(x)", {"x": "f4"}) as compiled:
                    ours = run(compiled, shape, places, 1 << axis, stream)
                    times = queued(stream, {"gpuvec": ours, **theirs(name, x, axis)})
                row(copy, title(name, shape, axis), x.nbytes + out.nbytes, times)


def run(compiled: Compiled, shape: Any, places: Any, reduced: int, stream: int) -> Call:
    """Returns a call of gpuvec on a stream."""
    *inputs, out = places

    def call() -> None:
        assert compiled.run_nd(shape, inputs, out, reduced, stream) == Status.OK, last_error()

    return call


def show_elements(copy: float, stream: int) -> None:
    """Times elementwise formulas."""
    heading("queued, µs")
    # PyTorch has no reversed arrays.
    for case in (case for case in CASES if "[::-1]" not in case.name):
        pairs = case.views(ELEMENTS)
        size = sum(distinct_bytes(view) for _, view in pairs)
        views = [like(*pair) for pair in pairs]
        places = [(view.data.ptr, view.strides) for view in views]
        with Compiled(case.text, case.inputs()) as compiled:
            ours = run(compiled, views[-1].shape, places, 0, stream)
            calls = {"gpuvec": ours, "PyTorch": eager(case, torch, map(torch.from_dlpack, views))}
            times = queued(stream, {**calls, "CuPy": eager(case, cupy, views)})
        row(copy, case.name, size, times)


def like(parent: np.ndarray, view: np.ndarray) -> Any:
    """Returns the same view of an array of CuPy's, of ones."""
    memory = cupy.ones(parent.shape, "f4").data + (view.ctypes.data - parent.ctypes.data)
    return cupy.ndarray(view.shape, "f4", memory, strides=view.strides)


def eager(case: StridedCase, library: Any, views: Any) -> Call:
    """Returns a library's own way to compute a case."""
    *inputs, out = views
    names = dict(zip(case.inputs(), inputs))
    if case.text == "a + b":
        return lambda: library.add(*inputs, out=out)
    if case.text == "a + 0":
        return lambda: out.__setitem__(..., inputs[0])
    code = compile(case.text, case.text, "eval")
    return lambda: eval(code, {}, names)


def show_calls(copy: float, _: int) -> None:
    """Times whole calls on small arrays."""
    heading("waited for, µs")
    for shape in SMALL:
        x = torch.randn(shape, device="cuda")
        for name in ("sum", "max"):
            formula = gpuvec.Expression(f"{name}(x)", {"x": "f4"})
            for axis in (1, 0):
                peers = theirs(name, x, axis).items()
                times = {of: seconds(call, torch.cuda.synchronize, int) for of, call in peers}
                times["gpuvec"] = seconds(partial(formula, x=x, axis=axis), int, int)
                row(copy, title(name, shape, axis), x.nbytes, times)


def main() -> None:
    """Prints the tables."""
    if not (torch and cupy and torch.cuda.is_available()):
        sys.exit("this program compares with PyTorch and CuPy on a GPU")
    lib.gpuvec_set_placement(Place.GPU)
    parts = {"sums": show_sums, "elements": show_elements, "calls": show_calls}
    with Resources() as resources:
        stream = resources.stream()
        driver, own = copy_rate(stream, COPIED)
        print(f"{gpuvec.device_name(0)}: copies, the driver's {driver / 1e9:.0f} GB/s,", end=" ")
        print(f"gpuvec's {own / 1e9:.0f} GB/s")
        for name in sys.argv[1:] or parts:
            parts[name](own, stream)


if __name__ == "__main__":
    main()
