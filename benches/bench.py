"""Measures ceilings, peers and gpuvec in one run on one machine.

    python3 benches/bench.py                    everything; less than 10 minutes with a GPU
    python3 benches/bench.py --quick            fewer lengths, f32 alone, less than 4 minutes
    python3 benches/bench.py --only add --dtypes f32 --kinds pinned --n 1e8      one point
    python3 benches/bench.py --gpus             all visible GPUs concurrently
    python3 benches/bench.py --hybrid           work split between cores and GPUs
    python3 benches/bench.py --pinning          page-locking per call against staging
    python3 benches/bench.py --scratch          the memory that the library keeps; takes minutes

Writes bench.json and bench.md into the folder that --output names (target/bench), and prints the
targets; benches/page.py makes a page of bench.json. Needs gcc and NumPy; measures the peers that
are installed, and only the CPU if there is no GPU. Loads the library that GPUVEC_LIB names, or the
release build.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
import traceback
from functools import partial
from pathlib import Path
from statistics import median
from typing import Callable

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python_tests/support"))
# NumPy's OpenBLAS threads spin for 2^26 cycles after a call, through the next contenders' batches.
# With 2^20 they stay awake between NumPy's own calls and sleep after them.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")
import ceilings
import device as gpu
import fresh
import report
import rows
from bindings import LIBRARY, lib
from bounds import size_of
from compiled import Compiled
from device import ROOT, Device
from gpus import gpus
from hybrid import hybrid
from kernel_rates import kernel_rates
from peers import cores, installed
from pinning import pinning
from placement import PEERS_SIZES
from placement_report import rows_in
from points import Points
from progress import progress
from scratch import scratch
from sweep import lengths, sweep
from targets import LARGEST, judged

PARTS = "ceilings kernels calls first libraries expressions axes strides functions sweep".split()
ALONE = ["gpus", "hybrid", "pinning", "scratch"]
OPS, DTYPES, KINDS = ["add", "dot"], ["f32", "f64"], ["pageable", "pinned", "device"]
DECADES = [10**power for power in range(1, 9)]
QUICK = [1000, 100_000, 1_000_000, 10_000_000, 100_000_000]


def arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])

    def several(choices: list[str]):
        return lambda text: [check_choice(word, choices) for word in text.split(",")]

    def check_choice(word: str, choices: list[str]) -> str:
        if word not in choices:
            raise argparse.ArgumentTypeError(f"{word} is not one of {', '.join(choices)}")
        return word

    def numbers(text: str) -> list[int]:
        return [int(float(word)) for word in text.split(",")]

    add = parser.add_argument
    add("--quick", action="store_true", help="fewer lengths, f32 alone, less time for each")
    add("--only", type=several(OPS), default=OPS, metavar="OPS", help="add,dot")
    add("--dtypes", type=several(DTYPES), help="f32,f64")
    add("--kinds", type=several(KINDS), default=KINDS, help="pageable,pinned,device")
    add("--n", type=numbers, help="lengths, such as 1e3,1e8; skips the sweep and the first calls")
    add("--parts", type=several(PARTS), help=f"a selection of {','.join(PARTS)}")
    add("--seconds-per-point", type=float, help="time for each length, kind, type and operation")
    add("--ceiling-bytes", type=float, default=512e6, help="array size for the ceilings")
    add("--output", type=Path, default=ROOT / "target" / "bench", help="folder for the results")
    add("--gpus", action="store_true", help="only all visible GPUs concurrently")
    add("--hybrid", action="store_true", help="only work split between cores and GPUs")
    add("--pinning", action="store_true", help="only page-locking per call")
    add("--scratch", action="store_true", help="only the memory that the library keeps")
    add("--scratch-n", type=float, default=1e9, help="longest f32 arrays of --scratch")
    add("--scratch-calls", type=float, default=1e5, help="calls per length of --scratch")
    chosen = parser.parse_args()
    alone = [mode for mode in ALONE if getattr(chosen, mode)]
    chosen.parts = alone or chosen.parts or (["ceilings", "calls"] if chosen.n else PARTS)
    chosen.dtypes = chosen.dtypes or (["f32"] if chosen.quick else DTYPES)
    chosen.rounds = 3 if chosen.quick else 5
    chosen.seconds_per_point = chosen.seconds_per_point or (0.4 if chosen.quick else 0.7)
    return chosen


def machine(device) -> dict:
    """Describes the machine."""
    models = [
        line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    return {
        "name": platform.node(),
        "system": f"{platform.system()} {platform.release()}",
        "cpu": models[0].split(":", 1)[1].strip() if models else platform.machine(),
        "cores": cores(),
        "gpu": device.name() if device else "",
        "gpus": gpu.count(),
        "driver": gpu.driver_version() if device else "none",
        "date": time.strftime("%Y-%m-%d %H:%M"),
    }


class Bench:
    """A run, part by part; `data` has the results so far."""

    def __init__(self, chosen: argparse.Namespace, folder: Path) -> None:
        self.chosen, self.start = chosen, time.perf_counter()
        self.shown = progress(what="bench.py", total=len(chosen.parts), unit="parts")
        self.folder, self.compiled = folder, Compiled(folder)
        why = gpu.why_no_gpu()
        self.device = None if why else Device()
        self.peers, missing = installed(self.compiled, self.device is not None)
        versions = {peer.name: peer.version for peer in self.peers}
        own = {"gpuvec": lib.gpuvec_version().decode(), "Python": platform.python_version()}
        self.data = {
            "machine": machine(self.device),
            "versions": {**own, **versions},
            "missing": {**({"GPU": why} if why else {}), **missing},
            "settings": {"library": str(LIBRARY), **{k: str(v) for k, v in vars(chosen).items()}},
            "ceilings": {},
            "part_seconds": {},
        }

    def say(self, what: str) -> None:
        """Shows what is measured now."""
        self.shown.set_description(what)

    def kinds(self) -> list[str]:
        """Returns the chosen memory kinds that this machine has."""
        return self.chosen.kinds if self.device else [k for k in self.chosen.kinds if k == KINDS[0]]

    def ceilings(self) -> None:
        """Measures the machine's ceilings."""
        chosen, size = self.chosen, int(self.chosen.ceiling_bytes)
        self.say("ceilings")
        self.data["ceilings"] = ceilings.of_cpu(size, chosen.rounds, cores())
        if self.device:
            # Room for three arrays and for other processes.
            size = min(size, self.device.free_bytes() // 4)
            measured, missing = ceilings.of_gpu(self.device, size, chosen.rounds)
            calls, missing_calls = ceilings.of_calls(
                self.compiled, self.device, chosen.seconds_per_point, chosen.rounds
            )
            self.data["ceilings"] |= {**measured, **calls}
            self.data["missing"] |= {**missing, **missing_calls}

    def kernels(self) -> None:
        """Times the library's kernels on device arrays."""
        if self.device:
            self.say("kernels")
            # Room for three arrays and for other processes.
            size = min(int(self.chosen.ceiling_bytes), self.device.free_bytes() // 4)
            ceilings, rounds = self.data["ceilings"], self.chosen.rounds
            self.data["kernels"] = kernel_rates(self.device, size, rounds, ceilings)

    def that_fit(self, ns: list[int], dtype: str) -> list[int]:
        """Drops the lengths at which three arrays exceed the GPU's memory."""
        if not self.device:
            return ns
        most = 0.9 * self.device.free_bytes() / (3 * size_of(dtype))
        too_long = [n for n in ns if n > most]
        if too_long:
            self.data["missing"][f"{dtype}, n = {too_long}"] = "the GPU's memory is too small"
        return [n for n in ns if n <= most]

    def calls(self) -> None:
        """Times gpuvec and its peers at each point."""
        chosen = self.chosen
        points = Points(
            self.compiled, self.device, self.peers, chosen.seconds_per_point, chosen.rounds
        )
        self.data["points"] = points.done
        for dtype in chosen.dtypes:
            for kind in self.kinds():
                self.say(f"calls: {dtype}, {kind} arrays")
                ns = chosen.n or (QUICK if chosen.quick else DECADES)
                if kind == "device" and not chosen.n:
                    ns = [*ns, LARGEST]
                ns = self.that_fit(ns, dtype)
                self.attempt(f"{dtype} {kind}", partial(points.run, chosen.only, dtype, kind, ns))

    def longest(self) -> int:
        """Returns the largest chosen length."""
        return max(self.chosen.n or DECADES)

    def sweep(self) -> None:
        """Compares placement auto with its alternatives."""
        self.say("placement auto at many lengths")
        most = self.longest()
        ns = lengths(most, 1 if self.chosen.quick else 3)
        kinds = [kind for kind in self.kinds() if kind != "device"]
        budget = (self.chosen.seconds_per_point / 4, self.chosen.rounds)
        self.data["sweep"] = sweep(self.compiled, self.device, self.chosen.only, kinds, ns, budget)

    def first(self) -> None:
        """Times first calls in new processes."""
        self.say("first calls in new processes")
        seen = fresh.first_calls(str(LIBRARY), self.device is not None, self.chosen.rounds)
        self.data["first_call"] = {
            what: {"median_ms": median(ms), "min_ms": min(ms), "max_ms": max(ms)}
            for what, ms in seen.items()
        }

    def libraries(self) -> None:
        """Times six calls of the package on NumPy arrays beside other libraries."""
        self.say("NumPy arrays, beside other libraries")
        chosen, ns = self.chosen, self.chosen.n or (QUICK if self.chosen.quick else PEERS_SIZES)
        options = {"--output": self.folder, "--types": "f32", "--at-most": 150}
        options["--seconds"] = chosen.seconds_per_point / 25
        words = [str(word) for option in options.items() for word in option]
        rows.of_program(*("placement.py", "peers", *words, "--sizes", *map(str, ns)), seconds=200)
        self.data["libraries"] = rows_in(self.folder, "peers")

    def expressions(self) -> None:
        """Times formulas on device arrays beside other libraries."""
        self.on_device("expressions", "expression_table.py", "--part", "device", seconds=90)

    def axes(self) -> None:
        """Times sums along axes of device arrays beside other libraries."""
        self.on_device("axes", "axes_rates.py", "--json", seconds=60)

    def strides(self) -> None:
        """Times expressions on device arrays of any strides."""
        self.on_device("strides", "strided_rates.py", "--json", seconds=60)

    def functions(self) -> None:
        """Times the functions of f32 on one core beside other libraries, and on the GPU."""
        self.say("functions")
        self.data["functions"] = rows.of_program("functions.py", "--json", seconds=60)
        self.on_device("functions_on_device", "function_rates.py", "--json", seconds=60)

    def on_device(self, part: str, program: str, *options: str, seconds: float) -> None:
        """Runs a program on device arrays, of the longest length that is chosen."""
        if self.device:
            self.say(f"{part.replace('_', ' ')}, on the device")
            length = ["--n", str(self.longest())] if self.chosen.n else []
            self.data[part] = rows.of_program(program, *options, *length, seconds=seconds)

    def gpus(self) -> None:
        """Measures all GPUs concurrently."""
        chosen, size = self.chosen, int(self.chosen.ceiling_bytes)
        self.say("all GPUs concurrently")
        count, seconds = gpu.count(), chosen.seconds_per_point
        self.data["gpus"] = gpus(self.compiled, count, size, seconds, chosen.rounds)

    def hybrid(self) -> None:
        """Times work that is split between cores and GPUs."""
        self.say("work split between cores and GPUs")
        self.data["hybrid"] = hybrid(self.folder, self.device, self.longest(), self.chosen.rounds)

    def pinning(self) -> None:
        """Compares page-locking per call with staging."""
        chosen = self.chosen
        self.say("pageable arrays, page-locked per call")
        seconds, rounds = chosen.seconds_per_point, chosen.rounds
        self.data["pinning"] = pinning(self.compiled, self.device, self.longest(), seconds, rounds)

    def scratch(self) -> None:
        """Measures the memory that the library keeps."""
        self.say("memory that the library keeps")
        most, calls = int(self.chosen.scratch_n), int(self.chosen.scratch_calls)
        self.data["scratch"] = scratch(self.compiled, self.device, most, calls)

    def attempt(self, what: str, part: Callable[[], None]) -> None:
        """Runs a part. Reports one that fails and goes on with the next."""
        try:
            part()
        except Exception as error:
            traceback.print_exc()
            self.data["failed"] = True
            self.data["missing"][what] = f"{type(error).__name__}: {error}"

    def write(self) -> str:
        """Writes the files with what was measured so far; returns the tables."""
        folder, text = self.chosen.output, report.markdown(self.data)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "bench.json").write_text(json.dumps(self.data, indent=1))
        (folder / "bench.md").write_text(text)
        return text

    def run(self) -> None:
        """Runs all chosen parts, and writes the files after each."""
        for part in self.chosen.parts:
            if part in ALONE and not self.device:
                sys.exit(f"--{part} needs a GPU: {self.data['missing']['GPU']}")
            start = time.perf_counter()
            self.attempt(part, getattr(self, part))
            self.data["part_seconds"][part] = time.perf_counter() - start
            self.data["seconds"] = time.perf_counter() - self.start
            if "ceilings" in self.chosen.parts:
                self.data["targets"] = judged(self.data)
            self.write()
            self.shown.update(1)
        self.shown.close()


def main() -> None:
    """Runs the benchmark, writes its files and prints a summary."""
    chosen = arguments()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(chosen, Path(folder))
        bench.run()
        text = bench.write()
    # The tables of chosen lengths are short enough to print.
    print(text if chosen.n or chosen.parts[0] in ALONE else report.summary(bench.data))
    print(f"All tables are in {chosen.output / 'bench.md'}.")
    if bench.data.get("failed"):
        sys.exit(1)


if __name__ == "__main__":
    main()
