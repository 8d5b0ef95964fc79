"""Times a GPU's driver compiling formulas, of two libraries by turns.

    python3 benches/compile_times.py LIBRARY [LIBRARY]

Each library compiles all formulas in processes of its own, without the driver's cache. Prints the
least milliseconds of each, and the second library's as a multiple of the first one's.
"""

import argparse
import ctypes
import json
import os
import subprocess
import sys
import time
from ctypes import byref, c_char_p, c_int32, c_size_t, c_void_p

PROCESSES = 3
BLACK_SCHOLES = (
    "x * (0.5 + 0.5 * erf((log(x / y) + 0.05 * z) / sqrt(z)))"
    " - y * exp(-0.02 * z) * (0.5 + 0.5 * erf((log(x / y) + 0.01 * z) / sqrt(z)))"
)
TEXTS = (
    "x * y",
    "exp(x)",
    "sin(x)",
    "sin(x) * cos(y) + exp(x)",
    "log1p(exp(x)) + tanh(y) * erf(x)",
    "sqrt(x * x + y * y) + atan2(y, x)",
    "pow(x, y) + log(x)",
    "where(x > 0, log(x), exp(x)) * tan(y) + asin(x) + acos(y)",
    "exp(x) + sin(x) + cos(x) + tan(x) + log(x) + tanh(x) + cbrt(x) + erf(x)",
    BLACK_SCHOLES,
    "sum(exp(x) * sin(y))",
    "dot(x, y)",
)
# GPUVEC_F32 and GPUVEC_F64.
TYPES = {"f32": 9, "f64": 10}
FORMULAS = [(text, name) for text in TEXTS for name in TYPES]


def compile_all(library: str) -> list[float]:
    """Returns the milliseconds for each formula in this process.

    It calls the library by ctypes, since an older one may lack functions that the tests bind.
    """
    gpuvec = ctypes.CDLL(library)
    names, found = (c_char_p * 3)(b"x", b"y", b"z"), []
    assert gpuvec.gpuvec_init() == 0
    for text, name in FORMULAS:
        types, handle = (c_int32 * 3)(*[TYPES[name]] * 3), c_void_p()
        status = gpuvec.gpuvec_expr_compile(text.encode(), names, types, c_size_t(3), byref(handle))
        assert status == 0, text
        start = time.perf_counter()
        assert gpuvec.gpuvec_expr_prepare(handle, 0) == 0
        found.append(1e3 * (time.perf_counter() - start))
    return found


def measured(library: str) -> list[float]:
    """Returns what a process of its own found."""
    environment = {**os.environ, "GPUVEC_PLACEMENT": "gpu", "CUDA_CACHE_DISABLE": "1"}
    command = [sys.executable, __file__, "--once", library]
    return json.loads(
        subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout
    )


def main(libraries: list[str]) -> None:
    """Prints a line for each formula."""
    runs = [[measured(library) for library in libraries] for _ in range(PROCESSES)]
    for number, (text, name) in enumerate(FORMULAS):
        least = [min(run[of][number] for run in runs) for of in range(len(libraries))]
        figures = "".join(f"{milliseconds:8.1f}" for milliseconds in least)
        ratio = f"{least[1] / least[0]:8.2f}" if len(least) == 2 else ""
        print(f"{figures}{ratio}  {name} {text}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "libraries", nargs="+", metavar="LIBRARY", help="a file; one, or two to compare"
    )
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.once:
        print(json.dumps(compile_all(*given.libraries)))
    else:
        main(given.libraries)
