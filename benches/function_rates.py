"""Times the functions of f32 on a GPU beside a copy, on the arguments of benches/functions.py.

    python3 benches/function_rates.py [FUNCTION ...]

Prints, for device arrays of 2^27 elements, the median time of a whole call by the clock, and the
copy's median in the same rounds as a share of it.
"""

import os
import sys
import time
from collections.abc import Callable
from statistics import median

os.environ["GPUVEC_PLACEMENT"] = "gpu"
import functions
import gpuvec
import numpy as np

N, ROUNDS = 1 << 27, 101


def seconds(call: Callable[[], object]) -> float:
    """Returns the time of a call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    """Prints a line for each function."""
    x, out = (gpuvec.to_device(np.zeros(N, np.float32)) for _ in range(2))
    for name in sys.argv[1:] or functions.DATA:
        usual = functions.data(functions.DATA[name])
        gpuvec.copy(x, np.resize(usual, N))
        function = gpuvec.Expression(f"{name}(x)", x=np.float32)
        calls = {
            "function": lambda function=function: function(x=x, out=out),
            "copy": lambda: gpuvec.copy(out, x),
        }
        # The clocks rise in the first milliseconds.
        for call in [*calls.values()] * 20:
            call()
        times = {kind: [] for kind in calls}
        for _ in range(ROUNDS):
            for kind, call in calls.items():
                times[kind].append(seconds(call))
        taken, copied = (median(times[kind]) for kind in calls)
        print(f"{name:6} {1e3 * taken:7.3f} ms  {copied / taken:5.3f} of the copy", flush=True)


if __name__ == "__main__":
    main()
