"""Compares all GPUs with the first one, for expressions of pinned arrays.

    GPUVEC_LIB=target/gpu/libgpuvec.so python3 benches/expression_devices.py

Takes half a minute on a machine with two GPUs. Each number of GPUs is measured in a process of its
own, which sees only these GPUs.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python_tests/support"))
from bindings import Place, lib
from compiled import Compiled
from device import Device
from expression_peers import Data, Gpuvec
from expression_table import table
from formulas_measured import named
from programs import library_environment
from timing import measure

FORMULAS = ["1 op", "3 ops", "8 ops", "exp", "Black-Scholes", "sum of 3 ops"]
N, SECONDS, ROUNDS = 100_000_000, 0.4, 3


def times() -> dict[str, float]:
    """Returns the milliseconds of each formula on all GPUs that the process sees."""
    found = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(Data("f32", N, "pinned", Device())) as data,
    ):
        gpuvec = Gpuvec(Compiled(Path(folder)), Place.GPU)
        for name in FORMULAS:
            [figures] = measure([gpuvec.contender(named(name), data)], SECONDS, ROUNDS).values()
            found[name] = figures["min_us"] / 1e3
    return found


def of_process(**environment: str) -> dict[str, float]:
    """Returns the times in another process."""
    command = [sys.executable, __file__, "--times"]
    done = subprocess.run(
        command, env=library_environment(**environment), stdout=subprocess.PIPE, check=True
    )
    return json.loads(done.stdout)


def main() -> None:
    """Measures, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", action="store_true", help=argparse.SUPPRESS)
    if parser.parse_args().times:
        print(json.dumps(times()))
        return
    count = lib.gpuvec_device_count()
    one, every = of_process(CUDA_VISIBLE_DEVICES="0"), of_process()
    lines = [
        [name, f"{one[name]:.2f}", f"{every[name]:.2f}", f"{one[name] / every[name]:.2f}"]
        for name in FORMULAS
    ]
    print(table(["formula", "one GPU, ms", f"{count} GPUs, ms", "ratio"], lines))


if __name__ == "__main__":
    main()
