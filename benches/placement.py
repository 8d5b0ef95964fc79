"""Judges placement auto: beside the other placements, in new processes, and on few CPUs."""

import json
import os
import random
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import product
from typing import NamedTuple

from calls import Library, library_path, served_arrays
from cases import Case, Data, case_of
from grid import Grid, chosen_cases
from harness import ROOT, Batch, Contender, OtherProcess, Row, best

FIXED = ("gpuvec gpu", "gpuvec cpu", "gpuvec all")
# The length of the calls that load kernels on a GPU.
FEW = 1000
# Ratios are also shown as if the process ended after each of these numbers of calls.
FIRST = (50, 200)
# A process that keeps a CPU busy ends by itself after this time.
BUSY_SECONDS = 600

TWENTY_ADDS = """
import json, sys, time
import numpy as np
sys.path.insert(0, sys.argv[1])
import gpuvec
a, b, out = (np.ones(1_000_000, np.float32) for _ in range(3))
start = time.perf_counter()
for _ in range(20):
    gpuvec.add(a, b, out=out)
seconds = time.perf_counter() - start
opened = "libcuda.so" in open("/proc/self/maps").read()
print(json.dumps({"loop": seconds, "driver": opened, "backend": gpuvec.last_run().backend}))
"""


class Sweep(Grid):
    """The placements of each case; the one that looks fastest takes a second turn in each round.

    The second turn shows by how much equal placements differ.
    """

    def measured(self, data: Data, contenders: list[Contender]) -> Row:
        """Measures the contenders of a case."""
        fixed = [one for one in contenders if one.name in FIXED]
        guess = min(fixed, key=lambda one: one.batch(1))
        row = super().measured(data, [*contenders, Contender("again", guess.batch)])
        return {**row, "again": guess.name}


def sweep(given: Namespace) -> Iterator[Row]:
    """Measures auto beside gpu, cpu, all and one core."""
    cases, missing = chosen_cases(given)
    with closing(Sweep(given, cases)) as swept:
        yield {"missing": missing}
        yield from swept.rows()


class Best(NamedTuple):
    """The fastest fixed placement of a case; the seconds of a call there, and on cores alone."""

    placement: str
    seconds: float
    on_cores: float


def best_of(row: Row) -> Best:
    """Returns the fastest placement of a row of the sweep."""
    on_cores = [name for name in FIXED if row["ran"].get(name, "").startswith("cpu")]
    fastest, alone = best(row, FIXED), best(row, on_cores)
    assert fastest and alone
    return Best(fastest[1].removeprefix("gpuvec "), 1e-6 * fastest[0], 1e-6 * alone[0])


def sweep_elsewhere(given: Namespace, *prefix: str) -> list[Row]:
    """Runs a sweep in a process of its own, by a command that a prefix changes."""
    command = [*prefix, sys.executable, str(ROOT / "benches/bench.py"), "--suite", "sweep"]
    options = {
        name: getattr(given, name) for name in ("calls", "types", "kinds", "n", "placements")
    }
    options |= {"callers": ["c"], "seconds": [given.seconds], "at-most": [given.at_most]}
    command += [word for name, each in options.items() for word in (f"--{name}", *map(str, each))]
    command.append("--json")
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    rows = map(json.loads, done.stdout.splitlines())
    return [row for row in rows if row.get("us")]


def cold(given: Namespace) -> Iterator[Row]:
    """Makes random calls in new processes, and compares them with an oracle.

    The oracle knows all later calls, and which placement is the fastest of each: it takes what the
    same calls, in the same order, took under those. Like any process it pays for what a GPU needs
    first: its context, and the kernels of each call and type.
    """
    table = {case_of(row): best_of(row) for row in sweep_elsewhere(given)}
    cases = sorted(table)
    fixed = sorted({best.placement for best in table.values()})
    for seed in given.seeds:
        chosen = random.Random(seed).choices(cases, k=given.count)
        best = [table[case] for case in chosen]
        ways = {"auto": ["auto"] * len(chosen), "best": [one.placement for one in best]}
        if seed == given.seeds[0]:
            ways |= {placement: [placement] * len(chosen) for placement in fixed}
        runs = {way: replayed(cases, chosen, placements) for way, placements in ways.items()}
        times = {way: run["times"] for way, run in runs.items()}
        row = {**runs["best"], "seed": seed, "calls": chosen, "best": best, "times": times}
        yield {**row, "totals": [totals(row, count) for count in (len(chosen), *FIRST)]}


def replayed(cases: list[Case], chosen: list[Case], placements: list[str]) -> Row:
    """Makes the chosen calls in a new process."""
    with closing(OtherProcess("placement")) as process:
        return process.ask(cases, chosen, placements)


def answer(cases: list[list], chosen: list[list], placements: list[str]) -> Row:
    """Makes calls with their placements in this process; returns their seconds.

    Placement auto has made no call before. Fixed placements have opened the GPU, and loaded the
    kernels of each call and type: the seconds of both are beside those of the calls.
    """
    library = Library(library_path())
    most = max(Case(*case).n for case in cases)

    def batch(case: Case, placement: str) -> Batch:
        arrays = served_arrays(case.dtype, case.kind, most)
        return library.from_c(Data(case, arrays), placement).batch

    todo = list(zip((Case(*case) for case in chosen), placements))
    batches = {one: batch(*one) for one in dict.fromkeys(todo)}
    opening, ready = 0.0, {}
    on_gpu = [case for case, placement in todo if placement in ("gpu", "all")]
    if on_gpu:
        start = time.perf_counter()
        library.functions.gpuvec_init()
        opening = time.perf_counter() - start
        ready = dict.fromkeys(map(kernels_of, on_gpu), 0.0)
    if on_gpu and library.functions.gpuvec_device_count():
        for case in dict.fromkeys(case._replace(n=min(FEW, case.n)) for case in on_gpu):
            ready[kernels_of(case)] += batch(case, "gpu")(1)
    times = [batches[one](1) for one in todo]
    return {"times": times, "opening": opening, "ready": ready}


def kernels_of(case: Case) -> str:
    """Names the call and the type, which have kernels of their own."""
    return f"{case.call} {case.dtype}"


def price(calls: list[Case], best: list[Best], opening: float, ready: dict[str, float]) -> float:
    """Returns the least seconds that the calls cost beside those of the best placements.

    Each call and type gets ready for the GPU, or stays on cores. If all stay, no GPU is opened.
    """
    losses = dict.fromkeys(map(kernels_of, calls), 0.0)
    for case, one in zip(calls, best):
        losses[kernels_of(case)] += one.on_cores - one.seconds
    loaded = sum(min(loss, ready.get(kernels, 0.0)) for kernels, loss in losses.items())
    return min(sum(losses.values()), opening + loaded)


def totals(row: Row, count: int) -> dict[str, float]:
    """Returns the seconds of a seed's first calls, as if the process ended with them."""
    best = row["best"][:count]
    ready = price(row["calls"][:count], best, row["opening"], row["ready"])
    auto, replayed = (sum(row["times"][way][:count]) for way in ("auto", "best"))
    medians = sum(one.seconds for one in best)
    return {
        "auto": auto,
        "oracle": replayed + ready,
        "replayed": replayed,
        "medians": medians,
        "ready": ready,
    }


def restricted(given: Namespace) -> Iterator[Row]:
    """Runs the sweep on few CPUs, and while other processes keep half of the CPUs busy."""
    mine = sorted(os.sched_getaffinity(0))
    for count in given.cpus:
        if count > len(mine):
            yield {"missing": {f"{count} CPUs": f"this process has {len(mine)}"}}
            continue
        rows = sweep_elsewhere(given, "taskset", "-c", ",".join(map(str, mine[:count])))
        yield from ({**row, "what": f"{count} of {len(mine)} CPUs"} for row in rows)
    with busy(len(mine) // 2):
        rows = sweep_elsewhere(given)
    yield from ({**row, "what": f"beside {len(mine) // 2} busy processes"} for row in rows)


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Keeps as many processes busy, pinned to no CPU."""
    text = f"import time\nend = time.time() + {BUSY_SECONDS}\nwhile time.time() < end: pass"
    spinning = [subprocess.Popen([sys.executable, "-S", "-c", text]) for _ in range(count)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def script(given: Namespace) -> Iterator[Row]:
    """Times processes that make twenty adds of a million floats, with each placement in turn."""
    for _, placement in product(range(given.rounds), ("auto", "cpu")):
        environment = {**os.environ, "GPUVEC_PLACEMENT": placement, "GPUVEC_LIB": library_path()}
        command = [sys.executable, "-c", TWENTY_ADDS, str(ROOT / "python")]
        start = time.perf_counter()
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        seconds = time.perf_counter() - start
        yield {"placement": placement, "process": seconds, **json.loads(done.stdout)}
