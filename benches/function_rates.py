"""Times the functions of f32 on a GPU beside a copy, on the arguments of benches/functions.py.

    python3 benches/function_rates.py [FUNCTION ...]

Prints, for device arrays of 2^27 elements, the median time of a whole call by the clock, and the
copy's median in the same rounds as a share of it. Both depend by several per cent on where the
arrays are in the device's memory: the share is the median over pairs of arrays, and the range
stands beside it.
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

N, PAIRS, ROUNDS = 1 << 27, 7, 31
Pair = tuple[gpuvec.DeviceArray, gpuvec.DeviceArray]


def seconds(call: Callable[[], object]) -> float:
    """Returns the time of a call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def pairs() -> list[Pair]:
    """Returns pairs of arrays, with gaps of several lengths between them."""
    made, gaps = [], []
    for number in range(PAIRS):
        gaps.append(gpuvec.to_device(np.zeros((2 * number + 1) << 20, np.uint8)))
        x, out = (gpuvec.to_device(np.zeros(N, np.float32)) for _ in range(2))
        made.append((x, out))
    return made


def medians(function: gpuvec.Expression, x: object, out: object) -> tuple[float, float]:
    """Returns the median times of the function and of the copy, in alternation."""
    calls = (lambda: function(x=x, out=out), lambda: gpuvec.copy(out, x))
    # The clocks rise in the first milliseconds.
    for call in calls * 10:
        call()
    times = [[seconds(call) for call in calls] for _ in range(ROUNDS)]
    of_function, of_copy = zip(*times, strict=True)
    return median(of_function), median(of_copy)


def main() -> None:
    """Prints a line for each function."""
    arrays = pairs()
    for name in sys.argv[1:] or functions.DATA:
        usual = np.resize(functions.data(functions.DATA[name]), N)
        function = gpuvec.Expression(f"{name}(x)", x=np.float32)
        found = []
        for x, out in arrays:
            gpuvec.copy(x, usual)
            taken, copied = medians(function, x, out)
            found.append((copied / taken, taken))
        shares = sorted(share for share, _ in found)
        taken = median(taken for _, taken in found)
        spread = f"{shares[0]:5.3f} to {shares[-1]:5.3f}"
        print(
            f"{name:6} {1e3 * taken:7.3f} ms  {median(shares):5.3f} of the copy  {spread}",
            flush=True,
        )


if __name__ == "__main__":
    main()
