"""Prices European call options by the formula of Black and Scholes, beside NumPy.

    PYTHONPATH=python python python_examples/black_scholes.py

The formula is some 60 operations, which run in one pass over the arrays. Interest and volatility
are numbers: other values need no new compilation.
"""

import math
import sys
import time

import gpuvec
import numpy as np

N = 1_000_000

D1 = "((log(s/k) + (r + 0.5*v*v)*t) / (v*sqrt(t)))"
D2 = f"({D1} - v*sqrt(t))"
NORMAL = "(0.5 + 0.5*erf({}*0.7071067811865476))"
CALL = f"s*{NORMAL.format(D1)} - k*exp(-r*t)*{NORMAL.format(D2)}"


def price(s: float, k: float, t: float, r: float, v: float) -> float:
    """Returns the price of one option, in double."""
    d1 = (math.log(s / k) + (r + 0.5 * v * v) * t) / (v * math.sqrt(t))
    d2 = d1 - v * math.sqrt(t)
    normal = [0.5 * math.erfc(-d / math.sqrt(2)) for d in (d1, d2)]
    return s * normal[0] - k * math.exp(-r * t) * normal[1]


def main() -> None:
    """Prices the options for some volatilities, and compares a few with double precision."""
    random = np.random.default_rng(1)
    s, k = (random.uniform(80, 120, N).astype(np.float32) for _ in range(2))
    t = random.uniform(0.25, 3, N).astype(np.float32)
    call = np.empty_like(s)
    formula = gpuvec.Expression(CALL, s="f4", k="f4", t="f4", r=float, v=float)
    print(formula.dtype, "by", len(formula.program.splitlines()), "steps")
    for v in (0.1, 0.2, 0.3):
        start = time.perf_counter()
        formula(s=s, k=k, t=t, r=0.03, v=v, out=call)
        ms = 1000 * (time.perf_counter() - start)
        some = range(0, N, 9973)
        errors = [abs(float(call[i]) - price(s[i], k[i], t[i], 0.03, v)) for i in some]
        print(f"volatility {v}: {ms:6.2f} ms; largest error {max(errors):.1e}")
        if max(errors) > 1e-4:
            sys.exit("the prices differ")
    print(f"the last call: {gpuvec.last_run()}")


if __name__ == "__main__":
    main()
