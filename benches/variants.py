"""Compares builds of the library, call by call, in one process.

    python3 tools/variants.py staging_threads=2 staging_threads=8     on a machine with Rust
    python3 benches/variants.py target/variants/*.so --n 1e6,1e8      on the machine to measure

Operations are add, dot, sum, min, or an expression of a and b. Every build has to give the first
one's bits. Prints the time of each call, and each library's speed relative to the first.
"""

import argparse
import ctypes
import sys
import tempfile
from ctypes import byref, c_char_p, c_int32, c_size_t, c_void_p
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python_tests/support"))
import device as gpu
from bindings import Place
from cases import REDUCTIONS, Arrays, Case
from compiled import Batch, Compiled
from device import Device
from report import number, spread, table
from timing import Contender, measure

# Of the header: gpuvec_type.
TYPES = {"f32": 9, "f64": 10}


class Variant:
    """A build of the library."""

    def __init__(self, path: Path) -> None:
        self.name, self.library = path.stem, ctypes.CDLL(str(path.resolve()))

    def batch(self, compiled: Compiled, case: Case) -> Batch:
        """Returns a loop of the library's calls from C."""
        a, b, out = case.addresses()
        if case.op in ("add", "dot"):
            function = getattr(self.library, f"gpuvec_{case.op}_{case.dtype}")
            return compiled.batch(function, (a, b, out), case.n, None)
        if case.op in REDUCTIONS:
            function = getattr(self.library, f"gpuvec_{case.op}_{case.dtype}")
            return compiled.reduction(function, a, out, case.n)
        self.inputs = (c_void_p * 2)(a, b)
        inputs = ctypes.cast(self.inputs, c_void_p)
        expression = self.expression(case.op, case.dtype)
        return compiled.batch(self.library.gpuvec_expr_run, (expression, inputs, out), case.n, None)

    def expression(self, text: str, dtype: str) -> c_void_p:
        """Compiles an expression of a and b."""
        names, types = (c_char_p * 2)(b"a", b"b"), (c_int32 * 2)(*[TYPES[dtype]] * 2)
        made = c_void_p()
        compile_it = self.library.gpuvec_expr_compile
        if compile_it(text.encode(), names, types, c_size_t(2), byref(made)) != 0:
            self.library.gpuvec_last_error.restype = c_char_p
            sys.exit(self.library.gpuvec_last_error().decode())
        return made

    def contender(self, compiled: Compiled, case: Case, place: Place) -> Contender:
        """Returns its calls with a placement, as a contender."""
        batch = self.batch(compiled, case)

        def placed(calls: int) -> float:
            self.library.gpuvec_set_placement(place.value)
            return batch(calls)

        return Contender(self.name, placed)


def result(case: Case, contender: Contender) -> bytes:
    """Returns the bytes that one call writes, of the part of the output that is looked at."""
    case.clear()
    contender.batch(1)
    return case.results().tobytes()


def compared(
    variants: list[Variant], compiled: Compiled, case: Case, place: Place, timing: tuple
) -> list[list[str]]:
    """Returns the rows of a case."""
    calls = [variant.contender(compiled, case, place) for variant in variants]
    wanted = result(case, calls[0])
    for call in calls[1:]:
        if result(case, call) != wanted:
            sys.exit(f"{call.name} and {calls[0].name} differ: {case.op}, {case.kind}, {case.n}")
    seen = measure(calls, *timing)
    first = seen[calls[0].name]["median_us"]
    where = [case.op, case.dtype, case.kind, f"{case.n:,}", place.name.lower()]
    return [
        [*where, name, spread(figures), number(first / figures["median_us"])]
        for name, figures in seen.items()
    ]


def arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("libraries", type=Path, nargs="+")
    add("--n", default="1e3,1e5,1e6,1e7,1e8", help="lengths")
    add("--dtypes", default="f32", help="f32, f64")
    add("--kinds", default="pageable,pinned", help="pageable, pinned, device")
    add("--places", default="gpu", help="auto, gpu, cpu")
    add("--only", default="add;dot", help="operations and expressions, with semicolons between")
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
        for dtype in chosen.dtypes.split(","):
            for kind in chosen.kinds.split(","):
                arrays = Arrays(dtype, kind, max(lengths), device)
                for n in lengths:
                    for op in chosen.only.split(";"):
                        for place in chosen.places.split(","):
                            case, where = arrays.case(op, n), Place[place.upper()]
                            timing = (chosen.seconds, chosen.rounds)
                            rows += compared(variants, compiled, case, where, timing)
                arrays.close()
    head = ["op", "type", "memory", "n", "placement", "library", "time", "× the first"]
    print("\n".join(table(head, rows)))


if __name__ == "__main__":
    main()
