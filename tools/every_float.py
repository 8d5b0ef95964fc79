"""Compares the functions of f32 on the GPU with those on the cores, for every float.

    PYTHONPATH=python python3 tools/every_float.py                half a minute on a GPU machine
    PYTHONPATH=python python3 tools/every_float.py --floats 1e6 exp sin

`make every-float` compares those on the cores with an independent oracle. Needs 4 GB of memory.
"""

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gpuvec
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python_tests/support"))
from functions import OF_FLOATS
from progress import progress

FUNCTIONS = [name for name, count in OF_FLOATS.items() if count == 1]
ALL, MOST = 1 << 32, 1 << 28


def differences(found: np.ndarray, expected: np.ndarray, threads: ThreadPoolExecutor) -> int:
    """Returns the number of elements whose bits differ."""
    parts = [np.array_split(array.view(np.uint32), 64) for array in (found, expected)]
    return sum(threads.map(lambda a, b: np.count_nonzero(a != b), *parts))


def main() -> None:
    """Compares; exits 1 if a bit differs, or if there is no GPU."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--floats", type=lambda text: int(float(text)), default=ALL)
    parser.add_argument("functions", nargs="*", default=FUNCTIONS)
    given = parser.parse_args()
    gpuvec.set_placement("gpu")
    n = min(MOST, given.floats)
    x, found, expected = (gpuvec.pinned_empty(n, np.float32) for _ in range(3))
    functions = {name: gpuvec.Expression(f"{name}(x)", x=np.float32) for name in given.functions}
    wrong = dict.fromkeys(functions, 0)
    total = given.floats * len(functions)
    with ThreadPoolExecutor(os.cpu_count()) as threads, progress(total=total) as shown:
        for start in range(0, given.floats, n):
            x.view(np.uint32)[:] = np.arange(start, start + n, dtype=np.uint32)
            for name, function in functions.items():
                shown.set_description(name)
                for placement, out in (("gpu", found), ("cpu", expected)):
                    with gpuvec.placement(placement):
                        function(x=x, out=out)
                wrong[name] += differences(found, expected, threads)
                shown.update(n)
    for name, count in wrong.items():
        print(f"{name:6} {count} of {given.floats} floats differ")
    sys.exit(any(wrong.values()))


if __name__ == "__main__":
    main()
