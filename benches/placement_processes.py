"""Whole processes under placement auto, and short calls of two builds."""

import argparse
import json
import os
import subprocess
import sys
import time
from contextlib import closing
from itertools import product
from statistics import geometric_mean, median

from placement_calls import (
    ROOT,
    Library,
    OtherProcess,
    all_cases,
    kinds_of,
    library_path,
    warmed_up,
)
from placement_report import Row, in_words, shown, written
from timing import measure

ROUNDS = 10

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


def script(given: argparse.Namespace) -> None:
    """Times processes that make twenty adds of a million floats, by turns."""
    seen: list[Row] = []
    for _, placement in product(range(given.repetitions), ("auto", "cpu")):
        environment = {**os.environ, "GPUVEC_PLACEMENT": placement, "GPUVEC_LIB": library_path()}
        command = [sys.executable, "-c", TWENTY_ADDS, str(ROOT / "python")]
        start = time.perf_counter()
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        seconds = time.perf_counter() - start
        seen.append({"placement": placement, "process": seconds, **json.loads(done.stdout)})
    lines = []
    for placement in ("auto", "cpu"):
        runs = [run for run in seen if run["placement"] == placement]
        times = [f"{1e3 * median(run[what] for run in runs):.2f}" for what in ("process", "loop")]
        opened = f"{sum(run['driver'] for run in runs)} of {len(runs)}"
        lines.append([placement, *times, opened, runs[-1]["backend"]])
    heads = ["twenty adds", "process, ms", "loop, ms", "opened the driver", "last add ran on"]
    print(shown(heads, lines))
    written(given, "script", seen)


def small(given: argparse.Namespace) -> None:
    """Compares short calls of two builds, each in a process of its own."""
    kinds = kinds_of(given, Library(given.libraries[1]))
    cases = all_cases(given.calls, given.types, kinds, given.sizes)
    rows = []
    with (
        closing(OtherProcess(given.libraries[0], cases)) as before,
        closing(OtherProcess(given.libraries[1], cases)) as after,
    ):
        for case, placement in product(cases, given.placements):
            pair = {"before": before, "after": after}
            contenders = [one.contender(case, placement, name) for name, one in pair.items()]
            for contender in contenders:
                warmed_up(contender.batch)
            results = measure(contenders, given.seconds * len(contenders), ROUNDS)
            row = {**case._asdict(), "placement": placement, "results": results}
            rows.append({**row, "ns": {k: 1e3 * v["median_us"] for k, v in results.items()}})
    lines = [
        [
            f"{in_words(row)}, {row['placement']}",
            f"{row['ns']['before']:.1f}",
            f"{row['ns']['after']:.1f}",
            f"{row['ns']['after'] / row['ns']['before']:.3f}",
        ]
        for row in rows
    ]
    print(shown(["call from C, ns", "before", "after", "after / before"], lines))
    mean = geometric_mean(row["ns"]["after"] / row["ns"]["before"] for row in rows)
    print(f"after / before: geometric mean {mean:.3f}")
    written(given, "small", rows)
