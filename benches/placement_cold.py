"""Random calls of a new process under placement auto, beside an oracle.

The oracle knows all later calls, and which placement is the fastest of each: it takes what the same
calls, in the same order, took under those. Like any process it pays for what a GPU needs first: its
context, and the kernels of each call and type. The driver compiles these, or finds them in its
cache on disk.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from placement_calls import ROOT, Case, Library, Program, cases_of, kinds_of, library_path
from placement_report import FIXED, Row, fastest, in_words, rows_in, shown, written

SCRIPT = ROOT / "benches/placement.py"
# The length of the calls that load kernels on a GPU.
FEW = 1000
# Ratios are also shown as if the process ended after each of these numbers of calls.
FIRST = (50, 200)


class Best(NamedTuple):
    """The fastest fixed placement of a case; the seconds of a call there, and on cores alone."""

    placement: str
    seconds: float
    on_cores: float


class Replayed(NamedTuple):
    """The seconds of calls in a new process, and those before them: to get ready for a GPU.

    These are for opening the GPU, and for the first call on it of each call and type.
    """

    calls: list[float]
    opening: float
    ready: dict[str, float]


def process(command: list[str], text: str = "") -> str:
    """Runs a part of the benchmark in a new process; returns what it prints."""
    command = [sys.executable, str(SCRIPT), *command]
    return subprocess.run(command, input=text, check=True, stdout=subprocess.PIPE, text=True).stdout


def best_of(row: Row) -> Best:
    """Returns the fastest placement of a row of the sweep."""
    alone = [name for name in row["us"] if row["ran"][name].startswith("cpu")]
    best = fastest(row)
    return Best(best, 1e-6 * row["us"][best], 1e-6 * row["us"][fastest(row, alone)])


def best_placements(given: argparse.Namespace, kinds: list[str]) -> dict[str, Best]:
    """Measures the fixed placements by turns, in a process of their own."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--sizes", *map(str, given.sizes), "--types", *given.types, "--kinds", *kinds]
        options += ["--calls", *given.calls, "--seconds", str(given.seconds)]
        options += ["--at-most", str(given.at_most), "--output", folder]
        process(["sweep", *options, "--placements", *FIXED, "--no-core"])
        rows = rows_in(Path(folder), "sweep")
    return {in_words(row): best_of(row) for row in rows if row["us"]}


def replayed(cases: list[Case], chosen: list[Case], placements: list[str]) -> Replayed:
    """Makes the chosen calls in a new process."""
    return Replayed(*json.loads(process(["replay"], json.dumps([cases, chosen, placements]))))


def replay(question: list[Any]) -> None:
    """Makes calls with their placements in this process, and prints what they took.

    Placement auto has made no call before. Fixed placements have loaded their kernels.
    """
    cases, chosen = ([Case(*parts) for parts in some] for some in question[:2])
    program = Program(library_path(), cases)
    todo = list(zip(chosen, question[2]))
    batches = {one: program.batch(*one) for one in todo}
    on_gpu = [case for case, placement in todo if placement in ("gpu", "all")]
    opening, ready = prepared(program, on_gpu) if on_gpu else (0.0, {})
    print(json.dumps([[batches[one](1) for one in todo], opening, ready]))


def prepared(program: Program, cases: list[Case]) -> tuple[float, dict[str, float]]:
    """Opens the GPU and loads the kernels of the cases; returns the seconds of both."""
    start = time.perf_counter()
    program.library.functions.gpuvec_init()
    opening = time.perf_counter() - start
    ready = dict.fromkeys(map(kernels_of, cases), 0.0)
    if program.library.has_gpu():
        for case in dict.fromkeys(case._replace(n=min(FEW, case.n)) for case in cases):
            ready[kernels_of(case)] += program.batch(case, "gpu")(1)
    return opening, ready


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
    calls, best = row["calls"][:count], row["best"][:count]
    medians = sum(one.seconds for one in best)
    ready = price(calls, best, row["opening"], row["ready"])
    auto, replayed = (sum(row["times"][way][:count]) for way in ("auto", "best"))
    oracle = replayed + ready
    return {
        "auto": auto,
        "oracle": oracle,
        "medians": medians,
        "replayed": replayed,
        "ready": ready,
    }


def line(row: Row) -> list[str]:
    """Shows the totals of a seed, and auto's ratios to the oracle: of all calls, of the first."""
    total, *first = [totals(row, count) for count in (len(row["calls"]), *FIRST)]
    ms = [f"{1e3 * total[name]:.1f}" for name in ("auto", "oracle", "replayed", "medians")]
    return [
        str(row["seed"]),
        *ms,
        *(f"{one['auto'] / one['oracle']:.3f}" for one in (total, *first)),
    ]


def row_of(seed: int, chosen: list[Case], best: list[Best], runs: dict[str, Replayed]) -> Row:
    """Gathers what is known of a seed."""
    times = {way: run.calls for way, run in runs.items()}
    _, opening, ready = runs["best"]
    return {
        "seed": seed,
        "calls": chosen,
        "best": best,
        "times": times,
        "opening": opening,
        "ready": ready,
    }


def cold(given: argparse.Namespace) -> None:
    """Random calls of new processes, beside an oracle."""
    cases = cases_of(given, kinds_of(given, Library(library_path())))
    table = best_placements(given, sorted({case.kind for case in cases}))
    cases = [case for case in cases if str(case) in table]
    fixed = sorted({best.placement for best in table.values()})
    rows = []
    for seed in given.seeds:
        chosen = random.Random(seed).choices(cases, k=given.count)
        best = [table[str(case)] for case in chosen]
        ways = {"auto": ["auto"] * len(chosen), "best": [one.placement for one in best]}
        if seed == given.seeds[0]:
            ways |= {placement: [placement] * len(chosen) for placement in fixed}
        runs = {way: replayed(cases, chosen, placements) for way, placements in ways.items()}
        rows.append(row_of(seed, chosen, best, runs))
    print(
        f"{given.count} random calls of {len(cases)} cases: auto in a new process; an oracle; the"
    )
    print("same calls under the fastest placements, once all are ready; the medians of those")
    heads = ["seed", "auto, ms", "oracle", "replayed", "medians", "auto / oracle"]
    print(shown([*heads, *(f"first {count}" for count in FIRST)], [line(row) for row in rows]))
    everything = [totals(row, given.count) for row in rows]
    parts = ", ".join(f"{total['ready'] / total['oracle']:.1%}" for total in everything)
    print(f"of the oracle's total, getting ready for the GPU or doing without it: {parts}")
    shares = ", ".join(f"{way} {1e3 * sum(t):.1f} ms" for way, t in rows[0]["times"].items())
    print(f"seed {given.seeds[0]}, the same calls under each placement: {shares}")
    written(given, "cold", rows)
