"""Random calls of a new process under placement auto, beside the best choice for each call."""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import geometric_mean
from typing import Any, NamedTuple

from placement_calls import ROOT, Case, Library, Program, cases_of, kinds_of, library_path
from placement_report import fastest, in_words, rows_in, shown, written

SCRIPT = ROOT / "benches/placement.py"
# Fixed placements load their kernels in calls of so many elements before the clock starts.
FEW = 1000
# Ratios are also given for the first calls alone.
FIRST = (50, 200)


class Best(NamedTuple):
    """The fastest fixed placement of a case, and its median in seconds."""

    placement: str
    seconds: float


def process(command: list[str], text: str = "") -> str:
    """Runs a part of the benchmark in a new process; returns what it prints."""
    command = [sys.executable, str(SCRIPT), *command]
    return subprocess.run(command, input=text, check=True, stdout=subprocess.PIPE, text=True).stdout


def oracle(given: argparse.Namespace, kinds: list[str]) -> dict[str, Best]:
    """Measures the fixed placements by turns, in a process of their own."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--sizes", *map(str, given.sizes), "--types", *given.types, "--kinds", *kinds]
        options += ["--calls", *given.calls, "--seconds", str(given.seconds)]
        options += ["--at-most", str(given.at_most), "--output", folder]
        process(["sweep", *options, "--placements", "gpu", "cpu", "all", "--no-core"])
        rows = rows_in(Path(folder), "sweep")
    chosen = {in_words(row): (fastest(row), row["us"]) for row in rows if row["us"]}
    return {name: Best(best, 1e-6 * us[best]) for name, (best, us) in chosen.items()}


def replayed(cases: list[Case], chosen: list[Case], placements: list[str]) -> list[float]:
    """Makes the chosen calls in a new process; returns their times."""
    times = json.loads(process(["replay"], json.dumps([cases, chosen, placements])))
    return list(times)


def replay(question: list[Any]) -> None:
    """Makes calls with their placements in this process, and prints their times.

    Placement auto has made no call before. Fixed placements have loaded their kernels.
    """
    cases, chosen = ([Case(*parts) for parts in some] for some in question[:2])
    program = Program(library_path(), cases)
    todo = list(zip(chosen, question[2]))
    batches = {one: program.batch(*one) for one in todo}
    for case, placement in {(case._replace(n=FEW), placement) for case, placement in todo}:
        if placement != "auto":
            program.batch(case, placement)(1)
    print(json.dumps([batches[one](1) for one in todo]))


def line(seed: int, best: list[Best], times: dict[str, list[float]]) -> list[str]:
    """Shows the totals of a seed, and the ratios to the oracle: of the first calls, and of all."""
    auto, again, ideal = times["auto"], times["best"], [one.seconds for one in best]
    ratios = [sum(auto[:count]) / sum(ideal[:count]) for count in (*FIRST, len(auto))]
    ratios.append(sum(auto) / sum(again))
    ratios.append(geometric_mean(seconds / least for seconds, least in zip(auto, again)))
    totals = [sum(auto), sum(ideal), sum(again)]
    return [str(seed), *(f"{1e3 * total:.0f}" for total in totals), *(f"{r:.3f}" for r in ratios)]


def cold(given: argparse.Namespace) -> None:
    """Random calls of new processes, beside the best choices."""
    cases = cases_of(given, kinds_of(given, Library(library_path())))
    table = oracle(given, sorted({case.kind for case in cases}))
    cases = [case for case in cases if str(case) in table]
    fixed = sorted({best.placement for best in table.values()})
    rows, lines = [], []
    for seed in given.seeds:
        chosen = random.Random(seed).choices(cases, k=given.count)
        best = [table[str(case)] for case in chosen]
        ways = {"auto": ["auto"] * len(chosen), "best": [one.placement for one in best]}
        if seed == given.seeds[0]:
            ways |= {placement: [placement] * len(chosen) for placement in fixed}
        times = {way: replayed(cases, chosen, placements) for way, placements in ways.items()}
        rows.append({"seed": seed, "calls": chosen, "best": best, "times": times})
        lines.append(line(seed, best, times))
    firsts = [f"/ sum, first {count}" for count in FIRST]
    heads = ["seed", "auto, ms", "sum", "replayed", *firsts, "/ sum, all"]
    print(
        f"{given.count} random calls of {len(cases)} cases: auto in a new process; the sum of the"
    )
    print("fastest placements' medians; the same calls under those placements in a new process")
    print(shown([*heads, "/ replayed", "geometric mean"], lines))
    totals = {way: 1e3 * sum(seconds) for way, seconds in rows[0]["times"].items()}
    shares = ", ".join(f"{way} {total:.0f} ms" for way, total in totals.items())
    print(f"seed {given.seeds[0]}, the same calls under each placement: {shares}")
    written(given, "cold", rows)
