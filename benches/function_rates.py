"""Times the functions of f32 on a GPU beside a copy, on the arguments of benches/functions.py.

    python3 benches/function_rates.py [FUNCTION ...] [--json]

Prints, for device arrays of 2^27 elements, the median time of a whole call by the clock, and the
copy's median in the same rounds as a share of it. Both depend by several per cent on where the
arrays are in the device's memory: the share is the median over pairs of arrays, and the range
stands beside it.
"""

import os
import time
from collections.abc import Callable, Iterator
from statistics import median

os.environ["GPUVEC_PLACEMENT"] = "gpu"
import functions
import gpuvec
import numpy as np
import rows
from rows import Row

N, PAIRS, ROUNDS = 1 << 27, 7, 31
Pair = tuple[gpuvec.DeviceArray, gpuvec.DeviceArray]


def seconds(call: Callable[[], object]) -> float:
    """Returns the time of a call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def pairs(n: int) -> list[Pair]:
    """Returns pairs of arrays of n elements, with gaps of several lengths between them."""
    made, gaps = [], []
    for number in range(PAIRS):
        gaps.append(gpuvec.to_device(np.zeros((2 * number + 1) << 20, np.uint8)))
        x, out = (gpuvec.to_device(np.zeros(n, np.float32)) for _ in range(2))
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


def measured(names: list[str], n: int) -> Iterator[Row]:
    """Makes a row for each function."""
    arrays = pairs(n)
    for name in names:
        usual = np.resize(functions.data(functions.DATA[name]), n)
        function = gpuvec.Expression(f"{name}(x)", x=np.float32)
        found = []
        for x, out in arrays:
            gpuvec.copy(x, usual)
            taken, copied = medians(function, x, out)
            found.append((copied / taken, taken))
        shares = sorted(share for share, _ in found)
        yield {
            "what": name,
            "ms": 1e3 * median(taken for _, taken in found),
            "of copy": median(shares),
            "least": shares[0],
            "most": shares[-1],
        }


def text(row: Row) -> str:
    """Makes a row's line."""
    spread = f"{row['least']:5.3f} to {row['most']:5.3f}"
    return f"{row['what']:6} {row['ms']:7.3f} ms  {row['of copy']:5.3f} of the copy  {spread}"


def main() -> None:
    """Prints a line for each function."""
    parser = rows.parser(__doc__)
    parser.add_argument("functions", nargs="*", default=list(functions.DATA))
    parser.add_argument("--n", type=int, default=N)
    given = parser.parse_args()
    rows.show(measured(given.functions, given.n), text, given.is_json)


if __name__ == "__main__":
    main()
