"""The registry: each suite's cases, contenders and placements; or the program that measures it."""

import importlib
import time
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

ONE_THREAD = {
    name: "1" for name in ("GPUVEC_NUM_THREADS", "NUMEXPR_MAX_THREADS", "OMP_NUM_THREADS")
}
HOST_PEERS = ("NumPy", "numexpr", "PyTorch CPU", "plain C loop")
DECADES = tuple(10**power for power in range(1, 9))
HALF_DECADES = tuple(round(10 ** (half / 2)) for half in range(4, 17))
BOTH, HOST = ("f32", "f64"), ("pageable", "pinned")
DEVICE = ("device",)
ALL = ("auto", "gpu", "cpu", "all")


@dataclass(frozen=True)
class Suite:
    """A suite of calls, or of `program`, a function of a module of this folder."""

    about: str
    program: str = ""
    # The names of calls, or of lists in cases.py; the callers of gpuvec, and the peers.
    calls: tuple[str, ...] = ()
    types: tuple[str, ...] = ("f32",)
    kinds: tuple[str, ...] = ("pageable",)
    n: tuple[int, ...] = ()
    # More lengths of device arrays, without --n.
    device_n: tuple[int, ...] = ()
    callers: tuple[str, ...] = ("c",)
    peers: tuple[str, ...] = ()
    placements: tuple[str, ...] = ("auto",)
    # The time for a case and contender, the rounds, and the time for all cases.
    seconds: float = 0.05
    rounds: int = 5
    at_most: float = 110.0
    environment: dict[str, str] = field(default_factory=dict)

    def settings(self) -> dict[str, Any]:
        """Returns what the command line may change."""
        fixed = ("about", "program", "environment")
        return {name: value for name, value in vars(self).items() if name not in fixed}


SUITES = {
    "ceilings": Suite(
        "the machine's limits: transfers, launches and memory, without gpuvec",
        program="ceilings.run",
        seconds=0.7,
    ),
    "calls": Suite(
        "an add and a dot product of every length, memory and placement, beside all peers",
        calls=("add", "dot"),
        types=BOTH,
        kinds=(*HOST, "device"),
        n=DECADES,
        device_n=(1 << 28,),
        callers=("c", "ctypes", "no context", "package"),
        peers=(*HOST_PEERS, "CuPy", "PyTorch CUDA", "Numba", "naive C"),
        placements=ALL,
        seconds=0.08,
        at_most=240,
    ),
    "libraries": Suite(
        "six calls of the package on NumPy arrays, beside other libraries",
        calls=("SIX",),
        n=HALF_DECADES,
        callers=("package",),
        peers=("NumPy", "numexpr", "PyTorch CPU", "PyTorch CUDA", "CuPy"),
        rounds=3,
    ),
    "formulas": Suite(
        "formulas on device arrays, queued, beside CuPy and PyTorch",
        calls=("ELEMENTWISE", "REDUCTIONS"),
        types=BOTH,
        kinds=DEVICE,
        n=(1 << 27,),
        callers=("queued",),
        peers=("CuPy kernel", "CuPy", "PyTorch CUDA"),
        placements=("gpu",),
        rounds=3,
    ),
    "formulas-core": Suite(
        "formulas on one thread, in its cache, beside other libraries",
        calls=("ELEMENTWISE", "REDUCTIONS"),
        types=BOTH,
        n=(100_000,),
        peers=HOST_PEERS,
        placements=("cpu",),
        environment=ONE_THREAD,
        rounds=3,
    ),
    "formulas-cores": Suite(
        "formulas on all threads, in memory, beside other libraries",
        calls=("ELEMENTWISE", "sum of 3 ops"),
        types=BOTH,
        n=(10_000_000,),
        peers=("numexpr", "PyTorch CPU"),
        placements=("cpu",),
        rounds=3,
    ),
    "formulas-host": Suite(
        "formulas on host arrays: the GPUs, all cores, and the share of the bus",
        calls=("add", "1 op", "3 ops", "8 ops", "exp", "Black-Scholes", "sum of 3 ops"),
        kinds=HOST,
        n=(100_000_000,),
        peers=("numexpr",),
        placements=("gpu", "cpu", "auto"),
        rounds=3,
    ),
    "functions": Suite(
        "functions of f32 on one thread, beside NumPy and PyTorch",
        calls=("FUNCTIONS",),
        n=(100_000,),
        peers=("NumPy", "PyTorch CPU"),
        placements=("cpu",),
        seconds=0.1,
        environment=ONE_THREAD,
    ),
    "functions-device": Suite(
        "functions of f32 on device arrays, beside a copy",
        program="device_rates.functions",
        calls=("OF_ONE",),
        n=(1 << 27,),
        rounds=31,
        kinds=DEVICE,
    ),
    "axes": Suite(
        "reductions along axes, as shares of a copy's rate; --calls names others than sum(x)",
        program="nd.axes",
        calls=("sum(x)",),
        kinds=DEVICE,
        n=(1 << 28,),
    ),
    "axes-unlike": Suite(
        "the same on elements that are as far apart in size as floats can be",
        program="nd.axes",
        calls=("sum(x)",),
        kinds=DEVICE,
        n=(1 << 28,),
    ),
    "strides": Suite(
        "formulas on arrays of any strides, as shares of a copy's rate",
        program="nd.strides",
        kinds=DEVICE,
        n=(1 << 27,),
    ),
    "by-key": Suite(
        "sums by key of device arrays, as shares of a copy's rate, beside other libraries",
        program="by_key.run",
        types=BOTH,
        kinds=DEVICE,
        n=(1 << 27,),
        seconds=0.02,
    ),
    "by-key-core": Suite(
        "sums by key on one thread, in its cache, beside other libraries",
        program="by_key.run",
        types=BOTH,
        n=(1_000_000,),
        environment=ONE_THREAD,
    ),
    "programs": Suite(
        "the programs of docs/howto/arrays_of_several_axes.md, beside other libraries",
        program="nd.programs",
        seconds=0.4,
    ),
    "sums": Suite(
        "exact sums and norms on device arrays, beside plain loops and an add",
        calls=("dot", "sum", "norm", "1 op"),
        kinds=DEVICE,
        n=tuple(1 << power for power in range(24, 31)),
        callers=("c",),
        peers=("plain GPU loop",),
        placements=("gpu",),
        seconds=0.25,
        rounds=15,
    ),
    "sums-by-data": Suite(
        "exact sums of device arrays beside plain loops and integers alone, by the data",
        calls=("SUMS",),
        types=BOTH,
        kinds=DEVICE,
        n=(1 << 28,),
        peers=("plain GPU loop", "integers alone"),
        placements=("gpu",),
    ),
    "sums-core": Suite(
        "exact sums on one thread beside vectors of plain sums, by the data",
        calls=("SUMS",),
        types=BOTH,
        n=(100_000,),
        peers=("vectors in C",),
        placements=("cpu",),
        environment=ONE_THREAD,
    ),
    "exactness": Suite(
        "dot products as libraries return them, beside the exact result", program="exactness.run"
    ),
    "kernels": Suite(
        "each kernel's registers, spills and rate, on device arrays",
        program="device_rates.kernels",
        kinds=DEVICE,
    ),
    "compile": Suite(
        "the driver's time to compile formulas, in new processes without its cache",
        program="processes.compile_times",
        calls=("ELEMENTWISE", "OF_ONE", "dot", "pow(x, y)", "atan2(x, y)"),
        kinds=DEVICE,
        rounds=3,
    ),
    "first": Suite(
        "first calls in new processes, with an empty and a warm driver cache",
        program="processes.first",
        calls=("1 op", "24 ops", "Black-Scholes"),
        rounds=3,
    ),
    "python": Suite(
        "what a call from Python costs, with every kind of argument",
        program="python_calls.run",
        seconds=0.02,
        rounds=25,
    ),
    "sweep": Suite(
        "placement auto beside the others and one core, case by case",
        program="placement.sweep",
        calls=("SIX",),
        types=BOTH,
        kinds=HOST,
        n=(1_000, 10_000, 100_000, 316_228, 1_000_000, 10_000_000, 100_000_000),
        callers=("c", "core"),
        placements=ALL,
    ),
    "cold": Suite(
        "random calls of a new process under placement auto, beside an oracle",
        program="placement.cold",
        calls=("SIX",),
        types=BOTH,
        kinds=HOST,
        n=(1_000, 10_000, 100_000, 316_228, 1_000_000, 10_000_000),
        placements=("gpu", "cpu", "all"),
        seconds=0.02,
        at_most=30,
    ),
    "restricted": Suite(
        "the sweep on few CPUs, and beside busy processes",
        program="placement.restricted",
        calls=("SIX",),
        kinds=HOST,
        n=(10_000, 100_000, 1_000_000, 10_000_000),
        placements=ALL,
        seconds=0.02,
        at_most=25,
    ),
    "script": Suite("whole processes that make twenty adds", program="placement.script"),
    "short": Suite(
        "short calls from C, from ctypes and by the package; for --against",
        calls=("add", "dot", "a*b + a - 2"),
        n=(10, 1_000),
        callers=("c", "ctypes", "package"),
        placements=("auto", "cpu"),
        seconds=0.5,
        rounds=10,
    ),
    "gpus": Suite(
        "the ceilings of all visible GPUs concurrently",
        program="ceilings.gpus",
        n=(100_000_000,),
        kinds=DEVICE,
    ),
}
# The suites of the page.
PAGE = (
    *("ceilings", "kernels", "calls", "first", "libraries", "formulas", "axes", "strides"),
    *("functions", "functions-device", "sweep"),
)


def measured(name: str, given: Namespace) -> Iterator[dict[str, Any]]:
    """Measures a suite in this process: yields rows, and what is missing."""
    suite = SUITES[name]
    module, _, function = (suite.program or "grid.run").rpartition(".")
    given.suite, given.start = name, time.monotonic()
    yield from getattr(importlib.import_module(module), function)(given)


def quicker(suite: Suite) -> dict[str, Any]:
    """Returns the settings of a suite with fewer lengths, f32 alone and less time."""
    settings = suite.settings()
    settings["n"] = tuple(n for n in suite.n if n >= 1000)[::2] or suite.n
    return {
        **settings,
        "types": ("f32",),
        "seconds": suite.seconds / 2,
        "rounds": min(suite.rounds, 3),
    }
