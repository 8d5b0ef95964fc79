"""Records the calls of a new process for the figure `learning`, on a machine with a GPU.

PYTHONPATH=python python docs/figures/record.py > docs/figures/learning.json
"""

import json
import sys
import time
from pathlib import Path

import gpuvec
import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2] / "python_examples"))
from black_scholes import CALL

N, CALLS = 5_000_000, 200


def call_times() -> list:
    """Returns for each call its milliseconds, the choice of processors, and the reason."""
    random = np.random.default_rng(1)
    arrays = {name: random.random(N, np.float32) + np.float32(0.5) for name in "skt"}
    out = np.empty(N, np.float32)
    calls = []
    for _ in range(CALLS):
        start = time.perf_counter()
        gpuvec.evaluate(CALL, arrays, r=0.03, v=0.2, out=out)
        ms = 1000 * (time.perf_counter() - start)
        run = gpuvec.last_run()
        calls.append([round(ms, 2), run.choice, run.reason])
    return calls


def main() -> None:
    """Prints the record."""
    calls = call_times()
    rows = ",\n ".join(json.dumps(call) for call in calls)
    choices = json.dumps(list(dict.fromkeys(choice for _, choice, _ in calls)))
    what = f"Black-Scholes of {N:,} float32 in pageable memory, in a new process"
    print(f'{{"what": {json.dumps(what)},\n"choices": {choices},\n"calls": [\n {rows}]}}')


if __name__ == "__main__":
    main()
