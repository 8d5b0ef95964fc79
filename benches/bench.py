"""Measures suites of cases, by contenders and placements, and reports them.

    python3 benches/bench.py              the suites of the page; less than 10 minutes
    python3 benches/bench.py --quick      the same with fewer lengths and less time
    python3 benches/bench.py --list       names all suites
    python3 benches/bench.py --suite sweep --calls add exp --n 1e3 1e6
    python3 benches/bench.py --suite short --against OLD/libgpuvec.so       two builds in turn
    python3 benches/bench.py --suite libraries --json                       a row in each line

Each suite runs in a process of its own. Writes all rows as bench.json and all tables as bench.md
into the folder that --output names (target/bench); those of chosen suites are named after them.
The library is the one that GPUVEC_LIB names, or the release build. Needs gcc and NumPy; names the
peers that are not installed, and measures only the cores if there is no GPU.
"""

import argparse
import importlib
import json
import math
import os
import platform
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python_tests/support"))
# Threads of OpenBLAS and PyTorch spin after a call, into the batches of other contenders. With
# these limits they stay awake between their own calls, and sleep after the pause before a batch.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")
os.environ.setdefault("GOMP_SPINCOUNT", "20000")
from suites import DEVICE, PAGE, SUITES, measured, quicker  # noqa: E402

# The seconds that a suite may take beyond its own limit, to import libraries and to make arrays.
MORE_SECONDS = 300
# Fields of rows that are of the whole run.
NOTES = ("versions", "missing")


def number(text: str) -> int:
    """Reads a number of elements: 1e6 is one."""
    value = float(text)
    if not math.isfinite(value) or value < 1 or value != int(value):
        raise argparse.ArgumentTypeError(f"{text} is not a number of elements")
    return int(value)


def arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--suite", nargs="+", choices=SUITES, metavar="NAME", help="suites instead of the page's")
    add("--list", action="store_true", help="name the suites, and end")
    add("--quick", action="store_true", help="fewer lengths, f32 alone, less time for each")
    add("--json", action="store_true", help="measure one suite here, and print its rows as JSON")
    add("--calls", nargs="+", help="names of calls, names of lists in cases.py, or any formulas")
    add("--types", nargs="+", choices=["f32", "f64"])
    add("--kinds", nargs="+", choices=["pageable", "pinned", "device"], help="kinds of memory")
    add("--n", nargs="+", type=number, help="numbers of elements")
    add("--callers", nargs="*", help="of gpuvec: c, ctypes, no context, package, queued, core")
    add("--peers", nargs="*", help="names of peers.py")
    add("--placements", nargs="+", choices=["auto", "gpu", "cpu", "all"])
    add("--against", nargs="+", default=[], metavar="LIBRARY", help="builds that take turns")
    add("--seconds", type=float, help="for each case and contender")
    add("--rounds", type=int, help="at least, for each case")
    add("--at-most", type=float, help="seconds, after which no other case of a suite begins")
    add("--bytes", type=float, default=512e6, help="size of the arrays of ceilings and kernels")
    add("--seeds", nargs="+", type=int, default=[1, 2, 3], help="of the suite cold")
    add("--cpus", nargs="+", type=int, default=[2, 4], help="of the suite restricted")
    add("--count", type=int, default=1000, help="of the calls of the suite cold")
    add("--output", type=Path, default=ROOT / "target/bench", help="folder for the results")
    add("--serve", help=argparse.SUPPRESS)
    return parser.parse_args()


def settings_of(name: str, given: argparse.Namespace) -> argparse.Namespace:
    """Returns the settings of a suite: its own, but for those of the command line."""
    own = quicker(SUITES[name]) if given.quick else SUITES[name].settings()
    chosen = {key: value for key, value in vars(given).items() if value is not None}
    settings = argparse.Namespace(**{**vars(given), **own, **chosen})
    settings.device_n = () if given.n else own["device_n"]
    settings.against = [str(Path(library).resolve()) for library in given.against]
    return settings


def run_here(name: str, given: argparse.Namespace) -> None:
    """Measures a suite in this process, and prints each row when it is measured."""
    from cases import calls_of

    settings = settings_of(name, given)
    settings.calls = calls_of(settings.calls)
    for row in measured(name, settings):
        print(json.dumps(row), flush=True)


def run_elsewhere(name: str, given: argparse.Namespace, data: dict[str, Any]) -> None:
    """Measures a suite in a process of its own, and adds its rows to the data."""
    settings = settings_of(name, given)
    words = [word for word in sys.argv[1:] if word != "--json"]
    command = [sys.executable, __file__, *words, "--suite", name, "--json"]
    environment = {**os.environ, **SUITES[name].environment}
    start, rows = time.perf_counter(), []
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        timer = threading.Timer(settings.at_most + MORE_SECONDS, process.kill)
        timer.start()
        for line in process.stdout:
            row = json.loads(line)
            for note in NOTES if not row.keys() - set(NOTES) else ():
                data[note] |= row.pop(note, {})
            if row:
                rows.append(row)
        timer.cancel()
    if process.returncode:
        data["failed"] = True
        data["missing"][name] = f"the suite ended with exit status {process.returncode}"
    data[name] = rows
    data["suite_seconds"][name] = time.perf_counter() - start


def machine() -> dict[str, Any]:
    """Describes the machine."""
    import device
    from harness import cores

    info = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line for line in info if "model name" in line]
    gpu = device.device_if_any()
    return {
        "cpu": models[0].split(":", 1)[1].strip() if models else platform.machine(),
        "cores": cores(),
        "gpu": gpu.name() if gpu else "",
        "gpus": device.count(),
        "driver": device.driver_version() if gpu else "none",
        "date": time.strftime("%Y-%m-%d %H:%M"),
    }


def run_all(given: argparse.Namespace) -> dict[str, Any]:
    """Measures the suites, and writes the files after each."""
    import report
    from calls import library_path, version
    from targets import judged

    start, suites = time.perf_counter(), given.suite or PAGE
    data: dict[str, Any] = {
        "machine": machine(),
        "versions": {"gpuvec": version(), "Python": platform.python_version()},
        "missing": {},
        "settings": {"library": library_path(), "arguments": " ".join(sys.argv[1:])},
        "suite_seconds": {},
    }
    name = "-".join(given.suite) if given.suite else "bench"
    given.output.mkdir(parents=True, exist_ok=True)
    for suite in suites:
        if tuple(settings_of(suite, given).kinds) == DEVICE and not data["machine"]["gpu"]:
            data["missing"][suite] = "it needs a GPU"
            continue
        run_elsewhere(suite, given, data)
        data["seconds"] = time.perf_counter() - start
        if "ceilings" in data:
            data["targets"] = judged(data)
        (given.output / f"{name}.json").write_text(json.dumps(data, indent=1))
        (given.output / f"{name}.md").write_text(report.markdown(data))
    print(report.markdown(data) if given.suite else report.summary(data))
    print(f"All tables are in {given.output / name}.md, all rows in {name}.json.")
    return data


def main() -> None:
    """Does what the command line asks for."""
    given = arguments()
    if given.serve:
        from harness import serve

        serve(importlib.import_module(given.serve).answer)
    elif given.list:
        for name, suite in SUITES.items():
            print(f"{name:17} {suite.about}")
    elif given.json:
        if not given.suite or len(given.suite) > 1:
            sys.exit("--json needs one suite")
        run_here(given.suite[0], given)
    elif run_all(given).get("failed"):
        sys.exit(1)


if __name__ == "__main__":
    main()
