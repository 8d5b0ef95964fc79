"""Judges placement auto: beside the other placements, other libraries, and other builds.

    python3 benches/placement.py sweep        auto beside gpu, cpu, all and one core, case by case
    python3 benches/placement.py cold         random calls of a new process, beside an oracle
    python3 benches/placement.py restricted   the sweep on few CPUs, and beside busy ones
    python3 benches/placement.py peers        beside NumPy, numexpr, PyTorch and CuPy
    python3 benches/placement.py script       a process that makes twenty adds
    python3 benches/placement.py small --libraries BEFORE AFTER      short calls of two builds

Each part prints a summary and adds its rows to placement.json in the folder that --output names
(target/bench). The library is the one that GPUVEC_LIB names, or the release build. Needs gcc and
NumPy. Without a GPU, placement gpu and pinned arrays are left out.

Contenders take turns in random order, in batches of calls for 2 ms (benches/timing.py). Figures are
the medians of the batches. All calls are made from C, except those of peers and script.
"""

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Threads of PyTorch and OpenBLAS spin after a call, into the batches of other contenders. With
# these limits they stay awake between their own calls, and sleep after the pause before a batch.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")
os.environ.setdefault("GOMP_SPINCOUNT", "20000")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python_tests/support"))
from placement_calls import CALLS, DTYPES, KINDS, PLACEMENTS, ROOT, serve
from placement_cold import cold, replay
from placement_peers import peers
from placement_processes import script, small
from placement_sweep import restricted, sweep

SIZES = [1_000, 10_000, 100_000, 316_228, 1_000_000, 10_000_000, 100_000_000]
# The sizes of the sweeps under restrictions.
FEW_SIZES = [10_000, 100_000, 1_000_000, 10_000_000]
PEERS_SIZES = [100, 1_000, 10_000, 31_623, 100_000, 316_228, 1_000_000, 3_162_278]
PEERS_SIZES += [10_000_000, 31_622_777, 100_000_000]


def number(text: str) -> int:
    """Reads a number of elements: 1e6 is one."""
    value = float(text)
    if not math.isfinite(value) or value < 1 or value != int(value):
        raise argparse.ArgumentTypeError(f"{text} is not a number of elements")
    return int(value)


def common_options() -> argparse.ArgumentParser:
    """Returns the options that all parts have; each part has its own defaults."""
    options = argparse.ArgumentParser(add_help=False)
    options.add_argument("--output", type=Path, default=ROOT / "target" / "bench")
    options.add_argument("--calls", nargs="+", choices=CALLS, default=list(CALLS))
    options.add_argument("--types", nargs="+", choices=list(DTYPES), default=list(DTYPES))
    options.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    options.add_argument("--sizes", nargs="+", type=number, default=SIZES)
    options.add_argument("--seconds", type=float, default=0.05, help="for each case and contender")
    options.add_argument("--at-most", type=float, default=110.0, help="seconds for all cases")
    return options


def parts() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    choices = parser.add_subparsers(required=True, metavar="PART")

    def part(run: Callable[..., None], **defaults: Any) -> argparse.ArgumentParser:
        added = choices.add_parser(run.__name__, parents=[common_options()], help=run.__doc__)
        added.set_defaults(run=run, **defaults)
        return added

    swept = part(sweep)
    swept.add_argument("--placements", nargs="+", choices=PLACEMENTS, default=list(PLACEMENTS))
    swept.add_argument("--no-core", dest="core", action="store_false")
    swept.add_argument("--brief", action="store_true", help="print no tables")
    swept.add_argument("--name", default="sweep", help="of the file with the rows")
    random_calls = part(cold, sizes=SIZES[:-1], seconds=0.02, at_most=30.0)
    random_calls.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    random_calls.add_argument("--count", type=int, default=1000, help="of calls")
    few = part(restricted, sizes=FEW_SIZES, types=["f32"], seconds=0.02, at_most=25.0)
    few.add_argument("--cpus", nargs="+", type=int, default=[2, 4])
    part(peers, sizes=PEERS_SIZES)
    part(script).add_argument("--repetitions", type=int, default=7)
    short = part(small, calls=["add", "dot", "3ops"], types=["f32"], sizes=[10, 1000])
    short.set_defaults(kinds=["pageable"], seconds=0.5)
    short.add_argument("--libraries", nargs=2, required=True, metavar=("BEFORE", "AFTER"))
    short.add_argument("--placements", nargs="+", choices=PLACEMENTS, default=["auto", "cpu"])
    return parser


def main() -> None:
    """Runs the chosen part; `serve` and `replay` are for processes that other parts start."""
    if sys.argv[1:2] == ["serve"]:
        serve(sys.argv[2])
        return
    if sys.argv[1:] == ["replay"]:
        replay(json.load(sys.stdin))
        return
    given = parts().parse_args()
    start = time.monotonic()
    given.run(given)
    print(f"took {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
