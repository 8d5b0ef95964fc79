"""Placement auto beside the fixed placements: on all CPUs, on few, and beside busy processes."""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import groupby, product
from statistics import geometric_mean, median
from typing import Optional

from placement_calls import (
    CALLS,
    CALLS_BEFORE,
    KINDS,
    PLACEMENTS,
    ROOT,
    Case,
    Library,
    OtherProcess,
    Program,
    cases_of,
    kinds_of,
    library_path,
    warmed_up,
)
from placement_report import FIXED, Row, fastest, in_words, microseconds, ratio, shown, written
from progress import progress
from timing import Contender, measure

SCRIPT = ROOT / "benches/placement.py"
# The sizes of the summary's table.
SHOWN = [10_000, 100_000, 1_000_000, 10_000_000, 100_000_000]
# From this length on, one core alone is not measured.
MOST_ON_CORE = 1_000_000
ROUNDS = 5
CLOSE = 1.15
# A process that keeps a CPU busy ends by itself after this time.
BUSY_SECONDS = 600


def succeeding(contenders: list[Contender], failures: list[str]) -> dict[str, float]:
    """Makes two calls of each contender, and returns the seconds of the second of those that work.

    The first call loads kernels.
    """
    seconds = {}
    for contender in contenders:
        try:
            contender.batch(1)
            seconds[contender.name] = contender.batch(1)
        except RuntimeError as error:
            failures.append(str(error))
    return seconds


class Sweep:
    """Measures cases under every placement in this process, and on one core in another."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        library = Library(library_path())
        self.cases = cases_of(given, kinds_of(given, library))
        usable = [one for one in given.placements if one != "gpu" or library.has_gpu()]
        self.placements = usable
        self.program = Program(library_path(), self.cases)
        self.failures: list[str] = []
        self.core: Optional[OtherProcess] = None
        if given.core:
            short = [case for case in self.cases if case.n <= MOST_ON_CORE]
            pageable = [case._replace(kind="pageable") for case in short]
            alone = {"GPUVEC_NUM_THREADS": "1"}
            self.core = OtherProcess(library_path(), pageable, **alone) if short else None

    def rows(self) -> Iterator[Row]:
        """Measures all cases, until the time is up."""
        end = time.monotonic() + self.given.at_most
        for done, case in enumerate(progress(self.cases, "placements")):
            if time.monotonic() > end:
                print(f"{len(self.cases) - done} cases are left out: the time is up")
                return
            yield self.row(case)

    def row(self, case: Case) -> Row:
        """Measures one case."""
        row: Row = case._asdict()
        if "auto" in self.placements:
            before = warmed_up(self.program.batch(case, "auto"))
            row["calls_before"] = len(before)
            row["alone_us"] = 1e6 * median(before[len(before) // 2 :])
        ours = [self.program.contender(case, placement) for placement in self.placements]
        if self.core and case.n <= MOST_ON_CORE:
            ours.append(self.core.contender(case._replace(kind="pageable"), "cpu", "core"))
        seconds = succeeding(ours, self.failures)
        contenders = [one for one in ours if one.name in seconds]
        # The placement that looks fastest takes a second turn, which shows what equals differ by.
        guess = min((name for name in FIXED if name in seconds), key=seconds.__getitem__)
        if "auto" in seconds:
            row["again"] = guess
            contenders.append(Contender("again", self.program.batch(case, guess)))
        results = measure(contenders, self.given.seconds * len(contenders), ROUNDS)
        row["ran"] = {name: self.ran(case, name) for name in self.placements if name in results}
        if "auto" in results:
            self.program.batch(case, "auto")(1)
            run = self.program.library.last_run()
            row["reason"] = run.reason
            row["predicted_us"] = [1e-3 * ns for ns in run.predicted_ns]
        row["us"] = {name: figures["median_us"] for name, figures in results.items()}
        row["results"] = results
        return row

    def ran(self, case: Case, placement: str) -> str:
        """Tells where a call runs under a placement."""
        self.program.batch(case, placement)(1)
        return self.program.library.ran()

    def close(self) -> None:
        """Ends the other process."""
        if self.core:
            self.core.close()


def summary(rows: list[Row]) -> str:
    """Tells how near placement auto comes to the fastest."""
    ratios = {in_words(row): ratio(row) for row in rows}
    worst = max(rows, key=ratio)
    within = sum(value <= CLOSE for value in ratios.values())
    return (
        f"auto / fastest: geometric mean {geometric_mean(ratios.values()):.3f}, "
        f"within {CLOSE} in {within} of {len(rows)}, worst {ratio(worst):.2f} ({in_words(worst)})"
    )


def equals(rows: list[Row]) -> str:
    """Tells by how much the fastest placement seems slower than itself."""
    same = [row for row in rows if row["again"] == fastest(row)]
    if not same:
        return "noise: not measured"
    mean = geometric_mean(row["us"]["again"] / row["us"][fastest(row)] for row in same)
    return f"noise: the fastest, measured twice, differs by {mean:.3f} (in {len(same)} cases)"


def worst_cases(rows: list[Row], count: int) -> str:
    """Shows the cases in which auto is the farthest behind."""
    chosen = sorted(rows, key=ratio, reverse=True)[:count]
    lines = [
        [
            in_words(row),
            *(microseconds(row["us"][name]) if name in row["us"] else "" for name in PLACEMENTS),
            row["ran"]["auto"],
            f"{ratio(row):.2f}",
        ]
        for row in chosen
    ]
    return shown(["worst cases, µs", *PLACEMENTS, "auto ran on", "ratio"], lines)


def by_call(rows: list[Row]) -> str:
    """Shows f32: a line for each call and memory kind; auto's time, its ratio, and the fastest."""
    cells = {
        (row["call"], row["kind"], row["n"]): (
            f"{microseconds(row['us']['auto'])} {ratio(row):.2f} {fastest(row)}"
        )
        for row in rows
        if row["dtype"] == "f32"
    }
    sizes = [n for n in SHOWN if any(key[2] == n for key in cells)]
    lines = [
        [f"{call} {kind}", *(cells.get((call, kind, n), "") for n in sizes)]
        for call, kind in product(CALLS, KINDS)
        if any(key[:2] == (call, kind) for key in cells)
    ]
    return shown(["f32: auto, µs; ratio; fastest", *(f"{n:,}" for n in sizes)], lines)


def by_memory(rows: list[Row]) -> str:
    """Shows the geometric mean for each type and memory kind."""
    key = lambda row: f"{row['dtype']} {row['kind']}"  # noqa: E731
    groups = groupby(sorted(rows, key=key), key=key)
    means = (f"{name} {geometric_mean(map(ratio, group)):.3f}" for name, group in groups)
    return "geometric means: " + ", ".join(means)


def sweep(given: argparse.Namespace) -> None:
    """Measures the cases, and prints what placement auto costs."""
    with closing(Sweep(given)) as measured:
        rows = list(measured.rows())
    for failure in measured.failures[:5]:
        print(f"failed: {failure}")
    complete = [row for row in rows if {"auto", "cpu"} <= row["us"].keys()]
    if complete:
        alone = geometric_mean(ratio(row, us=row["alone_us"]) for row in complete)
        before = min(row["calls_before"] for row in complete)
        print(summary(complete))
        print(equals(complete))
        print(by_memory(complete))
        print(f"before other placements ran: {alone:.3f}, after {before} to {CALLS_BEFORE} calls")
        short = [row for row in complete if "core" in row["us"]]
        if short:
            core, without = (
                geometric_mean(ratio(row, *more) for row in short) for more in (["core"], [])
            )
            print(
                f"up to {MOST_ON_CORE:,}: {without:.3f}, with one core among the fastest {core:.3f}"
            )
    if complete and not given.brief:
        print(by_call(complete))
        print(worst_cases(complete, 8))
    written(given, given.name, rows)


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


def swept(given: argparse.Namespace, name: str, cpus: set[int]) -> None:
    """Runs a sweep in a process that may use these CPUs."""
    options = ["--sizes", *map(str, given.sizes), "--types", *given.types, "--kinds", *given.kinds]
    options += ["--calls", *given.calls, "--seconds", given.seconds, "--at-most", given.at_most]
    options += ["--output", given.output, "--name", name, "--brief", "--no-core"]
    command = [sys.executable, str(SCRIPT), "sweep", *map(str, options)]
    subprocess.run(command, preexec_fn=lambda: os.sched_setaffinity(0, cpus), check=True)


def restricted(given: argparse.Namespace) -> None:
    """Runs the sweep on few CPUs, and while other processes keep half of the CPUs busy."""
    mine = sorted(os.sched_getaffinity(0))
    for count in given.cpus:
        if count > len(mine):
            print(f"== {count} CPUs: this process has {len(mine)}")
            continue
        print(f"== {count} of {len(mine)} CPUs", flush=True)
        swept(given, f"cpus{count}", set(mine[:count]))
    others = len(mine) // 2
    print(f"== {len(mine)} CPUs, beside {others} busy processes", flush=True)
    with busy(others):
        swept(given, "busy", set(mine))
