"""Compares builds of the library, call by call, in one process.

    python3 tools/variants.py STAGING_THREADS=2 STAGING_THREADS=8     on a machine with Rust
    python3 benches/variants.py target/variants/*.so --n 1e6,1e8      on the machine to measure

Prints the time of each call, and each library's speed relative to the first.
"""

import argparse
import ctypes
import sys
import tempfile
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python_tests/support"))
import device as gpu
from bindings import Place
from cases import Arrays, Case
from compiled import Compiled
from device import Device
from gpuvec_calls import NAMES
from points import check
from report import number, spread, table
from timing import Contender, measure


class Variant:
    """A build of the library."""

    def __init__(self, path: Path) -> None:
        self.name, self.library = path.stem, ctypes.CDLL(str(path.resolve()))

    def contender(self, compiled: Compiled, case: Case, place: Place) -> Contender:
        """Returns its calls from C, with a placement, as a contender."""
        function = getattr(self.library, NAMES[case.op, case.dtype])
        batch = compiled.batch(function, case.addresses(), case.n)

        def placed(calls: int) -> float:
            self.library.gpuvec_set_placement(place.value)
            return batch(calls)

        check(case, partial(placed, 1))
        return Contender(self.name, placed)


def arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("libraries", type=Path, nargs="+")
    add("--n", default="1e3,1e5,1e6,1e7,1e8", help="lengths")
    add("--kinds", default="pageable,pinned", help="pageable, pinned, device")
    add("--places", default="gpu", help="auto, gpu, cpu")
    add("--only", default="add,dot", help="add, dot")
    add("--seconds", type=float, default=1.0, help="time for each call")
    add("--rounds", type=int, default=5, help="minimum number of rounds")
    return parser.parse_args()


def main() -> None:
    """Measures and prints the table."""
    chosen = arguments()
    variants = [Variant(path) for path in chosen.libraries]
    device = None if gpu.why_no_gpu() else Device()
    lengths = [int(float(n)) for n in chosen.n.split(",")]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        compiled = Compiled(Path(folder))
        for kind in chosen.kinds.split(","):
            arrays = Arrays("f32", kind, max(lengths), device)
            for n in lengths:
                for op in chosen.only.split(","):
                    for place in chosen.places.split(","):
                        case = arrays.case(op, n)
                        calls = [
                            v.contender(compiled, case, Place[place.upper()]) for v in variants
                        ]
                        seen = measure(calls, chosen.seconds, chosen.rounds)
                        first = seen[variants[0].name]["median_us"]
                        for name, result in seen.items():
                            times = number(first / result["median_us"])
                            where = [op, kind, f"{n:,}", place]
                            rows.append([*where, name, spread(result), times])
            arrays.close()
    head = ["op", "memory", "n", "placement", "library", "time", "× the first"]
    print("\n".join(table(head, rows)))


if __name__ == "__main__":
    main()
