"""Compares placement auto with placement gpu and with the calling core, at many lengths.

The calling core alone is gpuvec with GPUVEC_NUM_THREADS=1, which a process reads once. So it runs
in a separate process, with this file as the program and its own arrays of the same length.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Optional

from bindings import Place
from cases import Arrays
from compiled import Compiled
from device import Device
from gpuvec_calls import Gpuvec, placements
from programs import library_environment
from timing import Contender, measure


class CallingCore:
    """The process in which one core does the work."""

    def __init__(self, dtype: str, n: int) -> None:
        environment = library_environment(GPUVEC_NUM_THREADS="1", GPUVEC_PLACEMENT="cpu")
        command = [sys.executable, __file__, dtype, str(n)]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.ask("ready")

    def ask(self, question: str) -> str:
        """Sends a line and returns the answer."""
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError("the calling core's process ended")
        return answer

    def contender(self, op: str, n: int) -> Contender:
        """Returns calls in that process as a contender."""
        return Contender("calling core", lambda calls: float(self.ask(f"{op} {n} {calls}")))

    def close(self) -> None:
        """Ends the process."""
        self.process.stdin.close()
        self.process.wait()


def lengths(most: int, per_decade: int) -> list[int]:
    """Returns logarithmically spaced lengths from 10 to `most`."""
    exponents = range(per_decade, 100 * per_decade)
    rounded = (round(10 ** (exponent / per_decade)) for exponent in exponents)
    kept = []
    for n in rounded:
        if n > most:
            return kept
        kept.append(n)
    return kept


def sweep(
    compiled: Compiled,
    device: Optional[Device],
    ops: list[str],
    kinds: list[str],
    ns: list[int],
    budget: tuple[float, int],
) -> list[dict]:
    """Measures auto, gpu and the calling core at each length."""
    points = []
    core = CallingCore("f32", max(ns))
    for kind in kinds:
        arrays = Arrays("f32", kind, max(ns), device)
        for n in ns:
            for op in ops:
                case = arrays.case(op, n)
                ours = [Gpuvec(case, place) for place in placements(case, device is not None)]
                contenders = [
                    one.from_c(compiled) for one in ours if one.place in (Place.AUTO, Place.GPU)
                ]
                results = measure([*contenders, core.contender(op, n)], *budget)
                points.append({"op": op, "kind": kind, "n": n, "results": results})
        arrays.close()
    core.close()
    return points


def serve(dtype: str, n: int) -> None:
    """Answers each line "op n calls" with the seconds that the calls took."""
    arrays = Arrays(dtype, "pageable", n, None)
    with tempfile.TemporaryDirectory() as folder:
        compiled = Compiled(Path(folder))
        for line in sys.stdin:
            if line.strip() == "ready":
                print("ready", flush=True)
                continue
            op, length, calls = line.split()
            gpuvec = Gpuvec(arrays.case(op, int(length)), Place.CPU)
            print(gpuvec.from_c(compiled).batch(int(calls)), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
