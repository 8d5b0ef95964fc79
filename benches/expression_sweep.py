"""Compares placement auto with the GPU and with the calling core, for expressions of any length.

    GPUVEC_LIB=target/gpu/libgpuvec.so python3 benches/expression_sweep.py --output target/bench

Writes sweep.json and sweep.md; takes less than 90 seconds on a GPU machine. The calling core alone
is measured in a process of its own, which has one thread (see sweep.py). Both processes make their
calls on the same CPU, by turns: CPUs whose other hardware thread is busy are slower.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any, Optional

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python_tests/support"))
from bindings import Backend, Place, last_run
from compiled import Compiled
from device import ROOT, Device, why_no_gpu
from expression_peers import Data, Gpuvec
from expression_table import table
from formulas_measured import named
from programs import library_environment
from timing import Contender, measure

FORMULAS = ["1 op", "3 ops", "8 ops", "exp", "Black-Scholes"]
LENGTHS = [round(10 ** (half / 2)) for half in range(6, 15)]
SECONDS, ROUNDS = 0.12, 3


class CallingCore:
    """The process in which one core does the work."""

    def __init__(self) -> None:
        environment = library_environment(GPUVEC_NUM_THREADS="1", GPUVEC_PLACEMENT="cpu")
        command = [sys.executable, __file__, "--serve"]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def contender(self, formula: str, n: int) -> Contender:
        """Returns calls in that process as a contender."""
        return Contender("core", lambda calls: self.seconds(f"{formula}:{n}:{calls}"))

    def seconds(self, question: str) -> float:
        """Sends a line and returns the answer."""
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self) -> None:
        """Ends the process."""
        self.process.stdin.close()
        self.process.wait()


def serve() -> None:
    """Answers each line "formula:n:calls" with the seconds that the calls took."""
    data = Data("f32", max(LENGTHS), "pageable")
    with tempfile.TemporaryDirectory() as folder:
        gpuvec = Gpuvec(Compiled(Path(folder)), Place.CPU)
        known: dict[tuple, Contender] = {}
        for line in sys.stdin:
            name, n, calls = line.split(":")
            if (name, n) not in known:
                known[name, n] = gpuvec.contender(named(name), data, int(n))
            print(known[name, n].batch(int(calls)), flush=True)


def points(kinds: list[str], device: Optional[Device]) -> Iterator[dict[str, Any]]:
    """Measures all formulas, lengths and kinds of memory."""
    with closing(CallingCore()) as core, tempfile.TemporaryDirectory() as folder:
        compiled = Compiled(Path(folder))
        ours = [Gpuvec(compiled, Place.AUTO, "auto")]
        ours += [Gpuvec(compiled, Place.GPU, "GPU")] * (device is not None)
        for kind in kinds:
            with closing(Data("f32", max(LENGTHS), kind, device)) as data:
                for name, n in product(FORMULAS, LENGTHS):
                    contenders = [one.contender(named(name), data, n) for one in ours]
                    contenders.append(core.contender(name, n))
                    yield {"formula": name, "kind": kind, "n": n, **point(contenders)}


def on_one_cpu(kinds: list[str], device: Optional[Device]) -> list[dict[str, Any]]:
    """Measures all points on one CPU.

    A process inherits the CPU of the thread that starts it. The library's threads run on all CPUs
    of the main thread.
    """

    def bound() -> list[dict[str, Any]]:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        if device:
            device.set_current(device.context)
        return list(points(kinds, device))

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(bound).result()


def point(contenders: list[Contender]) -> dict[str, Any]:
    """Measures one point; the first contender is placement auto."""
    results = measure(contenders, SECONDS, ROUNDS)
    contenders[0].batch(1)
    run = last_run()
    us = {name: figures["min_us"] for name, figures in results.items()}
    return {"us": us, "ran": Backend(run.backend).name.lower(), "threads": run.threads}


def shown(found: list[dict[str, Any]]) -> str:
    """Shows auto beside the better of the others."""
    lines = []
    for point in found:
        us = point["us"]
        better = min(value for key, value in us.items() if key != "auto")
        cells = [f"{us[key]:.1f}" if key in us else None for key in ("core", "GPU", "auto")]
        ran = f"{point['ran']}, {point['threads']}"
        ratio = us["auto"] / better
        bold = f"**{ratio:.2f}**" if ratio > 1.15 else f"{ratio:.2f}"
        lines.append([point["formula"], point["kind"], f"{point['n']:,}", *cells, ran, bold])
    heads = [
        "formula",
        "memory",
        "n",
        "core, µs",
        "GPU, µs",
        "auto, µs",
        "auto ran on, threads",
        "auto / better",
    ]
    return table(heads, lines)


def main() -> None:
    """Measures, and writes the data and the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "target" / "bench")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve()
        return
    device = None if why_no_gpu() else Device()
    found = on_one_cpu(["pinned", "pageable"] if device else ["pageable"], device)
    given.output.mkdir(parents=True, exist_ok=True)
    (given.output / "sweep.json").write_text(json.dumps(found, indent=1))
    (given.output / "sweep.md").write_text(shown(found) + "\n")
    print(shown(found))


if __name__ == "__main__":
    main()
